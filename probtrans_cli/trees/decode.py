"""From head scores to trees: best head per word, Chu-Liu-Edmonds, Eisner; by batches.

Sources: Chu & Liu (1965) and Edmonds (1967) for the best spanning tree, Eisner (1996) for the best projective tree.

    symbol   variable   shape        meaning
    b        -          -            sentence
    i        -          -            dependent, 0..n-1
    j        scores     [b, n, m]    head: word j, or column n, the root, where the scores have it
    -        tables     [b, n, n+1]  score of a head (column: 0 the root, j + 1 word j) for a word (row); -inf where the
                                     arc is no arc at all: of a word to itself, and of padding
    -        lengths    [b]          words of each sentence
    -        heads      [b, n]       0 = root, j + 1 = word j; exactly one of a sentence is 0

Infinite scores: ``-inf`` forbids an arc, ``+inf`` wants it. A tree is better if it has fewer forbidden arcs, then if it
has more wanted arcs, then by the sum of its finite scores. So a legal tree comes out even where every one is forbidden.

Sentences of similar lengths are decoded together, in *portions*, the longest first. Of equal scores the leftmost wins:
of heads that a cluster may choose, of the halves of a span, of children of the root. A sentence's tree depends on its
own scores only: numbers are added in the same order whatever else is in the portion, and padding is either -inf, which
is never chosen, or in spans that are no part of any of the sentence's own. Scores in steps of ``LEVEL`` are taken as
whole numbers of it, half the memory; sums of them are exact either way.

Marginals over all trees, differentiable, are ``models.probabilistic.matrix_tree.tree_marginals``: a model may have them
as its head distributions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int64

from probtrans_cli.errors import NotFiniteError, UsageError

Method = Literal["argmax", "mst", "eisner", "auto"]
LONG = 200  # words of a sentence above which `auto` is `mst`, whose time grows with their square, not with their cube

# Marginals come from float32 softmaxes, where a hopeless head underflows to 0; below this they are all alike.
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)


def arc_scores(
    arcs: Float[np.ndarray, "b t c n m"], channel: int | Literal["mean"], iteration: int
) -> Float[np.ndarray, "b n m"]:
    """Return the log probability of every head of every word, ``[b, dependent, head]``, in float64.

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
    if channel != "mean" and not 0 <= channel < channels:
        raise UsageError(
            f"channel {channel}: the model has channels 0 to {channels - 1}", hint="use `mean` for their mixture"
        )
    numbers = range(channels) if channel == "mean" else [channel]
    # One after the other: all of a long sentence in float64 would be the largest array of all.
    logarithms = (np.log(np.maximum(chosen[:, k].astype(np.float64), SMALLEST_PROBABILITY)) for k in numbers)
    total = next(logarithms)
    for of_channel in logarithms:
        total += of_channel
    total /= len(numbers)
    return total


def decode(
    scores: Float[np.ndarray, "b n m"], mask: Bool[np.ndarray, "b n"], method: Method
) -> Int64[np.ndarray, "b n"]:
    """Return the heads of every word: 0 = root, j + 1 = word j, -1 = padding.

    ``scores[b, i, j]`` is the log probability that word j is the head of i, ``scores[b, i, n]``, where there is such a
    column, that i has none; ``mask`` is True for real words, which come first. ``argmax`` picks each word's best head
    and may draw circles; ``mst`` gives the best tree, ``eisner`` the best projective tree, both among trees with
    exactly one child of the root; ``auto`` is ``eisner`` for up to ``LONG`` words, and ``mst`` for more. Without the
    root's column all words are equally good roots for the trees, and ``argmax`` picks the root only for a word that may
    have no other head. Equal scores are always resolved the same way. Raises NotFiniteError where a score that matters
    is NaN.
    """
    batch, n = mask.shape
    assert not (mask[:, 1:] & ~mask[:, :-1]).any(), "real words come first"
    if batch == 0 or n == 0:
        return np.full((batch, n), -1, dtype=np.int64)
    table, lengths = _table(scores, mask), mask.sum(axis=1)
    if method == "argmax":  # the leftmost of equals, the root first
        rooted = scores.shape[2] > n
        best = table.argmax(axis=2) if rooted else table[:, :, 1:].argmax(axis=2) + 1
        headless = ((table[:, :, 1:] == -np.inf) | np.isneginf(scores[:, :, :n])).all(axis=2)
        heads = best if rooted else np.where(headless, 0, best)
    else:
        heads = np.zeros((batch, n), dtype=np.int64)
        longest_by_spans = {"mst": 0, "eisner": n, "auto": LONG}[method]
        by_spans = lengths <= longest_by_spans
        for kind, of_kind in ((_Spans, by_spans), (_Clusters, ~by_spans)):
            for rows, longest in portions(np.where(of_kind, lengths, 0)):
                heads[rows, :longest] = kind(table, rows, longest).heads(lengths[rows])
    return np.where(mask, heads, -1)


