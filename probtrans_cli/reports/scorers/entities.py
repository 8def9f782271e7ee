"""Named entities of any system against gold ones: precision, recall and F1, see ``data/codecs/entity_scores.py``.

The same scores as of a model: F1 with its 95 % interval over sentences, and the F1 of entities that are written as
their scheme asks for; a tag that ends an entity (``S-``, ``E-``), on either side, says that the scheme is bioes. A tag
without a letter in front, ``PERSON``, as some taggers write, is read as ``I-PERSON``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from probtrans_cli.console import log
from probtrans_cli.data.codecs.entity_scores import Scheme, compare, entity_scores, scores_by_type, scores_of
from probtrans_cli.data.files import display_name, find, open_lines
from probtrans_cli.data.readers.columns import read_columns
from probtrans_cli.reports.two_files import side_by_side
from probtrans_cli.statistics.intervals import interval, moments

_BARE = re.compile(r"[^-\W]{2,}")  # a word of letters, digits and underscores; a lone letter, O among them, is no type


class Tagged(NamedTuple):
    """A sentence with a tag for every word."""

    words: list[str]
    tags: list[str]
    where: str


def score(predictions: str, gold: str | None) -> dict[str, Any]:
    """See :class:`probtrans_cli.reports.scorers.Scoring`."""
    ours, theirs = [], []
    for one, other in _pairs(predictions, gold):
        ours.append(one.tags)
        theirs.append(other.tags)
    pairs = list(zip(chain.from_iterable(ours), chain.from_iterable(theirs), strict=True))
    compared = compare(theirs, ours)
    counts = compared.counts()
    found: dict[str, Any] = dict(scores_of(counts))
    scheme: Scheme = "bioes" if any(tag.startswith(("S-", "E-")) for pair in pairs for tag in pair) else "iob2"
    found["f1_strict"] = entity_scores(theirs, ours, scheme)["f1"]
    right = [sum(one == other for one, other in zip(*tags, strict=True)) for tags in zip(ours, theirs, strict=True)]
    of_sentences = {"f1": compared.f1_parts(), "accuracy": (np.array(right), np.array([len(tags) for tags in ours]))}
    found["accuracy"] = sum(right) / len(pairs)
    found |= {f"{name}_interval": interval(name, moments(name, *parts)) for name, parts in of_sentences.items()}
    return found | {"types": scores_by_type(counts)}


def _pairs(predictions: str, gold: str | None) -> Iterator[tuple[Tagged, Tagged]]:
    """The sentences of both files side by side, or of one file with both columns."""
    lines = list(open_lines(find(predictions)))
    other_lines = lines if gold is None else open_lines(find(gold))
    other_name = gold or predictions
    ours, theirs = _read(lines, predictions, -1), _read(other_lines, other_name, -2 if gold is None else -1)
    return side_by_side(ours, theirs, predictions, other_name)


def _read(lines: Iterable[str], name: str, column: int) -> Iterator[Tagged]:
    shown = display_name(name)
    bare, number = "", 0
    for words, tags, where in read_columns(lines, shown, tag=column):
        without_letter = [tag for tag in tags if _BARE.fullmatch(tag)]
        if without_letter:
            bare, number = bare or without_letter[0], number + len(without_letter)
        yield Tagged(words, [f"I-{tag}" if _BARE.fullmatch(tag) else tag for tag in tags], where)
    if number:
        log(f"warning: {shown}: {number} tags have no letter in front: {bare!r} is read as 'I-{bare}'")
