"""The verb `table`: finished runs, mean ± s.d. over seeds, beside the paper's figures. Imports no torch.

Runs that differ in nothing but the seed are one row. Nothing is computed anew: the scores are those that `train` stored
with the best checkpoint.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from probtrans_cli import console
from probtrans_cli.errors import CheckpointError, ProbtransError
from probtrans_cli.recipe.task import TASKS
from probtrans_cli.reports.finished import TASKS as PAPER
from probtrans_cli.reports.finished import Finished, folder_name, published, read_run, task_of
from probtrans_cli.reports.scores import is_share, mean_and_sd
from probtrans_cli.text import columns, visible

TREES = ("uas", "uuas", "floor_uas", "floor_uuas")  # scores of trees that a row has beside its metric


def table(folders: Sequence[str]) -> dict[str, Any]:
    """Make ``{"rows": [...], "means": [...]}``: finished runs, several seeds together, in the order of the paper's
    tasks, then of names; and as further rows the means of models that were trained on several corpora. A row has the
    runs of its ``rival``, the transformer that it stands beside in ``-f beside``, or none.

    What is not a finished run is left out, with a line on stderr that says why.
    """
    groups: dict[str, dict[int, Finished]] = {}
    left_out: list[str] = []
    for folder in folders:
        try:
            run = read_run(folder)
            but_for_seed = json.dumps([run.name, run.data, run.corpora, run.settings], sort_keys=True)
            runs = groups.setdefault(but_for_seed, {})
            if run.recipe.seed in runs:
                twin = folder_name(runs[run.recipe.seed].folder)
                raise CheckpointError(f"{folder_name(folder)}: the same recipe, data and seed as {twin}")
            runs[run.recipe.seed] = run
        except ProbtransError as error:
            left_out.append(error.message)
        except OSError as error:
            left_out.append(f"{folder_name(folder)}: cannot be read: {error.strerror}")
    if not groups:
        hint = "give run folders, e.g. runs/*; a run that was stopped goes on with: probtrans train RUN --resume"
        reasons = left_out if len(left_out) == 1 else ["there is no finished run", *left_out]
        raise CheckpointError("\n".join(reasons), hint=hint)
    for reason in left_out:
        console.log(f"left out: {reason}")
    together = [[runs[seed] for seed in sorted(runs)] for runs in groups.values()]
    rows = sorted(((_row(runs), runs) for runs in together), key=lambda pair: _order(pair[0]))
    means = []
    for family, mean in _over_corpora([runs for _, runs in rows]):
        parts = [_row(runs) for runs in family]
        several = {"runs": [run for row in parts for run in row["runs"]], "corpora": [row["corpora"] for row in parts]}
        means.append(_row(mean) | {"mean_of": [row["recipe"] for row in parts]} | several)
    result = {"rows": [row for row, _ in rows], "means": sorted(means, key=_order)}
    for of_part in result.values():
        for row in of_part:
            rival = None if row["model"] == RIVAL else rival_of(row, of_part)
            row["rival"] = None if rival is None else rival["runs"]
    return result


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    task = task_of(row["recipe"])
    place = PAPER.index(task) if task else len(PAPER)
    return (list(TASKS).index(row["task"]), place, row["recipe"], row["model"], row["runs"])


# --- rows -------------------------------------------------------------------------------------------------------------


def _row(runs: Sequence[Finished]) -> dict[str, Any]:
    first = runs[0]
    data, task, model = first.recipe.data, first.recipe.task, first.recipe.model.kind
    metric, column = task.metric, task.facts.chosen_column
    scores = {}
    for split in first.scores:
        over = mean_and_sd([run.scores for run in runs], split)
        names = [name for name in (metric, *TREES) if name in over["mean"]]
        scores[split] = {name: {"mean": over["mean"][name], "sd": over["sd"][name]} for name in names}
    cell, paper = published(first.name, model, metric, column), None
    if cell and "test" in scores:
        difference = (scores["test"][metric]["mean"] - cell.mean) / cell.sd
        paper = {
            "corpus": cell.corpus, "mean": cell.mean, "sd": cell.sd, "encoder_parameters": cell.parameters,
            "difference_in_sd": difference, "better": difference > 0 if task.larger_is_better else difference < 0,
        }  # fmt: skip
    seconds = [run.seconds for run in runs if run.seconds is not None]
    speeds = [speed for run in runs for speed in run.speeds]
    # What a perplexity depends on beside the model and the text.
    scale = data.model_dump(mode="json", include={"vocabulary"}) | task.model_dump(mode="json", include={"mlm"})
    return {
        "recipe": first.name, "model": model, "task": task.kind, "column": column,
        "metric": metric, "larger_is_better": task.larger_is_better,
        "seeds": [run.recipe.seed for run in runs],
        "runs": [run.folder.encode(errors="backslashreplace").decode() for run in runs],
        "dev": scores.get("dev"), "test": scores.get("test"), "extra": scores.get("extra"),
        "encoder_parameters": first.parameters,
        "words_per_second": float(statistics.median(speeds)) if speeds else None,
        "seconds": statistics.fmean(seconds) if seconds else None,
        "corpora": first.corpora | data.model_dump(mode="json", include={"select"}),
        "lr": first.recipe.optim.lr, "width": first.recipe.model.facts.width,
        "base_width": getattr(first.recipe.model, "base_width", None),
        "pretrained": first.recipe.model.init_from is not None,
        "scale": None if is_share(metric) else scale,
        "command": _command(runs),
        "paper": paper,
    }  # fmt: skip


def _command(runs: Sequence[Finished]) -> str:
    first = runs[0]
    try:
        words = iter(shlex.split(first.command))
    except ValueError:  # no shell wrote it
        return first.command
    if len(runs) == 1 or not first.command:
        return first.command
    arguments = []
    for word in words:
        if word == "--seeds":
            next(words, None)
        elif not word.startswith(("seed=", "--seeds=")):
            arguments.append(word.removesuffix(f"-seed{first.recipe.seed}") if word.startswith("name=") else word)
    return shlex.join([*arguments, "--seeds", ",".join(str(run.recipe.seed) for run in runs)])


# --- Markdown ---------------------------------------------------------------------------------------------------------

TEXTS = ("recipe", "model", "task", "metric", "run", "command")
"""Columns of words; the others are of numbers."""


def in_cells(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the headers and the rows as texts; columns that would be empty are left out."""
    rows = [*result["rows"], *result["means"]]
    names = [row["recipe"] for row in rows]
    return _filled([_cells(row, alone=names.count(row["recipe"]) == 1) for row in rows])


