"""Whether a file has tuples or coordinations, which its first lines tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from probtrans_cli.data.readers.appearance import begun
from probtrans_cli.data.readers.conllu import COLUMNS, column_names
from probtrans_cli.data.tokens import words_of
from probtrans_cli.openie.label_rows import extra_of
from probtrans_cli.text import from_json

GridFormat = Literal["extractions", "coordinations"]
_ID = re.compile(r"\d+([-.]\d+)?")


def grid_format(lines: Iterable[str]) -> tuple[GridFormat | None, Iterator[str]]:
    """The format of a file with rows of labels, or None if it has no line that is not blank; and all of its lines.

    Lines of CoNLL-U have coordinations, and all others with tabs have tuples. A JSON object says it by its keys. A line
    of words that ends in extra words has tuples; else it has coordinations.
    """
    seen, every = begun(lines)
    first = next((line.strip() for line in seen if line.strip()), "")
    if not first:
        return None, every
    last = seen[-1].split("\t")
    if any(column_names(line) is not None for line in seen if line.startswith("#")):
        return "coordinations", every
    if len(last) == len(COLUMNS) and _ID.fullmatch(last[0]) and "(" not in last[3]:
        return "coordinations", every
    if "\t" in first:
        return "extractions", every
    if first.startswith("{"):
        return "coordinations" if _has_coordinations(first) else "extractions", every
    return "extractions" if extra_of(words_of(first)) else "coordinations", every


def _has_coordinations(line: str) -> bool:
    """Whether a line is a JSON object with coordinations, or no JSON: a sentence that begins with a bracket."""
    try:
        record = from_json(line)
    except ValueError:
        return False
    return isinstance(record, dict) and "coordinations" in record
