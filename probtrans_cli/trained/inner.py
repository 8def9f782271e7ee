"""The doubt inside a network whose variables are probabilities: that about the latent labels, and about the heads.

    H[Q_Z(i)]             of word i's latent label after the last iteration
    1/h Σ_c H[Q_H(i, c)]  of its heads, the mean over the channels

A probabilistic transformer has both, one whose variables are points on a sphere has heads alone, and another network
neither. Told is what belongs to the answers:
of one pass both; of the mean over draws of the weights the heads' alone, whose distribution is the mean over the draws;
of passes with dropout and of several networks neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from probtrans_cli.models.base import Outputs, Wants
from probtrans_cli.models.bayesian.readout import entropy
from probtrans_cli.tasks.base import Places, Prediction

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model
    from probtrans_cli.trained.predictor import Predictor

INNER = ("latent_label_entropy", "head_entropy")
"""The names of the entropies."""


def with_inner_wants(model: Model, predictor: Predictor, wants: Wants) -> Wants:
    """Wants with the states and arcs that the doubt inside the network is of; the last iteration's are the last."""
    section = model.recipe.model
    if not section.facts.has_head_variables:
        return wants
    states = predictor.own_states and section.facts.has_latent_labels
    arcs = sorted({*wants.arcs, model.recipe.model.iterations}) if predictor.own_arcs else wants.arcs
    return replace(wants, states=wants.states or states, arcs=arcs)


def inner_doubt(model: Model, predictor: Predictor, outputs: Outputs) -> dict[str, Tensor]:
    """Entropies of every token ``[b, n]`` in nats, by name, of outputs with :func:`with_inner_wants`; only those that
    belong to the predictor's answers."""
    found: dict[str, Tensor] = {}
    section = model.recipe.model
    if not section.facts.has_head_variables:
        return found
    if section.facts.has_latent_labels and predictor.own_states and outputs.states is not None:
        found["latent_label_entropy"] = entropy(model.network.encoder.latent_labels(outputs.states.float()))
    if predictor.own_arcs and outputs.arcs is not None:
        found["head_entropy"] = entropy(outputs.arcs[:, -1].float()).mean(1)
    return found


MISC: Mapping[str, str] = {"LatentLabelEntropy": "latent_label_entropy", "HeadEntropy": "head_entropy"}
"""Their names in MISC of CoNLL-U."""


def with_inner_doubt(
    predictions: Sequence[Prediction], doubt: Mapping[str, Tensor], tokens: Tensor
) -> list[Prediction]:
    """Predictions with the entropies of every word, by name; ``tokens [b, n]``: those that stand for words, of a word
    of several tokens its first one."""
    rows = [
        {name: values[row][of_words].tolist() for name, values in doubt.items()} for row, of_words in enumerate(tokens)
    ]
    return [{**one, **of_words} for one, of_words in zip(predictions, rows, strict=True)]


def with_inner_places(places: Places, prediction: Prediction) -> Places:
    """The places of a prediction, with the entropies inside the network in MISC, where it has them."""
    misc = {name: [f"{value:.4f}" for value in prediction[key]] for name, key in MISC.items() if key in prediction}
    return replace(places, misc={**places.misc, **misc}) if misc else places
