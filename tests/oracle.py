"""Mean field for one sentence by plain loops, written from the equations alone: slow, float64, to compare with.

Source: Wu & Tu (2023), Eq. 3-12, sections 2.3.2-2.3.5, appendix B. Nothing here knows the package's encoder.

    symbol   variable     shape               meaning
    S        unary        [n, d]              unary scores of the words
    T(x)     ternary(x)   [h, d, d]           scores [c, a, b] of child label a under head label b at distance x = i - j
    T'       root         [h, d, d_root]      scores [c, a, b] of child label a under root label b
    B        features     [h, m, d] or [m, d] scores of global feature k for label a (with channels, or without)
    Q, M     -            see Trace           distributions, and the scaled (and damped) messages they are made from

Not in the paper: spherical latents in place of labels, and rectified global features, max(0, score) each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from probtrans_cli.recipe.model import ProbabilisticTransformer

Row = list[float]
Table = list[Row]
Drop = Callable[[str, int, Any], Any]
"""From nested lists to the same with some entries dropped: `heads`, `features`, `labels` or `root` of iteration t."""


def keep_all(name: str, t: int, values: Any) -> Any:
    """No dropout."""
    del name, t
    return values


@dataclass
class Trace:
    """Every list has an entry for each t = 0..T. Columns of ``heads``: words, root, all-dep global features."""

    labels: list[np.ndarray] = field(default_factory=list)
    """Q_Z [n, d]."""
    label_scores: list[np.ndarray] = field(default_factory=list)
    """M_Z [n, d]; the last one is the words' representation."""
    heads: list[np.ndarray] = field(default_factory=list)
    """Q_H [h, n, n (+1) (+m)]."""
    root: list[np.ndarray] = field(default_factory=list)
    """Q_root [d_root]; empty list without a root."""
    root_scores: list[np.ndarray] = field(default_factory=list)
    """M_root [d_root]; the last one is the sentence's representation."""
    features: list[np.ndarray] = field(default_factory=list)
    """Q_G [n, h, m] (dep-split) or [n, 1, m] (single-split, rectified); empty list for other models."""


def softmax(scores: Row) -> Row:
    """exp and normalise; nothing for nothing."""
    if not scores:
        return []
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    return [weight / sum(weights) for weight in weights]


def rectified(scores: Row) -> Row:
    """No choice: each by itself, and never below 0."""
    return [score if score > 0.0 else 0.0 for score in scores]


def on_the_sphere(scores: Row) -> Row:
    """The mean of a point ``z`` with ``|z|² = d`` and the density ``exp(scores · z)``, by an integral over the angle
    between the two (of one number: over its two signs)."""
    d, length = len(scores), math.sqrt(sum(score * score for score in scores))
    if length == 0.0:
        return [0.0] * d
    kappa = math.sqrt(d) * length
    if d == 1:
        mean_cosine = math.tanh(kappa)
    else:
        node, weight = np.polynomial.legendre.leggauss(200)
        angle = (node + 1.0) * math.pi / 2.0
        density = weight * np.exp(kappa * (np.cos(angle) - 1.0)) * np.sin(angle) ** (d - 2)
        mean_cosine = float((density * np.cos(angle)).sum() / density.sum())
    return [math.sqrt(d) * mean_cosine * score / length for score in scores]


# --- trees ----------------------------------------------------------------------------------------------------------


@cache
def single_root_trees(n: int) -> tuple[tuple[int, ...], ...]:
    """All trees over n words with exactly one word under the root: the head of every word, n stands for the root."""
    trees = []
    for heads in itertools.product(range(n + 1), repeat=n):
        if sum(head == n for head in heads) != 1:
            continue
        if all(reaches_root(heads, word) for word in range(n)):
            trees.append(heads)
    return tuple(trees)


def reaches_root(heads: Sequence[int], word: int) -> bool:
    n = len(heads)
    for _ in range(n):
        word = heads[word]
        if word == n:
            return True
    return False