def _filled(lines: Sequence[dict[str, str]]) -> tuple[list[str], list[list[str]]]:
    shown = [header for header in lines[0] if any(line[header] for line in lines)]
    return shown, [[line[header] for header in shown] for line in lines]


def markdown(result: dict[str, Any]) -> str:
    return _as_markdown(*in_cells(result))


def plain(result: dict[str, Any]) -> str:
    """Return the table for a terminal; where it is too narrow, the other columns stand below."""
    shown, lines = in_cells(result)
    safe = [[visible(cell, longest=console.width() - 20) if cell else "" for cell in line] for line in lines]
    return console.render(shown, safe, left=TEXTS)


def _as_markdown(shown: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    content = [shown, *([_escaped(cell) for cell in line] for line in lines)]
    widths = [max(3, *map(columns, column)) for column in zip(*content, strict=True)]
    of_columns = list(zip(shown, widths, strict=True))
    rules = ["-" * width if header in TEXTS else "-" * (width - 1) + ":" for header, width in of_columns]
    text = ""
    for line in (content[0], rules, *content[1:]):
        padded = []
        for header, cell, width in zip(shown, line, widths, strict=True):
            space = " " * (width - columns(cell))
            padded.append(cell + space if header in TEXTS else space + cell)
        text += f"| {' | '.join(padded)} |\n"
    return text


def _cells(row: dict[str, Any], *, alone: bool) -> dict[str, str]:
    metric, paper = row["metric"], row["paper"]
    dev, test, extra = row["dev"] or {}, row["test"] or {}, row["extra"] or {}
    seeds, folders = row["seeds"], row["runs"]
    base = folders[0].removesuffix(f"-seed{seeds[0]}")
    together = len(seeds) > 1 and folders == [f"{base}-seed{seed}" for seed in seeds]
    difference = f"{abs(paper['difference_in_sd']):,.1f} s.d." if paper else ""
    if difference not in ("", "0.0 s.d."):
        difference += " better" if paper["better"] else " worse"
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
        "to the paper": difference,
        "paper's encoder": f"{paper['encoder_parameters'] / 1e6:.3g}M" if paper else "",
        "run": "" if alone else f"{base}-seed{{{','.join(map(str, seeds))}}}" if together else ", ".join(folders),
    }


def score_in_words(metric: str, score: dict[str, Any] | None) -> str:
    """Write mean ± s.d., shares in percent; the s.d. is left out where there is none."""
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


def _escaped(text: str) -> str:
    text = visible(text, longest=300) if text else ""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*~|\[\]])", r"\\\1", text)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)  # within a word it is only itself


# --- each model beside the transformer that learned the same ----------------------------------------------------------

RIVAL = "transformer"  # the kind of model that others stand beside
LONGER = 2.0  # how many times as long a rival may have been trained


def beside(result: dict[str, Any]) -> str:
    """Return the rows of :func:`table` as Markdown, each transformer within the rows of its rivals.

    Where a cell has two figures, the model's stands first, then the transformer's. A transformer that is nobody's rival
    has a row of its own.
    """
    lines = []
    for rows in (result["rows"], result["means"]):
        pairs = [(row, rival_of(row, rows)) for row in rows if row["model"] != RIVAL]
        lines += [_cells_beside(*pair) for pair in pairs]
        used = [id(rival) for _, rival in pairs if rival is not None]
        lines += [_cells_beside(row, None) for row in rows if row["model"] == RIVAL and id(row) not in used]
    return _as_markdown(*_filled(lines))


