"""The section ``model.bayes``: weights that have a distribution instead of a value. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from probtrans_cli.recipe.base import Inconsistency, Section, Share
from probtrans_cli.recipe.weights import LEAST_START, MOST_DEVIATION, KLWeight, WeightPredict, WeightPrior

if TYPE_CHECKING:
    from probtrans_cli.recipe.model.transformer import Transformer
    from probtrans_cli.recipe.schema import Recipe

Part = Literal["attention", "feed_forward", "output"]


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
    start: Annotated[float, Field(ge=LEAST_START, le=MOST_DEVIATION)] = 0.1
    """Standard deviation of every weight at the start, as a multiple of 1/√inputs (of norms: of 0.1)."""
    sigma_lr: Annotated[float, Field(gt=0.0, le=1000.0)] = 10.0
    """Learning rate of the standard deviations, as a multiple of `optim.lr`; they never decay."""
    prior: WeightPrior = WeightPrior()
    """What the weights are believed to be before anything is learned."""
    kl_weight: KLWeight = 0.1
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
        if recipe.optim.posterior is not None:
            faults.append(((), "is not for `optim.kind: ivon`, which finds the distribution itself: leave it out"))
        if self.objective == "moments":
            resolved, names = model.resolved(), ("dropout", "attention_dropout", "embedding_dropout")
            dropped = [name for name in names if getattr(resolved, name)]
            faults += [(("objective",), f"moments have no dropout: set model.{name}=0.0") for name in dropped]
            if recipe.task.several_answers:
                what = f"`task.kind: {recipe.task.kind}` has several answers a word: choose samples"
                faults.append((("objective",), what))
        if key := self.asks_for_moments:
            remedy = "choose samples" if key[0] == "predict" else "choose samples here and in model.bayes.predict.kind"
            faults += [
                (key, f"there is no rule for the moments of {one}: {remedy}") for one in model.without_moments(recipe)
            ]
        return faults