def tree_marginals(scores: Sequence[Sequence[float]]) -> tuple[float, Table]:
    """Log Z and marginals of p(H) ∝ exp(sum_i scores[i][H_i]) over all trees; scores [n][n+1], root last."""
    n = len(scores)
    trees = single_root_trees(n)
    totals = [sum(scores[i][head] for i, head in enumerate(tree)) for tree in trees]
    top = max(totals)
    log_partition = top + math.log(sum(math.exp(total - top) for total in totals))
    marginals = [[0.0] * (n + 1) for _ in range(n)]
    for tree, total in zip(trees, totals, strict=True):
        for i, head in enumerate(tree):
            marginals[i][head] += math.exp(total - log_partition)
    return log_partition, marginals


# --- one model, one sentence ----------------------------------------------------------------------------------------


class Sentence:
    """The scores and sizes of one sentence, the equations as methods with their own names."""

    def __init__(
        self, section: ProbabilisticTransformer, S: Any, T: Callable[[int], Any], root: Any = None, B: Any = None
    ) -> None:
        self.section = section
        self.S: Table = np.asarray(S, dtype=np.float64).tolist()
        self.n, self.d, self.h = len(self.S), section.labels, section.channels
        self.T = {x: np.asarray(T(x), dtype=np.float64).tolist() for x in range(1 - self.n, self.n) if x != 0}
        self.has_root = section.root is not None
        self.root = np.asarray(root, dtype=np.float64).tolist() if self.has_root else []
        self.d_root = section.root.labels if section.root is not None else 0
        self.kind = section.globals.kind if section.globals is not None else None
        self.m = section.globals.features if section.globals is not None else 0
        self.B = np.asarray(B, dtype=np.float64).tolist() if self.kind else []
        self.root_column = self.n if self.has_root else None
        self.first_feature_column = self.n + int(self.has_root)
        self.columns = self.first_feature_column + (self.m if self.kind == "all-dep" else 0)
        # Second head variables: one for every channel, or one for all.
        self.second = {"dep-split": self.h, "single-split": 1, "rectified": 1}.get(self.kind or "", 0)

    def candidates(self, i: int) -> list[int]:
        """The columns that may be the head of word i: never the word itself."""
        return [j for j in range(self.columns) if j != i]

    def F(self, i: int, c: int, j: int, q: Table, q_root: Row) -> float:
        """Score of column j as the head of word i (Eq. 3, 2.3.5, Eq. 34)."""
        total = 0.0
        for a in range(self.d):
            if j < self.n:
                for b in range(self.d):
                    total += q[i][a] * q[j][b] * self.T[i - j][c][a][b]
            elif j == self.root_column:
                for b in range(self.d_root):
                    total += q[i][a] * q_root[b] * self.root[c][a][b]
            else:
                total += q[i][a] * self.B[c][j - self.first_feature_column][a]
        return total

    def B_second(self, c: int, k: int, a: int) -> float:
        return self.B[c][k][a] if self.kind == "dep-split" else self.B[k][a]  # type: ignore[no-any-return]

    def H(self, i: int, c: int, k: int, q: Table) -> float:
        """Score of global feature k for the second head variable of word i (Eq. 40)."""
        return sum(q[i][a] * self.B_second(c, k, a) for a in range(self.d))

    def G(self, i: int, a: int, q: Table, heads: list[Table], q_root: Row, second: list[Table]) -> float:
        """Message to label a of word i (Eq. 4, 2.3.5, Eq. 35, 41)."""
        total = 0.0
        for c in range(self.h):
            for j in range(self.n):
                if j == i:
                    continue
                for b in range(self.d):
                    total += heads[c][i][j] * q[j][b] * self.T[i - j][c][a][b]
                    total += heads[c][j][i] * q[j][b] * self.T[j - i][c][b][a]
            if self.root_column is not None:
                for b in range(self.d_root):
                    total += heads[c][i][self.root_column] * q_root[b] * self.root[c][a][b]
            if self.kind == "all-dep":
                for k in range(self.m):
                    total += heads[c][i][self.first_feature_column + k] * self.B[c][k][a]
        for c in range(self.second):
            for k in range(self.m):
                total += second[i][c][k] * self.B_second(c, k, a)
        return total

    def G_root(self, b: int, q: Table, heads: list[Table]) -> float:
        """Message to label b of the root (2.3.5)."""
        assert self.root_column is not None
        total = 0.0
        for c in range(self.h):
            for i in range(self.n):
                for a in range(self.d):
                    total += heads[c][i][self.root_column] * q[i][a] * self.root[c][a][b]
        return total

    def head_distributions(self, scores: list[Table]) -> list[Table]:
        """Q_H from M_H: a softmax a word over its candidates, or the marginals of a tree a channel; with labels, of one
        head a word and its label."""
        if self.section.heads == "tree":
            return self._labelled_trees(scores) if self.section.head_labels else [*map(self._tree, scores)]
        joint = [[[0.0] * self.columns for _ in range(self.n)] for _ in range(self.h)]
        for i in range(self.n):
            variables = [[(c, j) for j in self.candidates(i)] for c in range(self.h)]
            for values in [self.pairs(i)] if self.section.head_labels else variables:
                for (c, j), probability in zip(values, softmax([scores[c][i][j] for c, j in values]), strict=True):
                    joint[c][i][j] = probability
        return joint

    def pairs(self, i: int) -> list[tuple[int, int]]:
        """Label and column of every value of the labelled head of word i; label 0 may be the root's own."""
        own = self.section.root is not None and self.section.root.own_label
        pairs = itertools.product(range(self.h), self.candidates(i))
        return [(c, j) for c, j in pairs if not own or (c == 0) == (j == self.root_column)]

    def _labelled_trees(self, scores: list[Table]) -> list[Table]:
        """All trees with all labels, one by one."""
        trees, totals = [], []
        for tree in single_root_trees(self.n):
            for labels in itertools.product(range(self.h), repeat=self.n):
                arcs = list(zip(labels, range(self.n), tree, strict=True))
                if all((c, j) in self.pairs(i) or j >= self.columns for c, i, j in arcs):
                    trees.append(arcs)
                    totals.append(sum(scores[c][i][j] for c, i, j in arcs if j < self.columns))
        joint = [[[0.0] * self.columns for _ in range(self.n)] for _ in range(self.h)]
        for arcs, probability in zip(trees, softmax(totals), strict=True):
            for c, i, j in arcs:
                if j < self.columns:
                    joint[c][i][j] += probability
        return joint

    def _tree(self, scores: Table) -> Table:
        if self.has_root:
            return tree_marginals(scores)[1]
        return [row[:-1] for row in tree_marginals([[*row, 0.0] for row in scores])[1]]