def rival_of(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the transformer that learned the same task from the same corpora; of several the best one on dev.

    Perplexities must be over the same vocabulary and masks, too. One that started from weights of another training is a
    rival only of a model that did so, too. One that took more than twice as long is a rival only where no other is, as
    an hour's training beside one of ten minutes.
    """
    same = ("corpora", "task", "column", "metric", "pretrained", "scale")
    rivals = []
    for rival in rows:
        score = (rival["dev"] or rival["test"] or {}).get(rival["metric"])  # None of some means over corpora
        if rival["model"] == RIVAL and score and all(rival[key] == row[key] for key in same):
            rivals.append((score["mean"], rival))
    most = math.inf if row["seconds"] is None else LONGER * row["seconds"]
    in_time = [(mean, rival) for mean, rival in rivals if (rival["seconds"] or 0.0) <= most]
    choose = max if row["larger_is_better"] else min
    return choose(in_time or rivals, key=lambda rival: rival[0], default=(None, None))[1]


def _cells_beside(row: dict[str, Any], rival: dict[str, Any] | None) -> dict[str, str]:
    both = [row] if rival is None else [row, rival]
    metric, alone = row["metric"], row["model"] == RIVAL
    scores = [each["test"] or each["dev"] or {} for each in both]
    texts = []
    for each, of_row in zip(both, scores, strict=True):
        text = score_in_words(metric, of_row.get(metric))
        texts.append(text if each["test"] or not text else f"{text} (dev)")
    floors = {name: scores[0].get(f"floor_{name}") for name in ("uas", "uuas")}
    bias = {name: score_in_words(name, floor and floor | {"sd": None}) for name, floor in floors.items()}
    trees = {name: [score_in_words(name, of_row.get(name)) for of_row in scores] for name in floors}
    speeds = ["" if (speed := each["words_per_second"]) is None else f"{speed:,.0f}" for each in both]
    times = ["" if each["seconds"] is None else time_in_words(each["seconds"]) for each in both]
    return {
        "recipe": row["recipe"],
        "task": " ".join(filter(None, [row["task"], row["column"]])),
        "metric": metric,
        "paper": score_in_words(metric, row["paper"]),
        "ours": "" if alone else texts[0],
        RIVAL: texts[0] if alone else "".join(texts[1:]),
        "UAS": " / ".join(filter(None, trees["uas"])),
        "UUAS": " / ".join(filter(None, trees["uuas"])),
        "untrained bias, UAS": bias["uas"],
        "untrained bias, UUAS": bias["uuas"],
        "parameters": " / ".join(f"{each['encoder_parameters']:,}" for each in both),
        "words/s": " / ".join(filter(None, speeds)),
        "time": " / ".join(filter(None, times)),
        "seeds": " / ".join(str(len(each["seeds"])) for each in both),
        "command": row["command"],
    }


# --- means over corpora -----------------------------------------------------------------------------------------------

Seeds = Sequence[Finished]  # runs that differ in nothing but the seed: a row of the table


def _over_corpora(rows: Sequence[Seeds]) -> Iterator[tuple[Sequence[Seeds], Seeds]]:
    """Yield the rows of each model that was trained on several corpora, and for each seed that all have, a run whose
    scores are means.

    Scores that are no shares, as a perplexity, are left out: those of two corpora have no scale in common. There is no
    mean where two rows are scored on the same files, of test or, where one of them has no test set, of dev; nor where
    no seed or no score is in all of them.
    """
    families: dict[str, list[Seeds]] = {}
    for row in rows:
        families.setdefault(row[0].settings, []).append(row)
    for family in families.values():
        by_seed = [{run.recipe.seed: run for run in row} for row in family]
        seeds = [seed for seed in by_seed[0] if all(seed in row for row in by_seed)]
        split = "test" if all(row[0].corpora["test"] for row in family) else "dev"
        different = {json.dumps(row[0].corpora[split]) for row in family}
        if 1 < len(different) == len(family):
            mean = [_mean_run([row[seed] for row in by_seed]) for seed in seeds]
            if any(chain.from_iterable(run.scores.values() for run in mean)):
                yield family, mean


def _mean_run(runs: Seeds) -> Finished:
    first = runs[0]
    names = list(dict.fromkeys(run.name for run in runs))
    name = f"mean of {len(runs)} ({names[0]}" + (f" to {names[-1]})" if len(names) > 1 else ")")
    means: dict[str, dict[str, float]] = {}
    for split in [split for split in first.scores if all(split in run.scores for run in runs)]:
        scores = [run.scores[split] for run in runs]
        shares = [name for name in scores[0] if is_share(name) and all(name in of_run for of_run in scores)]
        means[split] = {name: statistics.fmean(of_run[name] for of_run in scores) for name in shares}
    seconds = [run.seconds for run in runs if run.seconds is not None]
    return replace(
        first,
        recipe=first.recipe.model_copy(update={"name": name}),
        scores=means,
        parameters=max(run.parameters for run in runs),
        speeds=list(chain.from_iterable(run.speeds for run in runs)),
        seconds=statistics.fmean(seconds) if seconds else None,
        command="",
    )
