"""The most probable labels of a whole sentence of COGS, among those that keep what all its sentences keep.

Every word i has one frame f: its kind, role, parent and noun type, which go together somewhere in train. With
x_if = 1 if word i has frame f, and j the parent that f means for it,

    maximise  Σ_if x_if log P(f | i)       such that
    Σ_f x_if = 1                           for every word i
    Σ_if x_if ≤ 1                          over all f with the same role and parent j: a role is filled once
    Σ_if x_if = 1                          over all f whose parent is a preposition j: it has one noun
    Σ_if x_if = 1                          over verbs without a role: one is that of the main clause
    x_if + x_kg ≤ 1                        where the arcs of f and g cross; the main verb's begins before all

This is an integer linear program, as in semantic role labelling (Punyakanok, Roth and Yih, Computational Linguistics
34(2), 2008). Arcs that cross are few, so their rows are added when a solution has them (Riedel and Clarke, EMNLP 2006);
and where the best frames of all words keep the rules already, nothing is to be solved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from probtrans_cli.data.logical_forms import BETWEEN_LABELS, parent_by_category, places_of_kinds

LONGEST = 256  # words of the longest sentence that is solved; the longest of COGS has 61
_ROUNDS = 100  # of solving, each with rows for more arcs that cross; no sentence of COGS needs ten
_NODES = 10_000  # of the tree of one search; what is best by then is taken
_VERB, _PREPOSITION = "VERB", "PREP"


COLUMNS = ("role", "by_category", "noun_type")
"""The columns of labels that are found; what every word is, is known."""


class _Frame(NamedTuple):
    """Labels of a word that go together; an empty string is none."""

    kind: str
    role: str
    parent: str
    noun_type: str


class _Choice(NamedTuple):
    """A frame that a word may have; ``parent``: the word that it means, -1 = none; ``labels``: ids, by column."""

    word: int
    frame: _Frame
    parent: int
    score: float
    labels: Mapping[str, int]

    @property
    def is_main(self) -> bool:
        return self.frame.kind == _VERB and not self.frame.role


class WholeSentences:
    """Finds labels of sentences."""

    def __init__(self, frames: Sequence[str], names: Mapping[str, Sequence[str]]) -> None:
        self.ids = {column: {label: id for id, label in enumerate(names[column])} for column in COLUMNS}
        self.frames: dict[str, list[_Frame]] = {}
        for text in filter(None, frames):
            frame = _Frame(*text.split(BETWEEN_LABELS))
            self.frames.setdefault(frame.kind, []).append(frame)

    def find(self, kinds: Sequence[str], scores: Mapping[str, np.ndarray]) -> dict[str, list[int]] | None:
        """Find the label ids ``[n]`` of a sentence's words, of every column.

        Args:
            kinds: what every word is.
            scores: ``[n, labels]`` of every column, logarithms of probabilities.

        Returns:
            None where no labels keep the rules, or the sentence has more than ``LONGEST`` words.
        """
        if len(kinds) > LONGEST:
            return None
        places = places_of_kinds(kinds)
        choices: list[_Choice] = []
        best: list[_Choice] = []
        for i, kind in enumerate(kinds):
            of_word = []
            for frame in self.frames.get(kind, ()):
                parent = parent_by_category(frame.parent, i, places)
                if parent is not None:
                    labels = {column: self.ids[column][name] for column, name in zip(COLUMNS, frame[1:], strict=True)}
                    score = sum(float(scores[column][i, id]) for column, id in labels.items())
                    of_word.append(_Choice(i, frame, parent, score, labels))
            if not of_word:
                return None
            choices += of_word
            best.append(max(of_word, key=lambda choice: choice.score))
        chosen = _solved(choices, best, kinds)
        if chosen is None:
            return None
        return {column: [choice.labels[column] for choice in chosen] for column in COLUMNS}


def _crossing(chosen: Sequence[_Choice]) -> list[tuple[int, int]]:
    spans: list[tuple[int, ...]] = []  # the number of each arc's choice, and its ends
    for index, choice in enumerate(chosen):
        if choice.parent >= 0:
            spans.append((index, *sorted((choice.word, choice.parent))))
        elif choice.is_main:
            spans.append((index, -1, choice.word))
    number, start, end = np.array(spans, dtype=int).reshape(-1, 3).T
    inside = (start[:, None] < start) & (start < end[:, None]) & (end[:, None] < end)
    return [(int(number[left]), int(number[right])) for left, right in zip(*np.nonzero(inside), strict=True)]


def _solved(choices: Sequence[_Choice], best: Sequence[_Choice], kinds: Sequence[str]) -> Sequence[_Choice] | None:
    """Return the choices that keep the rules and have the largest score; ``best``: those of every word by itself."""
    prepositions = [i for i, kind in enumerate(kinds) if kind == _PREPOSITION]
    filled = [(choice.parent, choice.frame.role) for choice in best if choice.parent >= 0]
    with_noun = sorted(parent for parent, _ in filled if kinds[parent] == _PREPOSITION)
    is_one_clause = sum(choice.is_main for choice in best) == 1
    if is_one_clause and len(set(filled)) == len(filled) and with_noun == prepositions and not _crossing(best):
        return best
    # Imported here: it takes as long as to read hundreds of sentences, and most tasks never solve any.
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415
    from scipy.sparse import coo_array  # noqa: PLC0415

    once: dict[tuple[str, int, str], list[int]] = {}  # of every rule "exactly once", the choices it is about
    at_most_once: dict[tuple[int, str], list[int]] = {}
    once["main", -1, ""] = [number for number, choice in enumerate(choices) if choice.is_main]
    once |= {("noun of", i, ""): [] for i in prepositions}
    for number, choice in enumerate(choices):
        once.setdefault(("word", choice.word, ""), []).append(number)
        if choice.parent >= 0:
            if kinds[choice.parent] == _PREPOSITION:
                once["noun of", choice.parent, ""].append(number)
            at_most_once.setdefault((choice.parent, choice.frame.role), []).append(number)
    rows, lower = [*once.values(), *at_most_once.values()], [1] * len(once) + [0] * len(at_most_once)
    costs = np.array([-choice.score for choice in choices])
    for _ in range(_ROUNDS):
        columns = np.concatenate([np.array(row, dtype=int) for row in rows])
        of_row = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        matrix = coo_array((np.ones(len(columns)), (of_row, columns)), shape=(len(rows), len(choices))).tocsr()
        rules = LinearConstraint(matrix, lower, np.ones(len(rows)))
        search = {"constraints": rules, "integrality": np.ones(len(choices)), "bounds": Bounds(0, 1)}
        solution = milp(costs, **search, options={"node_limit": _NODES}).x
        if solution is None:
            return None
        numbers = np.flatnonzero(solution > 0.5).tolist()
        chosen = [choices[number] for number in numbers]
        crossing = _crossing(chosen)
        if not crossing:
            return chosen
        rows += [[numbers[left], numbers[right]] for left, right in crossing]
        lower += [0] * len(crossing)
    return None
