"""A parameterisation of the ternary scores from outside: only words with the same latent label attract each other.

T[k,c,a,b] = D[k,c,a] δ_ab,      u_i[k,c] = D[k,c] ∘ Q_i,  v_j[k,c] = Q_j
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from probtrans_cli.models.probabilistic import potentials
from probtrans_cli.models.probabilistic.projections import Projection, Sides
from probtrans_cli.recipe.model.probabilistic import Decomposition, ProbabilisticTransformer


class DiagonalDecomposition(Decomposition):
    """A diagonal: `T[k,c,a,b] = D[k,c,a]` where a = b, else 0."""

    kind: Literal["diagonal"]


class DiagonalProjection(Projection):
    """The labels themselves are both sides; ``D`` is the weight of the child's."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.weights = weights

    def sides(self, labels: Tensor, position: Tensor) -> list[Sides]:
        return [Sides(labels[:, None, None], labels[:, None, None], weight) for weight in self.weights]

    def collect(self, messages: Sequence[Sides], position: Tensor) -> Tensor:
        return torch.stack([one.child[:, 0, 0] + one.head[:, 0, 0] for one in messages]).sum(0)


class Diagonal(potentials.Ternary):
    """``D [K, h, d]``, N(0, 1) at the start."""

    def __init__(self, section: ProbabilisticTransformer) -> None:
        super().__init__()
        buckets = potentials.bucket_count(section.distance)
        self.D = nn.Parameter(torch.randn(buckets, section.channels, section.labels))

    def projection(self, sizes: Sequence[int]) -> Projection:
        return DiagonalProjection(torch.split(self.D, list(sizes)))

    def dense(self) -> Tensor:
        return torch.diag_embed(self.D)

    def squared_norm(self) -> Tensor:
        return self.D.square().sum()


potentials.register(potentials.TernaryKind(DiagonalDecomposition, Diagonal))
