"""What the order of words tells of each of them: against loops, and on sentences whose answer is known."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from probtrans_cli.statistics import word_order as module
from probtrans_cli.statistics.word_order import LEANING, PAIRS, SHRINKING, word_order

UNKNOWN, COMMA = 1, 3


def by_loops(sentences: list[list[int]], size: int, classes: int) -> np.ndarray:
    """Both, word by word, as the module's text says."""
    counts = Counter(word for one in sentences for word in one if word != COMMA)
    total = sum(counts.values())
    ranked = sorted((word for word in range(size) if word != UNKNOWN), key=lambda word: -counts[word])
    own = set(ranked[:classes])
    parts: list[list[int | None]] = [[]]
    for sentence in sentences:
        for word in [*sentence, COMMA]:
            if word == COMMA:
                parts.append([])
            else:
                parts[-1].append(word)
    parts = [[None, *part, None] for part in parts if part]

    def of(word: int | None) -> str:
        return "boundary" if word is None else str(word) if word in own else "other"

    pairs = Counter((of(x), of(y)) for part in parts for x, y in pairwise(part))
    n = sum(pairs.values())
    left, right = Counter[str](), Counter[str]()
    for (x, y), count in pairs.items():
        left[x] += count
        right[y] += count

    def association(x: str, y: str) -> float:
        expected = left[x] * right[y] / n**2
        return math.log((pairs[x, y] + PAIRS * expected) / ((n + PAIRS) * expected))

    begun, ended, sums = Counter[int](), Counter[int](), Counter[int]()
    of_others = []
    for part in parts:
        for before, word, behind in zip(part[:-2], part[1:-1], part[2:], strict=True):
            assert word is not None
            begun[word] += before is None
            ended[word] += behind is None
            value = 0.0 if before is None and behind is None else association(of(before), of(behind))
            sums[word] += value
            if of(word) == "other":
                of_others.append(value)
    middle = np.mean(of_others)
    found = np.zeros((size, 2))
    for word, count in counts.items():
        for side, share_of, sign in ((begun, sum(begun.values()) / total, 1), (ended, sum(ended.values()) / total, -1)):
            share = (side[word] + LEANING * share_of) / (count + LEANING)
            found[word, 0] += sign * math.log(share / share_of)
        found[word, 1] = (sums[word] + SHRINKING * middle) / (count + SHRINKING)
    mean = sum(found[word, 1] * count for word, count in counts.items()) / total
    variance = sum((found[word, 1] - mean) ** 2 * count for word, count in counts.items()) / total
    for word in counts:
        found[word, 1] = (found[word, 1] - mean) / math.sqrt(variance)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_as_the_equations_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLASSES", 6)
    random = np.random.default_rng(seed)
    size = 20
    chances = random.dirichlet(np.full(size, 0.5))
    chances[[0, 2]] = 0.0
    sentences = [random.choice(size, random.integers(1, 9), p=chances / chances.sum()).tolist() for _ in range(60)]
    found = word_order(np.concatenate(sentences), np.array([*map(len, sentences)]), np.arange(size) == COMMA, UNKNOWN)
    counts = np.bincount(np.concatenate(sentences), minlength=size)
    ties = sorted(counts[np.arange(size) != UNKNOWN], reverse=True)
    if ties[5] != ties[6]:  # of equals, any may be a class of its own
        np.testing.assert_allclose(found, by_loops(sentences, size, 6), atol=1e-12)
    assert (found[[0, COMMA]] == 0).all()


def test_what_leans_and_what_can_be_left_out() -> None:
    """`4 6`, `4 5 6` and `4 6 7 6`: 4 begins and is never in front of a boundary, and 5 may stand there or not."""
    sentences = 50 * [[4, 6], [4, 5, 6, COMMA, 4, 6], [4, 6, 7, 6], [8]]
    ids, lengths = np.concatenate(sentences), np.array([*map(len, sentences)])
    leaning, reducible = word_order(ids, lengths, np.arange(9) == COMMA, UNKNOWN).T
    assert leaning[4] > 2 > 0 > leaning[6]
    assert reducible[5] == reducible.max()
    counts = np.bincount(ids, minlength=9) * (np.arange(9) != COMMA)
    assert (counts * reducible).sum() == pytest.approx(0.0, abs=1e-9)
    assert (counts * reducible**2).sum() == pytest.approx(counts.sum())


@pytest.mark.parametrize("sentences", [[], [[COMMA]], [[], []], [[4]]])
def test_corpora_that_tell_nothing(sentences: list[list[int]]) -> None:
    ids = np.array([word for one in sentences for word in one], dtype=np.int64)
    found = word_order(ids, np.array([*map(len, sentences)], dtype=np.int64), np.arange(5) == COMMA, UNKNOWN)
    assert found.shape == (5, 2)
    assert np.abs(found).max() < 1e-9
