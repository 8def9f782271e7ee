"""The sections of `model.factors`: further factors of the conditional random field. Imports no torch."""

from __future__ import annotations

from typing import Literal

from probtrans_cli.recipe.base import KindSection, PositiveFloat
from probtrans_cli.recipe.kinds import Kinds


class FactorSection(KindSection):
    """A further factor of the field."""


FACTORS: Kinds[FactorSection] = Kinds("factor")
"""The kinds of `model.factors`."""


@FACTORS.add
class Neighbours(FactorSection):
    """A chain: `sum_i N[Z_i, Z_{i+1}]`, scores of the labels of two words in a row (not in the paper)."""

    kind: Literal["neighbours"]
    std: PositiveFloat = 0.1
    """Standard deviation of the scores at the start."""
