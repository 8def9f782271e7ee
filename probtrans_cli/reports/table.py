"""The verb `table`: finished runs, mean ± s.d. over seeds, beside the paper's figures. Imports no torch.

Runs that differ in nothing but the seed are one row. Nothing is computed anew: the scores are those that `train` stored
with the best checkpoint.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from probtrans_cli import console
from probtrans_cli.errors import CheckpointError, ProbtransError
from probtrans_cli.folders.checkpoints import STATE, any_in, best, last
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.recipe.task import TASKS, TaskSection
from probtrans_cli.reports.published import TASKS as PAPER
from probtrans_cli.reports.published import Published, published, task_of
from probtrans_cli.reports.scores import flattened, is_share, mean_and_sd
from probtrans_cli.text import columns, from_json, visible

COMMAND = "# Command: "
LARGEST = 1e150  # of a number, so that squares stay finite
TREES = ("uas", "uuas", "floor_uas", "floor_uuas")  # scores of trees that a row has beside its metric

# Settings that change neither what is learned nor what is scored.
NOT_COMPARED: dict[str, bool | set[str]] = {
    "seed": True, "name": True, "log": True, "save": True, "runtime": True, "data": {"prepared"},
}  # fmt: skip


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
        settings = self.recipe.model_dump(mode="json", by_alias=True, exclude=NOT_COMPARED)
        return json.dumps([self.name, self.data, settings], sort_keys=True)


def table(folders: Sequence[str]) -> dict[str, Any]:
    """``{"rows": [...]}``: finished runs, several seeds together, in the order of the paper's tasks, then of names.

    What is not a finished run is left out, with a line on stderr that says why.

    Raises:
        CheckpointError: none is a finished run.
    """
    groups: dict[str, dict[int, Finished]] = {}
    left_out: list[str] = []
    for folder in folders:
        try:
            run = read_run(folder)
            runs = groups.setdefault(run.identity, {})
            if run.recipe.seed in runs:
                twin = _named(runs[run.recipe.seed].folder)
                raise CheckpointError(f"{_named(folder)}: the same recipe, data and seed as {twin}")
            runs[run.recipe.seed] = run
        except ProbtransError as error:
            left_out.append(error.message)
        except OSError as error:
            left_out.append(f"{_named(folder)}: cannot be read: {error.strerror}")
    if not groups:
        hint = "give run folders, e.g. runs/*; a run that was stopped goes on with: probtrans train RUN --resume"
        reasons = left_out if len(left_out) == 1 else ["there is no finished run", *left_out]
        raise CheckpointError("\n".join(reasons), hint=hint)
    for reason in left_out:
        console.log(f"left out: {reason}")
    rows = [_row([runs[seed] for seed in sorted(runs)]) for runs in groups.values()]
    return {"rows": sorted(rows, key=_order)}


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    task = task_of(row["recipe"])
    place = PAPER.index(task) if task else len(PAPER)
    return (list(TASKS).index(row["task"]), place, row["recipe"], row["model"], row["runs"])


# --- reading ----------------------------------------------------------------------------------------------------------


def read_run(folder: str) -> Finished:
    """What a finished run has left in its folder; also of a checkpoint or an exported folder.

    Raises:
        CheckpointError: there is no run, it is not finished, or a file of it cannot be read.
    """
    path = Path(folder)
    checkpoint, run = _locate(path)
    where = _named(folder)
    try:
        recipe = load_recipe(str(checkpoint / "recipe.yaml")).resolved()
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
    where = _named(str(path))
    if (path / "config.json").is_file():
        checkpoints = path.resolve().parent
        if checkpoints.name != "checkpoints" or not any_in(checkpoints):
            return path, None
        if best(checkpoints) != path.resolve():
            raise CheckpointError(f"{where}: only the best checkpoint of its run has final scores")
        path = checkpoints.parent
    if not path.is_dir():
        raise CheckpointError(f"{where}: {'not a folder' if path.exists() else 'no such run folder'}")
    ended = _read(path / "exit.json")
    if ended and ended.get("exit") != 0:
        reason = " ".join(str(ended.get("reason")).split())
        raise CheckpointError(f"{where}: not finished, exit code {ended.get('exit')}: {_named(reason)}")
    there = any_in(path / "checkpoints")
    if not there and not (path / "recipe.yaml").is_file():
        raise CheckpointError(f"{where}: not a run folder: it has neither a recipe.yaml nor checkpoints")
    if not ended or not there:
        raise CheckpointError(f"{where}: not finished: it has no {'best checkpoint' if ended else 'exit.json'}")
    return best(path / "checkpoints"), path


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is no such file."""
    try:
        value = from_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError):
        value = None
    if not isinstance(value, dict):
        raise CheckpointError(f"{_named(str(path))}: not a readable JSON object")
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
    for line in metrics.read_text(encoding="utf-8", errors="replace").splitlines() if metrics.is_file() else []:
        try:
            speeds.append(float(from_json(line)["words_per_second"]))
        except (ArithmeticError, KeyError, TypeError, ValueError):  # a line of an evaluation, or half a line
            continue
    return speeds


