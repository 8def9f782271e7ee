"""The doubt inside a network whose variables are probabilities: that about the latent labels, and about the heads.

    H[Q_Z(i)]             of word i's latent label after the last iteration
    1/h Σ_c H[Q_H(i, c)]  of its heads, the mean over the channels

A probabilistic transformer has both; a network without latent labels has neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from probtrans_cli.models.base import Outputs
from probtrans_cli.models.bayesian.readout import entropy

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model


class InnerDoubt(NamedTuple):
    """Entropies of every token ``[b, n]``, in nats."""

    latent_label_entropy: Tensor
    head_entropy: Tensor


def inner_doubt(model: Model, outputs: Outputs) -> InnerDoubt | None:
    """Of outputs with states and the arcs of the last iteration, their last one; None where the model has no such."""
    if not model.recipe.model.has_latent_labels or outputs.states is None or outputs.arcs is None:
        return None
    labels = model.network.encoder.latent_labels(outputs.states.float())
    heads = outputs.arcs[:, -1].float()
    return InnerDoubt(entropy(labels), entropy(heads).mean(1))
