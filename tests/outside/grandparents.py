"""A factor from outside: the label of a word and that of its head's head.

E = Σ_c Σ_i Σ_k≠i Σ_j Q_ic(j) Q_jc(k) Σ_ab Q_i(a) Q_k(b) P[c,a,b],      P[c] = U[c]ᵀ V[c] of rank r
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from probtrans_cli.models.probabilistic import factors
from probtrans_cli.models.probabilistic.crf import Factor
from probtrans_cli.models.probabilistic.inference import Sentences, State
from probtrans_cli.recipe.base import Size
from probtrans_cli.recipe.model.probabilistic import FactorSection, ProbabilisticTransformer


class Grandparents(FactorSection):
    """Scores of a word's label and its head's head's."""

    kind: Literal["grandparents"]
    rank: Size = 8
    """r, the rank of the scores."""


class GrandparentsFactor(Factor):
    """See the module."""

    def __init__(self, section: Grandparents, model: ProbabilisticTransformer) -> None:
        super().__init__()
        shape = (model.channels, section.rank, model.labels)
        self.U, self.V = (nn.Parameter(0.1 * torch.randn(shape)) for _ in range(2))

    def score(self, Q: State, sentences: Sentences) -> Tensor:
        u, v = (torch.einsum("bia,cra->bcir", Q.labels, side) for side in (self.U, self.V))
        itself = torch.eye(u.shape[2], dtype=torch.bool, device=u.device)
        reached = (Q.word_heads @ Q.word_heads).masked_fill(itself, 0.0)
        return (reached * (u @ v.mT)).sum((1, 2, 3))


factors.register(factors.FactorKind(Grandparents, GrandparentsFactor))
