"""Every shipped recipe is short, builds and takes steps, and its encoder is as large as the paper says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support import ROOT, require_origin, stand_in

from probtrans_cli import models
from probtrans_cli.data.corpus.manifest import SPLITS
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.reports.finished import PUBLISHED

RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))


def test_a_recipe_has_a_header_and_is_short() -> None:
    for path in RECIPES:
        lines = path.read_text("utf-8").splitlines()
        assert lines[0] == "# yaml-language-server: $schema=./schema.json", path
        assert lines[1].startswith("# "), path
        assert len([line for line in lines if line.startswith("#")]) <= 10, path
        assert len(lines) <= 50, path


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_valid(path: Path) -> None:
    require_origin(path)
    assert load_recipe(path.stem).name == path.stem


@pytest.mark.slow
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_builds_and_takes_steps(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a few toy sentences in place of its corpus; nothing else is changed but the device and a vocabulary's size."""
    from probtrans_cli.commands.train import TrainRequest, train

    monkeypatch.chdir(tmp_path)
    require_origin(path)
    recipe = load_recipe(path.stem)
    there = [name for name in SPLITS if getattr(recipe.data, name) is not None]
    overrides = [f"data.{name}={stand_in(tmp_path, name, recipe.data)}" for name in there]
    overrides.append("runtime={device: cpu, threads: 1}")
    if recipe.data.vocabulary.kind == "sentencepiece":
        overrides.append("data.vocabulary.size=60")
    result = train(TrainRequest(str(path), overrides, dry_run=True))
    assert result["dry_run"] is True


CELLS = [
    ("cogs-universal" if cell.task == "cogs-universal" else f"{cell.task}-{cell.model}", cell) for cell in PUBLISHED
]


def test_the_encoder_of_a_cell_of_the_paper_is_as_large_as_published() -> None:
    """Without a tensor; the paper rounds to tenths of a million, of COGS's small ones to tens of thousands."""
    for name, cell in CELLS:
        with torch.device("meta"):
            encoder = models.build(load_recipe(name).resolved().model)
        count = sum(parameter.numel() for parameter in encoder.parameters())
        unit = 100_000 if cell.parameters >= 1_000_000 else 10_000
        assert round(count / unit) * unit == cell.parameters, name
