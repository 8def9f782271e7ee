"""Scores of probabilities beside plain loops, and what is known: calibrated labels, ties, a temperature, intervals."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest

from probtrans_cli.statistics import uncertainty
from probtrans_cli.statistics.uncertainty import interval, moments
from probtrans_cli.tasks.base import Counts
from probtrans_cli.trees.score import bootstrap_interval, bootstrap_totals, ratio


def temperature(scores: np.ndarray, gold: np.ndarray) -> float:
    best = uncertainty.fitted([(scores, gold)])
    assert best is not None
    return best.temperature


def given(
    number: int, classes: int, seed: int = 0, *, scale: float = 1.0, ties: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and gold drawn from their softmax; with ``ties``, the confidences of many answers are the same."""
    random = np.random.default_rng(seed)
    scores = 2.0 * random.standard_normal((number, classes))
    if ties:
        scores = np.round(scores)
    chances = softmax(scores)
    gold = np.array([random.choice(classes, p=row) for row in chances])
    return scale * scores, gold


def softmax(scores: np.ndarray) -> np.ndarray:
    values = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(values / values.sum(axis=1, keepdims=True))


def error_by_loop(probabilities: np.ndarray, gold: np.ndarray, bins: int, by: Literal["mass", "width"]) -> float:
    pairs = [(max(row), list(row).index(max(row)) == y) for row, y in zip(probabilities.tolist(), gold, strict=True)]
    found: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    if by == "width":
        for confidence, right in pairs:
            found[min(int(confidence * bins), bins - 1)].append((confidence, right))
    else:
        ordered = sorted(pairs, key=lambda pair: pair[0])  # stable: ties in the order of the file
        start = 0
        for number in range(bins):
            size = len(pairs) // bins + (number < len(pairs) % bins)
            found[number] = ordered[start : start + size]
            start += size
    total = 0.0
    for part in found:
        if part:
            confidence = sum(one for one, _ in part) / len(part)
            accuracy = sum(right for _, right in part) / len(part)
            total += len(part) / len(pairs) * abs(confidence - accuracy)
    return total


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("by", ["mass", "width"])
@pytest.mark.parametrize(("number", "bins"), [(203, 15), (7, 15), (30, 1), (64, 16)])
def test_calibration_error_beside_a_loop(number: int, bins: int, by: Literal["mass", "width"], ties: bool) -> None:
    scores, gold = given(number, 4, ties=ties)
    gold[::5] = -1
    chances = softmax(scores)
    found = uncertainty.calibration_error(chances, gold, bins=bins, by=by)
    assert found == pytest.approx(error_by_loop(chances, gold, bins, by), abs=1e-12)


def test_bins_of_equal_mass_differ_by_one_answer() -> None:
    scores, gold = given(107, 3, ties=True)
    found = uncertainty.reliability(softmax(scores), gold)
    assert {one.number for one in found} == {7, 8}
    assert sum(one.number for one in found) == 107
    assert [one.confidence for one in found] == sorted(one.confidence for one in found)
    for one in found:
        assert one.error == pytest.approx(math.sqrt(one.accuracy * (1 - one.accuracy) / one.number))


def test_confidence_and_whether_it_is_right_say_the_same() -> None:
    """The file of another system has the probability of its answer alone."""
    scores, gold = given(150, 5)
    chances = softmax(scores)
    confidence, right = chances.max(axis=1), chances.argmax(axis=1) == gold
    for score in (uncertainty.calibration_error, uncertainty.risk_coverage_area):
        assert score(confidence, right) == score(chances, gold)
    assert uncertainty.ece_floor(confidence) == uncertainty.ece_floor(chances)


def test_calibrated_answers_have_the_error_of_the_floor() -> None:
    floors, errors = [], []
    for seed in range(40):
        scores, gold = given(1500, 6, seed)
        chances = softmax(scores)
        floors.append(uncertainty.ece_floor(chances, draws=20))
        errors.append(uncertainty.calibration_error(chances, gold))
    assert np.mean(errors) == pytest.approx(np.mean(floors), rel=0.06)
    scores, gold = given(1500, 6, scale=3.0)
    overconfident = softmax(scores)
    assert uncertainty.calibration_error(overconfident, gold) > 8 * uncertainty.ece_floor(overconfident)


@pytest.mark.parametrize("ties", [False, True])
def test_risk_and_coverage_beside_a_loop(ties: bool) -> None:
    scores, gold = given(90, 3, ties=ties)
    gold[::7] = -1
    chances = softmax(scores)
    confidence, wrong = chances.max(axis=1), chances.argmax(axis=1) != gold
    groups: dict[float, list[bool]] = {}
    for one, fault in zip(confidence, wrong, strict=True):
        groups.setdefault(one, []).append(bool(fault))
    faults, risks = 0.0, []
    for one in sorted(groups, reverse=True):
        for _ in groups[one]:
            faults += sum(groups[one]) / len(groups[one])
            risks.append(faults / (len(risks) + 1))
    assert uncertainty.risk_coverage_area(chances, gold) == pytest.approx(sum(risks) / len(risks), abs=1e-12)


