"""Folders of finished runs, without what the verb `table` does not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support import RECIPE

from probtrans_cli.recipe.source import dump_recipe, read_recipe
from probtrans_cli.reports.table import table

TAGGING = ("name=pos-ewt-mine", "task={kind: tagging, column: xpos}")


def trees(uuas: float, uas: float = 0.25) -> dict[str, Any]:
    """A tree report in which every figure but those of the table is another."""
    other = {"uas": 0.9, "uuas": 0.9, "sentences": 3, "words": 9}
    return {
        "no_punct": {"all": other | {"uas": uas, "uuas": uuas}, "10": other},
        "with_punct": {"all": other, "10": other},
        "reading": {"channel": 0, "iteration": -1, "decoder": "eisner", "chosen_on": "dev"},
        "floors": {},
    }


def store(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def model(folder: Path, scores: Any, *overrides: str) -> Path:
    """A checkpoint folder, without what `table` does not read."""
    recipe = read_recipe(RECIPE.encode(), "tiny.yaml", overrides).resolved()
    store(folder / "recipe.yaml", dump_recipe(recipe, ["Recipe of this checkpoint"]))
    store(folder / "eval.json", scores)
    store(folder / "config.json", {"parameters": {"unary": 7, "encoder": 1234567, "output": 8}})
    return folder


def run(
    folder: Path, scores: Any, *overrides: str, seconds: float = 60.0, speeds: tuple[int, ...] = (), data: str = "f"
) -> Path:
    best = model(folder / "checkpoints" / "step-000012", scores, *overrides)
    for name in ("best", "last"):
        (folder / "checkpoints" / name).symlink_to(best.name)
    store(best / "training" / "state.json", {"step": 12, "seconds": seconds, "data": data})
    store(folder / "recipe.yaml", (best / "recipe.yaml").read_text("utf-8"))
    lines = [{"step": 1, "split": "train", "loss": 2.5, "words_per_second": speed} for speed in speeds]
    lines.append({"step": 12, "split": "dev", "loss": 2.5})
    store(folder / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines) + '{"step": 13, "words_per_')
    store(folder / "exit.json", {"exit": 0, "reason": "done"})
    return folder


def scores(dev: float, test: float, metric: str = "perplexity", **more: Any) -> dict[str, Any]:
    return {"dev": {metric: dev, "loss": 1.0, **more}, "test": {metric: test, "loss": 1.0, **more}}


def rows(*folders: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table([str(folder) for folder in folders])["rows"]
    return found
