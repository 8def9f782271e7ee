"""Further factors of the field, by the kind of `model.factors`; one from another package is a row of the same table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from probtrans_cli.models.probabilistic.crf import Factor
from probtrans_cli.models.probabilistic.inference import Sentences, State
from probtrans_cli.recipe.base import Table
from probtrans_cli.recipe.model.probabilistic import FACTORS, Arcs, FactorSection, Neighbours, ProbabilisticTransformer


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


def further_factors(section: ProbabilisticTransformer) -> list[Factor]:
    """Return the factors that a recipe's ``model`` section adds to the paper's."""
    return [FACTOR_KINDS[factor.kind].make(factor, section) for factor in section.factors]


class NeighboursFactor(Factor):
    """``Σ_i Σ_ab Q_i(a) Q_{i+1}(b) N[a,b]``: the labels of two words in a row."""

    def __init__(self, section: Neighbours, model: ProbabilisticTransformer) -> None:
        super().__init__()
        self.N = nn.Parameter(torch.randn(model.labels, model.labels) * section.std)

    def score(self, Q: State, _: Sentences) -> Float[Tensor, " b"]:
        return torch.einsum("bia,bie,ae->b", Q.labels[:, :-1], Q.labels[:, 1:], self.N)


register(FactorKind(Neighbours, NeighboursFactor))


class ArcsFactor(Factor):
    """``S[a,b] + q[k,a] + r[k,b] + p[k,c]`` between a word's label, its head and the head's label, ``k = f(i-j)``.

    symbol   shape      scores
    S        [d, d]     label of the word, label of the head, the same for all channels
    q r      [K, d]     bucket of the distance, label of the word; label of the head
    p        [K, h]     bucket, channel

    The fast form has :meth:`scores` and, in place of a derivative, :meth:`messages`.
    """

    def __init__(self, section: Arcs, model: ProbabilisticTransformer) -> None:
        super().__init__()
        self.distances = section.distances
        sizes = 2 * len(section.distances) + 2, model.labels
        self.S = nn.Parameter(torch.randn(model.labels, model.labels) * section.std)
        self.q, self.r = (nn.Parameter(torch.randn(sizes) * section.std) for _ in range(2))
        self.p = nn.Parameter(torch.randn(sizes[0], model.channels) * section.std)

    def buckets(self, n: int) -> Bool[Tensor, "k n n"]:
        """Return ``f(i-j) = k``: heads on the left from near to far, then those on the right."""
        word = torch.arange(n, device=self.S.device)
        x = word[:, None] - word
        number = torch.bucketize(x.abs(), torch.tensor(self.distances, device=x.device, dtype=x.dtype))
        number = number + (x < 0) * (len(self.distances) + 1)
        return number == torch.arange(len(self.q), device=x.device)[:, None, None]

    def score(self, Q: State, _: Sentences) -> Float[Tensor, " b"]:
        return (Q.word_heads * sum(self.scores(Q.labels))).sum((1, 2, 3))

    def scores(self, labels: Float[Tensor, "b n d"]) -> tuple[Float[Tensor, "b 1 n n"], Float[Tensor, "1 c n n"]]:
        """Return two parts of ``F``: of labels, the same for all channels; of distances, the same for all sentences."""
        near = self.buckets(labels.shape[1]).to(labels.dtype)
        of_labels = labels @ self.S @ labels.mT
        of_labels = of_labels + torch.einsum("bik,kij->bij", labels @ self.q.mT, near)
        of_labels = of_labels + torch.einsum("bjk,kij->bij", labels @ self.r.mT, near)
        return of_labels[:, None], torch.einsum("kc,kij->cij", self.p, near)[None]

    def messages(self, labels: Float[Tensor, "b n d"], arcs: Float[Tensor, "b n n"]) -> Float[Tensor, "b n d"]:
        """Return the messages to the labels; ``arcs``: the probability of each head, whatever the channel."""
        near = self.buckets(labels.shape[1]).to(labels.dtype)
        message = (arcs @ labels) @ self.S.mT + (arcs.mT @ labels) @ self.S
        message = message + torch.einsum("bij,kij->bik", arcs, near) @ self.q
        return message + torch.einsum("bij,kij->bjk", arcs, near) @ self.r


register(FactorKind(Arcs, ArcsFactor))
