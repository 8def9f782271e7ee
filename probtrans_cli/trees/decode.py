"""From head scores to trees: best head per word, Chu-Liu-Edmonds, Eisner; all batched.

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
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Bool, Float, Int64

from probtrans_cli.errors import NotFiniteError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

Method = Literal["argmax", "mst", "eisner"]

# Marginals come from float32 softmaxes, where a hopeless head underflows to 0; below this they are all alike.
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)
# Log probabilities closer than this are taken for equal where trees are read: a ten-thousandth of a probability.
LEVEL = 2.0**-13
# Eisner's charts are filled for so many cells at once: large enough for every thread, small enough for the cache.
CHART_CELLS = 1 << 18


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
        "mst": _spanning_tree,
        "eisner": _projective,
    }
    return np.where(mask, functions[method](table, mask), -1)


def levelled(scores: Float[np.ndarray, "*b"]) -> Float[np.ndarray, "*b"]:
    """The same log probabilities, in steps of ``LEVEL``.

    Marginals of the same sentence differ in the seventh digit from batch to batch; words that are all alike, as unknown
    ones are, have the same scores but for that, and their trees must not depend on it.
    """
    return np.asarray(np.rint(scores / LEVEL) * LEVEL)


def _floored_log(probability: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(probability.astype(np.float64), SMALLEST_PROBABILITY)))


def _table(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Scores of all nodes as heads, ``[b, n, n+1]``: finite for real arcs, -inf for others; padding hangs at 0."""
    batch, n = mask.shape
    table = np.zeros((batch, n, n + 1))
    table[:, :, 1:] = scores[:, :, :n]
    if scores.shape[2] > n:
        table[:, :, 0] = scores[:, :, n]
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


def _argmax(table: np.ndarray, mask: np.ndarray, *, rooted: bool) -> np.ndarray:
    """Best head of each word; the leftmost of equals, the root first."""
    if rooted:
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
    unfinished = np.flatnonzero(_has_circle(heads))
    if unfinished.size:
        heads[unfinished] = _Contraction(table[unfinished], mask[unfinished]).heads()
    return heads


def _has_circle(heads: np.ndarray) -> np.ndarray:
    """Whether some word's chain of heads does not end at the root, ``[b]``."""
    parents = np.concatenate([np.zeros((len(heads), 1), dtype=np.int64), heads], axis=1)
    steps = 1
    while steps < parents.shape[1]:
        parents = np.take_along_axis(parents, parents, axis=1)
        steps *= 2
    return np.asarray(parents.any(axis=1))


