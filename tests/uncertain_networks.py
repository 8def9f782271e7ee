"""Small transformers with uncertain matrices, sentences for them, and the output layers that have moments."""

from __future__ import annotations

from typing import Any

import torch
from random_transformers import make_random
from torch import nn

from probtrans_cli.models import build
from probtrans_cli.models.base import Encoder
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import BertWordOutput, LinearOutput, TiedLinear, WordOutput
from probtrans_cli.tasks.semantic import SemanticOutput

SMALL: dict[str, Any] = {"kind": "transformer", "width": 8, "inner": 12, "heads": 2, "layers": 2}
STILL = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
VOCABULARY, CLASSES = 11, 3


def network(output: Any = None, *, noise: float = 0.2, sentence: Any = None, **options: Any) -> Network:
    """In float64; the matrices of encoder and output are uncertain, gains and shifts are random."""
    torch.manual_seed(0)
    encoder = build({**SMALL, **STILL, **options})
    begins = bool(encoder.facts.segment_types)

    def make(encoder: Encoder) -> Any:
        layer = LinearOutput(encoder.facts.width, CLASSES) if output is None else output(encoder)
        layer.sentence = sentence
        return layer

    made = Network(VOCABULARY, encoder, make, begins=begins).double().eval()
    with torch.no_grad():
        made.unary.weight.normal_()
        for module in made.modules():
            if isinstance(module, nn.LayerNorm):
                module.weight.add_(torch.randn_like(module.weight), alpha=0.2)
                module.bias.normal_(std=0.2)
    if noise:
        make_random(made, noise, torch.Generator().manual_seed(1))
    return made


OUTPUTS: dict[str, tuple[Any, str]] = {
    "linear": (lambda encoder: LinearOutput(encoder.facts.width, CLASSES), "words"),
    "words": (lambda encoder: WordOutput(encoder.facts.width, VOCABULARY, never=[0]), "words"),
    "tied": (lambda encoder: TiedLinear(VOCABULARY), "words"),
    "weighted": (lambda encoder: TiedLinear(VOCABULARY, scale=0.5), "words"),
    "bert": (lambda encoder: BertWordOutput(VOCABULARY, encoder.facts.width), "words"),
    "bert untied": (lambda encoder: BertWordOutput(VOCABULARY, encoder.facts.width, tied=False), "words"),
    "semantic": (lambda encoder: SemanticOutput(encoder.facts.width, [CLASSES], attention=False), "words"),
}
