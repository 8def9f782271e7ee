"""Labels of whole sentences of COGS against the enumeration of all of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from small_forms import BEYOND, LINES
from support import real_data, seeded

from probtrans_cli.data.files import open_lines
from probtrans_cli.data.logical_forms import frames_of_words, kinds_of_words, parent_by_category, places_of_kinds
from probtrans_cli.data.readers.cogs import Example, read_cogs
from probtrans_cli.tasks.whole_sentences import COLUMNS, LONGEST, WholeSentences

EXAMPLES = list(read_cogs([*LINES, BEYOND], "x"))
FRAMES = sorted({frame for example in EXAMPLES for frame in frames_of_words(example.analysis)})
MORE = ["CNOUN|theme|-1 VERB|INDEF", "VERB|ccomp|-1 VERB|", "CNOUN|agent|-1 VERB|DEF", "CNOUN|PP_NOUN|-1 PREP|INDEF"]
NAMES = {column: sorted({frame.split("|")[k] for frame in [*filter(None, FRAMES), *MORE]}) for k, column in
         enumerate(COLUMNS, start=1)}  # fmt: skip
KINDS = ("", "CNOUN", "PNOUN", "VERB", "PREP")
CHOICES = {kind: [frame for frame in [*FRAMES, *MORE] if frame and frame.split("|")[0] == kind] for kind in KINDS}
WHOLE = WholeSentences([*FRAMES, *MORE], NAMES)


def kinds_of(example: Example) -> list[str]:
    labels = example.analysis
    return kinds_of_words(labels.role, labels.category, labels.verb_name)


def is_allowed(kinds: list[str], frames: tuple[str, ...]) -> bool:
    """The rules, one after the other, by plain loops."""
    places, n = places_of_kinds(kinds), len(kinds)
    roles, parents = [frame.split("|")[1] for frame in frames], []
    for i, frame in enumerate(frames):
        parents.append(parent_by_category(frame.split("|")[2], i, places))
    if None in parents:
        return False
    mains = [i for i in range(n) if kinds[i] == "VERB" and not roles[i]]
    if len(mains) != 1:
        return False
    arcs = [(parent, i) for i, parent in enumerate(parents) if parent is not None and parent >= 0] + [(-1, mains[0])]
    for j in range(n):
        children = [roles[i] for parent, i in arcs if parent == j]
        if len(children) != len(set(children)) or (kinds[j] == "PREP" and len(children) != 1):
            return False
    ends = [sorted(arc) for arc in arcs]
    return not any(a < c < b < d for a, b in ends for c, d in ends)


def rows_of(scores: dict[str, np.ndarray], i: int) -> dict[str, np.ndarray]:
    return {column: of_words[i : i + 1] for column, of_words in scores.items()}


def by_enumeration(kinds: list[str], scores: dict[str, np.ndarray]) -> tuple[float, tuple[str, ...]] | None:
    allowed = [frames for frames in product(*(CHOICES[kind] for kind in kinds)) if is_allowed(kinds, frames)]
    return max(((total(frames, scores), frames) for frames in allowed), default=None)


def total(frames: tuple[str, ...], scores: dict[str, np.ndarray]) -> float:
    return sum(
        float(scores[column][i, NAMES[column].index(label)])
        for i, frame in enumerate(frames)
        for column, label in zip(COLUMNS, frame.split("|")[1:], strict=True)
    )


SOLVED = [
    ["PNOUN", "VERB"],
    ["", "CNOUN", "VERB", "", "CNOUN"],
    ["CNOUN", "PREP", "CNOUN", "VERB", "CNOUN"],
    ["CNOUN", "VERB", "CNOUN", "VERB"],
    ["CNOUN", "VERB", "CNOUN", "PREP", "CNOUN", "PREP", "CNOUN"],
]
"""Kinds of words of sentences, all of whose best labels often break the rules together."""
OTHERS = [["PREP", "VERB", "CNOUN"], ["VERB", *["CNOUN"] * 4], ["CNOUN"], ["CNOUN", "PNOUN", "PREP"]]
"""They never do, or nothing keeps the rules."""


LONG = (SOLVED[-1], OTHERS[1])


@pytest.mark.parametrize(
    "kinds",
    [pytest.param(kinds, marks=pytest.mark.slow if kinds in LONG else ()) for kinds in SOLVED + OTHERS],
    ids="-".join,
)
def test_the_best_of_all_that_keep_the_rules(kinds: list[str]) -> None:
    random = np.random.default_rng(seeded("whole sentences").randrange(2**32))
    solved = 0
    for _ in range(20):
        scores = {column: random.normal(size=(len(kinds), len(NAMES[column]))) * 3 for column in COLUMNS}
        labels, best = WHOLE.find(kinds, scores), by_enumeration(kinds, scores)
        if best is None:
            assert labels is None
            continue
        assert labels is not None
        rows = zip(kinds, *(([NAMES[column][id] for id in labels[column]]) for column in COLUMNS), strict=True)
        frames = tuple(map("|".join, rows))
        assert is_allowed(kinds, frames)
        assert total(frames, scores) == pytest.approx(best[0])
        of_words = [max(total((frame,), rows_of(scores, i)) for frame in CHOICES[kind]) for i, kind in enumerate(kinds)]
        assert sum(of_words) >= total(frames, scores) - 1e-9
        solved += sum(of_words) > total(frames, scores) + 1e-9  # the best of every word break the rules
    assert bool(solved) == (kinds in SOLVED)


SENTENCES = [example for example in EXAMPLES if len(example.words) > 1]


@pytest.mark.parametrize("example", SENTENCES, ids=lambda example: example.words[-2])
def test_gold_labels_keep_the_rules(example: Example) -> None:
    labels = example.analysis
    assert is_allowed(kinds_of(example), tuple(frames_of_words(labels)))


def test_a_sentence_without_any_labels_has_none() -> None:
    """A kind that train lacks, no main verb, or more words than are solved."""

    def find(kinds: list[str]) -> object:
        return WHOLE.find(kinds, {column: np.zeros((len(kinds), len(NAMES[column]))) for column in COLUMNS})

    assert find(["PNOUN", "VERB"]) is not None
    assert find(["PNOUN", "VERB", "OTHER"]) is None
    assert find(["PNOUN", "PNOUN"]) is None
    assert find(["PNOUN", "VERB", *[""] * (LONGEST - 2)]) is not None
    assert find(["PNOUN", "VERB", *[""] * (LONGEST - 1)]) is None


@pytest.mark.parametrize("split", [pytest.param("train", marks=pytest.mark.slow), "dev"])
def test_the_corpus_keeps_the_rules(split: str) -> None:
    lines = open_lines(real_data("cogs") / f"{split}.tsv")
    examples = [example for example in read_cogs(lines, split) if len(example.words) > 1]
    assert len(examples) >= 3000
    for example in examples:
        assert is_allowed(kinds_of(example), tuple(frames_of_words(example.analysis))), example.where
