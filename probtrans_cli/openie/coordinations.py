"""Coordinations ("A , B and C"): from rows of labels to coordinations, to simple sentences, and back to rows.

Each row of a grid holds one level of nesting. The rules are those of the code of OpenIE6 (Kolluru et al. 2020, arXiv
2010.03147, section 4), step by step, with two differences: a coordination also ends at the end of its row, where
OpenIE6 loses it unless the sentence has a final period; and the number of simple sentences is limited.

Coordinations of dependency trees are in :mod:`probtrans_cli.openie.coordination_trees`.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from probtrans_cli.openie.extractions import Characters, characters_of
from probtrans_cli.text import from_json

LABELS = ("NONE", "CP", "CP_START", "CC", "SEP", "OTHERS")
NONE, CP, CP_START, CC, SEP, OTHERS = range(6)
TAGS = {name: number for number, name in enumerate(LABELS)}
"""CC: the coordinator, such as "and"; CP_START: the first word of a coordination; CP: every other word of a conjunct;
SEP: what separates conjuncts; OTHERS: any other word inside a coordination; NONE: everything else."""
NOT_SPLIT = frozenset({"nor", "&"})
"""Coordinators that join what a sentence cannot be split at."""
UNBREAKABLE = frozenset(
    ("addition", "aggregate", "amount", "among", "average", "between", "center", "equidistant", "gross", "mean",
     "median", "middle", "sum", "total", "value")
)  # fmt: skip
"""Words before a coordination that need all of its conjuncts: "between A and B" is no "between A"."""

Span = tuple[int, int]
"""The words ``[start, end)``."""


@dataclass(frozen=True, slots=True)
class Coordination:
    """Conjuncts, from left to right and disjoint, and the coordinator, which stands between the first and the last."""

    cc: int
    """Position of the coordinator."""
    conjuncts: tuple[Span, ...]
    separators: tuple[int, ...] = field(default=(), compare=False)
    level: int = field(default=0, compare=False)
    """The row that it was read from."""

    @property
    def start(self) -> int:
        """The first word."""
        return self.conjuncts[0][0]

    @property
    def end(self) -> int:
        """The word behind the last one."""
        return self.conjuncts[-1][1]

    def covers(self, other: Coordination) -> bool:
        """Whether one conjunct of this one has all of the other coordination."""
        return any(start <= other.start and other.end <= end for start, end in self.conjuncts)


Found = dict[int, Coordination | None]
"""Coordinations by the position of the coordinator, in the order in which they were found; None: a coordinator without
conjuncts."""


def found_to_text(found: Iterable[Coordination]) -> str:
    """Coordinations as a JSON list of ``[coordinator, [[from, to], ...]]``."""
    return json.dumps([[one.cc, one.conjuncts] for one in found])


def text_to_found(text: str) -> Found:
    """The coordinations of :func:`found_to_text`; of several with one coordinator the first."""
    found: Found = {}
    for cc, conjuncts in from_json(text):
        found.setdefault(cc, Coordination(cc, tuple((start, end) for start, end in conjuncts)))
    return found


# --- rows to coordinations ------------------------------------------------------------------------------------------


def rows_to_coordinations(rows: Iterable[Sequence[int]], *, close_at_end: bool = True) -> Found:
    """The coordinations of a grid of labels.

    Args:
        rows: a label for every word; see :data:`LABELS`.
        close_at_end: whether a coordination that reaches the last word counts, which it does not in OpenIE6.
    """
    found: Found = {}
    for level, row in enumerate(rows):
        _read_row(row, level, found, close_at_end)
    return found


@dataclass
class _Open:
    """A coordination that has not ended."""

    cc: int = -1
    conjuncts: list[Span] = field(default_factory=list)
    separators: list[int] = field(default_factory=list)

    def is_complete(self) -> bool:
        return len(self.conjuncts) >= 2 and self.conjuncts[0][1] <= self.cc < self.conjuncts[-1][0]


def _read_row(row: Sequence[int], level: int, found: Found, close_at_end: bool) -> None:
    phrase: _Open | None = None
    start = -1  # of the open conjunct; -1: there is none
    for i, label in enumerate([*row, NONE] if close_at_end else row):
        if label != CP and start >= 0:
            if phrase is not None:
                phrase.conjuncts.append((start, i))
            start = -1
        if label in (NONE, CP_START) and phrase is not None and phrase.is_complete():
            between = tuple(i for i in phrase.separators if i < phrase.conjuncts[-1][0])
            found[phrase.cc] = Coordination(phrase.cc, tuple(phrase.conjuncts), between, level)
            phrase = None  # one that is not complete stays open, through words of no label
        if label == CP_START:
            phrase, start = _Open(), i
        elif label == CP and start < 0:
            start = i
        elif label == CC and phrase is None:
            found[i] = None
        elif label == CC and phrase is not None:
            phrase.cc = i
        elif label == SEP and phrase is not None:
            phrase.separators.append(i)


# --- coordinations to simple sentences ------------------------------------------------------------------------------


def splitting(
    words: Sequence[str],
    found: Mapping[int, Coordination | None],
    *,
    unbreakable: Collection[str] = UNBREAKABLE,
    unbreakable_window: int | None = None,
    not_split: Collection[str] = NOT_SPLIT,
) -> list[Coordination]:
    """The coordinations at which a sentence can be split, in their order.

    Args:
        words: of the sentence.
        found: its coordinations; see :func:`rows_to_coordinations`.
        unbreakable: in small letters. One of these words before the first conjunct, behind the coordination that was
            found before, or behind the sentence's start, keeps the coordination whole.
        unbreakable_window: only so many words before the first conjunct are looked at; None: all of these.
        not_split: coordinators that keep a coordination whole.
    """
    there = [one for one in found.values() if one is not None and words[one.cc] not in not_split]
    counted = [0]  # how many unbreakable words stand before each word
    for word in words:
        counted.append(counted[-1] + (word.lower() in unbreakable))
    kept, before = [], 0
    for one in there:
        start = before if unbreakable_window is None else max(before, one.start - unbreakable_window)
        if start >= one.start or counted[one.start] == counted[start]:
            kept.append(one)
        before = one.end
    return kept


def tree(coordinations: Sequence[Coordination]) -> list[int | None]:
    """The number of every coordination's closest ancestor, which has all of it in one conjunct; None of a root.

    Of several ancestors, the closest is the one with the fewest coordinations below it, the first one of several such.
    """
    below = [[j for j, other in enumerate(coordinations) if one.covers(other)] for one in coordinations]
    parents: list[int | None] = [None] * len(coordinations)
    for i in sorted(range(len(coordinations)), key=lambda i: len(below[i])):
        for j in below[i]:
            if parents[j] is None:
                parents[j] = i
    return parents


def coordinations_to_sentences(
    words: Sequence[str], coordinations: Sequence[Coordination], *, most: int = 1000
) -> list[tuple[int, ...]]:
    """The simple sentences of a sentence, each as the positions of its words, ascending; none if it stays whole.

    A simple sentence has one conjunct of every coordination; the words between conjuncts are in none.

    Args:
        words: of the sentence.
        coordinations: at which it is split; see :func:`splitting`.
        most: of sentences. A coordination whose conjuncts would make more of them stays whole: their number doubles
            with every coordination.
    """
    sentences: list[tuple[int, ...]] = []
    for one in _level_by_level(coordinations):
        whole = sentences or [tuple(range(len(words)))]
        hit = [_has(sentence, one.start) for sentence in whole]
        if len(whole) + sum(hit) * (len(one.conjuncts) - 1) > most:
            continue
        sentences = [
            part
            for sentence, split in zip(whole, hit, strict=True)
            for part in (_parts(sentence, one) if split else [sentence])
        ]
    return sentences


def _level_by_level(coordinations: Sequence[Coordination]) -> list[Coordination]:
    parents = tree(coordinations)
    children: dict[int | None, list[int]] = {}
    for i, parent in enumerate(parents):
        children.setdefault(parent, []).append(i)
    order = list(children.get(None, ()))
    for i in order:  # which grows
        order += children.get(i, ())
    return [coordinations[i] for i in order]


def _has(sentence: Sequence[int], word: int) -> bool:
    """Whether a word is one of ascending positions."""
    place = bisect_left(sentence, word)
    return place < len(sentence) and sentence[place] == word


def _parts(sentence: Sequence[int], one: Coordination) -> list[tuple[int, ...]]:
    return [
        tuple(i for i in sentence if start <= i < end or not one.start <= i < one.end) for start, end in one.conjuncts
    ]


# --- coordinations to rows ------------------------------------------------------------------------------------------


def coordinations_to_rows(
    coordinations: Iterable[Coordination], length: int, *, rows: int | None = None
) -> tuple[list[list[int]], Counter[str]]:
    """The grid of labels of coordinations, and how many were ``kept`` and left out.

    Each has the first row in which all of its words are free, outer ones first, so that levels of nesting are rows.
    Left out are what :func:`rows_to_coordinations` would not read again: two conjuncts with no word between them or a
    coordinator that is not between the first and the last conjunct (``not readable``), a second one with the same
    coordinator (``repeated``), and what has no row (``too deep``).

    Args:
        coordinations: of a sentence.
        length: its number of words.
        rows: how many rows the grid has; None: as many as are needed.

    Raises:
        ValueError: a coordination reaches beyond the sentence.
    """
    grid: list[list[int]] = []
    ends: list[int] = []  # of the last coordination of every row
    used: set[int] = set()
    counts: Counter[str] = Counter()
    for one in sorted(coordinations, key=lambda one: (one.start, -one.end)):
        if not 0 <= one.start < one.end <= length:
            raise ValueError(f"{one} is not in a sentence of {length} words")
        level = next((i for i, end in enumerate(ends) if end <= one.start), len(ends))
        if not _is_readable(one):
            counts["not readable"] += 1
        elif one.cc in used:
            counts["repeated"] += 1
        elif rows is not None and level >= rows:
            counts["too deep"] += 1
        else:
            if level == len(grid):
                grid.append([NONE] * length)
                ends.append(0)
            _write(replace(one, level=level), grid[level])
            ends[level] = one.end
            used.add(one.cc)
            counts["kept"] += 1
    grid += [[NONE] * length for _ in range((rows or 0) - len(grid))]
    return grid, counts


def _is_readable(one: Coordination) -> bool:
    pairs = list(zip(one.conjuncts, one.conjuncts[1:], strict=False))
    apart = all(start < end < after for (start, end), (after, _) in pairs) and one.conjuncts[-1][0] < one.end
    between = any(end <= one.cc < after for (_, end), (after, _) in pairs)
    return bool(pairs) and apart and between


def _write(one: Coordination, row: list[int]) -> None:
    row[one.start : one.end] = [OTHERS] * (one.end - one.start)
    for start, end in one.conjuncts:
        row[start:end] = [CP] * (end - start)
    for position in one.separators:
        if row[position] == OTHERS:
            row[position] = SEP
    row[one.cc] = CC
    row[one.start] = CP_START


# --- coordinations ----------------------------------------------------------------------------------------------------


def coordination_records(
    rows: Sequence[Sequence[int]], log_probability: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    """The coordinations of rows of labels: the number of the coordinating word, ``cc``, the ``conjuncts``, each its
    words from, to, the ``level`` of nesting, and ``confidence``, the geometric mean of the probabilities of its
    labels."""
    return [
        _coordination_record(coordination, log_probability[coordination.level])
        for coordination in rows_to_coordinations(rows).values()
        if coordination is not None
    ]


def _coordination_record(coordination: Coordination, log_probability: Sequence[float]) -> dict[str, Any]:
    chances = log_probability[coordination.start : coordination.end]
    return {
        "cc": coordination.cc, "conjuncts": [list(conjunct) for conjunct in coordination.conjuncts],
        "level": coordination.level, "confidence": math.exp(sum(chances) / len(chances)),
    }  # fmt: skip


def located_coordinations(
    records: Sequence[Mapping[str, Any]], text: str, characters: Characters, options: Mapping[str, Any]
) -> dict[str, Any]:
    """``coordinations`` with ``chars``, the characters of each conjunct, and its text. ``sentences``: the simple
    sentences that the sentence can be split into, none where it stays whole; ``splits``: the numbers of their words.

    ``options``: of :func:`probtrans_cli.openie.coordinations.splitting`.
    """
    words = [text[start:end] for start, end in characters]
    found = {
        record["cc"]: Coordination(
            record["cc"], tuple((start, end) for start, end in record["conjuncts"]), level=record["level"]
        )
        for record in records
    }
    split = coordinations_to_sentences(words, splitting(words, found, **options))
    return {
        "coordinations": [_located_conjuncts(record, text, characters) for record in records],
        "splits": [list(places) for places in split],
        "sentences": [" ".join(words[i] for i in places) for places in split],
    }


def _located_conjuncts(record: Mapping[str, Any], text: str, characters: Characters) -> dict[str, Any]:
    chars = [characters_of(range(*conjunct), characters)[0] for conjunct in record["conjuncts"]]
    return {**record, "chars": chars, "texts": [text[start:end] for start, end in chars]}
