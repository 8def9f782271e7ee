"""Grids of labels as they are stored: the labels of a word in all rows as one number, three bits a row.

A grid has a row for each tuple of open information extraction, or for each level of nested coordinations, and in every
row a label for each word. Row r of a word is the digit of 8 ** r in its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

BITS = 3
"""Of a label: there are eight at most."""
MOST_ROWS = 20
"""So many rows fit into 64 bits."""


def pack_rows(rows: Sequence[Sequence[int]], length: int) -> list[int]:
    """The numbers of ``length`` words, each the sum over rows r of ``label * 8 ** r``.

    Raises:
        ValueError: there are too many rows, a row has another length, or a label is not between 0 and 7.
    """
    if len(rows) > MOST_ROWS:
        raise ValueError(f"{len(rows)} rows, more than {MOST_ROWS}")
    packed = [0] * length
    for r, row in enumerate(rows):
        if len(row) != length or not all(0 <= label < 1 << BITS for label in row):
            raise ValueError(f"row {r} is not a label from 0 to 7 for each of {length} words")
        for i, label in enumerate(row):
            packed[i] |= label << (BITS * r)
    return packed


def unpack_rows(values: NDArray[np.integer[Any]], rows: int) -> NDArray[np.int64]:
    """The first ``rows`` rows of labels, [..., rows, w], of the numbers ``values`` [..., w] of words.

    A row that a sentence does not have is 0 throughout, and so is padding.

    Raises:
        ValueError: there are no so many rows.
    """
    if not 0 <= rows <= MOST_ROWS:
        raise ValueError(f"{rows} rows, more than {MOST_ROWS}")
    shifts = BITS * np.arange(rows, dtype=np.int64)[:, None]
    return (values.astype(np.int64)[..., None, :] >> shifts) & ((1 << BITS) - 1)
