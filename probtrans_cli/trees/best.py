"""The best trees of a sentence, by whichever decoder: a search of Lawler (1972) around :func:`decode`.

The trees but for the best one, ``h``, fall into n regions: that of word i has the trees in which the words before i
have their heads of ``h``, and i has another one. Of each region, the decoder finds the best tree as it finds that of
all: arcs that the region has not are forbidden. The best of these trees is the next one, and divides its region in the
same way.

A region is only decoded where its bound is above what else there is. The bound gives each word its best head, exactly
one of them the root, without regard to circles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64

from probtrans_cli.trees.decode import CELLS_OF_A_PORTION, Method, decode


@dataclass(frozen=True)
class Trees:
    """Distributions over the trees with one root, of the sentences of a batch: a tree has a probability in proportion
    to ``exp`` of the sum of the scores of its arcs.

    Attributes:
        scores: of every head (the words, then the root) for every word.
        probabilities: of the same heads, as they are reported; NaN where they are not known.
        decoder: which trees are searched.
        relations: the log-probability of each relation of each arc, independently of the others; None: arcs have none.
        names: of the relations.
    """

    scores: Float[np.ndarray, "b n n+1"]
    probabilities: Float[np.ndarray, "b n n+1"]
    decoder: Method
    relations: Float[np.ndarray, "b n c n+1"] | None = None
    names: Sequence[str] = ()


class _Region(NamedTuple):
    """Trees in which the first words have these ``heads``, and the next one has none of those that are ``banned``.

    ``tree``: the best of them, None where the score is a bound.
    """

    cost: float  # minus the score of the best tree, or minus its bound
    number: int
    heads: np.ndarray
    banned: tuple[int, ...]
    tree: np.ndarray | None


def best_trees(scores: Float[np.ndarray, "n n+1"], count: int, method: Method) -> Int64[np.ndarray, "k n"]:
    """Return the ``count`` trees with the largest sums of scores, the best first, or as many as there are.

    The first is that of :func:`decode`. Trees with equal sums come in an order that depends on the scores alone. An arc
    with the score -inf is in no tree but the first.
    """
    n, words = len(scores), np.arange(len(scores))
    table = np.concatenate([scores[:, n:], scores[:, :n]], axis=1)  # as heads are numbered
    table[words, words + 1] = -np.inf
    first = decode(scores[None], np.ones((1, n), dtype=bool), method)[0]
    queue = [_Region(-float(table[words, first].sum()), 0, first[:0], (), first)]
    result: list[np.ndarray] = []
    number, at_once = 1, max(1, CELLS_OF_A_PORTION // n**2)
    while queue and len(result) < count:
        region = heappop(queue)
        if region.tree is None:
            regions = [region]
            while queue and queue[0].tree is None and len(regions) < at_once:
                regions.append(heappop(queue))
            for decoded in _decoded(table, regions, method):
                heappush(queue, decoded)
            continue
        result.append(region.tree)
        if len(result) == count:
            break
        for word, bound in enumerate(_bounds(table, region), start=len(region.heads)):
            banned = (*(region.banned if word == len(region.heads) else ()), int(region.tree[word]))
            if bound > -np.inf:
                heappush(queue, _Region(-bound, number, region.tree[:word], banned, None))
                number += 1
    return np.array(result, dtype=np.int64).reshape(-1, n)


def _decoded(table: np.ndarray, regions: Sequence[_Region], method: Method) -> Iterator[_Region]:
    # Each region with its best tree; those without any are left out.
    words = np.arange(len(table))
    tables = np.repeat(table[None], len(regions), axis=0)
    for allowed, region in zip(tables, regions, strict=True):
        fixed = len(region.heads)
        kept = table[words[:fixed], region.heads]
        allowed[:fixed] = -np.inf
        allowed[words[:fixed], region.heads] = kept
        allowed[fixed, list(region.banned)] = -np.inf
    trees = decode(np.roll(tables, -1, axis=2), np.ones((len(regions), len(table)), dtype=bool), method)
    for tree, region in zip(trees, regions, strict=True):
        score = float(table[words, tree].sum())
        fixed = len(region.heads)
        is_in_region = np.array_equal(tree[:fixed], region.heads) and tree[fixed] not in region.banned
        if is_in_region and score > -np.inf:
            yield region._replace(cost=-score, tree=tree)


def _bounds(table: np.ndarray, region: _Region) -> np.ndarray:
    """Return a bound of each region into which a region falls without its best tree, by its word."""
    tree, begin, n = region.tree, len(region.heads), len(table)
    assert tree is not None, "it has been decoded"
    fixed, rows = table[np.arange(n), tree], table[begin:].copy()
    root, best = table[begin:, 0], rows[:, 1:].max(axis=1)  # of words behind the one that changes its head
    rows[np.arange(n - begin), tree[begin:]] = -np.inf
    rows[0, list(region.banned)] = -np.inf
    changed = rows[:, 1:].max(axis=1)
    before = np.append(0.0, fixed.cumsum())[begin:n]
    has_root = ((tree == 0).cumsum() > (tree == 0))[begin:]
    with np.errstate(invalid="ignore"):  # -inf for words that can be below the root alone
        later = np.append(best[:0:-1].cumsum()[::-1], 0.0)
        gain = np.append(np.maximum.accumulate((root - best)[:0:-1])[::-1], -np.inf)
        rooted = np.where(has_root, changed, np.maximum(rows[:, 0], changed + gain))
        bounds = before + later + rooted
    return np.asarray(np.fmin(bounds, -region.cost))