class _Contraction:
    """Chu-Liu-Edmonds by growing a path (Gabow et al., 1986): O(n^2) a sentence, in vectors over a batch of sentences.

    A *cluster* is a set of words, named after one of them. Every sentence has a path of clusters, each the best head of
    the one before it. In a step the last cluster of the path *chooses* its best head among the words outside: a cluster
    that is not yet on the path is put at its end, one that is closes a circle, which becomes one cluster by *merging*
    its last two clusters until it is one. So all words end in one cluster. Only this one takes an arc from the root:
    that there is exactly one is no matter of penalties. Where clusters merge, what a cluster chose is subtracted from
    all arcs that enter it, so that an arc's weight is what it costs to break the circle there.

        variable  shape        meaning
        weight    [b, n, n+1]  of the best arc from a node into a cluster (row: its name)
        entry     [b, n, n+1]  the word of the cluster that this arc enters
        chosen    [b, n]       weight of the arc that a cluster chose
        cluster   [b, n]       name of the cluster of each word
        path      [b, n]       names of the clusters on the path
        place     [b, n]       where on the path a cluster is, -1: nowhere
        last      [b]          place of the last cluster of the path
        first     [b]          place of the first cluster of the circle that is being merged; ``last`` without one
    """

    def __init__(self, table: np.ndarray, mask: np.ndarray) -> None:
        batch, n = mask.shape
        small = np.int16 if n < 1 << 15 else np.int32
        self.weight = table.copy()
        self.entry = np.broadcast_to(np.arange(n, dtype=small)[:, None], table.shape).copy()
        self.cluster = np.broadcast_to(np.arange(n, dtype=small), (batch, n)).copy()
        self.chosen = np.zeros((batch, n))
        self.path = np.zeros((batch, n), dtype=small)
        self.place = np.full((batch, n), -1, dtype=small)
        self.place[:, 0] = 0
        self.last, self.first = np.zeros((2, batch), dtype=small)
        self.left = mask.sum(axis=1) - 1  # merges until all words are one cluster
        self.choices: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []

    def heads(self) -> np.ndarray:
        """Heads ``[b, n]`` of the best trees."""
        while (open_ := self.left > 0).any():
            in_circle = self.last > self.first
            self._choose(np.flatnonzero(open_ & ~in_circle))
            self._merge(np.flatnonzero(open_ & in_circle))
        return self._expand()

    def _choose(self, rows: np.ndarray) -> None:
        """Append the best head of the last cluster to the path, or find the circle that it closes."""
        last = self.last[rows]
        name = self.path[rows, last]
        weight = self.weight[rows, name]
        head = weight[:, 1:].argmax(axis=1) + 1
        self.chosen[rows, name] = weight[np.arange(len(rows)), head]
        cluster = self.cluster[rows]
        self.choices.append((rows, cluster == name[:, None], self.entry[rows, name, head], head))
        other = cluster[np.arange(len(rows)), head - 1]
        place = self.place[rows, other]
        new = place < 0
        self.first[rows] = np.where(new, last + 1, place)
        rows, other, last = rows[new], other[new], last[new] + 1
        self.last[rows] = last
        self.path[rows, last] = other
        self.place[rows, other] = last

    def _merge(self, rows: np.ndarray) -> None:
        """Merge the last two clusters of the path into one with the name of the former."""
        last = self.last[rows]
        into, name = self.path[rows, last - 1], self.path[rows, last]
        kept = self.weight[rows, into] - self.chosen[rows, into][:, None]
        added = self.weight[rows, name] - self.chosen[rows, name][:, None]
        cluster = self.cluster[rows]
        cluster = np.where(cluster == name[:, None], into[:, None], cluster)
        better = added > kept
        weight = np.maximum(added, kept)
        np.copyto(weight[:, 1:], -np.inf, where=cluster == into[:, None])
        self.weight[rows, into] = weight
        self.chosen[rows, into] = 0.0
        self.entry[rows, into] = np.where(better, self.entry[rows, name], self.entry[rows, into])
        self.cluster[rows] = cluster
        self.last[rows] = last - 1
        self.left[rows] -= 1

    def _expand(self) -> np.ndarray:
        """Undo the merges, last choice first: a cluster already entered keeps that arc, any other takes its choice."""
        batch, n = self.cluster.shape
        heads = np.full((batch, n), -1)
        sentences = np.arange(batch)
        heads[sentences, self.entry[sentences, self.path[:, 0], 0]] = 0
        for rows, members, word, head in reversed(self.choices):
            free = ~(members & (heads[rows] >= 0)).any(axis=1)
            heads[rows[free], word[free]] = head[free]
        return heads


# --- Eisner -----------------------------------------------------------------------------------------------------------


def _projective(table: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Best projective tree with one child of the root."""
    return _Charts(table).heads(table[:, :, 0], mask)


class _Charts:
    """Eisner's spans over words only; the root is put on top of the one word of its choice afterwards.

    A span s..t is *complete* when its head (its left or right end) has all its dependents inside, *open* when it is an
    arc between s and t still lacking t's (or s's) outer dependents. Every chart is indexed so that the splits of a span
    are a plain slice: ``by_start[s, t - s]``, ``by_end[t, n - 1 - (t - s)]``; the sentence is the last axis.
    """

    def __init__(self, table: np.ndarray) -> None:
        import torch  # noqa: PLC0415

        batch, n = table.shape[:2]
        # complete, head s; complete, head t; each by start and by end. Then arcs s -> t by start, t -> s by end.
        charts = np.zeros((6, n, n, batch))
        portion = max(8, CHART_CELLS // (n * n))
        for start in range(0, batch, portion):
            part = slice(start, start + portion)
            arcs = np.ascontiguousarray(table[part, :, 1:].transpose(2, 1, 0))
            self._fill(torch.from_numpy(arcs), torch.from_numpy(charts)[..., part])
        self.right_by_start, self.right_by_end, self.left_by_start, self.left_by_end, *rest = charts
        self.open_right, self.open_left = rest

    @staticmethod
    def _fill(arcs: Tensor, charts: Tensor) -> None:
        """Best sums of all spans, short ones first; ``arcs [n, n, b]`` from head to dependent."""
        right_by_start, right_by_end, left_by_start, left_by_end, open_right, open_left = charts
        n = len(arcs)
        for span in range(1, n):
            here = n - 1 - span
            halves = (right_by_start[: n - span, :span] + left_by_end[span:, here + 1 :]).amax(1)
            open_right[: n - span, span] = halves + arcs.diagonal(span).T
            open_left[span:, here] = halves + arcs.diagonal(-span).T
            right = (open_right[: n - span, 1 : span + 1] + right_by_end[span:, here + 1 :]).amax(1)
            left = (left_by_start[: n - span, :span] + open_left[span:, here : n - 1]).amax(1)
            right_by_start[: n - span, span] = right_by_end[span:, here] = right
            left_by_start[: n - span, span] = left_by_end[span:, here] = left

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
