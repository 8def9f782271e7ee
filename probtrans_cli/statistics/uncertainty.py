"""Whether probabilities can be relied on: calibration, selective prediction, and the cheapest remedy, a temperature.

Answers are given in one of two ways: ``probabilities [m, k]`` of the classes with ``gold [m]``, the class that is
right (-1: one that the model does not have, so that every answer is wrong); or ``probabilities [m]`` of the answers
alone with ``gold [m]``, whether each is right. The confidence of an answer is the probability of what was answered.

symbol   code            shape    meaning
p        probabilities   [m, k]   m, an answer; k, a class
y        gold            [m]      the right class
B_j      Bin                      a bin of answers with similar confidence

Intervals of scores that are ratios of sums over sentences: accuracy, F1, exact matches.

A score is R = Σ p / Σ w over sentences: right words over words, or twice the right entities over all entities of both
sides. Words of a sentence are right or wrong together, so the variance is that over sentences (the linearised ratio
estimator, Cochran 1977, 6.3):

    var R = S/(S-1) · Σ (p - R w)² / (Σ w)²

and the interval is Wilson's (1927) with as many trials as would have that variance, R (1-R) / var R, but not more than
Σ w; where nothing varies, with S trials. All of it is computed from sums of p, w, p², pw and w², which add up over
batches and files. Scores of trees share their draws: the bootstrap of ``trees/score.py``, which agrees with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

BINS = 15
FLOOR_DRAWS = 100
LOWEST, HIGHEST = math.log(1 / 4), math.log(8)  # of log T
HIGHEST_OF_ARCS = math.log(32)  # heads that no gold tree has taught can be far too sure
_PRECISION = 1e-4  # of log T

By = Literal["mass", "width"]
"""How answers are put into bins: as many in each, by confidence; or all of an interval of confidence."""


class Bin(NamedTuple):
    """Answers with similar confidence: how many, their mean confidence, the share that is right, and the standard
    error of that share."""

    number: int
    confidence: float
    accuracy: float
    error: float


def answers(probabilities: np.ndarray, gold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return confidence ``[m]`` and whether the answer is right ``[m]``; of classes that are equally probable the
    first."""
    if len(probabilities) != len(gold) or not len(gold):
        raise ValueError(f"probabilities of {len(probabilities)} answers and gold of {len(gold)}")
    if probabilities.ndim == 1:
        return probabilities.astype(np.float64), gold.astype(bool)
    return probabilities.max(axis=1).astype(np.float64), probabilities.argmax(axis=1) == gold


def reliability(probabilities: np.ndarray, gold: np.ndarray, *, bins: int = BINS, by: By = "mass") -> list[Bin]:
    """Return bins of answers in the order of confidence; those without an answer are left out.

    Bins of equal mass differ by one answer at most, and answers of the same confidence keep the order in which they are
    given. Bins of equal width are ``[j / bins, (j + 1) / bins)``, the last one with 1.
    """
    confidence, right = answers(probabilities, gold)
    groups = []
    for part in _binned(confidence, bins, by):
        accuracy = float(right[part].mean())
        error = math.sqrt(accuracy * (1 - accuracy) / len(part))
        groups.append(Bin(len(part), float(confidence[part].mean()), accuracy, error))
    return groups


def calibration_error(probabilities: np.ndarray, gold: np.ndarray, *, bins: int = BINS, by: By = "mass") -> float:
    """Return the expected calibration error (Guo et al. 2017): ``Σ_j |B_j| / m · |mean confidence - accuracy of B_j|``.

    It is not debiased: answers that are perfectly calibrated have the error :func:`ece_floor`.
    """
    groups = reliability(probabilities, gold, bins=bins, by=by)
    return sum(group.number * abs(group.confidence - group.accuracy) for group in groups) / len(gold)


def ece_floor(probabilities: np.ndarray, *, draws: int = FLOOR_DRAWS) -> float:
    """Return the mean calibration error, with equal mass, if gold were drawn from the probabilities themselves.

    An answer is then right with its confidence. The draws are always the same.
    """
    confidence, _ = answers(probabilities, np.zeros(len(probabilities)))
    random, parts = np.random.default_rng(0), _binned(confidence, BINS, "mass")
    order, ends = np.concatenate(parts), np.cumsum([len(part) for part in parts])[:-1]
    ordered = confidence[order]
    errors = []
    for _ in range(draws):
        surplus = ordered - (random.random(len(ordered)) < ordered)
        errors.append(sum(abs(float(part.sum())) for part in np.split(surplus, ends)) / len(ordered))
    return float(np.mean(errors))


def _binned(confidence: np.ndarray, bins: int, by: By) -> list[np.ndarray]:
    if bins < 1:
        raise ValueError(f"bins = {bins}: at least one is needed")
    order = np.argsort(confidence, kind="stable")
    if by == "mass":
        parts = np.array_split(order, bins)
    else:
        of_answers = np.minimum((confidence[order] * bins).astype(np.int64), bins - 1)
        parts = np.split(order, np.searchsorted(of_answers, np.arange(1, bins)))
    return [part for part in parts if len(part)]


def risk_coverage_area(probabilities: np.ndarray, gold: np.ndarray) -> float:
    """Return the mean over ``n = 1..m`` of the share of wrong answers among the ``n`` most confident; equal ones share
    their mean. 0: all are right; without any order it is the share of wrong answers."""
    confidence, right = answers(probabilities, gold)
    _, group, numbers = np.unique(-confidence, return_inverse=True, return_counts=True)
    wrong = np.bincount(group, weights=~right) / numbers
    risks = np.cumsum(np.repeat(wrong, numbers)) / np.arange(1, len(right) + 1)
    return float(risks.mean())


