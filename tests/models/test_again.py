"""Reading a sentence again: an encoder's last layers or iterations, repeated."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_encoder_contract import NEAR, ROWS, VOCABULARY, network

from probtrans_cli import models
from probtrans_cli.errors import UsageError
from probtrans_cli.models.base import CUES, Encoder, Words
from probtrans_cli.recipe.model import ProbabilisticTransformer

LENGTHS = (6, 1, 4)


def given(encoder: Any) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Random unary scores, their mask, and what else the encoder reads of the words."""
    generator = torch.Generator().manual_seed(1)
    unary = torch.randn(len(LENGTHS), max(LENGTHS), encoder.facts.unary_width, dtype=torch.float64, generator=generator)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    more: dict[str, Any] = {}
    if encoder.facts.counts_words:
        more["cues"] = torch.rand(*mask.shape, CUES, dtype=torch.float64, generator=generator)
    if encoder.facts.segment_types:
        more["segments"] = torch.randint(0, 2, mask.shape, generator=generator)
    return unary, mask, more


@ROWS
@pytest.mark.parametrize("steps", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_the_first_reading_is_forward(kind: str, name: str, steps: int) -> None:
    encoder = network(kind, name).encoder
    steps = min(steps, encoder.section.iterations)
    unary, mask, more = given(encoder)
    reading = encoder.again(encoder.begin(Words(unary, mask, **more), steps))
    torch.testing.assert_close(reading.states, encoder(Words(unary, mask, **more)).states, **NEAR)
    assert not reading.arcs

    wanted = sorted({1, encoder.section.iterations})
    reading = encoder.again(encoder.begin(Words(unary, mask, **more), steps, arcs=wanted))
    expected = encoder(Words(unary, mask, **more), arcs=wanted)
    torch.testing.assert_close(reading.states, expected.states, **NEAR)
    torch.testing.assert_close(torch.stack(reading.arcs, dim=1), expected.arcs, **NEAR)


@ROWS
def test_padding_changes_no_reading(kind: str, name: str) -> None:
    encoder = network(kind, name).encoder
    unary, mask, more = given(encoder)
    size = (*mask.shape, encoder.facts.width)
    bias = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * mask[:, :, None]
    together = encoder.again(encoder.again(encoder.begin(Words(unary, mask, **more), 2)), bias).states
    for row, length in enumerate(LENGTHS):
        alone = {key: value[row : row + 1, :length] for key, value in more.items()}
        reading = encoder.begin(Words(unary[row : row + 1, :length], mask[row : row + 1, :length], **alone), 2)
        states = encoder.again(encoder.again(reading), bias[row : row + 1, :length]).states
        torch.testing.assert_close(together[row, :length], states[0], **NEAR)
        assert not together[row, length:].any()


def test_a_transformer_goes_on_with_its_last_layers() -> None:
    encoder = network("transformer", "sinusoidal").encoder  # pre-norm: what is read is not what is carried on
    unary, mask, _ = given(encoder)
    bias = torch.ones_like(unary) * mask[:, :, None]
    found = encoder.again(encoder.again(encoder.begin(Words(unary, mask), 2)), bias).states
    allowed = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
    states = encoder._embedded(Words(unary, mask), models.transformer.PLAIN)
    for number in (0, 1, 2):
        states, _ = encoder.layers[number](states, allowed, None, False)
    states = states + bias
    for number in (1, 2):
        states, _ = encoder.layers[number](states, allowed, None, False)
    torch.testing.assert_close(found, encoder.final_norm(states) * mask[:, :, None], **NEAR)


@pytest.mark.parametrize("options", [{}, {"root": {"labels": 4}}, {"heads": "tree"}, {"damping": {"labels": 0.3}}])
@pytest.mark.parametrize("messages", ["fast", "plain"])
def test_a_probabilistic_transformer_iterates_on(options: dict[str, Any], messages: Any) -> None:
    made = []
    for iterations in (3, 7):
        torch.manual_seed(0)
        section = {"kind": "probabilistic", "labels": 6, "channels": 2, "iterations": iterations, "dropout": 0.0}
        made.append(models.build({**section, **options}, messages).double().eval())
    short, long = made
    for mine, other in zip(short.parameters(), long.parameters(), strict=True):
        torch.nn.init.normal_(mine, std=0.5)
        other.data.copy_(mine.data)
    unary, mask, _ = given(short)
    reading = short.begin(Words(unary, mask), 2)
    for _ in range(3):  # 1 + 3 x 2 iterations
        reading = short.again(reading)
    torch.testing.assert_close(reading.states, long(Words(unary, mask)).states, **NEAR)


def test_potentials_of_the_last_iterations_are_used_again() -> None:
    """As layers of a transformer are: after 1, 2, 3 come 2, 3 once more."""
    sizes = {"kind": "probabilistic", "labels": 6, "channels": 2, "dropout": 0.0, "share_potentials": False}
    short, long = (models.build({**sizes, "iterations": number}).double().eval() for number in (3, 5))
    own = short.state_dict()
    parts = {number: {key.split(".", 2)[-1]: own[key] for key in own if key.startswith(f"later.{number}.")}
             for number in (0, 1)}  # fmt: skip
    for number in range(4):
        long.later[number].load_state_dict(parts[number % 2])
    long.ternary.load_state_dict(short.ternary.state_dict())
    unary, mask, _ = given(short)
    reading = short.begin(Words(unary, mask), 2)
    for _ in range(2):
        reading = short.again(reading)
    torch.testing.assert_close(reading.states, long(Words(unary, mask)).states, **NEAR)


def test_a_bias_is_one_more_unary_factor_of_one_reading() -> None:
    torch.manual_seed(0)
    section = {"kind": "probabilistic", "labels": 6, "channels": 2, "iterations": 2, "dropout": 0.0}
    encoder = models.build(section).double().eval()
    unary, mask, _ = given(encoder)
    bias = torch.randn(unary.shape, dtype=torch.float64) * mask[:, :, None]
    without = encoder.again(encoder.begin(Words(unary, mask), 1)).states
    told = encoder.again(encoder.begin(Words(unary, mask), 1), bias)
    weight = encoder.inference.labels.weight
    # In a single iteration the messages are those of before, and the factor is only added.
    torch.testing.assert_close(told.states, without + bias / weight, **NEAR)
    after = encoder.again(told).states  # from the distributions that the factor has changed, but without it
    reading = encoder.begin(Words(unary, mask), 1)
    encoder.again(reading, bias)
    torch.testing.assert_close(after, encoder.again(reading).states, **NEAR)
    plain = encoder.again(encoder.again(encoder.begin(Words(unary, mask), 1))).states
    assert (after - plain).abs().max() > 1e-3


@pytest.mark.parametrize("kind", models.ENCODERS)
def test_gradients_go_through_every_reading(kind: str) -> None:
    encoder = network(kind, "plain").encoder.train()
    unary, mask, more = given(encoder)
    unary.requires_grad_()
    reading = encoder.begin(Words(unary, mask, **more), 2)
    for _ in range(3):
        reading = encoder.again(reading)

    def value(at: torch.Tensor) -> torch.Tensor:
        reading = encoder.begin(Words(at, mask, **more), 2)
        for _ in range(3):
            reading = encoder.again(reading)
        return reading.states

    assert torch.autograd.gradcheck(value, (unary,), atol=1e-6, fast_mode=True)


def test_an_encoder_without_a_rule_refuses() -> None:
    class Once(Encoder):
        def forward(self, words: Words, arcs: Any = False, at: Any = None) -> Any:
            return words, arcs, at

    with pytest.raises(UsageError, match="a Once cannot read a sentence again"):
        Once(ProbabilisticTransformer()).begin(
            torch.zeros(1, VOCABULARY, 4), torch.ones(1, VOCABULARY, dtype=torch.bool), 1
        )
