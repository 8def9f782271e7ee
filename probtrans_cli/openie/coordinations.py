"""Coordinations ("A , B and C"): from rows of labels to coordinations, to simple sentences, and back to rows.

Each row of a grid holds one level of nesting. The rules are those of the code of OpenIE6 (Kolluru et al. 2020, arXiv
2010.03147, section 4), step by step, with two differences: a coordination also ends at the end of its row, where
OpenIE6 loses it unless the sentence has a final period; and the number of simple sentences is limited.

Coordinations of dependency trees are in :mod:`probtrans_cli.openie.coordination_files`. Nothing here needs torch: the
program beside an exported graph has this module, too, as it stands.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from probtrans_cli.openie.extractions import Characters, characters_of

LABELS = ("NONE", "CP", "CP_START", "CC", "SEP", "OTHERS")
NONE, CP, CP_START, CC, SEP, OTHERS = range(6)
TAGS = {name: number for number, name in enumerate(LABELS)}
"""CC: the coordinator, such as "and"; CP_START: the first word of a coordination; CP: every other word of a conjunct;
SEP: what separates conjuncts; OTHERS: any other word inside a coordination; NONE: everything else."""
MOST_SENTENCES = 1000  # simple ones of a sentence: their number doubles with every coordination
NOT_SPLIT = frozenset({"nor", "&"})  # coordinators that join what a sentence cannot be split at
UNBREAKABLE = frozenset(
    ("addition", "aggregate", "amount", "among", "average", "between", "center", "equidistant", "gross", "mean",
     "median", "middle", "sum", "total", "value")
)  # fmt: skip
"""Words before a coordination that need all of its conjuncts: "between A and B" is no "between A"."""

Span = tuple[int, int]  # the words ``[start, end)``


@dataclass(frozen=True, slots=True)
class Coordination:
    """Disjoint conjuncts from left to right, and the coordinator, which stands between the first and the last."""

    cc: int  # position of the coordinator
    conjuncts: tuple[Span, ...]
    separators: tuple[int, ...] = field(default=(), compare=False)
    level: int = field(default=0, compare=False)  # the row that it was read from

    @property
    def start(self) -> int:
        return self.conjuncts[0][0]

    @property
    def end(self) -> int:
        return self.conjuncts[-1][1]


ByCoordinator = dict[int, Coordination | None]
"""Coordinations by the position of the coordinator, in the order of rows, then of words; None: a coordinator without
conjuncts."""


# --- rows to coordinations ------------------------------------------------------------------------------------------


def rows_to_coordinations(rows: Iterable[Sequence[int]]) -> ByCoordinator:
    """Return the coordinations of a grid of labels; ``rows``: a label for every word, see :data:`LABELS`."""
    coordinations: ByCoordinator = {}
    for level, row in enumerate(rows):
        cc: int | None = None  # of the coordination that has begun
        conjuncts: list[Span] = []
        separators: list[int] = []
        has_begun, start = False, -1  # start: of the open conjunct; -1: there is none
        for i, label in enumerate([*row, NONE]):
            if label != CP and start >= 0:
                if has_begun:
                    conjuncts.append((start, i))
                start = -1
            complete = cc is not None and len(conjuncts) >= 2 and conjuncts[0][1] <= cc < conjuncts[-1][0]
            if label in (NONE, CP_START) and cc is not None and complete:
                between = tuple(j for j in separators if j < conjuncts[-1][0])
                coordinations[cc] = Coordination(cc, tuple(conjuncts), between, level)
                has_begun, cc = False, None  # one that is not complete stays open, through words of no label
            if label == CP_START:
                has_begun, cc, conjuncts, separators, start = True, None, [], [], i
            elif label == CP and start < 0:
                start = i
            elif label == CC and has_begun:
                cc = i
            elif label == CC:
                coordinations[i] = None
            elif label == SEP and has_begun:
                separators.append(i)
    return coordinations


# --- coordinations to simple sentences ------------------------------------------------------------------------------


def splitting(
    words: Sequence[str],
    coordinations: Mapping[int, Coordination | None],
    *,
    unbreakable: Collection[str] = UNBREAKABLE,
    unbreakable_window: int | None = None,
) -> list[Coordination]:
    """Return the coordinations at which a sentence can be split, in their order.

    Args:
        coordinations: of the sentence; see :func:`rows_to_coordinations`.
        unbreakable: in small letters. Such a word before the first conjunct, behind the coordination that comes before
            in the list, or behind the sentence's start, keeps the coordination whole.
        unbreakable_window: how many words before the first conjunct are looked at; None: all of these.
    """
    counted = [0]  # how many unbreakable words stand before each word
    for word in words:
        counted.append(counted[-1] + (word.lower() in unbreakable))
    kept, before = [], 0
    for coordination in coordinations.values():
        if coordination is None or words[coordination.cc] in NOT_SPLIT:
            continue
        start = coordination.start
        first = before if unbreakable_window is None else max(before, start - unbreakable_window)
        if first >= start or counted[start] == counted[first]:
            kept.append(coordination)
        before = coordination.end
    return kept


def tree(coordinations: Sequence[Coordination]) -> list[int | None]:
    """Return the number of every coordination's closest ancestor, which has all of it in one conjunct; None of a root.

    Of several ancestors, the closest is the one with the fewest coordinations below it, the first of several such.
    """
    below: list[list[int]] = []
    for upper in coordinations:
        inside = [
            j
            for j, lower in enumerate(coordinations)
            if any(start <= lower.start and lower.end <= end for start, end in upper.conjuncts)
        ]
        below.append(inside)
    parents: list[int | None] = [None] * len(coordinations)
    for i in sorted(range(len(coordinations)), key=lambda i: len(below[i])):
        for j in below[i]:
            if parents[j] is None:
                parents[j] = i
    return parents


def coordinations_to_sentences(words: Sequence[str], coordinations: Sequence[Coordination]) -> list[tuple[int, ...]]:
    """Return the simple sentences of a sentence, each as ascending positions of words; none if it stays whole.

    A simple sentence has one conjunct of every coordination; the words between conjuncts are in none. A coordination
    whose conjuncts would make more than :data:`MOST_SENTENCES` stays whole. ``coordinations``: at which the sentence is
    split; see :func:`splitting`.
    """
    children: dict[int | None, list[int]] = {}
    for i, parent in enumerate(tree(coordinations)):
        children.setdefault(parent, []).append(i)
    order = list(children.get(None, ()))
    for i in order:  # which grows, level by level
        order += children.get(i, ())
    sentences: list[tuple[int, ...]] = []
    for coordination in (coordinations[i] for i in order):
        first, end = coordination.start, coordination.end
        before = sentences or [tuple(range(len(words)))]
        split = [(place := bisect_left(part, first)) < len(part) and part[place] == first for part in before]
        if len(before) + sum(split) * (len(coordination.conjuncts) - 1) > MOST_SENTENCES:
            continue
        sentences = []
        for part, is_split in zip(before, split, strict=True):
            if is_split:
                sentences += [
                    tuple(i for i in part if start <= i < stop or not first <= i < end)
                    for start, stop in coordination.conjuncts
                ]
            else:
                sentences.append(part)
    return sentences


# --- coordinations to rows ------------------------------------------------------------------------------------------


def coordinations_to_rows(
    coordinations: Iterable[Coordination], length: int, *, rows: int | None = None
) -> tuple[list[list[int]], Counter[str]]:
    """Return the grid of labels of coordinations, and how many were ``kept`` and left out.

    Each has the first row in which all of its words are free, outer ones first, so that levels of nesting are rows.
    Left out are what :func:`rows_to_coordinations` would not read again: two conjuncts with no word between them or a
    coordinator that is not between the first and the last conjunct (``not readable``), a second with the same
    coordinator (``repeated``), and what has no row (``too deep``).

    Args:
        rows: how many rows the grid has; None: as many as are needed.
    """
    grid: list[list[int]] = []
    ends: list[int] = []  # of the last coordination of every row
    coordinators: set[int] = set()
    counts: Counter[str] = Counter()
    for coordination in sorted(coordinations, key=lambda coordination: (coordination.start, -coordination.end)):
        start, end, conjuncts = coordination.start, coordination.end, coordination.conjuncts
        if not 0 <= start < end <= length:
            raise ValueError(f"{coordination} is not in a sentence of {length} words")
        level = next((i for i, used in enumerate(ends) if used <= start), len(ends))
        pairs = list(pairwise(conjuncts))
        apart = all(left[0] < left[1] < right[0] for left, right in pairs) and conjuncts[-1][0] < end
        if not (pairs and apart and any(left[1] <= coordination.cc < right[0] for left, right in pairs)):
            counts["not readable"] += 1
        elif coordination.cc in coordinators:
            counts["repeated"] += 1
        elif rows is not None and level >= rows:
            counts["too deep"] += 1
        else:
            if level == len(grid):
                grid.append([NONE] * length)
                ends.append(0)
            row = grid[level]
            row[start:end] = [OTHERS] * (end - start)
            for first, behind in conjuncts:
                row[first:behind] = [CP] * (behind - first)
            for position in coordination.separators:
                if row[position] == OTHERS:
                    row[position] = SEP
            row[coordination.cc], row[start] = CC, CP_START
            ends[level] = end
            coordinators.add(coordination.cc)
            counts["kept"] += 1
    grid += [[NONE] * length for _ in range((rows or 0) - len(grid))]
    return grid, counts


# --- records of JSON --------------------------------------------------------------------------------------------------


def coordination_records(
    rows: Sequence[Sequence[int]], log_probability: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    """Return the coordinations of rows of labels: the number of the coordinating word, ``cc``, the ``conjuncts``, each
    its words from, to, the ``level`` of nesting, and ``confidence``, the geometric mean of the probabilities of its
    labels."""
    records = []
    for coordination in rows_to_coordinations(rows).values():
        if coordination is not None:
            chances = log_probability[coordination.level][coordination.start : coordination.end]
            conjuncts = [list(conjunct) for conjunct in coordination.conjuncts]
            confidence = math.exp(sum(chances) / len(chances))
            place = {"cc": coordination.cc, "conjuncts": conjuncts, "level": coordination.level}
            records.append({**place, "confidence": confidence})
    return records


def located_coordinations(
    records: Sequence[Mapping[str, Any]], text: str, characters: Characters, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return ``coordinations`` with ``chars``, the characters of each conjunct, and its text; ``sentences``: the simple
    sentences that the sentence can be split into, none where it stays whole; ``splits``: the numbers of their words.

    ``options``: of :func:`splitting`.
    """
    words = [text[start:end] for start, end in characters]
    coordinations = {}
    for record in records:
        conjuncts = tuple((start, end) for start, end in record["conjuncts"])
        coordinations[record["cc"]] = Coordination(record["cc"], conjuncts, level=record["level"])
    split = coordinations_to_sentences(words, splitting(words, coordinations, **options))
    located = []
    for record in records:
        chars = [characters_of(range(*conjunct), characters)[0] for conjunct in record["conjuncts"]]
        located.append({**record, "chars": chars, "texts": [text[start:end] for start, end in chars]})
    sentences = [" ".join(words[i] for i in places) for places in split]
    return {"coordinations": located, "splits": [list(places) for places in split], "sentences": sentences}
