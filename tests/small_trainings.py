"""Shared by tests that train in this process: a trainer that has not begun, a whole training, and its metrics."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import environment

from probtrans_cli.commands import train as runs
from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.training.loop import Trainer


def trainer(*overrides: str, name: str = "run") -> Trainer:
    recipe = load_recipe("tiny.yaml", overrides).resolved()
    Path(name).mkdir(exist_ok=True)
    return Trainer(recipe, prepare(recipe), Path(name), resume=False)


def train(*overrides: str, run: str = "runs/one") -> dict[str, Any]:
    """Train the recipe of the current folder to its end; returns the final scores."""
    return runs.train(runs.TrainRequest("tiny.yaml", overrides, run=Path(run)))


def customize(folder: Path, program: str) -> dict[str, str]:
    """Let Python run a program first wherever it starts with the variables that are returned."""
    place = folder / "customized"
    place.mkdir()
    (place / "sitecustomize.py").write_text(program, "utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(place), environment()["PYTHONPATH"]])}


def until(done: Callable[[], bool], process: subprocess.Popen[Any] | None = None, log: Path | None = None) -> None:
    """Wait for something that is on its way, while ``process`` runs; the limit is for what hangs."""
    deadline = time.monotonic() + 300
    while not done():
        assert time.monotonic() < deadline, log and log.read_text("utf-8")
        assert process is None or process.poll() is None, log and log.read_text("utf-8")
        time.sleep(0.005)


def has_lines(run: Path, number: int) -> bool:
    path = run / "metrics.jsonl"
    return path.exists() and path.read_text("utf-8").count("\n") >= number


def metrics(run: str | Path = "runs/one", split: str | None = None) -> list[dict[str, Any]]:
    """The lines of metrics of a run: of one split, or all."""
    lines = [json.loads(line) for line in Path(run, "metrics.jsonl").read_text("utf-8").splitlines()]
    return [line for line in lines if split in (None, line["split"])]
