"""Intervals of ratios of sums over sentences, beside the bootstrap and what is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from probtrans_cli.statistics.uncertainty import interval, moments
from probtrans_cli.tasks.base import Counts
from probtrans_cli.trees.score import bootstrap_interval, bootstrap_totals, ratio


def of(parts: np.ndarray, wholes: np.ndarray, *, batches: int = 1) -> list[float] | None:
    """The interval of a score whose sentences came in several batches."""
    counts = Counts()
    for each in np.array_split(np.arange(len(parts)), batches):
        counts.add(moments("score", parts[each], wholes[each]))
    return interval("score", counts)


@pytest.mark.parametrize("difficulty", [0.3, 3.0, 100.0], ids=["words-together", "between", "words-alone"])
def test_it_is_that_of_the_bootstrap(difficulty: float) -> None:
    """Sentences of 1 to 60 words, whose share of right words varies from sentence to sentence."""
    random = np.random.default_rng(3)
    lengths = random.integers(1, 60, 2000)
    right = random.binomial(lengths, random.beta(8 * difficulty, 2 * difficulty, 2000))
    found = of(right, lengths)
    drawn = bootstrap_totals(np.column_stack([right, lengths]))
    wanted = bootstrap_interval(ratio(drawn[:, 0], drawn[:, 1]), 2000)
    assert found is not None
    assert wanted is not None
    assert np.abs(np.subtract(found, wanted)).max() < 0.12 * (wanted[1] - wanted[0])


def test_ninety_five_of_a_hundred_hold_the_truth() -> None:
    random = np.random.default_rng(5)
    held = 0
    for _ in range(2000):
        lengths = random.integers(1, 30, 60)
        low, high = of(random.binomial(lengths, random.beta(12, 4, 60)), lengths) or [0.0, 0.0]
        held += low <= 0.75 <= high
    assert 0.93 <= held / 2000 <= 0.97


def test_sentences_of_one_thing_each_have_wilsons_interval() -> None:
    """Wilson (1927), by its formula; the sample variance has S - 1 below it, which counts as a trial less."""
    right = np.array([1] * 40 + [0] * 10)
    low, high = of(right, np.ones(50)) or [0.0, 0.0]
    trials, share, z = 49.0, 0.8, 1.959963984540054
    roots = np.sort(np.roots([1 + z * z / trials, -(2 * share + z * z / trials), share * share]))
    assert (low, high) == pytest.approx(tuple(roots), abs=1e-12)


def test_all_right_is_not_certain() -> None:
    low, high = of(np.full(50, 20), np.full(50, 20)) or [0.0, 0.0]
    assert high == pytest.approx(1.0)
    assert 0.9 < low < 0.95
    assert of(np.zeros(50), np.full(50, 20)) == pytest.approx([1 - high, 1 - low])


def test_batches_change_nothing() -> None:
    random = np.random.default_rng(1)
    lengths = random.integers(0, 9, 100)
    right = random.binomial(lengths, 0.9)
    assert of(right, lengths, batches=7) == pytest.approx(of(right, lengths), abs=1e-12)


@pytest.mark.parametrize("lengths", [[], [0, 0], [5], [0, 5, 0]])
def test_too_little_has_none(lengths: list[int]) -> None:
    assert of(np.array(lengths), np.array(lengths)) is None
