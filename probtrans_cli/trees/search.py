"""The best tree of a sentence: Chu-Liu-Edmonds and Eisner, as plain loops.

Sources: Chu & Liu (1965) and Edmonds (1967), in the form of Gabow et al. (1986), for the best spanning tree; Eisner
(1996) for the best projective one. A sentence's tables are small and its steps depend on each other: compiled loops in
a core's own cache are several times as fast as vectors over a batch, which are fetched from memory at every step.

    variable  shape        meaning
    tables    [b, n, n+1]  score of a head (column: 0 the root, j + 1 word j) for a word (row), finite but for its own
    lengths   [b]          words of each sentence
    heads     [b, n]       written: 0 = root, j + 1 = word j; exactly one of a sentence is 0

Of equal scores the leftmost wins. :class:`Search` has Python run the loops while there is little to do, a moment's
work, and numba from then on, whose own start takes a second. Compiled code is kept beside this file or in the user's
cache; where that cannot be, or what is kept is damaged, every process compiles anew, some seconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property

import numpy as np

Loops = Callable[[np.ndarray, np.ndarray, np.ndarray], None]

# Steps of an innermost loop that Python does in a third of a second: forty sentences of 25 words with Eisner.
PATIENCE = 300_000


class Search:
    """``(tables, lengths, heads)``: the loops ``function``, whose innermost one is done ``steps(lengths)`` times."""

    def __init__(self, function: Loops, steps: Callable[[np.ndarray], np.ndarray]) -> None:
        self.function = function
        self.steps = steps
        self.patience = float(PATIENCE)

    def ready(self, lengths: np.ndarray) -> Loops:
        """What is to be called for these sentences: compiled, unless it is the sooner done by Python."""
        if self.patience >= 0:
            self.patience -= float(self.steps(lengths.astype(np.float64)).sum())
        return self.function if self.patience >= 0 else self.compiled

    @cached_property
    def compiled(self) -> Loops:
        """Without the interpreter's lock while it runs."""
        import numba  # noqa: PLC0415

        plain = inspect.unwrap(self.function)  # without what checks the types of arguments in tests
        nothing = np.zeros((0, 1, 2)), np.zeros(0, np.int64), np.zeros((0, 1), np.int64)
        try:
            kept: Loops = numba.njit(cache=True, nogil=True)(plain)
            kept(*nothing)  # compiles, or reads what is kept
        except Exception:  # nowhere to keep it, a full disk, a damaged file: whatever it is, it only saves time
            anew: Loops = numba.njit(nogil=True)(plain)
            return anew
        return kept


def _spanning_trees(tables: np.ndarray, lengths: np.ndarray, heads: np.ndarray) -> None:  # noqa: PLR0912, PLR0915
    """Chu-Liu-Edmonds by growing a path: O(n^2) a sentence, exactly one child of the root.

    A *cluster* is a set of words, named after one of them. There is a path of clusters, each the best head of the one
    before it. In a step the last cluster of the path *chooses* its best head among the words outside. A cluster that is
    not yet on the path is put at its end, one that is closes a circle, which becomes one cluster: its last two clusters
    are *merged* until one is left. So all words end in one cluster. Only this one takes an arc from the root: that
    there is exactly one is no matter of penalties. Where clusters merge, what a cluster chose is subtracted from all
    arcs that enter it, so that an arc's weight is what it costs to break the circle there.

    Every state of a cluster between two merges is a *node*: words are nodes 0..n-1, each merge makes a new one, which
    is the parent of two. A node chooses at most once, and its choice stands unless a choice of an ancestor enters it.
    """
    for b in range(len(lengths)):
        n = lengths[b]
        if n == 0:
            continue
        weight = tables[b, :n, : n + 1].copy()  # of the best arc from a head into a cluster (row: its name)
        entry = np.empty((n, n + 1), np.int32)  # the word of the cluster that this arc enters
        for i in range(n):
            entry[i] = i
        cluster = np.arange(n)  # name of the cluster of each word
        node = np.arange(n)  # latest node of a cluster
        chosen = np.zeros(n)  # weight of the arc that a cluster chose
        path = np.zeros(n, np.int64)
        place = np.full(n, -1)  # where on the path a cluster is, -1: nowhere
        place[0] = 0
        last = 0
        nodes = n
        parent = np.empty(2 * n, np.int64)
        word = np.full(2 * n, -1)  # that a node's choice enters, -1: it made none
        head = np.zeros(2 * n, np.int64)
        while nodes < 2 * n - 1:
            name = path[last]
            best = 1
            for j in range(2, n + 1):
                if weight[name, j] > weight[name, best]:
                    best = j
            chosen[name] = weight[name, best]
            word[node[name]] = entry[name, best]
            head[node[name]] = best
            other = cluster[best - 1]
            if place[other] < 0:
                last += 1
                path[last] = other
                place[other] = last
                continue
            while last > place[other]:
                name, into = path[last], path[last - 1]
                for j in range(n + 1):
                    added = weight[name, j] - chosen[name]
                    weight[into, j] -= chosen[into]
                    if added > weight[into, j]:
                        weight[into, j] = added
                        entry[into, j] = entry[name, j]
                for j in range(n):
                    if cluster[j] == name:
                        cluster[j] = into
                    if cluster[j] == into:
                        weight[into, j + 1] = -np.inf
                chosen[into] = 0.0
                parent[node[name]] = parent[node[into]] = nodes
                node[into] = nodes
                nodes += 1
                last -= 1
        word[nodes - 1] = entry[path[0], 0]
        entered = np.zeros(2 * n, np.bool_)
        for one in range(nodes - 1, -1, -1):
            if word[one] >= 0 and not entered[one]:
                heads[b, word[one]] = head[one]
                inside = word[one]
                while inside != one:
                    entered[inside] = True
                    inside = parent[inside]