def method_for(words: int, method: Method) -> Method:
    """Return by which method a sentence of so many words is decoded."""
    return method if method != "auto" else "eisner" if words <= LONG else "mst"


def levelled(scores: Float[np.ndarray, "*b"]) -> Float[np.ndarray, "*b"]:
    """Return the same log probabilities, in steps of ``LEVEL``.

    Marginals of the same sentence differ in the seventh digit from batch to batch; words that are all alike, as unknown
    ones are, have the same scores but for that, and their trees must not depend on it.
    """
    return np.asarray(np.rint(scores / LEVEL) * LEVEL)


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
    if (finite != legal).any():
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


# Words by words of all its sentences, 419 of 25 words: fewer are slower, for each step is a call, and so are more, for
# they leave the cache.
CELLS_OF_A_PORTION = 1 << 18

# Log probabilities closer than this are taken for equal where trees are read: a ten-thousandth of a probability.
LEVEL = 2.0**-13
# -inf among whole numbers, and what no sum of them exceeds: there is room for a sum below it and above it.
NEVER, LARGEST = -(1 << 30), 1 << 28

# Kinds of spans.
OPEN, RIGHT, LEFT = range(3)


def portions(lengths: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the sentences that are decoded at once, and the number of words of the longest of them, the first one."""
    order = np.argsort(-lengths, kind="stable")
    order = order[: np.count_nonzero(lengths)]
    while order.size:
        n = int(lengths[order[0]])
        count = max(1, CELLS_OF_A_PORTION // n**2)
        yield order[:count], n
        order = order[count:]


def _portion(tables: np.ndarray, rows: np.ndarray, n: int) -> tuple[np.ndarray, int | float]:
    """The tables of some sentences, and what stands for -inf in them: numbers of ``LEVEL`` where they are whole."""
    table = tables[rows, :n, : n + 1]
    never = table == -np.inf
    levels = table * (1 / LEVEL)
    levels[never] = 0
    if np.abs(levels).max() * 2 * (n + 1) < LARGEST:
        integers = levels.astype(np.int32)
        if (integers == levels).all():
            integers[never] = NEVER
            return integers, NEVER
    return table, -np.inf


class _Clusters:
    """Chu-Liu-Edmonds by growing a path in every sentence, O(n^2) a sentence.

    A *cluster* is a set of words, named after one of them. There is a path of clusters, each the best head of the one
    before it. Where the head of the last one is not yet on the path, it is put at its end (:meth:`_grow`). Where it is,
    a circle has been closed, which becomes one cluster: the last two clusters are merged (:meth:`_merge`) until the
    head is inside the last one, which then chooses anew among the words outside (:meth:`_choose`). So all words end in
    one cluster, after n - 1 of either step. Only this one takes an arc from the root: that there is exactly one is no
    matter of penalties. Where a cluster chooses, what it chose is subtracted from all arcs that enter it, so that an
    arc's weight is what it costs to break the circle there.

    Every state of a cluster between two merges is a *node*: words are nodes, each merge makes a new one of two parts.
    An arc into a node is an arc into one of its parts; the other one keeps its own choice (:meth:`_unfold`).

    Words, also the root, word 0, are numbered through all sentences, n + 1 for each, and so are nodes: words, then
    merges by sentence. ``weights[i, j]`` is of the best arc from word j of the sentence into cluster i,
    ``enters[m, j]`` whether this arc, into merge m, goes to the latter one of ``parts[:, m]``.
    """

    def __init__(self, tables: np.ndarray, rows: np.ndarray, n: int) -> None:
        batch = len(rows)
        self.n, self.words = n, batch * (n + 1)
        self.root = np.arange(batch) * (n + 1)
        table, self.never = _portion(tables, rows, n)
        root = table[:, :, 0].copy()
        table[:, :, 0] = self.never
        head = table.argmax(axis=2)
        best = np.take_along_axis(table, head[:, :, None], axis=2)
        best[best == self.never] = 0  # padding, and the only word of a sentence
        weights = np.empty((batch, n + 1, n + 1), table.dtype)
        np.subtract(table, best, out=weights[:, 1:])
        np.subtract(root, best[:, :, 0], out=weights[:, 1:, 0])
        self.weights = weights.reshape(self.words, n + 1)
        self.head = np.full(2 * self.words, -1)  # that a node chose, -1: none
        self.head[: self.words].reshape(batch, n + 1)[:, 1:] = head + self.root[:, None]
        self.node = np.arange(self.words)  # latest one of a cluster
        self.parts = np.zeros((2, self.words), dtype=np.int64)
        self.enters = np.zeros((self.words, n + 1), dtype=bool)
        self.merged = self.root.copy()  # the next merge of a sentence
        self.path = np.zeros(self.words, dtype=np.int64)  # clusters of a sentence, one after the other
        self.place = np.full((batch, n + 1), -1, dtype=np.int32)  # of a word's cluster on the path, -1: nowhere
        self.place[:, 0] = n  # the root is never chosen
        self.place[:, 1] = 0
        self.length = np.zeros(batch, dtype=np.int32)  # of the path, without its last cluster
        self.last = self.root + 1  # that cluster
        self.path[self.root] = self.last
        self.best = self.head[self.last]  # its head

    def heads(self, lengths: np.ndarray) -> np.ndarray:
        """Return the heads of the words of every sentence.

        ``lengths`` fall, so that sentences that are done stand behind the others. In every step a sentence's path grows
        or two of its clusters are merged: two steps for every word but the first.
        """
        places = self.place.reshape(-1)
        for words in range(1, self.n):
            count = np.count_nonzero(lengths > words)
            for _ in range(2):
                place = places.take(self.best[:count])
                inside = (place == self.length[:count]).nonzero()[0]
                if inside.size:
                    self._choose(inside)
                    place = places.take(self.best[:count])
                outside = (place < 0).nonzero()[0]
                if outside.size:
                    self._grow(outside)
                if outside.size < count:
                    self._merge((place >= 0).nonzero()[0])
                    np.minimum(self.place[:count, 1:], self.length[:count, None], out=self.place[:count, 1:])
        self._unfold()
        return np.asarray((self.head[: self.words] - np.repeat(self.root, self.n + 1)).reshape(-1, self.n + 1)[:, 1:])

    def _choose(self, rows: np.ndarray) -> None:
        """The last clusters of these sentences choose their heads among the words outside."""
        cluster = self.last.take(rows)
        weight = self.weights.take(cluster, axis=0)
        inside = self.place.take(rows, axis=0) >= self.length.take(rows)[:, None]
        chosen = np.where(inside, self.never, weight).argmax(axis=1)
        weight -= np.take_along_axis(weight, chosen[:, None], axis=1)
        self.weights[cluster] = weight
        self.best[rows] = self.head[self.node.take(cluster)] = self.root.take(rows) + chosen

    def _grow(self, rows: np.ndarray) -> None:
        """The heads of the last clusters of these sentences, single words, become the last ones."""
        word = self.best.take(rows)
        length = self.length.take(rows) + 1
        self.length[rows] = self.place.reshape(-1)[word] = length
        self.last[rows] = self.path[self.root.take(rows) + length] = word
        self.best[rows] = self.head.take(word)

    def _merge(self, rows: np.ndarray) -> None:
        """The last two clusters of these sentences become one, named like the former."""
        latter = self.last.take(rows)
        length = self.length.take(rows) - 1
        former = self.path.take(self.root.take(rows) + length)
        first, second = self.weights.take(former, axis=0), self.weights.take(latter, axis=0)
        merge = self.merged.take(rows)
        self.enters[merge] = second > first
        self.weights[former] = np.maximum(first, second, out=first)
        self.parts[0, merge], self.parts[1, merge] = self.node.take(former), self.node.take(latter)
        self.node[former] = self.words + merge
        self.merged[rows] = merge + 1
        self.length[rows], self.last[rows] = length, former

    def _unfold(self) -> None:
        """From the last merge to the first, the arc that enters it takes the place of what one of its parts chose."""
        self.head[self.node[self.path[self.root]]] = self.root
        for number in range(self.n - 2, -1, -1):
            merge = self.root + number
            head = self.head.take(self.words + merge)
            rows = (head >= 0).nonzero()[0]
            head, merge = head.take(rows), merge.take(rows)
            column = head - self.root.take(rows)
            latter = self.enters.reshape(-1).take(merge * (self.n + 1) + column)
            self.head[np.where(latter, self.parts[1, merge], self.parts[0, merge])] = head


class _Spans:
    """Eisner's charts of every sentence, ``front`` and ``back``: ``[width, kind, word, b]``; O(n^3) a sentence.

    They are over words only; the root is put on top of the one word of its choice afterwards.

    A span from word s to word t = s + w is *complete* when its head, one of its ends, has all its dependents inside,
    *open* when it is an arc between its ends still lacking the dependent's outer dependents. Wide spans are made of two
    halves, the best one is the maximum over k < w of ``front[k, kind, s] + back[w - 1 - k, kind, t]``:

        kind    span              front[k, kind, s]                 back[k, kind, t]
        OPEN    open              RIGHT, s to s + k                 LEFT, t - k to t
        RIGHT   complete, head s  OPEN, s to s + k + 1, head s      RIGHT, t - k to t
        LEFT    complete, head t  LEFT, s to s + k                  OPEN, t - k - 1 to t, head t

    The spans that the best trees are made of are marked in ``used`` by kind and by width, first word and sentence,
    which are one index.
    """

    def __init__(self, tables: np.ndarray, rows: np.ndarray, n: int) -> None:
        batch = len(rows)
        table, self.never = _portion(tables, rows, n)
        scores = np.empty((n, n + 1, batch), table.dtype)  # [word, head, b]
        for word in range(n):  # all at once is several times as slow, out of the cache
            scores[word] = table[:, word].T
        self.shape = n, batch
        self.root = scores[:, 0]
        self.front, self.back = np.empty((2, n, 3, n, batch), table.dtype)
        self.front[0] = self.back[0] = 0
        self.room = np.empty(2 * (n // 2) * (n - n // 2) * batch, table.dtype)
        self.used = np.zeros((3, n * n * batch), dtype=bool)
        for w in range(1, n):
            arc = self._best(slice(OPEN, OPEN + 1), w)[0]
            np.add(arc, scores[:, 1:].diagonal(-w).T, out=self.front[w - 1, RIGHT, : n - w])
            np.add(arc, scores[:, 1:].diagonal(w).T, out=self.back[w - 1, LEFT, w:])
            right, left = self._best(slice(RIGHT, LEFT + 1), w)
            self.front[w, OPEN, : n - w] = self.back[w, RIGHT, w:] = right
            self.front[w, LEFT, : n - w] = self.back[w, OPEN, w:] = left

    def heads(self, lengths: np.ndarray) -> np.ndarray:
        """Return the heads of the words of every sentence: spans are split once more, from wide to narrow."""
        n, batch = self.shape
        step, rows, words, end = n * batch, np.arange(batch), np.arange(n)[:, None], lengths - 1
        total = self.root + self.back[words, OPEN, words, rows]
        total += self.front[np.maximum(end - words, 0), OPEN, words, rows]
        total[words > end] = self.never
        top = total.argmax(axis=0)
        self.used[LEFT, top * step + rows] = True
        self.used[RIGHT, (end - top) * step + top * batch + rows] = True
        heads = np.zeros(step, dtype=np.int64)
        for w in range(n - 1, 0, -1):
            first, k = self._split(RIGHT, w)
            dependent = first + (k + 1) * batch
            heads[dependent] = first // batch + 1
            self.used[OPEN, first + (k + 1) * step] = True
            self.used[RIGHT, dependent + (w - 1 - k) * step] = True
            first, k = self._split(LEFT, w)
            dependent = first + k * batch
            heads[dependent] = first // batch + w + 1
            self.used[LEFT, first + k * step] = True
            self.used[OPEN, dependent + (w - k) * step] = True
            first, k = self._split(OPEN, w)
            self.used[RIGHT, first + k * step] = True
            self.used[LEFT, first + (k + 1) * batch + (w - 1 - k) * step] = True
        return heads.reshape(n, batch).T

    def _best(self, kinds: slice, w: int) -> np.ndarray:
        """Scores of all spans of these kinds and this width, ``[kind, s, b]``."""
        left, right = self.front[:w, kinds, :-w], self.back[w - 1 :: -1, kinds, w:]
        return np.asarray(np.add(left, right, out=self.room[: left.size].reshape(left.shape)).max(axis=0))

    def _split(self, kind: int, w: int) -> tuple[np.ndarray, np.ndarray]:
        """First word and sentence, as one index, of the used spans of this kind and width, and their best k."""
        n, batch = self.shape
        step = n * batch
        first = self.used[kind, w * step : (w + 1) * step].nonzero()[0]
        left, k = (first + kind * step)[:, None], np.arange(w) * (3 * step)
        halves = self.front.reshape(-1).take(left + k)
        halves += self.back.reshape(-1).take(left + ((w - 1) * 3 * step + w * batch - k))
        return first, halves.argmax(axis=1)