def _command(recipe: Path) -> str:
    """The command line in the header of a run's recipe."""
    for line in recipe.read_text(encoding="utf-8", errors="replace").splitlines() if recipe.is_file() else []:
        if line.startswith(COMMAND):
            return line.removeprefix(COMMAND)
        if not line.startswith("#"):
            break
    return ""


def _named(text: str) -> str:
    """A folder's name, or another text, as part of one line of a message."""
    return visible(text, longest=200)


# --- rows -------------------------------------------------------------------------------------------------------------


def _row(runs: Sequence[Finished]) -> dict[str, Any]:
    """One row, with raw numbers, of runs that differ in their seeds."""
    first = runs[0]
    task, model = first.recipe.task, first.recipe.model.kind
    metric = task.metric
    column = task.chosen_column
    scores = {split: _over_seeds(runs, split, [metric, *TREES]) for split in first.scores}
    cell = published(first.name, model, metric, column)
    seconds = [run.seconds for run in runs if run.seconds is not None]
    speeds = [speed for run in runs for speed in run.speeds]
    return {
        "recipe": first.name, "model": model, "task": task.kind, "column": column,
        "metric": metric, "larger_is_better": task.larger_is_better,
        "seeds": [run.recipe.seed for run in runs],
        "runs": [run.folder.encode(errors="backslashreplace").decode() for run in runs],
        "dev": scores.get("dev"), "test": scores.get("test"), "extra": scores.get("extra"),
        "encoder_parameters": first.parameters,
        "words_per_second": statistics.median(speeds) if speeds else None,
        "seconds": statistics.fmean(seconds) if seconds else None,
        "corpora": first.recipe.data.model_dump(mode="json", include={"train", "dev", "test", "extra", "select"}),
        "pretrained": first.recipe.model.init_from is not None,
        "command": first.command,
        "paper": _compared(cell, scores["test"][metric]["mean"], task) if cell and "test" in scores else None,
    }  # fmt: skip


