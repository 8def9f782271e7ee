"""Sizes of models are bounded: by themselves, and where only their product would exhaust the machine."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from small_recipes import SMALL, read, refused
from support import require_origin

from probtrans_cli.models.bayesian.weights import LEAST, MOST
from probtrans_cli.recipe.base import MOST_NUMBERS
from probtrans_cli.recipe.source import shipped_recipes
from probtrans_cli.recipe.weights import LEAST_START, MOST_DEVIATION

TRANSFORMER = "model={kind: transformer}"


@pytest.mark.parametrize(
    "override",
    [
        "model.distance=1000000", "model.distance=20000", "model.iterations=100000", "model.labels=2147483647",
        "model.channels=1001", "model.decomposition={kind: uv, rank: 1000000}", "model.root={labels: 1000000}",
        "model.decomposition={kind: rotary, rank: 1000000}", "model.globals={kind: all-dep, features: 1000000}",
        "runtime.threads=100000",
    ],
)  # fmt: skip
def test_sizes_have_bounds(override: str) -> None:
    (fault,) = refused(SMALL, override)
    assert "wanted" in fault
    assert " ≤ 1" in fault, "the bound is told"


@pytest.mark.parametrize("key", ["width", "inner", "heads", "head_size", "layers", "segments"])
def test_sizes_of_transformers_have_bounds(key: str) -> None:
    assert "≤ 1" in refused(SMALL, TRANSFORMER, f"model.{key}=1000000")[0]


@pytest.mark.parametrize("value", ["1e300", "1e-300", "8"])
@pytest.mark.parametrize("key", ["model.bayes.start", "model.bayes.prior.std", "optim.ivon.prior.std"])
def test_deviations_of_weights_have_bounds(key: str, value: str) -> None:
    """Those between which every deviation is kept; a recipe beyond them would compute something else than it says."""
    (fault,) = refused(SMALL, "model={kind: transformer, bayes: {}}", f"{key}={value}")
    least = "0.002" if key.endswith("start") else "0.001"
    assert f"{key}: found {value}, wanted a number ≥ {least} and ≤ 7" in fault


def test_the_bounds_of_the_start_are_within_those_of_the_deviations() -> None:
    """For a matrix of one input, and of as many as a recipe may have."""
    assert math.log(MOST_DEVIATION) <= MOST
    assert math.log(LEAST_START * 100_000**-0.5) >= LEAST


@pytest.mark.parametrize(
    "override",
    [
        "model.bayes.sigma_lr=1e300", "model.bayes.kl_weight=1e300", "optim.ivon.lr=1e300",
        "optim.ivon.hessian_start=1e300", "optim.ivon.hessian_start=1e-300", "optim.ivon.kl_weight=1e300",
        "optim.ivon.kl_weight=1e-300", "optim.ivon.clip=1e300",
    ],
)  # fmt: skip
def test_how_deviations_are_found_has_bounds(override: str) -> None:
    key, _, value = override.partition("=")
    (fault,) = refused(SMALL, "model={kind: transformer, bayes: {}}", override)
    assert f"{key}: found {value}, wanted " in fault
    assert " ≤ 1" in fault


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["model.distance=1000", "model.labels=10000", "model.channels=100"], "model.decomposition"),
        (["model.decomposition={kind: none}", "model.labels=30000"], "model.decomposition"),
        (["model.decomposition={kind: uvw, rank: 100000}", "model.labels=100000"], "model.decomposition"),
        (["model.decomposition={kind: shared, rank: 100000}", "model.channels=1000"], "model.decomposition"),
        (["model.decomposition={kind: rotary, rank: 100000}", "model.channels=1000"], "model.decomposition"),
        (["model.root={labels: 100000}", "model.labels=20000"], "model.root"),
        (["model.globals={kind: dep-split, features: 100000}", "model.labels=20000"], "model.globals"),
        ([TRANSFORMER, "model.width=100000", "model.inner=100000"], "model.width"),
        ([TRANSFORMER, "model.positions={kind: absolute, rows: 100000}", "model.width=80000"], "model.width"),
    ],
)
def test_products_of_sizes_have_a_bound(overrides: list[str], key: str) -> None:
    told = f": {key}: this would be "
    assert any(told in fault and f"more than {MOST_NUMBERS:,}" in fault for fault in refused(SMALL, *overrides))


@pytest.mark.parametrize("path", shipped_recipes().values(), ids=lambda path: path.stem)
def test_the_bounds_are_far_from_all_shipped_recipes(path: Path) -> None:
    require_origin(path)
    section = read(path.read_text("utf-8")).model
    if section.kind == "probabilistic":
        larger = {"labels": 2 * section.labels, "channels": 2 * section.channels}
        faults = section.model_copy(update=larger).inconsistencies()
        assert not [fault for fault in faults if "this would be" in fault[1]]
