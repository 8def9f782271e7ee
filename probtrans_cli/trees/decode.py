"""From head scores to trees: best head per word, Chu-Liu-Edmonds, Eisner; by batches.

Sources: Chu & Liu (1965) and Edmonds (1967) for the best spanning tree, Eisner (1996) for the best projective tree.

    symbol   variable   shape        meaning
    b        -          -            sentence
    i        -          -            dependent, 0..n-1
    j        scores     [b, n, m]    head: word j, or column n, the root, where the scores have it
    -        table      [b, n, n+1]  the same as the decoders want it: node 0 is the root, node j + 1 is word j; -inf
                                     where the arc is no arc at all

Infinite scores: ``-inf`` forbids an arc, ``+inf`` wants it. A tree is better if it has fewer forbidden arcs, then if it
has more wanted arcs, then by the sum of its finite scores. So a legal tree comes out even where every one is forbidden.

Marginals over all trees, differentiable, are ``models.probabilistic.matrix_tree.tree_marginals``: a model may have them
as its head distributions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int64

from probtrans_cli.errors import NotFiniteError, UsageError
from probtrans_cli.trees import search

Method = Literal["argmax", "mst", "eisner"]

# Marginals come from float32 softmaxes, where a hopeless head underflows to 0; below this they are all alike.
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)


def arc_scores(
    arcs: Float[np.ndarray, "b t c n m"], channel: int | Literal["mean"], iteration: int
) -> Float[np.ndarray, "b n m"]:
    """Log probability of every head of every word, ``[b, dependent, head]``, in float64.

    ``arcs`` are head marginals: the n words as heads, then the root where the model has one (m = n + 1). ``channel``
    counts from 0, or ``mean`` averages the *logarithms* over channels; ``iteration`` counts from 1, -1 is the last.
    Probabilities are floored at the smallest normal float32, so nothing is -inf. Raises UsageError where the model
    lacks the channel or the iteration.
    """
    iterations, channels = arcs.shape[1:3]
    if iteration != -1 and not 1 <= iteration <= iterations:
        raise UsageError(
            f"iteration {iteration}: the model has iterations 1 to {iterations}", hint="use -1 for the last one"
        )
    chosen = arcs[:, -1 if iteration == -1 else iteration - 1]
    if channel == "mean":
        # One after the other: all channels of a long sentence in float64 would be the largest array of all.
        total = _floored_log(chosen[:, 0])
        for one in range(1, channels):
            total += _floored_log(chosen[:, one])
        return np.asarray(total / channels)
    if not 0 <= channel < channels:
        raise UsageError(
            f"channel {channel}: the model has channels 0 to {channels - 1}", hint="use `mean` for their mixture"
        )
    return _floored_log(chosen[:, channel])


def decode(
    scores: Float[np.ndarray, "b n m"], mask: Bool[np.ndarray, "b n"], method: Method
) -> Int64[np.ndarray, "b n"]:
    """Heads of every word: 0 = root, j + 1 = word j, -1 = padding.

    ``scores[b, i, j]`` is the log probability that word j is the head of i, ``scores[b, i, n]``, where there is such a
    column, that i has none; ``mask`` is True for real words, which come first. ``argmax`` picks each word's best head
    and may draw circles; ``mst`` gives the best tree, ``eisner`` the best projective tree, both among trees with
    exactly one child of the root. Without the root's column all words are equally good roots for the two, and
    ``argmax`` picks the root for a one-word sentence only. Equal scores are always resolved the same way. Raises
    NotFiniteError where a score that matters is NaN.
    """
    batch, n = mask.shape
    assert not (mask[:, 1:] & ~mask[:, :-1]).any(), "real words come first"
    if batch == 0 or n == 0:
        return np.full((batch, n), -1, dtype=np.int64)
    table = _table(scores, mask)
    functions: dict[Method, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
        "argmax": partial(_argmax, rooted=scores.shape[2] > n),
        "mst": search.spanning_trees,
        "eisner": search.projective_trees,
    }
    return np.where(mask, functions[method](table, mask.sum(axis=1)), -1)


def levelled(scores: Float[np.ndarray, "*b"]) -> Float[np.ndarray, "*b"]:
    """The same log probabilities, in steps of ``search.LEVEL``.

    Marginals of the same sentence differ in the seventh digit from batch to batch; words that are all alike, as unknown
    ones are, have the same scores but for that, and their trees must not depend on it.
    """
    return np.asarray(np.rint(scores / search.LEVEL) * search.LEVEL)


def _floored_log(probability: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(probability.astype(np.float64), SMALLEST_PROBABILITY)))


def _table(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Scores of all nodes as heads, ``[b, n, n+1]``: finite for real arcs, -inf for others; padding hangs at 0."""
    batch, n = mask.shape
    table = np.empty((batch, n, n + 1))
    table[:, :, 1:] = scores[:, :, :n]
    table[:, :, 0] = scores[:, :, n] if scores.shape[2] > n else 0.0
    legal = np.empty((batch, n, n + 1), dtype=bool)
    legal[:, :, 0] = mask
    np.logical_and(mask[:, :, None], mask[:, None, :], out=legal[:, :, 1:])
    legal[:, np.arange(n), np.arange(n) + 1] = False
    np.copyto(table, -np.inf, where=~legal)
    finite = np.isfinite(table)
    if (finite == legal).all():
        table[:, :, 0] = np.where(mask, table[:, :, 0], 0.0)
        return table
    if np.isnan(table).any():
        sentence = int(np.flatnonzero(np.isnan(table).any(axis=(1, 2)))[0])
        raise NotFiniteError(
            f"head scores of sentence {sentence + 1} of the batch are NaN",
            hint="the model's weights have overflowed: use an earlier checkpoint, or runtime.precision=float32",
        )
    # Two weights, each larger than any difference that the level below it can make between two trees.
    spread = np.abs(np.where(finite, table, 0.0)).max(axis=(1, 2), keepdims=True) + 1.0
    nodes = 1.0 + mask.sum(axis=1)[:, None, None]
    wanted = 2.0 * nodes * spread
    forbidden = 2.0 * nodes * wanted
    table = np.where(np.isposinf(table), wanted, table)
    table = np.where(np.isneginf(table) & legal, -forbidden, table)
    table[:, :, 0] = np.where(mask, table[:, :, 0], 0.0)
    return table


def _argmax(table: np.ndarray, lengths: np.ndarray, *, rooted: bool) -> np.ndarray:
    """Best head of each word; the leftmost of equals, the root first."""
    if rooted:
        return np.asarray(table.argmax(axis=2))
    heads = table[:, :, 1:].argmax(axis=2) + 1
    return np.where(lengths[:, None] == 1, 0, heads)
