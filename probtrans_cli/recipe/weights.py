"""What sections about uncertain weights share: their prior, and how they enter predictions. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probtrans_cli.recipe.base import PositiveFloat, Section


class WeightPrior(Section):
    """What the weights are believed to be before anything is learned: independent Gaussians."""

    kind: Literal["fan_in", "normal", "start"] = "fan_in"
    """fan_in: N(0, std² / inputs) of a matrix with so many inputs; normal: N(0, std²); start: N(weight, std² / inputs)
    around the weights of `model.init_from`. Norms, where they are uncertain, have N(1, 0.1²) and N(0, 0.1²)."""
    std: PositiveFloat = 1.0
    """std, as `kind` says."""


class WeightPredict(Section):
    """How the uncertainty of the weights enters what the trained model says."""

    kind: Literal["moments", "samples", "mean"] = "moments"
    """moments: mean and variance go through the network in one pass; samples: the mean over draws of the weights; mean:
    the mean weights alone."""
    state: Literal["kronecker", "diagonal"] = "kronecker"
    """What `moments` keep of the words' covariances: kronecker, one matrix over positions; diagonal, none."""
    samples: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Draws of `samples`."""
    temperature: bool = False
    """Divide the scores by the temperature that fits dev best."""
