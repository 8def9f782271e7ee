"""Named entities of any system against gold ones: precision, recall and F1, see ``data/codecs/entity_scores.py``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Any

from probtrans_cli.data.codecs.entity_scores import entity_scores
from probtrans_cli.data.files import display_name, find, open_lines
from probtrans_cli.data.readers.columns import read_columns
from probtrans_cli.errors import DataError

Tagged = tuple[list[str], list[str], str]  # words, tags, where


def score(predictions: str, gold: str | None) -> dict[str, Any]:
    """See :class:`probtrans_cli.reports.scorers.Scoring`."""
    ours, theirs = [], []
    for (words, tags, where), (other_words, gold_tags, other_where) in _pairs(predictions, gold):
        if words != other_words:
            raise DataError(f"{where}: other words than {other_where}", hint="score the same sentences")
        ours.append(tags)
        theirs.append(gold_tags)
    if not ours:
        raise DataError(f"{predictions}: there is no sentence in it", hint="check the file")
    pairs = list(zip(chain.from_iterable(ours), chain.from_iterable(theirs), strict=True))
    accuracy = sum(one == other for one, other in pairs) / len(pairs)
    return entity_scores(theirs, ours) | {"accuracy": accuracy}


def _pairs(predictions: str, gold: str | None) -> Iterator[tuple[Tagged, Tagged]]:
    """The sentences of both files side by side, or of one file with both columns."""
    if gold is None:
        files = (_read(predictions, -1), _read(predictions, -2))
    else:
        files = (_read(predictions, -1), _read(gold, -1))
    for ours, theirs in zip_longest(*files):
        if ours is None or theirs is None:
            name, other = (predictions, gold) if ours is None else (gold, predictions)
            raise DataError(f"{name}: fewer sentences than {other}", hint="score the same sentences, in the same order")
        yield ours, theirs


def _read(name: str, column: int) -> Iterator[Tagged]:
    return read_columns(open_lines(find(name)), display_name(name), tag=column)
