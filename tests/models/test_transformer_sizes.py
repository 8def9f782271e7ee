"""The transformer encoder: published sizes, and what its weights start with."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from small_models import name, sentences
from small_tasks import linear
from torch import nn

from probtrans_cli.models import build
from probtrans_cli.models.base import Words
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.model import Transformer

SMALL: dict[str, Any] = {"kind": "transformer", "width": 6, "inner": 5, "heads": 2, "layers": 2}
TABLE_3: list[tuple[int, int, int, int, int, int]] = [  # d, d_ff, heads, layers, d_qkv, encoder parameters
    (384, 2048, 8, 5, 256, 23_809_408),
    (256, 2048, 14, 4, 128, 11_678_720),
    (512, 2048, 14, 5, 32, 15_358_464),
    (384, 512, 14, 4, 16, 3_155_456),
    (256, 512, 10, 8, 256, 23_214_080),
    (128, 1024, 14, 4, 256, 8_460_800),
    (256, 512, 16, 3, 16, 1_709_312),
]


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("sizes", TABLE_3, ids=str)
def test_parameter_counts_are_those_of_table_3(sizes: tuple[int, ...]) -> None:
    section = dict(zip(("width", "inner", "heads", "layers", "head_size"), sizes[:5], strict=True))
    with torch.device("meta"):
        assert count(build({"kind": "transformer", **section})) == sizes[5]


@pytest.mark.parametrize(("share", "expected"), [(False, 100_000), (True, 50_000)])
def test_parameter_counts_of_cogs(share: bool, expected: int) -> None:
    section = {"width": 64, "inner": 256, "heads": 4, "layers": 2, "head_size": 16, "share_layers": share}
    relative = {"kind": "relative", "clip": 8}
    assert count(build({"kind": "transformer", **section, "positions": relative})) == expected


@pytest.mark.parametrize(
    ("vocabulary", "layers", "width", "expected"),
    [
        (119_547, 12, 768, 177_853_440),
        (28_996, 12, 768, 108_310_272),
        (30_522, 2, 128, 4_385_920),
        (30_522, 8, 512, 41_373_184),
        (30_522, 24, 1024, 335_141_888),
    ],
)
def test_parameter_counts_are_those_of_bert(vocabulary: int, layers: int, width: int, expected: int) -> None:
    section = {"width": width, "inner": 4 * width, "heads": width // 64, "layers": layers}
    with torch.device("meta"):
        network = Network(vocabulary, build({"kind": "transformer", "preset": "bert", **section}), linear(2))
    assert count(network.unary) + count(network.encoder) == expected


def test_a_preset_gives_way_to_what_is_written() -> None:
    section = Transformer.model_validate({"kind": "transformer", "preset": "bert", "layers": 2, "pooler": False})
    assert (section.layers, section.width, section.pooler, section.norm_eps) == (2, 768, False, 1e-12)
    assert section.resolved().head_size == 64


def test_the_start_of_bert() -> None:
    torch.manual_seed(0)
    model = build({"kind": "transformer", "preset": "bert", "width": 64, "heads": 4, "inner": 256, "layers": 2})
    network = Network(500, model, linear(2))
    for key, parameter in [*model.named_parameters(), ("unary", network.unary.weight[1:])]:
        if "norm" in key or "bias" in key:
            assert set(parameter.detach().flatten().tolist()) == {0.0 if "bias" in key else 1.0}, key
        else:
            assert float(parameter.detach().std()) == pytest.approx(0.02, rel=0.15), key


def test_the_start_of_the_paper() -> None:
    torch.manual_seed(0)
    layer: Any = build({**SMALL, "width": 64, "heads": 4, "head_size": 32, "initialization": "xavier"}).layers[0]
    expected = math.sqrt(2.0 / (64 + 32))
    assert float(layer.projections.weight.detach().std()) == pytest.approx(expected, rel=0.05)
    assert float(layer.output.weight.detach().std()) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("options", [{}, {"initialization": "xavier"}, {"preset": "bert", "std": 0.5}], ids=name)
def test_learned_sinusoidal_positions_start_as_fixed_ones(options: dict[str, Any]) -> None:
    """They have as many parameters as other learned ones, and all else starts as it does with those."""
    torch.manual_seed(0)
    learned = build({**SMALL, **options, "positions": {"kind": "learned_sinusoidal", "rows": 12}})
    torch.manual_seed(0)
    absolute = build({**SMALL, **options, "positions": {"kind": "absolute", "rows": 12}})
    fixed = build({**SMALL, **options, "positions": {"kind": "sinusoidal"}})
    assert count(learned) == count(absolute) == count(fixed) + 12 * 6
    positions = learned.positions.detach()  # type: ignore[union-attr]
    angles = torch.arange(12)[:, None] * 10000.0 ** (-torch.arange(0, 6, 2) / 6)
    torch.testing.assert_close(positions[:, 0::2], angles.sin(), rtol=0, atol=1e-5)
    torch.testing.assert_close(positions[:, 1::2], angles.cos(), rtol=0, atol=1e-5)
    others = {key: value for key, value in absolute.named_parameters() if key != "positions"}
    assert all(torch.equal(value, others[key]) for key, value in learned.named_parameters() if key != "positions")
    fixed.load_state_dict({key: value for key, value in learned.state_dict().items() if key != "positions"})
    unary, mask = sentences([6, 4], labels=6)
    given = Words(unary.float(), mask)
    torch.testing.assert_close(learned.eval()(given).states, fixed.eval()(given).states, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("initialization", "usual"), [("normal", 0.02), ("xavier", math.sqrt(2.0 / (500 + 64)))])
def test_words_may_start_larger_than_the_rest(initialization: str, usual: float) -> None:
    encoders = []
    for options, std in [({}, usual), ({"word_std": 0.5}, 0.5)]:
        torch.manual_seed(0)
        encoders.append(build({**SMALL, "width": 64, "initialization": initialization, **options}))
        words = Network(500, encoders[-1], linear(2)).unary.weight[1:]
        assert float(words.detach().std()) == pytest.approx(std, rel=0.02)
    assert all(map(torch.equal, *(encoder.parameters() for encoder in encoders)))
