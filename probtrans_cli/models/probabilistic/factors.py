"""Further factors of the field, by the kind of `model.factors`; one from another package is a row of the same table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.models.probabilistic.crf import Factor
from probtrans_cli.models.probabilistic.inference import Sentences, State
from probtrans_cli.recipe.base import Table
from probtrans_cli.recipe.model.probabilistic import (
    FACTORS,
    Arcs,
    FactorSection,
    Neighbours,
    ProbabilisticTransformer,
    Relations,
)


class FactorKind(NamedTuple):
    """A row: the section of a recipe, and what makes the factor of it and of the ``model`` section."""

    section: type[FactorSection]
    make: Callable[[Any, ProbabilisticTransformer], Factor]


FACTOR_KINDS: Table[FactorKind] = Table("factor")
"""The kinds of further factors, by the kind of `model.factors`."""


def register(row: FactorKind) -> FactorKind:
    """Add a kind of factor, to what `model.factors` may hold and to the table.

    Raises:
        ValueError: there is another kind of this name.
    """
    FACTOR_KINDS.enter(FACTORS.name_of(row.section), row)
    return row


class NeighboursFactor(Factor):
    """``Σ_i Σ_ab Q_i(a) Q_{i+1}(b) N[a,b]``: the labels of two words in a row."""

    def __init__(self, section: Neighbours, model: ProbabilisticTransformer) -> None:
        super().__init__()
        self.N = nn.Parameter(torch.randn(model.labels, model.labels) * section.std)

    def score(self, Q: State, _: Sentences) -> Float[Tensor, " b"]:
        return torch.einsum("bia,bie,ae->b", Q.labels[:, :-1], Q.labels[:, 1:], self.N)


register(FactorKind(Neighbours, NeighboursFactor))


class Pairs(NamedTuple):
    """Of the pairs of words of a batch: ``f(i-j) = k``, ``g_ij(m)`` as ``[b, i, m, j]``, ``i > j``; and for
    the root, ``g`` of the words before each word and behind it, one after the other."""

    near: Float[Tensor, "k n n"]
    between: Float[Tensor, "b n m n"] | None
    left: Bool[Tensor, "n n"]
    around: Float[Tensor, "b n 2*m"] | None


class ArcsFactor(Factor):
    """``S[a,b] + q[k,a] + r[k,b] + p[k,c] + Σ_m g_ij(m) (x[s,m,a] + y[s,m,b])`` between a word's label, its head and
    the head's label; k = f(i-j) is a bucket of distances, s the side of the head. And ``Σ_sm g_i(s,m) t[s,m,a]`` where
    the head is the root.

    symbol   code         shape         scores
    S        S            [d, d]        label of the word, label of the head, the same for all channels
    q r      q, r         [K, d]        bucket of the distance, label of the word; label of the head
    p        p            [K, h]        bucket, channel
    x y      X            [2 + 2,m,d]   what stands between, label of the word; label of the head; s = left, right
    t        Y            [2,m,d]       what stands before the word, what stands behind it, label of the word
    g        Pairs        [b, n,m,n]    the probability that a word between i and j is of class m
    R β      R            [m, d] [m]    scores of a word's unary scores with its class

    A word k is of class m at the rate ``ρ_km = ln(1 + exp(R S_k + β))``, whatever its other classes; its unary scores
    ``S_k`` are observed. So ``g_ij(m) = 1 - exp(-Σ_{k between i and j} ρ_km)``: sums up to each word serve all pairs.

    The fast form has :meth:`scores` and, in place of a derivative, :meth:`messages`.
    """

    def __init__(self, section: Arcs, model: ProbabilisticTransformer) -> None:
        super().__init__()
        self.distances = section.distances
        sizes = 2 * len(section.distances) + 2, model.labels
        self.S = nn.Parameter(torch.randn(model.labels, model.labels) * section.std)
        self.q, self.r = (nn.Parameter(torch.randn(sizes) * section.std) for _ in range(2))
        self.p = nn.Parameter(torch.randn(sizes[0], model.channels) * section.std)
        self.R = nn.Linear(model.labels, section.between) if section.between else None
        if self.R is not None:
            self.X = nn.Parameter(torch.randn(4, section.between, model.labels) * section.std)
            nn.init.normal_(self.R.weight, std=section.std)
            nn.init.constant_(self.R.bias, -3.0)  # a word is of each class with a probability of 5 %
        has_root = section.between and model.root is not None
        self.Y = nn.Parameter(torch.randn(2, section.between, model.labels) * section.std) if has_root else None

    def pairs(self, unary: Float[Tensor, "b n d"], mask: Bool[Tensor, "b n"]) -> Pairs:
        """Return what is known of pairs; buckets of heads on the left from near to far, then those on the right."""
        word = torch.arange(unary.shape[1], device=unary.device)
        x = word[:, None] - word
        number = torch.bucketize(x.abs(), torch.tensor(self.distances, device=x.device, dtype=x.dtype))
        number = number + (x < 0) * (len(self.distances) + 1)
        near = (number == torch.arange(len(self.q), device=x.device)[:, None, None]).to(unary.dtype)
        if self.R is None:
            return Pairs(near, None, x > 0, None)
        rate = functional.softplus(self.R(unary)) * mask[..., None]
        return Pairs(near, between(rate), x > 0, around(rate))

    def score(self, Q: State, sentences: Sentences) -> Float[Tensor, " b"]:
        unary = sentences.unary.masked_fill(~sentences.mask[..., None], 0.0)
        of_labels, of_distances, of_root = self.scores(Q.labels, self.pairs(unary, sentences.mask))
        score = (Q.word_heads * (of_labels + of_distances)).sum((1, 2, 3))
        return score if of_root is None else score + (Q.root_heads * of_root[:, None]).sum((1, 2))

    def scores(
        self, labels: Float[Tensor, "b n d"], pairs: Pairs
    ) -> tuple[Float[Tensor, "b 1 n n"], Float[Tensor, "1 c n n"], Float[Tensor, "b n"] | None]:
        """Return two parts of ``F``: of labels, the same for all channels; of distances, the same for all sentences;
        and scores of the root, the same for all channels, if any."""
        of_labels = labels @ self.S @ labels.mT
        of_labels = of_labels + torch.einsum("bik,kij->bij", labels @ self.q.mT, pairs.near)
        of_labels = of_labels + torch.einsum("bjk,kij->bij", labels @ self.r.mT, pairs.near)
        if pairs.between is not None:
            sums = (labels @ self.X.flatten(0, 1).mT).reshape(*labels.shape[:2], 4, self.X.shape[1]) @ pairs.between
            of_words, of_heads = sums.transpose(1, 2).tensor_split(2, dim=1)
            for left, right in (of_words.unbind(1), of_heads.mT.unbind(1)):
                of_labels = of_labels + torch.where(pairs.left, left, right)
        of_root = None
        if self.Y is not None and pairs.around is not None:
            of_root = ((labels @ self.Y.flatten(0, 1).mT) * pairs.around).sum(-1)
        return of_labels[:, None], torch.einsum("kc,kij->cij", self.p, pairs.near)[None], of_root

    def messages(
        self, labels: Float[Tensor, "b n d"], arcs: Float[Tensor, "b n n"], root: Float[Tensor, "b n"], pairs: Pairs
    ) -> Float[Tensor, "b n d"]:
        """Return the messages to the labels; ``arcs``, ``root``: the probability of each head, whatever the channel."""
        message = (arcs @ labels) @ self.S.mT + (arcs.mT @ labels) @ self.S
        message = message + torch.einsum("bij,kij->bik", arcs, pairs.near) @ self.q
        message = message + torch.einsum("bij,kij->bjk", arcs, pairs.near) @ self.r
        if pairs.between is not None:
            left, right = arcs * pairs.left, arcs * ~pairs.left
            sums = torch.stack([left, right, left.mT, right.mT], dim=2) @ pairs.between.mT
            message = message + sums.flatten(2) @ self.X.flatten(0, 1)
        if self.Y is not None and pairs.around is not None:
            message = message + (root[..., None] * pairs.around) @ self.Y.flatten(0, 1)
        return message


def around(rate: Float[Tensor, "b n m"]) -> Float[Tensor, "b n 2*m"]:
    """Return the probability that a word before word i is of class m, and that one behind it is."""
    to = rate.cumsum(1)
    return -torch.expm1(-torch.cat([to - rate, to[:, -1:] - to], dim=-1).clamp(min=0.0))


def between(rate: Float[Tensor, "b n m"]) -> Float[Tensor, "b n m n"]:
    """Return the probability that a word between i and j is of class m, ``[b, i, m, j]``."""
    to = rate.cumsum(1)  # with that of the word itself
    from_left = (to - rate)[..., None] - to.mT[:, None]
    return -torch.expm1(-torch.maximum(from_left, from_left.transpose(1, 3)).clamp(min=0.0))


register(FactorKind(Arcs, ArcsFactor))


class RelationsFactor(Factor):
    """``x[c,a]`` between a word's channel and its label, ``y[c,b]`` with its head's label, ``W[c,e]`` with the channel
    of its head, and ``V[c,e]`` between those of two words i and k with one head j. With ``R_i(c) = Σ_j Q_ic(j)``,
    the root among the j, and ``A_j(c) = Σ_i Q_ic(j)``:

        Σ_ic R_i(c) Σ_a Q_i(a) x[c,a]  +  Σ_jc A_j(c) (Σ_b Q_j(b) y[c,b] + Σ_e W[c,e] R_j(e))
        +  Σ_j Σ_ce V[c,e] (A_j(c) A_j(e) - Σ_i Q_ic(j) Q_ie(j))

    Two words that are each other's heads count, too. The message to a head depends on the heads of other words, of the
    iteration before.
    """

    def __init__(self, section: Relations, model: ProbabilisticTransformer) -> None:
        super().__init__()
        h, d = model.channels, model.labels
        self.x, self.y = (nn.Parameter(torch.randn(h, d) * section.std) for _ in range(2))
        self.W, self.V = (nn.Parameter(torch.randn(h, h) * section.std) for _ in range(2))

    def score(self, Q: State, _: Sentences) -> Float[Tensor, " b"]:
        R, A = Q.word_heads.sum(3), Q.word_heads.sum(2)
        if Q.root is not None:
            R = R + Q.root_heads
        score = (R * (self.x @ Q.labels.mT) + A * (self.y @ Q.labels.mT + self.W @ R + self.V @ A)).sum((1, 2))
        return score - torch.einsum("bcij,ce,beij->b", Q.word_heads, self.V, Q.word_heads)

    def to_heads(
        self, labels: Float[Tensor, "b n d"], words: Float[Tensor, "b c n n"], root: Float[Tensor, "b c n"]
    ) -> tuple[Float[Tensor, "b c n n"], Float[Tensor, "b c n"]]:
        """Return the messages to words as heads and to the root, from the distributions of both."""
        R, A, V = words.sum(3) + root, words.sum(2), self.V + self.V.mT
        to_word = self.x @ labels.mT + self.W.mT @ A
        to_head = self.y @ labels.mT + self.W @ R + V @ A
        itself = (V @ words.flatten(2)).view_as(words)
        return to_word[..., None] + to_head[:, :, None] - itself, to_word

    def to_labels(self, R: Float[Tensor, "b c n"], A: Float[Tensor, "b c n"]) -> Float[Tensor, "b n d"]:
        """Return the messages to the labels."""
        return R.mT @ self.x + A.mT @ self.y


register(FactorKind(Relations, RelationsFactor))