def test_the_order_of_ties_means_nothing() -> None:
    confidence, right = np.array([0.9, 0.5, 0.5, 0.5, 0.5]), np.array([True, True, True, False, False])
    areas = {round(uncertainty.risk_coverage_area(confidence, right[order]), 12) for order in (
        np.array([0, 1, 2, 3, 4]), np.array([0, 4, 3, 2, 1]), np.array([0, 3, 1, 4, 2])
    )}  # fmt: skip
    assert areas == {round((0 + 0.5 / 2 + 1 / 3 + 1.5 / 4 + 2 / 5) / 5, 12)}
    assert uncertainty.risk_coverage_area(np.full(5, 0.3), right) == pytest.approx(0.4)


@pytest.mark.parametrize("ties", [False, True])
def test_auroc_beside_all_pairs(ties: bool) -> None:
    random = np.random.default_rng(1)
    negative, positive = random.standard_normal(40), 0.7 + random.standard_normal(25)
    if ties:
        negative, positive = negative.round(), positive.round()
    pairs = [(a > b) + 0.5 * (a == b) for a in positive for b in negative]
    assert uncertainty.auroc(negative, positive) == pytest.approx(np.mean(pairs), abs=1e-12)
    assert uncertainty.auroc(negative, negative) == pytest.approx(0.5)
    assert uncertainty.auroc(negative, np.zeros(0)) is None
    assert uncertainty.auroc(np.zeros(0), positive) is None


def test_brier_and_cross_entropy_beside_loops() -> None:
    scores, gold = given(60, 4)
    gold[::6] = -1
    chances = softmax(scores)
    squares = [
        sum((p - (k == y)) ** 2 for k, p in enumerate(row)) for row, y in zip(chances.tolist(), gold, strict=True)
    ]
    assert uncertainty.brier(chances, gold) == pytest.approx(np.mean(squares), abs=1e-12)
    losses = [-math.log(row[y]) for row, y in zip(chances.tolist(), gold, strict=True) if y >= 0]
    assert uncertainty.cross_entropy(scores, gold) == pytest.approx(np.mean(losses), abs=1e-12)
    assert uncertainty.cross_entropy(scores, np.full(60, -1)) is None


def test_scores_that_are_three_times_too_large_have_a_temperature_three_times_as_high() -> None:
    scores, gold = given(4000, 5)
    plain = temperature(scores, gold)
    assert plain == pytest.approx(1.0, rel=0.1)
    assert temperature(3.0 * scores, gold) == pytest.approx(3.0 * plain, rel=0.02)
    assert temperature((3.0 * scores).astype(np.float32), gold) == pytest.approx(3.0 * plain, rel=0.02)


def test_the_temperature_has_the_least_loss_of_a_grid() -> None:
    scores, gold = given(500, 5, scale=2.0)
    gold[::9] = -1
    parts = [(scores[:100], gold[:100]), (scores[100:], gold[100:])]
    found = uncertainty.fitted(parts)
    assert found is not None
    grid = [uncertainty.cross_entropy(scores / math.exp(t), gold) or 9.0 for t in np.linspace(-1.38, 2.07, 200)]
    assert found.after <= min(grid) + 1e-7
    assert found.before == pytest.approx(uncertainty.cross_entropy(scores, gold))
    assert found.after < found.before
    assert not found.at_bound
    assert found.share == pytest.approx((gold >= 0).mean())


def test_temperatures_stay_within_their_bounds() -> None:
    scores, gold = given(300, 3)
    assert temperature(1e3 * scores, gold) == pytest.approx(8.0, rel=1e-3)
    assert temperature(1e-3 * scores, softmax(scores).argmax(axis=1)) == pytest.approx(0.25, rel=1e-3)
    assert uncertainty.fitted([(scores, np.full(300, -1))]) is None
    at_bounds = [uncertainty.fitted([(factor * scores, softmax(scores).argmax(axis=1))]) for factor in (1e-3, 1.0)]
    at_bounds.append(uncertainty.fitted([(1e3 * scores, gold)]))
    assert all(found is not None and found.at_bound for found in at_bounds)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="3 answers and gold of 2"):
        uncertainty.calibration_error(np.ones((3, 1)), np.zeros(2))
    with pytest.raises(ValueError, match="0 answers"):
        uncertainty.risk_coverage_area(np.ones((0, 2)), np.zeros(0))
    with pytest.raises(ValueError, match="bins = 0"):
        uncertainty.reliability(np.ones((3, 1)), np.zeros(3), bins=0)


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
