"""Intervals of scores that are ratios of sums over sentences: accuracy, F1, exact matches.

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
from collections.abc import Mapping
from typing import Any

import numpy as np

LEVEL = 0.95
_DEVIATIONS = 1.959963984540054  # of a normal distribution, which hold LEVEL of it


def moments(name: str, parts: np.ndarray, totals: np.ndarray) -> dict[tuple[str, str], float]:
    """Return the sums that :func:`interval` needs, from ``parts`` and ``totals`` of every sentence, both ``[S]``."""
    p, w = parts.astype(np.float64), totals.astype(np.float64)
    sums = {"p": p, "w": w, "pp": p * p, "pw": p * w, "ww": w * w, "sentences": w > 0}
    return {(name, moment): float(values.sum()) for moment, values in sums.items()}


def interval(name: str, counts: Mapping[Any, float]) -> list[float] | None:
    """The 95 % interval of a score, as shares; None where fewer than two sentences have anything to count."""
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
