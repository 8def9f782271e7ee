"""Finished runs as the verb `table` reads them, and the paper's figures beside them. Imports no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from probtrans_cli.errors import CheckpointError, ProbtransError
from probtrans_cli.folders import regular
from probtrans_cli.folders.checkpoints import STATE, any_in, linked
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
    data: str  # fingerprint of the corpora; empty where it was not kept
    scores: dict[str, dict[str, float]]  # by split, then by name
    parameters: int  # of the encoder
    speeds: list[float]  # words a second, a line of metrics each
    seconds: float | None
    command: str  # the command line that trained it; empty where it was not kept

    @property
    def name(self) -> str:
        return self.recipe.name.removesuffix(f"-seed{self.recipe.seed}")

    @property
    def corpora(self) -> dict[str, Any]:
        return self.recipe.data.model_dump(mode="json", include=CORPORA)

    @property
    def settings(self) -> str:
        """All other settings that change what is learned or scored."""
        settings = self.recipe.model_dump(mode="json", by_alias=True, exclude=NOT_COMPARED)
        settings["data"] = {key: value for key, value in settings["data"].items() if key not in CORPORA}
        return json.dumps(settings, sort_keys=True)


def read_run(folder: str) -> Finished:
    """Read what a finished run has left in its folder; also of a checkpoint or an exported folder."""
    path = Path(folder)
    checkpoint, run = _locate(path)
    where = folder_name(folder)
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
        scores = {split: flattened(stored[split]) | _baseline(stored[split]) for split in splits}
        parameters = int(_read(checkpoint / "config.json")["parameters"]["encoder"])
        state = _read((linked(run / "checkpoints", "last") if run else checkpoint) / STATE)
        seconds = float(state["seconds"]) if run and state else None
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"{where}: its eval.json, config.json or state.json is not one of ours") from None
    if not all(metric in of_split for of_split in scores.values()):
        raise CheckpointError(f"{where}: its eval.json has no {metric}")
    speeds = speeds_of(read_metrics(run / "metrics.jsonl")) if run else []
    numbers = chain(*(of_split.values() for of_split in scores.values()), speeds, [seconds or 0.0])
    if not all(abs(number) < LARGEST for number in numbers):
        raise CheckpointError(f"{where}: a score, a speed or the time is not a finite number")
    data, command = str(state.get("data", "")), _command(run / "recipe.yaml") if run else ""
    return Finished(str(path), recipe, data, scores, parameters, speeds, seconds, command)


def _locate(path: Path) -> tuple[Path, Path | None]:
    where = folder_name(str(path))
    if (path / "config.json").is_file():
        checkpoints = path.resolve().parent
        if checkpoints.name != "checkpoints" or not any_in(checkpoints):
            return path, None
        if linked(checkpoints, "best").resolve() != path.resolve():
            raise CheckpointError(f"{where}: only the best checkpoint of its run has final scores")
        path = checkpoints.parent
    if not path.is_dir():
        raise CheckpointError(f"{where}: {'not a folder' if path.exists() else 'no such run folder'}")
    ended = _read(path / "exit.json")
    if ended and ended.get("exit") != 0:
        reason = " ".join(str(ended.get("reason")).split())
        raise CheckpointError(f"{where}: not finished, exit code {ended.get('exit')}: {folder_name(reason)}")
    has_checkpoints = any_in(path / "checkpoints")
    if not has_checkpoints and not (path / "recipe.yaml").is_file():
        raise CheckpointError(f"{where}: not a run folder: it has neither a recipe.yaml nor checkpoints")
    if not ended or not has_checkpoints:
        raise CheckpointError(f"{where}: not finished: it has no {'best checkpoint' if ended else 'exit.json'}")
    return linked(path / "checkpoints", "best"), path


def _read(path: Path) -> dict[str, Any]:
    try:
        value = from_json(regular.read_bytes(path))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError):
        value = None
    if not isinstance(value, dict):
        raise CheckpointError(f"{folder_name(str(path))}: not a readable JSON object")
    return value


def _baseline(scores: dict[str, Any]) -> dict[str, float]:
    trees = scores.get("trees", {})
    floor = trees.get("floors", {}).get("untrained_bias", {})
    main = floor.get("no_punct" if "no_punct" in trees else "with_punct", {}).get("all", {})
    return {f"floor_{name}": float(main[name]) for name in ("uas", "uuas") if main.get(name) is not None}


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a `metrics.jsonl`, without damaged lines such as the last one after a kill."""
    if not os.path.lexists(path):
        return
    with regular.open_file(path) as file:
        for line in file:
            try:
                values = from_json(line.decode("utf-8", "replace"))
            except ValueError:
                continue
            if isinstance(values, dict) and {"step", "split"} <= values.keys():
                yield values