def _projective_trees(tables: np.ndarray, lengths: np.ndarray, heads: np.ndarray) -> None:  # noqa: PLR0912
    """Eisner's spans over words only, the root put on top of the one word of its choice afterwards: O(n^3) a sentence.

    A span is *complete* when its head, one of its ends, has all its dependents inside, *open* when it is an arc between
    its ends still lacking the dependent's outer dependents. Charts are indexed by head, then other end.
    """
    for b in range(len(lengths)):
        n = lengths[b]
        if n == 0:
            continue
        table = tables[b]
        complete = np.zeros((n, n))
        by_end = np.zeros((n, n))  # the same, other end first: what a loop reads lies side by side
        open_ = np.empty((n, n))
        split = np.empty((n, n), np.int32)  # of the best complete span: the dependent whose open span it begins with
        middle = np.empty((n, n), np.int32)  # of the best open span: where its left half ends
        for span in range(1, n):
            for s in range(n - span):
                t = s + span
                best, at = complete[s, s] + complete[t, s + 1], s
                for r in range(s + 1, t):
                    score = complete[s, r] + complete[t, r + 1]
                    if score > best:
                        best, at = score, r
                middle[s, t] = middle[t, s] = at
                open_[s, t] = best + table[t, s + 1]
                open_[t, s] = best + table[s, t + 1]
                best, at = open_[s, s + 1] + by_end[t, s + 1], s + 1
                for r in range(s + 2, t + 1):
                    score = open_[s, r] + by_end[t, r]
                    if score > best:
                        best, at = score, r
                complete[s, t] = by_end[t, s] = best
                split[s, t] = at
                best, at = by_end[s, s] + open_[t, s], s
                for r in range(s + 1, t):
                    score = by_end[s, r] + open_[t, r]
                    if score > best:
                        best, at = score, r
                complete[t, s] = by_end[s, t] = best
                split[t, s] = at
        top, best = 0, table[0, 0] + complete[0, n - 1]
        for r in range(1, n):
            score = table[r, 0] + complete[r, 0] + complete[r, n - 1]
            if score > best:
                top, best = r, score
        heads[b, top] = 0
        todo = np.empty((2 * n, 2), np.int64)  # complete spans (head, other end) that are still to be taken apart
        todo[0, 0], todo[0, 1], todo[1, 0], todo[1, 1] = top, 0, top, n - 1
        left = 2
        while left:
            left -= 1
            one, end = todo[left, 0], todo[left, 1]
            if one == end:
                continue
            dependent = split[one, end]
            heads[b, dependent] = one + 1
            between = middle[one, dependent]
            todo[left, 0], todo[left, 1] = dependent, end
            todo[left + 1, 0], todo[left + 1, 1] = min(one, dependent), between
            todo[left + 2, 0], todo[left + 2, 1] = max(one, dependent), between + 1
            left += 3


spanning_trees = Search(_spanning_trees, lambda n: 4 * n**2)
"""Best trees with one child of the root."""
projective_trees = Search(_projective_trees, lambda n: n**3 / 2)
"""Best projective trees with one child of the root."""
