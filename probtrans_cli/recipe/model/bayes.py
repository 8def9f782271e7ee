"""The section ``model.bayes``: weights that have a distribution instead of a value. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from probtrans_cli.recipe.base import Inconsistency, NonNegativeFloat, PositiveFloat, Section, Share

if TYPE_CHECKING:
    from probtrans_cli.recipe.model.transformer import Transformer
    from probtrans_cli.recipe.schema import Recipe

Part = Literal["attention", "feed_forward", "output"]


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


class Bayes(Section):
    """Variational weights: a Gaussian for each, trained by the evidence lower bound with a tempered divergence."""

    family: Literal["row", "full"] = "row"
    """row: a standard deviation for each row of a matrix; full: for each weight."""
    layers: tuple[Part, ...] = Field(default=("attention", "feed_forward", "output"), strict=False)
    """Which matrices are uncertain: attention, feed_forward, output."""
    norms: bool = False
    """Uncertain gains and shifts of the layer norms, too."""
    words: bool = False
    """Uncertain vectors of words, too; on small data that makes all scores worse."""
    start: PositiveFloat = 0.1
    """Standard deviation of every weight at the start, as a multiple of 1/√inputs (of norms: of 0.1)."""
    sigma_lr: PositiveFloat = 10.0
    """Learning rate of the standard deviations, as a multiple of `optim.lr`; they never decay."""
    prior: WeightPrior = WeightPrior()
    """What the weights are believed to be before anything is learned."""
    kl_weight: NonNegativeFloat = 0.1
    """κ, the weight of the divergence from the prior: 1 is Bayes' rule, less is a cold posterior."""
    kl_warmup: Share = 0.0
    """Share of the updates in which κ grows linearly from 0."""
    objective: Literal["samples", "moments"] = "samples"
    """samples: one draw of the weights a batch; moments: the expected loss by moments, 6 to 8 times as slow."""
    predict: WeightPredict = WeightPredict()
    """How a trained model answers."""

    @property
    def asks_for_moments(self) -> tuple[str, ...] | None:
        """The key, within the section, that asks for moments through the network; None = none does."""
        if self.objective == "moments":
            return ("objective",)
        return ("predict", "kind") if self.predict.kind == "moments" else None

    def inconsistencies(self, model: Transformer, recipe: Recipe) -> list[Inconsistency]:
        """Values that do not go with the rest of the model's section and the recipe; paths from this section."""
        faults: list[Inconsistency] = []
        if not (self.layers or self.norms or self.words):
            faults.append((("layers",), "no weight is uncertain: name attention, feed_forward or output"))
        if self.prior.kind == "start" and model.init_from is None:
            faults.append((("prior", "kind"), "start is around given weights: name them with model.init_from"))
        if recipe.train.probe and "output" not in self.layers:
            faults.append((("layers",), "a probe learns the output layer alone: name output"))
        if recipe.runtime.compile:
            faults.append(((), "is not for `runtime.compile`: set that to false"))
        if key := self.asks_for_moments:
            remedy = "choose samples" if key[0] == "predict" else "choose samples here and in model.bayes.predict.kind"
            faults += [(key, f"there is no rule for the moments of {one}: {remedy}") for one in _without(model, recipe)]
        return faults


def _without(model: Transformer, recipe: Recipe) -> list[str]:
    """What there is no rule for, of a model with uncertain weights."""
    assert model.bayes is not None, "its section asks"
    found = [f"`model.{name}`" for name in ("tie_kv", "tie_qo", "share_layers") if getattr(model, name)]
    if model.positions.kind == "relative":
        found.append("`model.positions.kind: relative`")
    if recipe.task.without_moments is not None:
        found.append(f"`task.{recipe.task.without_moments}`")
    if model.bayes.words and recipe.task.tied:
        found.append("words that are uncertain and the output's, too")
    return found
