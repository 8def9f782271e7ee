"""What the order of words tells of each of them: against loops, and on sentences whose answer is known."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from probtrans_cli.statistics import word_order as module
from probtrans_cli.statistics.word_order import LEANING, PAIRS, SHRINKING, standing_alone, word_order

UNKNOWN, COMMA = 1, 3


def joined(sentences: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """All words one after the other, and the lengths of the sentences."""
    ids = [word for sentence in sentences for word in sentence]
    return np.array(ids, dtype=np.int64), np.array([*map(len, sentences)], dtype=np.int64)


def drawn(seed: int, size: int, number: int, *, flatness: float, absent: list[int]) -> list[list[int]]:
    """Sentences of up to 8 words, each with a chance of its own; some do not occur."""
    random = np.random.default_rng(seed)
    chances = random.dirichlet(np.full(size, flatness))
    chances[absent] = 0.0
    chances /= chances.sum()
    return [random.choice(size, random.integers(1, 9), p=chances).tolist() for _ in range(number)]


def ranked(sentences: list[list[int]], size: int, classes: int) -> tuple[Counter[int], list[int]]:
    """How often each word occurs, and those that are a class of their own."""
    counts = Counter(word for sentence in sentences for word in sentence if word != COMMA)
    return counts, sorted((word for word in range(size) if word != UNKNOWN), key=lambda word: -counts[word])[:classes]


def between_boundaries(sentences: list[list[int]]) -> list[list[int | None]]:
    """The words from boundary to boundary, with None for each of the two."""
    parts: list[list[int | None]] = [[]]
    for sentence in sentences:
        for word in [*sentence, COMMA]:
            if word == COMMA:
                parts.append([])
            else:
                parts[-1].append(word)
    return [[None, *part, None] for part in parts if part]


def by_loops(sentences: list[list[int]], size: int, classes: int) -> np.ndarray:
    """Both, word by word, as the module's text says."""
    counts, own = ranked(sentences, size, classes)
    total = sum(counts.values())
    parts = between_boundaries(sentences)

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
    values: list[float] = []
    of_others: list[float] = []
    for part in parts:
        for before, word, behind in zip(part[:-2], part[1:-1], part[2:], strict=True):
            assert word is not None
            begun[word] += before is None
            ended[word] += behind is None
            value = 0.0 if before is None and behind is None else association(of(before), of(behind))
            sums[word] += value
            values.append(value)
            if of(word) == "other":
                of_others.append(value)
    middle = np.mean(of_others or values)
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


@pytest.mark.parametrize("classes", [6, 40])
@pytest.mark.parametrize("seed", range(5))
def test_as_the_equations_say(seed: int, classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLASSES", classes)
    size = 20
    sentences = drawn(seed, size, 60, flatness=0.5, absent=[0, 2])
    ids, lengths = joined(sentences)
    order = word_order(ids, lengths, np.arange(size) == COMMA, UNKNOWN)
    counts = np.bincount(ids, minlength=size)
    ties = sorted(counts[np.arange(size) != UNKNOWN], reverse=True)
    if classes > size or ties[5] != ties[6]:  # of equals, any may be a class of its own
        np.testing.assert_allclose(order, by_loops(sentences, size, classes), atol=1e-12)
    assert (order[[0, COMMA]] == 0).all()


def test_what_leans_and_what_can_be_left_out() -> None:
    """`4 6`, `4 5 6` and `4 6 7 6`: 4 begins and is never in front of a boundary, and 5 may stand there or not."""
    sentences = 50 * [[4, 6], [4, 5, 6, COMMA, 4, 6], [4, 6, 7, 6], [8]]
    ids, lengths = joined(sentences)
    leaning, reducible = word_order(ids, lengths, np.arange(9) == COMMA, UNKNOWN).T
    assert leaning[4] > 2 > 0 > leaning[6]
    assert reducible[5] == reducible.max()
    counts = np.bincount(ids, minlength=9) * (np.arange(9) != COMMA)
    assert (counts * reducible).sum() == pytest.approx(0.0, abs=1e-9)
    assert (counts * reducible**2).sum() == pytest.approx(counts.sum())


def alone_by_loops(sentences: list[list[int]], size: int, classes: int) -> tuple[set[int], float]:
    """The rare words and N, phrase by phrase."""
    counts, own = ranked(sentences, size, classes)
    frequent = {word for word in own if counts[word]}
    rare = {word for word in range(size) if word not in frequent and word != COMMA}
    alone = Counter[int]()
    pairs = []
    for part in between_boundaries(sentences):
        runs: list[list[int]] = []  # of rare words, each behind a frequent word
        for before, word in pairwise(part):
            if word is None or word in frequent:
                continue
            if before in rare:
                runs[-1].append(word)
            elif before in frequent:
                runs.append([word])
            else:
                runs.append([UNKNOWN, word])  # it begins the phrase, so nothing frequent stands in front of it
        for run in runs:
            if len(run) == 1 and run[0] != UNKNOWN:
                alone[run[0]] += 1
            if len(run) == 2 and UNKNOWN not in run:
                pairs.append(run)

    def odds(word: int) -> float:
        return math.log((alone[word] + 0.5) / (counts[word] - alone[word] + 0.5))

    if not pairs:
        return rare, 0.0
    values = np.array([[odds(word) for word in pair] for pair in pairs])
    return rare, float((values[:, 1] - values[:, 0]).mean() / values.std())


@pytest.mark.parametrize("classes", [3, 14])
@pytest.mark.parametrize("seed", range(5))
def test_standing_alone_is_as_the_equations_say(seed: int, classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all words but the unknown one are frequent."""
    monkeypatch.setattr(module, "CLASSES", classes)
    size = 16
    sentences = drawn(seed, size, 200, flatness=2.0, absent=[0])
    rare, alone = standing_alone(*joined(sentences), np.arange(size) == COMMA, UNKNOWN)
    expected = alone_by_loops(sentences, size, classes)
    assert set(np.flatnonzero(rare).tolist()) == expected[0]
    assert alone == pytest.approx(expected[1])
    assert (alone != 0.0) == (classes == 3)


@pytest.mark.parametrize("behind", [False, True])
def test_the_head_of_two_is_the_one_that_stands_alone(behind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`the white house` and `the house`, or `the house white`."""
    monkeypatch.setattr(module, "CLASSES", 1)
    the, white, house, red = 4, 5, 6, 7
    turn = 1 if behind else -1
    sentences = 3 * [[the, house, the, house, the, red, *[house, white][::turn], COMMA]]
    sentences += 3 * [[the, *[house, red][::turn]], [the, *[house, white][::turn]]]
    ids, lengths = joined(sentences)
    rare, alone = standing_alone(ids, lengths, np.arange(8) == COMMA, UNKNOWN)
    assert np.flatnonzero(rare).tolist() == [0, 1, 2, white, house, red]
    assert alone == pytest.approx(-2.0 if behind else 2.0, rel=0.2)


NOTHING: list[list[list[int]]] = [[], [[COMMA]], [[], []], [[4]]]


@pytest.mark.parametrize("sentences", [*NOTHING, [[4, 4]], 9 * [[4, 2, 0]]])
def test_corpora_that_tell_nothing(sentences: list[list[int]]) -> None:
    arguments = (*joined(sentences), np.arange(5) == COMMA, UNKNOWN)
    rare, alone = standing_alone(*arguments)
    assert (rare.shape, alone) == ((5,), 0.0)
    order = word_order(*arguments)
    assert order.shape == (5, 2)
    if sentences in NOTHING:
        assert np.abs(order).max() < 1e-9
