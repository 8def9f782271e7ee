"""From head scores to trees: best head per word, Chu-Liu-Edmonds, Eisner; all batched, all in numpy.

Sources: Chu & Liu (1965) and Edmonds (1967) for the best spanning tree, Eisner (1996) for the best projective tree.

    symbol   variable   shape        meaning
    b        -          -            sentence
    i        -          -            dependent, 0..n-1
    j        -          -            head: word j of ``scores``; node 0 of ``table`` is the root, node j + 1 is word j
    -        table      [b, n, n+1]  score of node j as the head of word i; -inf where the arc is no arc at all

Infinite scores: ``-inf`` forbids an arc, ``+inf`` wants it. A tree is better if it has fewer forbidden arcs, then if it
has more wanted arcs, then by the sum of its finite scores. So a legal tree comes out even where every one is forbidden.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int64

from probtrans_cli.errors import NotFiniteError, UsageError

Method = Literal["argmax", "mst", "eisner"]

# Marginals come from float32 softmaxes, where a hopeless head underflows to 0; below this they are all alike.
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)
# Eisner's charts of this many cells stay in the processor's cache; larger batches are cut.
CHART_CELLS = 1 << 16


def arc_scores(
    arcs: Float[np.ndarray, "b t c n m"], channel: int | Literal["mean"], iteration: int
) -> Float[np.ndarray, "b n n"]:
    """Log probability of every word as the head of every word, ``[b, dependent, head]``, in float64.

    ``arcs`` are head marginals; columns after the n-th (root, global nodes) are left out. ``channel`` counts from 0, or
    ``mean`` averages the *logarithms* over channels; ``iteration`` counts from 1, -1 is the last. Probabilities are
    floored at the smallest normal float32, so nothing is -inf. Raises UsageError where the model lacks the channel or
    the iteration.
    """
    iterations, channels, n = arcs.shape[1:4]
    if iteration != -1 and not 1 <= iteration <= iterations:
        raise UsageError(
            f"iteration {iteration}: the model has iterations 1 to {iterations}", hint="use -1 for the last one"
        )
    chosen = arcs[:, -1 if iteration == -1 else iteration - 1, :, :, :n]
    if channel == "mean":
        return np.asarray(_floored_log(chosen).mean(axis=1))
    if not 0 <= channel < channels:
        raise UsageError(
            f"channel {channel}: the model has channels 0 to {channels - 1}", hint="use `mean` for their mixture"
        )
    return _floored_log(chosen[:, channel])


def decode(
    scores: Float[np.ndarray, "b n n"],
    mask: Bool[np.ndarray, "b n"],
    method: Method,
    root: Float[np.ndarray, "b n"] | None = None,
) -> Int64[np.ndarray, "b n"]:
    """Heads of every word: 0 = root, j + 1 = word j, -1 = padding.

    ``scores[b, i, j]`` is the log probability that j is the head of i, ``root[b, i]`` that i has none; ``mask`` is
    True for real words, which come first. ``argmax`` picks each word's best head and may draw circles; ``mst`` gives
    the best tree, ``eisner`` the best projective tree, both among trees with exactly one child of the root. Without
    ``root`` all words are equally good roots for the two, and ``argmax`` picks the root for a one-word sentence only.
    Equal scores are always resolved the same way. Raises NotFiniteError where a score that matters is NaN.
    """
    batch, n = mask.shape
    assert not (mask[:, 1:] & ~mask[:, :-1]).any(), "real words come first"
    if batch == 0 or n == 0:
        return np.full((batch, n), -1, dtype=np.int64)
    table = _table(scores, mask, root)
    if method == "argmax":
        heads = _argmax(table, mask, has_root=root is not None)
    elif method == "mst":
        heads = _spanning_tree(table, mask)
    else:
        heads = _projective_tree(table, mask)
    return np.where(mask, heads, -1)


def _floored_log(probability: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(probability.astype(np.float64), SMALLEST_PROBABILITY)))


def _table(scores: np.ndarray, mask: np.ndarray, root: np.ndarray | None) -> np.ndarray:
    """Scores of all nodes as heads, ``[b, n, n+1]``: finite for real arcs, -inf for others; padding hangs at 0."""
    batch, n = mask.shape
    table = np.zeros((batch, n, n + 1))
    table[:, :, 1:] = scores
    if root is not None:
        table[:, :, 0] = root
    legal = np.ones((batch, n, n + 1), dtype=bool)
    legal[:, :, 1:] = mask[:, None, :] & ~np.eye(n, dtype=bool)
    legal &= mask[:, :, None]
    table[~legal] = -np.inf
    if np.isnan(table).any():
        sentence = int(np.flatnonzero(np.isnan(table).any(axis=(1, 2)))[0])
        raise NotFiniteError(
            f"head scores of sentence {sentence + 1} of the batch are NaN",
            hint="the model's weights have overflowed: use an earlier checkpoint, or runtime.precision=float32",
        )
    finite = np.isfinite(table)
    if (legal & ~finite).any():
        # Two weights, each larger than any difference that the level below it can make between two trees.
        spread = np.abs(np.where(finite, table, 0.0)).max(axis=(1, 2), keepdims=True) + 1.0
        wanted = 2.0 * (n + 1) * spread
        forbidden = 2.0 * (n + 1) * wanted
        table = np.where(np.isposinf(table), wanted, table)
        table = np.where(np.isneginf(table) & legal, -forbidden, table)
    table[:, :, 0] = np.where(mask, table[:, :, 0], 0.0)
    return table


def _argmax(table: np.ndarray, mask: np.ndarray, *, has_root: bool) -> np.ndarray:
    """Best head of each word; the leftmost of equals, the root first."""
    if has_root:
        return np.asarray(table.argmax(axis=2))
    heads = table[:, :, 1:].argmax(axis=2) + 1
    return np.where(mask.sum(axis=1, keepdims=True) == 1, 0, heads)


# --- Chu-Liu-Edmonds --------------------------------------------------------------------------------------------------


def _spanning_tree(table: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Best tree with one child of the root: greedy heads where they happen to be a tree, else contraction."""
    rows = np.arange(len(table))
    best = table[:, :, 1:].max(axis=2)
    # The word that gains most (or loses least) by hanging at the root does so; all others take their best word.
    top = np.where(mask, table[:, :, 0] - best, -np.inf).argmax(axis=1)
    heads = np.where(mask, table[:, :, 1:].argmax(axis=2) + 1, 0)
    heads[rows, top] = 0
    parents = np.concatenate([np.zeros((len(heads), 1), dtype=np.int64), heads], axis=1)
    unfinished = np.flatnonzero(_ends(parents)[0].any(axis=1))
    if unfinished.size:
        heads[unfinished] = _contract(table[unfinished])
    return heads