def _over_seeds(runs: Sequence[Finished], split: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    over = mean_and_sd([run.scores for run in runs], split)
    return {name: {"mean": over["mean"][name], "sd": over["sd"][name]} for name in names if name in over["mean"]}


def _compared(cell: Published, mean: float, task: TaskSection) -> dict[str, Any]:
    """The paper's figure, and ours less the paper's in units of the paper's s.d."""
    difference = (mean - cell.mean) / cell.sd
    return {
        "corpus": cell.corpus, "mean": cell.mean, "sd": cell.sd, "encoder_parameters": cell.parameters,
        "difference_in_sd": difference, "better": difference > 0 if task.larger_is_better else difference < 0,
    }  # fmt: skip


# --- Markdown ---------------------------------------------------------------------------------------------------------

TEXTS = ("recipe", "model", "task", "metric", "run", "command")
"""Columns of words; the others are of numbers."""


def in_cells(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The headers and the rows as texts; columns that would be empty are left out."""
    names = [row["recipe"] for row in result["rows"]]
    lines = [_cells(row, alone=names.count(row["recipe"]) == 1) for row in result["rows"]]
    shown = [header for header in lines[0] if any(line[header] for line in lines)]
    return shown, [[line[header] for header in shown] for line in lines]


def markdown(result: dict[str, Any]) -> str:
    """The table as Markdown."""
    return as_markdown(*in_cells(result))


def as_markdown(shown: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Headers and rows as a Markdown table; columns that are not in ``TEXTS`` are of numbers."""
    content = [shown, *([_escaped(cell) for cell in line] for line in lines)]
    widths = [max(columns(cell) for cell in column) for column in zip(*content, strict=True)]
    widths = [max(width, 3) for width in widths]
    rules = [
        "-" * width if header in TEXTS else "-" * (width - 1) + ":"
        for header, width in zip(shown, widths, strict=True)
    ]  # fmt: skip
    text = ""
    for line in (content[0], rules, *content[1:]):
        padded = []
        for header, cell, width in zip(shown, line, widths, strict=True):
            space = " " * (width - columns(cell))
            padded.append(cell + space if header in TEXTS else space + cell)
        text += f"| {' | '.join(padded)} |\n"
    return text


def _cells(row: dict[str, Any], *, alone: bool) -> dict[str, str]:
    """The text of each column; a row that is not ``alone`` with its name is told apart by its run folder."""
    metric, paper = row["metric"], row["paper"]
    dev, test, extra = row["dev"] or {}, row["test"] or {}, row["extra"] or {}
    seeds, folders = row["seeds"], row["runs"]
    base = folders[0].removesuffix(f"-seed{seeds[0]}")
    together = len(seeds) > 1 and folders == [f"{base}-seed{seed}" for seed in seeds]
    return {
        "recipe": row["recipe"],
        "model": row["model"],
        "task": " ".join(filter(None, [row["task"], row["column"]])),
        "metric": metric,
        "seeds": str(len(seeds)),
        "dev": score_in_words(metric, dev.get(metric)),
        "test": score_in_words(metric, test.get(metric)),
        "extra": score_in_words(metric, extra.get(metric)),
        "dev UUAS": score_in_words("uuas", dev.get("uuas")),
        "test UUAS": score_in_words("uuas", test.get("uuas")),
        "encoder": f"{row['encoder_parameters']:,}",
        "words/s": "" if row["words_per_second"] is None else f"{row['words_per_second']:,.0f}",
        "time": "" if row["seconds"] is None else time_in_words(row["seconds"]),
        "paper": score_in_words(metric, paper),
        "to the paper": _difference(paper) if paper else "",
        "paper's encoder": f"{paper['encoder_parameters'] / 1e6:.3g}M" if paper else "",
        "run": "" if alone else f"{base}-seed{{{','.join(map(str, seeds))}}}" if together else ", ".join(folders),
    }


def score_in_words(metric: str, score: dict[str, Any] | None) -> str:
    """Mean ± s.d., shares in percent; the s.d. is left out where there is none."""
    if score is None:
        return ""
    share = is_share(metric)
    numbers = [score[key] * (100 if share else 1) for key in ("mean", "sd") if score[key] is not None]
    return " ± ".join(map(_number, numbers)) + (" %" if share else "")


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3g}"


def time_in_words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _difference(paper: dict[str, Any]) -> str:
    size = f"{abs(paper['difference_in_sd']):,.1f}"
    if size == "0.0":
        return "0.0 s.d."
    return f"{size} s.d. {'better' if paper['better'] else 'worse'}"


def _escaped(text: str) -> str:
    """Text as the content of a Markdown cell: shown as it is, whatever it holds."""
    text = visible(text, longest=300) if text else ""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*~|\[\]])", r"\\\1", text)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)  # within a word it is only itself