def auroc(negative: np.ndarray, positive: np.ndarray) -> float | None:
    """Return the probability that a positive has a larger value than a negative, ties counting one half; the area under
    the curve of the two rates. None where there are no positives, or no negatives."""
    if not len(negative) or not len(positive):
        return None
    ordered = np.sort(np.asarray(negative, dtype=np.float64))
    values = np.asarray(positive, dtype=np.float64)
    below, upto = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return float((below + upto).sum() / (2 * len(negative) * len(positive)))


def confidence_scores(confidence: np.ndarray, right: np.ndarray) -> dict[str, float | None]:
    """Return all scores of answers, by name, that need only their confidence ``[m]`` and whether each is right."""
    return {
        "ece": calibration_error(confidence, right),
        "ece_floor": ece_floor(confidence),
        "ece_width": calibration_error(confidence, right, by="width"),
        "aurc": risk_coverage_area(confidence, right),
        "error_auroc": auroc(1.0 - confidence[right], 1.0 - confidence[~right]),
    }


def brier(probabilities: np.ndarray, gold: np.ndarray) -> float:
    """Return the mean of ``Σ_k (p_k - 1[k = y])²`` (Brier 1950); where the right class is none of them, ``Σ_k
    p_k²``."""
    has_gold = gold >= 0
    of_gold = np.take_along_axis(probabilities, np.where(has_gold, gold, 0)[:, None], axis=1)[:, 0]
    squares = np.square(probabilities, dtype=np.float64).sum(axis=1)
    return float((squares + has_gold * (1.0 - 2.0 * of_gold)).mean())


def cross_entropy(scores: np.ndarray, gold: np.ndarray) -> float | None:
    """Return the mean of ``-log softmax(scores)_y`` over the answers whose right class the model has; None: there are
    none."""
    has_gold = gold >= 0
    if not has_gold.any():
        return None
    some = scores[has_gold]
    some = some - some.max(axis=1, keepdims=True)
    sums = np.log(np.exp(some).sum(axis=1, dtype=np.float64))
    return float((sums - np.take_along_axis(some, gold[has_gold][:, None], axis=1)[:, 0]).mean())


class Fitted(NamedTuple):
    """A temperature, with the cross entropy without and with it; whether it is the least or the largest that is tried,
    so that none fits; and the share of questions whose right class is one of the model's, of which all this is."""

    temperature: float
    before: float
    after: float
    at_bound: bool
    share: float


def fitted(parts: Sequence[tuple[np.ndarray, np.ndarray]], highest: float = HIGHEST) -> Fitted | None:
    """Find the temperature T, from 1/4 to 8 (``highest``: to another logarithm), for which ``softmax(scores / T)`` has
    the least cross entropy, by ternary search over scores ``[m, k]`` and gold ``[m]`` in parts; None where no right
    class is one of the model's.

    The cross entropy is convex in 1/T, so that it has one minimum in log T.
    """
    sizes = [int((gold >= 0).sum()) for _, gold in parts]
    if not sum(sizes):
        return None

    def loss(log_temperature: float) -> float:
        scale = math.exp(-log_temperature)
        losses = (cross_entropy(scores * scale, gold) or 0.0 for scores, gold in parts)
        return sum(size * value for size, value in zip(sizes, losses, strict=True)) / sum(sizes)

    low, high = LOWEST, highest
    while high - low > _PRECISION:
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, second) if loss(first) <= loss(second) else (first, high)
    best = (low + high) / 2
    at_bound = min(best - LOWEST, highest - best) < _PRECISION
    return Fitted(math.exp(best), loss(0.0), loss(best), at_bound, sum(sizes) / sum(len(gold) for _, gold in parts))


LEVEL = 0.95
_DEVIATIONS = 1.959963984540054  # of a normal distribution, which hold LEVEL of it


def moments(name: str, parts: np.ndarray, totals: np.ndarray) -> dict[tuple[str, str], float]:
    """Return the sums that :func:`interval` needs, from ``parts`` and ``totals`` of every sentence, both ``[S]``."""
    p, w = parts.astype(np.float64), totals.astype(np.float64)
    sums = {"p": p, "w": w, "pp": p * p, "pw": p * w, "ww": w * w, "sentences": w > 0}
    return {(name, moment): float(values.sum()) for moment, values in sums.items()}


def interval(name: str, counts: Mapping[Any, float]) -> list[float] | None:
    """Return the 95 % interval of a score, as shares; None where fewer than two sentences have anything to count."""
    p, w, pp, pw, ww, sentences = (counts[name, moment] for moment in ("p", "w", "pp", "pw", "ww", "sentences"))
    if sentences < 2:
        return None
    ratio = p / w
    variance = max(pp - 2 * ratio * pw + ratio * ratio * ww, 0.0) * sentences / (sentences - 1) / (w * w)
    binomial = ratio * (1 - ratio)
    # Rounding leaves a variance of some 1e-16 of the sums where nothing varies.
    trials = min(binomial / variance, w) if variance > 1e-12 * binomial / w else sentences
    squared = _DEVIATIONS**2
    middle = (ratio + squared / (2 * trials)) / (1 + squared / trials)
    half = _DEVIATIONS / (1 + squared / trials) * math.sqrt(binomial / trials + squared / (4 * trials**2))
    return [max(min(middle - half, ratio), 0.0), min(max(middle + half, ratio), 1.0)]  # despite rounding at 0 and 1
