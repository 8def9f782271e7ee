"""Networks that have no rule for means and variances are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor, nn
from uncertain_networks import CLASSES, OUTPUTS, VOCABULARY, inputs, network

from probtrans_cli.errors import UsageError
from probtrans_cli.models import build
from probtrans_cli.models.base import Wants
from probtrans_cli.models.bayesian.weights import Prior, make_uncertain
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import LinearOutput, OutputLayer
from probtrans_cli.tasks.semantic import SemanticOutput


def refused(made: Network, name: str, wants: Wants | None = None) -> None:
    given = inputs(made)
    with pytest.raises(UsageError, match=name) as raised:
        made(given, replace(wants or Wants(words=given.mask), moments="kronecker"))
    assert "model.bayes.predict.kind=samples" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"share_layers": True}, "share_layers"),
        ({"tie_kv": True}, "tie_kv"),
        ({"tie_qo": True}, "tie_qo"),
    ],
)
def test_options_without_a_rule_are_refused(options: dict[str, Any], key: str) -> None:
    refused(network(**options), key)


def test_other_encoders_are_refused() -> None:
    encoder = build({"kind": "probabilistic", "labels": 6, "channels": 2, "iterations": 2})
    refused(Network(VOCABULARY, encoder, lambda one: LinearOutput(one.facts.width, CLASSES)).eval(), "model.kind")


def test_output_layers_without_a_rule_are_refused() -> None:
    class Other(OutputLayer, nn.Linear):
        def read(self, view: Any) -> dict[str, Tensor]:
            return {"words": self(view.states)}

    refused(network(lambda one: Other(one.facts.width, CLASSES), noise=0.0), "Other")
    refused(network(lambda one: SemanticOutput(one.facts.width, [CLASSES], attention=True)), "SemanticOutput")
    of_words = [True] * (CLASSES - 1) + [False]
    refused(
        network(lambda one: SemanticOutput(one.facts.width, [CLASSES], attention=False, alone=of_words)),
        "SemanticOutput",
    )


@pytest.mark.parametrize("output", ["tied", "bert"])
def test_outputs_that_read_uncertain_words_are_refused(output: str) -> None:
    made = network(OUTPUTS[output][0])
    make_uncertain(made.unary, "weight", Prior(0.0, 1.0), deviation=0.1)
    refused(made, "reads uncertain vectors")


def test_modules_from_outside_are_refused() -> None:
    class Wide(nn.Linear):
        def forward(self, given: Tensor) -> Tensor:
            return super().forward(given) * 2

    made = network(noise=0.0)
    layer: Any = made.encoder.layers[1]  # type: ignore[index]
    layer.widen = Wide(8, 12).double()
    refused(made, "Wide")
    made = network(noise=0.0)
    layer = made.encoder.layers[0]  # type: ignore[index]
    layer.activation = nn.SiLU()
    refused(made, "SiLU")
    made = network(noise=0.0)
    layer = made.encoder.layers[0]  # type: ignore[index]
    layer.norm = nn.RMSNorm(8).double()
    refused(made, "RMSNorm")


def test_uncertain_biases_are_refused() -> None:
    made = network(noise=0.0, bias="all")
    layer: Any = made.encoder.layers[0]  # type: ignore[index]
    make_uncertain(layer.widen, "bias", Prior(0.0, 1.0), deviation=0.1)
    refused(made, "uncertain biases")


@pytest.mark.parametrize("option", ["dropout", "attention_dropout", "embedding_dropout"])
def test_dropout_has_no_rule_in_training(option: str) -> None:
    made = network(**{option: 0.5})
    given = inputs(made)
    made(given, Wants(words=given.mask, moments="diagonal"))
    refused(made.train(), "dropout of 0.5")