def _ends(parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each node's chain of parents is after at least as many steps as there are nodes, and its smallest node.

    Node 0 is its own parent. A chain that does not end at 0 ends on a circle, and a circle is exactly a set of ends.
    """
    nodes = parents.shape[1]
    smallest = np.minimum(np.arange(nodes), parents)
    steps = 1
    while steps < nodes:
        smallest = np.minimum(smallest, np.take_along_axis(smallest, parents, axis=1))
        parents = np.take_along_axis(parents, parents, axis=1)
        steps *= 2
    return parents, smallest


def _contract(table: np.ndarray) -> np.ndarray:
    """Chu-Liu-Edmonds for all sentences in step: every cluster takes its best entering arc, circles become clusters.

    Nothing is renumbered: ``cluster[b, node]`` names the cluster of each node (its smallest node). After each round the
    score of the chosen arc is subtracted from all arcs that enter the cluster, so an arc's weight is what it costs to
    break the circle there. The root's arcs carry a penalty that makes a second child dearer than any tree.
    """
    batch, n = table.shape[:2]
    nodes = n + 1
    weight = np.full((batch, nodes, nodes), -np.inf)
    weight[:, 1:] = table
    largest = np.abs(np.where(np.isfinite(table), table, 0.0)).max(axis=(1, 2))
    weight[:, 1:, 0] -= 2.0 * nodes * (largest[:, None] + 1.0)
    rows = np.arange(batch)[:, None]
    cluster = np.broadcast_to(np.arange(nodes), (batch, nodes)).copy()
    rounds: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    while True:
        weight[cluster[:, :, None] == cluster[:, None, :]] = -np.inf
        node_head = weight.argmax(axis=2)
        node_best = np.take_along_axis(weight, node_head[:, :, None], axis=2)[:, :, 0]
        node_best[:, 0] = 0.0
        best = np.full((batch, nodes), -np.inf)
        np.maximum.at(best, (rows, cluster), node_best)
        own_best = np.take_along_axis(best, cluster, axis=1)
        # entry[c]: the first node of cluster c that the best arc may enter; `nodes` where c names no cluster any more
        entry = np.full((batch, nodes), nodes)
        np.minimum.at(entry, (rows, cluster), np.where(node_best == own_best, np.arange(nodes), nodes))
        entry[:, 0] = nodes
        head = np.take_along_axis(node_head, np.minimum(entry, n), axis=1)
        rounds.append((cluster, entry, head))
        parents = np.where(entry < nodes, np.take_along_axis(cluster, head, axis=1), 0)
        ends, smallest = _ends(parents)
        if not ends.any():
            return _expand(rounds)
        on_circle = np.zeros((batch, nodes), dtype=bool)
        on_circle[rows, ends] = True
        on_circle[:, 0] = False
        weight -= own_best[:, :, None]
        cluster = np.take_along_axis(np.where(on_circle, smallest, np.arange(nodes)), cluster, axis=1)


def _expand(rounds: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """Undo the contractions, last first: a cluster already entered keeps that arc, any other takes the one it chose."""
    batch, nodes = rounds[0][0].shape
    heads = np.full((batch, nodes), -1)
    for cluster, entry, head in reversed(rounds):
        entered = np.zeros((batch, nodes), dtype=bool)
        sentence, node = np.nonzero(heads >= 0)
        entered[sentence, cluster[sentence, node]] = True
        sentence, name = np.nonzero((entry < nodes) & ~entered)
        heads[sentence, entry[sentence, name]] = head[sentence, name]
    return heads[:, 1:]


# --- Eisner -----------------------------------------------------------------------------------------------------------


def _projective_tree(table: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Best projective tree with one child of the root."""
    batch, n = mask.shape
    portion = max(8, CHART_CELLS // (n * n))
    parts = [slice(start, start + portion) for start in range(0, batch, portion)]
    return np.concatenate([_Charts(table[part]).heads(table[part, :, 0], mask[part]) for part in parts])


class _Charts:
    """Eisner's spans over words only; the root is put on top of the one word of its choice afterwards.

    A span s..t is *complete* when its head (its left or right end) has all its dependents inside, *open* when it is an
    arc between s and t still lacking t's (or s's) outer dependents. Every chart is indexed so that the splits of a span
    are a plain slice: ``by_start[s, t - s]``, ``by_end[t, n - 1 - (t - s)]``; the sentence is the last axis.
    """

    def __init__(self, table: np.ndarray) -> None:
        batch, n = table.shape[:2]
        arc = np.ascontiguousarray(table[:, :, 1:].transpose(1, 2, 0))
        shape = (n, n, batch)
        self.right_by_start, self.right_by_end = np.zeros(shape), np.zeros(shape)  # complete, head s
        self.left_by_start, self.left_by_end = np.zeros(shape), np.zeros(shape)  # complete, head t
        self.open_right = np.zeros(shape)  # arc s -> t, by start
        self.open_left = np.zeros(shape)  # arc t -> s, by end
        for span in range(1, n):
            starts, ends = np.arange(n - span), np.arange(span, n)
            here = n - 1 - span
            halves = (self.right_by_start[: n - span, :span] + self.left_by_end[span:, here + 1 :]).max(axis=1)
            self.open_right[: n - span, span] = halves + arc[ends, starts]
            self.open_left[span:, here] = halves + arc[starts, ends]
            right = (self.open_right[: n - span, 1 : span + 1] + self.right_by_end[span:, here + 1 :]).max(axis=1)
            left = (self.left_by_start[: n - span, :span] + self.open_left[span:, here : n - 1]).max(axis=1)
            self.right_by_start[: n - span, span] = self.right_by_end[span:, here] = right
            self.left_by_start[: n - span, span] = self.left_by_end[span:, here] = left

    def heads(self, root: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Read the best tree back, longest spans first; split points are found again only for the spans in the tree."""
        batch, n = mask.shape
        sentences, words = np.arange(batch), np.arange(n)
        length = np.maximum(mask.sum(axis=1), 1)
        mirrored = np.minimum(n - length[:, None] + words, n - 1)
        total = root + self.left_by_start[0].T + self.right_by_end[length[:, None] - 1, mirrored, sentences[:, None]]
        top = np.where(mask, total, -np.inf).argmax(axis=1)
        heads = np.zeros((batch, n), dtype=np.int64)
        # wanted[kind][t - s, s, sentence]: this span is part of the tree
        right, left, open_right, open_left = np.zeros((4, n, n, batch), dtype=bool)
        left[top, 0, sentences] = True
        right[length - 1 - top, top, sentences] = True
        for span in range(n - 1, 0, -1):
            here = n - 1 - span
            s, z = np.nonzero(right[span])
            inner = self.open_right[s, 1 : span + 1, z] + self.right_by_end[s + span, here + 1 :, z]
            split = inner.argmax(axis=1) + 1
            open_right[split, s, z] = right[span - split, s + split, z] = True
            s, z = np.nonzero(left[span])
            inner = self.left_by_start[s, :span, z] + self.open_left[s + span, here : n - 1, z]
            split = inner.argmax(axis=1)
            left[split, s, z] = open_left[span - split, s + split, z] = True
            for wanted, to_right in ((open_right[span], True), (open_left[span], False)):
                s, z = np.nonzero(wanted)
                dependent, head = (s + span, s) if to_right else (s, s + span)
                heads[z, dependent] = head + 1
                inner = self.right_by_start[s, :span, z] + self.left_by_end[s + span, here + 1 :, z]
                split = inner.argmax(axis=1)
                right[split, s, z] = left[span - 1 - split, s + split + 1, z] = True
        return heads