# --- the iteration --------------------------------------------------------------------------------------------------


def mean_field_loops(
    section: ProbabilisticTransformer,
    S: Any,
    T: Callable[[int], Any],
    root: Any = None,
    B: Any = None,
    drop: Drop = keep_all,
    later: Sequence[tuple[Callable[[int], Any], Any, Any]] = (),
) -> Trace:
    """All T iterations for one sentence without padding; S [n, d], T(x) [h][d][d], root [h, d, d_root], B as above.

    ``later``: T, root and B of the second iteration and so on, where each has its own.
    ``drop``: dropout of head distributions [h][n][columns] and second ones [n][h|1][m] where messages are made of them,
    of S + G [n][d], and of the root's message [d_root].
    """
    sentence = Sentence(section, S, T, root, B)
    n, d, h, m, columns = sentence.n, sentence.d, sentence.h, sentence.m, sentence.columns
    d_root, second = sentence.d_root, sentence.second
    lambda_Z = section.message_weight.labels
    spherical = section.latent == "spherical"
    default = math.sqrt(d) if spherical else 1.0 / d
    lambda_H = section.message_weight.heads if section.message_weight.heads is not None else default
    lambda_G = section.message_weight.features if section.message_weight.features is not None else lambda_H
    mean = on_the_sphere if spherical else softmax
    degrees = softmax
    if sentence.kind == "rectified":
        lambda_G, degrees = 1.0, rectified
    alpha_Z, alpha_H = section.step_size.labels, section.step_size.heads
    beta_Z, beta_H = section.damping.labels, section.damping.heads

    # Start: M and Q at t = 0.
    M_Z = [[score / lambda_Z if spherical else score for score in row] for row in sentence.S]
    M_H = [[[0.0] * columns for _ in range(n)] for _ in range(h)]
    M_root = [0.0] * d_root
    M_G = [[[0.0] * m for _ in range(second)] for _ in range(n)]
    Q_Z = [mean(row) for row in M_Z]
    Q_H = sentence.head_distributions(M_H)
    Q_root = mean(M_root)
    Q_G = [[degrees(row) for row in rows] for rows in M_G]

    trace = Trace()

    def keep() -> None:
        trace.labels.append(np.array(Q_Z).reshape(n, d))
        trace.label_scores.append(np.array(M_Z).reshape(n, d))
        trace.heads.append(np.array(Q_H).reshape(h, n, columns))
        if sentence.has_root:
            trace.root.append(np.array(Q_root))
            trace.root_scores.append(np.array(M_root))
        if second:
            trace.features.append(np.array(Q_G).reshape(n, second, m))

    keep()
    for t in range(1, section.iterations + 1):
        if t > 1 and later:
            sentence = Sentence(section, S, *later[t - 2])
        # The heads, and the second head variables, from the labels of before.
        new_M_H = [[[0.0] * columns for _ in range(n)] for _ in range(h)]
        for c in range(h):
            for i in range(n):
                for j in sentence.candidates(i):
                    message = sentence.F(i, c, j, Q_Z, Q_root) / lambda_H
                    new_M_H[c][i][j] = (1 - beta_H) * message + beta_H * M_H[c][i][j]
        fresh_H = sentence.head_distributions(new_M_H)
        new_Q_H = [
            [[alpha_H * fresh_H[c][i][j] + (1 - alpha_H) * Q_H[c][i][j] for j in range(columns)] for i in range(n)]
            for c in range(h)
        ]
        new_M_G = [[[0.0] * m for _ in range(second)] for _ in range(n)]
        new_Q_G: list[Table] = []
        for i in range(n):
            for c in range(second):
                for k in range(m):
                    message = sentence.H(i, c, k, Q_Z) / lambda_G
                    new_M_G[i][c][k] = (1 - beta_H) * message + beta_H * M_G[i][c][k]
            new_Q_G.append([_step(alpha_H, degrees(new_M_G[i][c]), Q_G[i][c]) for c in range(second)])

        # The labels, and the root's: from the labels of before and the heads of now (asynchronous) or of before.
        asynchronous = section.schedule == "asynchronous"
        seen_H, seen_G = (new_Q_H, new_Q_G) if asynchronous else (Q_H, Q_G)
        seen_H, seen_G = drop("heads", t, seen_H), drop("features", t, seen_G)
        to_labels = [
            [sentence.S[i][a] + sentence.G(i, a, Q_Z, seen_H, Q_root, seen_G) for a in range(d)] for i in range(n)
        ]
        to_labels = drop("labels", t, to_labels)
        to_root = drop("root", t, [sentence.G_root(b, Q_Z, seen_H) for b in range(d_root)])
        new_M_Z = [[(1 - beta_Z) * to_labels[i][a] / lambda_Z + beta_Z * M_Z[i][a] for a in range(d)] for i in range(n)]
        new_M_root = [(1 - beta_Z) * to_root[b] / lambda_Z + beta_Z * M_root[b] for b in range(d_root)]
        new_Q_Z = [_step(alpha_Z, mean(new_M_Z[i]), Q_Z[i]) for i in range(n)]
        new_Q_root = _step(alpha_Z, mean(new_M_root), Q_root)

        Q_Z, M_Z, Q_H, M_H = new_Q_Z, new_M_Z, new_Q_H, new_M_H
        Q_root, M_root, Q_G, M_G = new_Q_root, new_M_root, new_Q_G, new_M_G
        keep()
    return trace


def _step(alpha: float, fresh: Row, old: Row) -> Row:
    """Step size (B.1) on one distribution."""
    return [alpha * now + (1 - alpha) * before for now, before in zip(fresh, old, strict=True)]
