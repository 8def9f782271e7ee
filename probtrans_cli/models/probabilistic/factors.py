"""Further factors of the field, by the kind of `model.factors`; one from another package is a row of the same table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from probtrans_cli.models.probabilistic.crf import Factor
from probtrans_cli.models.probabilistic.inference import Sentences, State
from probtrans_cli.recipe.base import Table
from probtrans_cli.recipe.model.probabilistic import FACTORS, FactorSection, Neighbours, ProbabilisticTransformer


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