def speeds_of(metrics: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return the words a second of those records that have them."""
    return [line["words_per_second"] for line in metrics if isinstance(line.get("words_per_second"), int | float)]


def _command(recipe: Path) -> str:
    for line in regular.read_text(recipe, "replace").splitlines() if os.path.lexists(recipe) else []:
        if line.startswith(COMMAND):
            return line.removeprefix(COMMAND)
        if not line.startswith("#"):
            break
    return ""


def folder_name(text: str) -> str:
    return visible(text, longest=200)


@dataclass(frozen=True)
class Published:
    """One cell of the paper's table. ``task`` is what the names of its recipes begin with, before a ``-``."""

    task: str
    corpus: str
    column: Literal["xpos", "upos"] | None  # of tagging: which tags
    metric: str
    model: Literal["probabilistic", "transformer"]
    mean: float
    sd: float
    parameters: int


PUBLISHED = (
    Published("mlm-ptb", "PTB", None, "perplexity", "transformer", 58.43, 0.58, 23_800_000),
    Published("mlm-ptb", "PTB", None, "perplexity", "probabilistic", 62.86, 0.40, 6_300_000),
    Published("mlm-bllip", "BLLIP-XS", None, "perplexity", "transformer", 101.91, 1.40, 11_700_000),
    Published("mlm-bllip", "BLLIP-XS", None, "perplexity", "probabilistic", 123.18, 1.50, 6_300_000),
    Published("pos-ptb", "PTB", "xpos", "accuracy", "transformer", 0.9644, 0.0004, 15_400_000),
    Published("pos-ptb", "PTB", "xpos", "accuracy", "probabilistic", 0.9629, 0.0003, 3_100_000),
    Published("pos-ewt", "UD EWT", "xpos", "accuracy", "transformer", 0.9117, 0.0011, 3_200_000),
    Published("pos-ewt", "UD EWT", "xpos", "accuracy", "probabilistic", 0.9096, 0.0010, 2_400_000),
    Published("upos-ewt", "UD EWT", "upos", "accuracy", "transformer", 0.9196, 0.0006, 14_400_000),
    Published("upos-ewt", "UD EWT", "upos", "accuracy", "probabilistic", 0.9157, 0.0012, 4_200_000),
    Published("ner-conll03", "CoNLL-2003", None, "f1", "transformer", 0.7402, 0.0111, 1_700_000),
    Published("ner-conll03", "CoNLL-2003", None, "f1", "probabilistic", 0.7547, 0.0035, 9_400_000),
    Published("sst2", "SST-2", None, "accuracy", "transformer", 0.8251, 0.0026, 23_200_000),
    Published("sst2", "SST-2", None, "accuracy", "probabilistic", 0.8204, 0.0088, 10_500_000),
    Published("sst5", "SST-5", None, "accuracy", "transformer", 0.4013, 0.0109, 8_500_000),
    Published("sst5", "SST-5", None, "accuracy", "probabilistic", 0.4277, 0.0118, 2_600_000),
    Published("cogs", "COGS gen", None, "exact", "transformer", 0.8205, 0.0218, 100_000),
    Published("cogs-universal", "COGS gen", None, "exact", "transformer", 0.8050, 0.0349, 50_000),
    Published("cogs", "COGS gen", None, "exact", "probabilistic", 0.8460, 0.0206, 150_000),
)

TASKS = tuple(dict.fromkeys(cell.task for cell in PUBLISHED))  # the tasks, in the paper's order


def task_of(name: str) -> str | None:
    """Return the paper's task that a recipe's name says it is, the most specific one; None for all other names."""
    return max((task for task in TASKS if f"{name}-".startswith(f"{task}-")), key=len, default=None)


def published(name: str, model: str, metric: str, column: str | None) -> Published | None:
    """Return the paper's figure for a recipe, by its name and kind of model, if metric and column are the same."""
    wanted = (task_of(name), model, metric, column)
    cells = (cell for cell in PUBLISHED if (cell.task, cell.model, cell.metric, cell.column) == wanted)
    return next(cells, None)
