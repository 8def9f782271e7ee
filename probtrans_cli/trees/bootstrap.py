"""Bootstrap intervals of ratios over sentences (Efron 1979; for parsers: Berg-Kirkpatrick et al. 2012).

A score is a ratio of two sums over sentences. Of a file of S sentences, S are drawn with replacement, and the score is
computed anew; the interval holds the middle 95 % of what a thousand such draws give. All scores of a file are computed
from the same draws, so that differences between them can be judged, too.

    symbol    shape    meaning
    counts    [S, k]   k quantities of every sentence
    weights   [B, S]   how often a draw has each sentence
    totals    [B, k]   the quantities of each draw: weights @ counts
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

DRAWS = 1000
LEVEL = 0.95
_BLOCK = 100  # draws whose weights are made floats for BLAS at a time; float32 is exact up to 16 million words


@lru_cache(maxsize=2)
def weights(sentences: int, seed: int = 0) -> np.ndarray:
    """How often each of ``DRAWS`` draws has each sentence, uint8 ``[DRAWS, sentences]``."""
    random = np.random.default_rng(seed)
    result = np.zeros((DRAWS, sentences), dtype=np.uint8)  # no sentence is drawn 256 times: once in 10^500 files
    for draw in range(DRAWS):
        result[draw] = np.bincount(random.integers(0, max(sentences, 1), sentences), minlength=sentences)
    result.setflags(write=False)
    return result


def totals(counts: np.ndarray, seed: int = 0) -> np.ndarray:
    """The sums of ``counts [S, k]`` over each draw's sentences, ``[DRAWS, k]``."""
    drawn = weights(len(counts), seed)
    counts = counts.astype(np.float32)
    blocks = [drawn[start : start + _BLOCK].astype(np.float32) @ counts for start in range(0, DRAWS, _BLOCK)]
    return np.concatenate(blocks).astype(np.float64)


def interval(draws: np.ndarray, sentences: int) -> list[float] | None:
    """The middle ``LEVEL`` of a score's values over draws, NaN where a draw has nothing to count.

    None where fewer than two ``sentences`` have anything to count: their draws would all be alike.
    """
    if sentences < 2:
        return None
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(draws[~np.isnan(draws)], [tail, 1 - tail])
    return [float(low), float(high)]


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """``part / whole``, NaN where there is nothing to count."""
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0))
