"""Building encoders from sections: published sizes, and options that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from small_models import GLOBALS, name

from probtrans_cli.models import build
from probtrans_cli.recipe.base import InconsistentError
from probtrans_cli.recipe.model import ProbabilisticTransformer

UV = {"kind": "uv", "rank": 64}
SIZES: list[tuple[str, dict[str, Any], int]] = [
    # 2 factors x 8 buckets x 16 channels x 64 x 384
    ("PTB, masked words", {"labels": 384, "channels": 16, "decomposition": UV, "distance": 3}, 6_291_456),
    # 8 buckets x 18 channels x 128 x 128
    ("UD, tagging", {"labels": 128, "channels": 18, "decomposition": {"kind": "none"}, "distance": 3}, 2_359_296),
    # 2 factors x 18 buckets x 4 channels x 16 x 64
    ("COGS", {"labels": 64, "channels": 4, "decomposition": {**UV, "rank": 16}, "distance": 8}, 147_456),
    # 2 factors x 8 buckets x 10 channels x 64 x 512, and as much again for the root: 10 channels x 512 x 1024
    (
        "SST-2",
        {"labels": 512, "channels": 10, "decomposition": UV, "distance": 3, "root": {"labels": 1024}},
        10_485_760,
    ),
]


@pytest.mark.parametrize(("section", "count"), [size[1:] for size in SIZES], ids=[size[0] for size in SIZES])
def test_parameter_counts_are_the_published_ones(section: dict[str, Any], count: int) -> None:
    """Encoder sizes that the reference reports, without the unary scores."""
    with torch.device("meta"):
        model = build(section)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"decomposition": {"kind": "rotary", "rank": 2}, "distance": 3}, "distance"),
    ({"decomposition": {"kind": "rotary", "rank": 2}, "symmetric": True}, "symmetric"),
    ({"globals": {"kind": "dep-split", "parameterization": "neural"}}, "globals.parameterization"),
    ({"globals": {"kind": "single-split", "parameterization": "neural"}}, "globals.parameterization"),
    ({"globals": {"kind": "rectified", "parameterization": "neural"}}, "globals.parameterization"),
    ({"globals": {"kind": "all-dep"}, "heads": "tree"}, "globals.kind"),
]


@pytest.mark.parametrize(("section", "key"), WRONG, ids=[f"{name(one)}" for one, _ in WRONG])
def test_options_that_do_not_go_together_are_refused(section: dict[str, Any], key: str) -> None:
    with pytest.raises(InconsistentError) as raised:
        build(section)
    assert [".".join(path) for path, _ in raised.value.faults] == [key]


def test_wrong_values_and_kinds_are_refused() -> None:
    with pytest.raises(ValidationError, match="labels"):
        build({"labels": 0})
    with pytest.raises(ValidationError, match="chanels"):
        build({"chanels": 3})
    with pytest.raises(KeyError, match="lstm"):
        build({"kind": "lstm"})


def test_a_dict_and_its_section_build_the_same() -> None:
    def weights(section: Any) -> Iterator[torch.Tensor]:
        torch.manual_seed(0)
        return build(section).parameters()

    section = {"labels": 8, "channels": 2, "root": {"labels": 4}, "globals": GLOBALS[1]}
    again = build(section).section
    assert all(torch.equal(*pair) for pair in zip(weights(section), weights(again), strict=True))
    model = build(section).double()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
    assert model.width == 8


@pytest.mark.parametrize(
    ("features", "faulty"),
    [(None, True), ("all-dep", True), ("dep-split", False), ("single-split", False), ("rectified", True)],
)
def test_a_weight_of_features_needs_features_apart_from_heads(features: str | None, faulty: bool) -> None:
    section: dict[str, Any] = {"globals": features and {"kind": features}, "message_weight": {"features": 2.0}}
    found = ProbabilisticTransformer.model_validate(section).inconsistencies()
    assert [path for path, _ in found] == ([("message_weight", "features")] if faulty else [])
