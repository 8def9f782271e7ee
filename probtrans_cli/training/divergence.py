"""What uncertain weights add to the objective: the divergence of their distribution from the prior.

    L_update = mean NLL of the update + κ_t KL(q ‖ p) / N

The evidence lower bound of the derivation "Bayesian Transformers", (5) and (6), divided by the number N of things that
the mean is over in the whole training set (words, sentences, expected hidden words), with a temperature: κ = 1 is
Bayes' rule.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.models.base import Inputs, Outputs, Wants
from probtrans_cli.models.bayesian import weights
from probtrans_cli.models.bayesian.readout import with_expected_loss
from probtrans_cli.trained.model import Model


class Divergence:
    """``κ_t KL / N`` of a model that learns from a split; nothing where its weights are certain, or IVON adds it.

    Raises:
        NothingToScoreError: the split has nothing to learn from.
    """

    def __init__(self, model: Model, split: Split, asked: Callable[[Inputs, Wants], Outputs]) -> None:
        """``asked``: the network as a training asks it."""
        self.asked = asked
        self.network, self.section = model.network, model.recipe.model.variational
        uncertain = model.recipe.uncertain_weights is not None
        self.units = model.task.units(split, model.evaluation()) if uncertain else 1

    def draw(self) -> AbstractContextManager[None]:
        """Around the forward pass of a batch: the weights are a draw, if the objective is one of draws."""
        drawing = self.section is not None and self.section.objective == "samples"
        return weights.drawn(self.network) if drawing else nullcontext()

    def ask(self, inputs: Inputs, wants: Wants) -> Outputs:
        """What the loss is made of: the network's scores, or such as have the expected loss."""
        if self.section is None or self.section.objective == "samples":
            return self.asked(inputs, wants)
        found = self.asked(inputs, replace(wants, moments=self.section.predict.state))
        scores = {name: with_expected_loss(mean, found.variances[name]) for name, mean in found.scores.items()}
        return replace(found, scores=scores)

    def weight(self, done: float) -> float:
        """``κ_t`` after a share ``done`` of all updates."""
        if self.section is None:
            return 0.0
        warmup = self.section.kl_warmup
        return self.section.kl_weight * (min(done / warmup, 1.0) if warmup else 1.0)

    def add_gradient(self, done: float) -> None:
        """Add its gradient to that of the likelihood, in place."""
        if self.section is not None:
            weights.add_divergence(self.network, self.weight(done) / self.units)

    def metrics(self, done: float) -> dict[str, float]:
        """For a line of metrics: ``kl``, KL / N in nats, to be compared with the loss, and ``kl_weight``, κ_t."""
        if self.section is None:
            return {}
        with torch.no_grad():
            kl = float(weights.divergence(self.network)) / self.units
        return {"kl": kl, "kl_weight": self.weight(done)}
