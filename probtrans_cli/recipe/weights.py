"""The sections about uncertain weights: their prior, how they enter predictions, `model.bayes`. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probtrans_cli.recipe.base import Section, Share

MOST_DRAWS = 10_000
# Standard deviations of weights are kept between e^-12 and e^2, see LEAST and MOST in models/bayesian/weights.py. What
# a recipe asks for stays between these bounds, for a matrix of any size: beyond them it would count as the bound.
LEAST_START, MOST_DEVIATION = 0.002, 7.0
PriorDeviation = Annotated[float, Field(ge=1e-3, le=MOST_DEVIATION)]
KLWeight = Annotated[float, Field(ge=0.0, le=1e6)]
PositiveKLWeight = Annotated[float, Field(ge=1e-6, le=1e6)]


class WeightPrior(Section):
    """The prior of the weights: independent Gaussians."""

    kind: Literal["fan_in", "normal", "start"] = "fan_in"
    """fan_in: N(0, std² / inputs), inputs being those of a matrix; normal: N(0, std²); start: N(weight, std² / inputs)
    around the weights of `model.init_from`. Uncertain layer norms have N(1, 0.1²) and N(0, 0.1²)."""
    std: PriorDeviation = 1.0
    """std in the formula of `kind`."""


class WeightPredict(Section):
    """How a trained model uses the uncertainty of its weights."""

    kind: Literal["moments", "samples", "mean"] = "moments"
    """moments: mean and variance go through the network in one pass, which underestimates the mutual information;
    samples: the mean over draws of the weights; mean: the mean weights alone."""
    state: Literal["kronecker", "diagonal"] = "kronecker"
    """Covariances between words with `moments`: kronecker: one matrix over positions; diagonal: none."""
    samples: Annotated[int, Field(ge=1, le=MOST_DRAWS)] = 16
    """Number of draws of `samples`."""

    def describe(self) -> str:
        """Describe it in a few words."""
        if self.kind == "mean":
            return "mean weights"
        return f"moments, {self.state}" if self.kind == "moments" else f"{self.samples} draws of the weights"


Part = Literal["attention", "feed_forward", "output"]


class Bayes(Section):
    """Variational weights: a Gaussian for each weight, trained by the evidence lower bound with a tempered
    divergence."""

    family: Literal["row", "full"] = "row"
    """row: one standard deviation for each row of a matrix; full: one for each weight."""
    layers: tuple[Part, ...] = Field(default=("attention", "feed_forward", "output"), strict=False)
    """Which matrices are uncertain: attention, feed_forward, output."""
    norms: bool = False
    """The gains and shifts of layer norms are uncertain, too."""
    words: bool = False
    """Word vectors are uncertain, too. On small data this makes all scores worse."""
    start: Annotated[float, Field(ge=LEAST_START, le=MOST_DEVIATION)] = 0.1
    """Standard deviation of every weight at the start, as a multiple of 1/√inputs (of norms: of 0.1)."""
    sigma_lr: Annotated[float, Field(gt=0.0, le=1000.0)] = 10.0
    """Learning rate of the standard deviations, as a multiple of `optim.lr`. They have no weight decay."""
    prior: WeightPrior = WeightPrior()
    """The prior of the weights."""
    kl_weight: KLWeight = 0.1
    """κ, the weight of the divergence from the prior: 1 is Bayes' rule, less is a cold posterior."""
    kl_warmup: Share = 0.0
    """Share of the updates in which κ grows linearly from 0."""
    objective: Literal["samples", "moments"] = "samples"
    """samples: one draw of the weights for each batch; moments: the expected loss by moments, 6 to 8 times as slow."""
    predict: WeightPredict = WeightPredict()
    """How a trained model uses the uncertainty of its weights."""

    @property
    def asks_for_moments(self) -> tuple[str, ...] | None:
        """The key of the section that needs moments through the network; None if there is none."""
        if self.objective == "moments":
            return ("objective",)
        return ("predict", "kind") if self.predict.kind == "moments" else None
