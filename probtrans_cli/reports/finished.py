"""A finished run as the verb `table` reads it: recipe, scores, parameters, times and command line. Imports no torch."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from probtrans_cli.errors import CheckpointError, ProbtransError
from probtrans_cli.folders import regular
from probtrans_cli.folders.checkpoints import STATE, any_in, best, last
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import load_stored
from probtrans_cli.reports.scores import flattened
from probtrans_cli.text import from_json, visible

COMMAND = "# Command: "
LARGEST = 1e150  # of a number, so that squares stay finite

# Settings that change neither what is learned nor what is scored.
NOT_COMPARED: dict[str, bool | set[str]] = {
    "seed": True, "name": True, "log": True, "save": True, "runtime": True, "data": {"prepared"},
}  # fmt: skip
CORPORA = {"train", "dev", "test", "extra"}


@dataclass(frozen=True)
class Finished:
    """A run that came to its end, or a model that was taken from one. ``seconds``: of updates, without evaluations."""

    folder: str
    recipe: Recipe
    data: str
    """Fingerprint of the corpora; empty where it was not kept."""
    scores: dict[str, dict[str, float]]
    """By split, then by name."""
    parameters: int
    """Of the encoder."""
    speeds: list[float]
    """Words a second, a line of metrics each."""
    seconds: float | None
    command: str
    """The command line that trained it; empty where it was not kept."""

    @property
    def name(self) -> str:
        """The recipe's name without its seed."""
        return self.recipe.name.removesuffix(f"-seed{self.recipe.seed}")

    @property
    def identity(self) -> str:
        """All that makes two runs the same but for the seed."""
        return json.dumps([self.name, self.data, self.corpora, self.settings], sort_keys=True)

    @property
    def corpora(self) -> dict[str, Any]:
        """The files that it learned from and is scored on."""
        return self.recipe.data.model_dump(mode="json", include=CORPORA)

    @property
    def settings(self) -> str:
        """All other settings that change what is learned or scored."""
        kept = self.recipe.model_dump(mode="json", by_alias=True, exclude=NOT_COMPARED)
        kept["data"] = {key: value for key, value in kept["data"].items() if key not in CORPORA}
        return json.dumps(kept, sort_keys=True)


def read_run(folder: str) -> Finished:
    """What a finished run has left in its folder; also of a checkpoint or an exported folder.

    Raises:
        CheckpointError: there is no run, it is not finished, or a file of it cannot be read.
    """
    path = Path(folder)
    checkpoint, run = _locate(path)
    where = named(folder)
    try:
        recipe = load_stored(checkpoint / "recipe.yaml").resolved()
    except ProbtransError as error:
        raise CheckpointError(f"{where}: its recipe cannot be read: {error.message.splitlines()[0]}") from None
    metric = recipe.task.metric
    splits = [split for split in ("dev", "test", "extra") if getattr(recipe.data, split) is not None]
    if not splits:
        raise CheckpointError(f"{where}: its recipe names no data but those for training: there are no scores")
    stored = _read(checkpoint / "eval.json")
    if missing := [split for split in splits if not stored.get(split)]:
        raise CheckpointError(f"{where}: its eval.json has no scores of {' and '.join(missing)}")
    try:
        scores = {split: flattened(stored[split]) | _floor(stored[split]) for split in splits}
        parameters = int(_read(checkpoint / "config.json")["parameters"]["encoder"])
        state = _read((last(run / "checkpoints") if run else checkpoint) / STATE)
        seconds = float(state["seconds"]) if run and state else None
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"{where}: its eval.json, config.json or state.json is not one of ours") from None
    if not all(metric in of_split for of_split in scores.values()):
        raise CheckpointError(f"{where}: its eval.json has no {metric}")
    speeds = _speeds(run / "metrics.jsonl") if run else []
    numbers = chain(*(of_split.values() for of_split in scores.values()), speeds, [seconds or 0.0])
    if not all(abs(number) < LARGEST for number in numbers):
        raise CheckpointError(f"{where}: a score, a speed or the time is not a finite number")
    data, command = str(state.get("data", "")), _command(run / "recipe.yaml") if run else ""
    return Finished(str(path), recipe, data, scores, parameters, speeds, seconds, command)


def _locate(path: Path) -> tuple[Path, Path | None]:
    """The folder with the scores, and the run folder that it belongs to, if there is one; the run must be finished."""
    where = named(str(path))
    if (path / "config.json").is_file():
        checkpoints = path.resolve().parent
        if checkpoints.name != "checkpoints" or not any_in(checkpoints):
            return path, None
        if best(checkpoints).resolve() != path.resolve():
            raise CheckpointError(f"{where}: only the best checkpoint of its run has final scores")
        path = checkpoints.parent
    if not path.is_dir():
        raise CheckpointError(f"{where}: {'not a folder' if path.exists() else 'no such run folder'}")
    ended = _read(path / "exit.json")
    if ended and ended.get("exit") != 0:
        reason = " ".join(str(ended.get("reason")).split())
        raise CheckpointError(f"{where}: not finished, exit code {ended.get('exit')}: {named(reason)}")
    there = any_in(path / "checkpoints")
    if not there and not (path / "recipe.yaml").is_file():
        raise CheckpointError(f"{where}: not a run folder: it has neither a recipe.yaml nor checkpoints")
    if not ended or not there:
        raise CheckpointError(f"{where}: not finished: it has no {'best checkpoint' if ended else 'exit.json'}")
    return best(path / "checkpoints"), path


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is no such file."""
    try:
        value = from_json(regular.read_bytes(path))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError):
        value = None
    if not isinstance(value, dict):
        raise CheckpointError(f"{named(str(path))}: not a readable JSON object")
    return value


def _floor(scores: dict[str, Any]) -> dict[str, float]:
    """UAS and UUAS of the best trees that need no training, in the convention of :func:`flattened`; maybe empty."""
    trees = scores.get("trees", {})
    floor = trees.get("floors", {}).get("untrained_bias", {})
    main = floor.get("no_punct" if "no_punct" in trees else "with_punct", {}).get("all", {})
    return {f"floor_{name}": float(main[name]) for name in ("uas", "uuas") if main.get(name) is not None}


def _speeds(metrics: Path) -> list[float]:
    """Words a second, of every line of a ``metrics.jsonl`` that says so."""
    speeds = []
    for line in regular.read_text(metrics, "replace").splitlines() if os.path.lexists(metrics) else []:
        try:
            speeds.append(float(from_json(line)["words_per_second"]))
        except (ArithmeticError, KeyError, TypeError, ValueError):  # a line of an evaluation, or half a line
            continue
    return speeds


def _command(recipe: Path) -> str:
    """The command line in the header of a run's recipe."""
    for line in regular.read_text(recipe, "replace").splitlines() if os.path.lexists(recipe) else []:
        if line.startswith(COMMAND):
            return line.removeprefix(COMMAND)
        if not line.startswith("#"):
            break
    return ""


def named(text: str) -> str:
    """A folder's name, or another text, as part of one line of a message."""
    return visible(text, longest=200)
