"""Pages to look at: `report.html` of a run folder, and the page of the verb `table`. Imports no torch.

`report.html` is made from the files of the run alone, so that it also shows how far a stopped run came.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from probtrans_cli import atomic
from probtrans_cli.errors import CheckpointError
from probtrans_cli.folders import regular
from probtrans_cli.folders.checkpoints import STATE, json_object, linked
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.reports.charts import Curve, chart
from probtrans_cli.reports.finished import read_metrics, speeds_of
from probtrans_cli.reports.scores import BASELINES, CONVENTIONS, shown
from probtrans_cli.reports.table import TEXTS, in_cells, time_in_words
from probtrans_cli.text import columns, harmless, visible
from probtrans_cli.trees.drawing.html import document

NAME = "report.html"
PACKAGE = "probtrans_cli.reports"
SPLITS = ("train", "dev", "test", "extra")
TREE_SCORES = {"uas": "UAS", "uuas": "UUAS", "swapped": "swapped"}
TYPE_SCORES = ("f1", "precision", "recall")
TYPE_COUNTS = ("gold", "predicted", "right")
GROUP_COLUMNS = ("words", "predicted", "uas", "las", "precision")
GROUPS_IN_WORDS = (
    "Of the words whose gold arc is in a group: the share with the right head (uas), and with the right relation, too "
    "(las). Of those whose predicted arc is in it: the share with both (precision). A distance is that of a word from "
    "its head."
)
DEV = 1  # the colour of curves of dev, whose points are marked
ACCOUNT = ("masks", "perplexity_se")  # numbers that say how another one was measured


def write_report(run: Path, recipe: Recipe) -> None:
    """Write `report.html` into a run folder, from the files that are in it."""
    metrics = list(read_metrics(run / "metrics.jsonl"))
    stored, state = _object("best", run, "eval.json"), _object("last", run, STATE)
    ended = json_object(run / "exit.json")
    scores = {split: stored[split] for split in SPLITS if isinstance(stored.get(split), dict) and stored[split]}
    try:
        text = regular.read_text(run / "recipe.yaml", "replace")
    except OSError:
        text = ""
    sections = {
        "Scores": score_tables(scores) + _temperatures(stored),
        "Learning curves": _curves(metrics, recipe, _number(state, "best_step")),
        **_errors(scores),
        "Pictures": _link(run, "trees/index.html", "Trees of some sentences, of every channel and iteration"),
        "Recipe": text and f"<details><summary>recipe.yaml</summary><pre>{escape(harmless(text))}</pre></details>\n",
        "Files": _link(run, "log.txt", "log.txt: the messages")
        + _link(run, "metrics.jsonl", "metrics.jsonl: all numbers"),
    }
    body = "".join(f"<section><h2>{escape(title)}</h2>\n{part}</section>\n" for title, part in sections.items() if part)
    code = ended.get("exit")
    outcome = "finished" if code == 0 else f"exit code {code}: {ended.get('reason')}" if ended else "not finished"
    column = recipe.task.facts.chosen_column
    facts = {
        "how it ended": visible(outcome, longest=300),
        "task": " ".join(filter(None, [recipe.task.kind, column])),
        "model": recipe.model.kind,
        "seed": str(recipe.seed),
    }
    counted = _object("best", run, "config.json").get("parameters")
    if isinstance(counted, dict) and (parameters := _number(counted, "encoder")):
        facts["encoder parameters"] = f"{parameters:,}"
    if (step := _number(state, "step")) is not None:
        facts["updates"] = f"{step:,}"
    if (seconds := _number(state, "seconds")) is not None:
        facts["time of updates"] = time_in_words(seconds)
    if speeds := speeds_of(metrics):
        facts["words a second (median)"] = f"{statistics.median(speeds):,.0f}"
    listed = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    page = document(
        PACKAGE, "report.html", title=recipe.name, styles=["report.css"], scripts=["curves.js"], facts=listed, body=body
    )
    atomic.replace_text(run / NAME, page, synced=False)


def _object(link: str, run: Path, name: str) -> dict[str, Any]:
    try:
        return json_object(linked(run / "checkpoints", link) / name)
    except CheckpointError:
        return {}


def _number(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    return int(value) if isinstance(value, int | float) else None


# --- parts of the page ------------------------------------------------------------------------------------------------


def with_interval(name: str, scores: Mapping[str, Any]) -> str:
    """Write a score with its 95 % interval, or the standard error over draws of masks, where there is one."""
    value = scores.get(name)
    if not isinstance(value, int | float):
        return ""
    text = shown(name, value)
    if interval := scores.get(f"{name}_interval"):
        return f"{text} ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})"
    error = scores.get(f"{name}_se")
    return f"{text} ± {error:.2g}" if isinstance(error, int | float) else text


def score_tables(scores: Mapping[str, Mapping[str, Any]]) -> str:
    """Show the final scores of every split side by side: those of the task, then those of trees and their baselines."""
    if not scores:
        return ""
    names = [
        name
        for name in dict.fromkeys(name for of_split in scores.values() for name in of_split)
        if any(isinstance(of_split.get(name), int | float) for of_split in scores.values()) and name not in ACCOUNT
    ]
    rows = [[visible(name), *(with_interval(name, of_split) for of_split in scores.values())] for name in names]
    text = table(["", *scores], rows)
    if any("(" in cell for row in rows for cell in row[1:]):
        text += quiet("In parentheses: the 95 % interval over sentences.")
    if any("±" in cell for row in rows for cell in row[1:]):
        text += quiet("±: the standard error over draws of masks.")
    text += _tree_table(scores)
    cases = {split: of_split["cases"] for split, of_split in scores.items() if of_split.get("cases")}
    kinds = sorted({kind for of_split in cases.values() for kind in of_split})
    rows = [[visible(kind), *(shown("exact", of_kinds.get(kind)) for of_kinds in cases.values())] for kind in kinds]
    return text + (f"<h3>Exact, by kind of example</h3>\n{table(['', *cases], rows)}" if rows else "")


def _temperatures(stored: Mapping[str, Any]) -> str:
    text = ""
    for key, name in (("temperature", "Temperature"), ("arc_temperature", "Temperature of arcs")):
        fitted = stored.get(key)
        numbers = [fitted.get(key) for key in ("value", "nll", "nll_tempered")] if isinstance(fitted, dict) else []
        if numbers and all(isinstance(number, int | float) for number in numbers):
            value, before, after = numbers
            meaning = "the scores divided by it have the least loss there"
            text += quiet(f"{name} of dev {value:.3f}: {meaning}, {after:.4f}, and {before:.4f} as they are.")
    return text


def _tree_table(scores: Mapping[str, Mapping[str, Any]]) -> str:
    trees = {split: of_split["trees"] for split, of_split in scores.items() if "trees" in of_split}
    if not trees:
        return ""
    convention = next(name for name in CONVENTIONS if all(name in of_split for of_split in trees.values()))
    rows = []
    for name, title in TREE_SCORES.items():
        of_model = [with_interval(name, of_split[convention]["all"]) for of_split in trees.values()]
        rows.append([f"{title}, model", *of_model])
        for key, baseline in BASELINES.items():
            of_floor = [of_split["floors"].get(key, {}).get(convention) for of_split in trees.values()]
            if all(of_floor):
                rows.append(
                    [f"{title}, baseline: {baseline}", *(shown(name, scores["all"][name]) for scores in of_floor)]
                )
    reading = next(iter(trees.values()))["reading"]
    iteration = "the last iteration" if reading["iteration"] == -1 else f"iteration {reading['iteration']}"
    origin = f"Induced trees of channel {reading['channel']}, {iteration}, {reading['decoder']}"
    return f"<h3>Trees</h3>\n{table(['', *trees], rows)}{quiet(f'{origin}; {CONVENTIONS[convention]}.')}"


def _curves(metrics: Sequence[Mapping[str, Any]], recipe: Recipe, best_step: int | None) -> str:
    train = [line for line in metrics if line["split"] == "train"]
    dev = [line for line in metrics if line["split"] == "dev"]

    def curve(name: str, key: str, colour: int) -> Curve:
        lines = dev if colour == DEV else train
        return Curve.of(name, ((line["step"], line.get(key)) for line in lines), colour, points=colour == DEV)

    metric = recipe.task.metric
    losses = [curve("train", "loss", 0), curve("dev", "loss", DEV)]
    figures = [
        chart("Loss", losses, score="loss", marked=best_step),
        chart(f"Dev {metric}", [curve("dev", metric, DEV)], score=metric, marked=best_step),
        chart("Learning rate", [curve("rate", "lr", 2)], score="lr", zero=True),
        chart("Words a second", [curve("speed", "words_per_second", 3)], score="words_per_second", zero=True),
    ]
    if not any(figures):
        return ""
    mark = quiet(f"The dashed line marks the best checkpoint, of step {best_step:,}.") if best_step else ""
    return f'<div class="charts">{"".join(figures)}</div>\n{mark}'


def _errors(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    for split in ("dev", "test", "extra"):
        of_split, parts = scores.get(split, {}), {}
        confusions = of_split.get("confusions") or {}
        if matrix := confusion_matrix(confusions):
            note = "A row is a gold label, a column the predicted one; the stronger the colour, the larger the share."
            parts[f"Confusions on {split}"] = f"{quiet(note)}{matrix}<h3>The worst</h3>\n{worst_confusions(confusions)}"
        if types := of_split.get("types"):
            rows = [
                [visible(name), *(shown(key, of_type[key]) for key in TYPE_SCORES + TYPE_COUNTS)]
                for name, of_type in types.items()
            ]
            parts[f"Entities by type, on {split}"] = table(["", *TYPE_SCORES, *TYPE_COUNTS], rows)
        if groups := of_split.get("groups"):
            parts[f"Arcs in groups, on {split}"] = quiet(GROUPS_IN_WORDS)
            for kind, of_kind in groups.items():
                rows = [
                    [visible(name), *(shown(key, shares[key]) for key in GROUP_COLUMNS)]
                    for name, shares in of_kind.items()
                ]
                parts[f"Arcs in groups, on {split}"] += f"<h3>By {kind}</h3>\n{table(['', *GROUP_COLUMNS], rows)}"
        if parts:
            return parts
    return {}


def _link(run: Path, target: str, text: str) -> str:
    return f'<p><a href="{target}">{escape(text)}</a></p>\n' if (run / target).is_file() else ""


def table_page(result: dict[str, Any]) -> str:
    """Return the page of a table of :func:`probtrans_cli.reports.table.table`; a row's runs have one colour."""
    header, rows = in_cells(result)
    texts = next((index for index, name in enumerate(header) if name not in TEXTS), len(header))
    safe = [[visible(cell, longest=300) if cell else "" for cell in row] for row in rows]
    body = f"<section><h2>Scores</h2>\n{table(header, safe, texts=texts)}"
    body += quiet("Mean ± standard deviation over seeds.") + "</section>\n"
    runs = []
    for colour, row in enumerate(result["rows"]):
        for run in row["runs"]:
            checkpoint = not (Path(run) / "metrics.jsonl").is_file()  # of a run was named
            folder = Path(run).resolve().parent.parent if checkpoint else Path(run)
            runs.append((colour, row["metric"], run, list(read_metrics(folder / "metrics.jsonl"))))

    def curves(split: str, key: str, metric: str | None = None) -> list[Curve]:
        return [
            Curve.of(
                visible(run, longest=80),
                ((line["step"], line.get(key)) for line in lines if line["split"] == split),
                colour,
                points=split == "dev",
            )
            for colour, run_metric, run, lines in runs
            if metric in (None, run_metric)
        ]

    metrics = dict.fromkeys(row["metric"] for row in result["rows"])
    charts = [chart(f"Dev {metric}", curves("dev", metric, metric), score=metric, named=True) for metric in metrics]
    charts += [
        chart("Training loss", curves("train", "loss"), score="loss", named=True),
        chart("Dev loss", curves("dev", "loss"), score="loss", named=True),
        chart("Learning rate", curves("train", "lr"), score="lr", zero=True, named=True),
        chart("Words a second", curves("train", "words_per_second"), score="words_per_second", zero=True, named=True),
    ]
    if any(charts):
        body += f'<section><h2>Learning curves</h2>\n<div class="charts">{"".join(charts)}</div></section>\n'
    return document(
        PACKAGE, "report.html", title="Runs", styles=["report.css"], scripts=["curves.js"],
        facts="", body=body,
    )  # fmt: skip


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> str:
    """Return a table; the first ``texts`` columns are words, the rest numbers."""
    lines = []
    for element, cells in (("th", header), *(("td", row) for row in rows)):
        starts = [f'<{element} class="text">'] * texts + [f"<{element}>"] * (len(cells) - texts)
        content = "".join(f"{start}{escape(cell)}</{element}>" for start, cell in zip(starts, cells, strict=True))
        lines.append(f"<tr>{content}</tr>\n")
    head, *body = lines
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>\n{"".join(body)}</tbody></table></div>\n'


def quiet(text: str) -> str:
    return f'<p class="quiet">{escape(text)}</p>\n'


Confusions = Mapping[str, Mapping[str, int]]
MOST_LABELS = 40  # of a matrix; the rest stands together
MOST_FAULTS = 15
LONGEST = 200  # columns of a name
CELL, SIDE = 19, 134  # pixels: a cell, the labels on the left
OTHERS = "all others"


def confusion_matrix(confusions: Confusions) -> str:
    """Draw the matrix as SVG: a row a gold label, the most frequent first, darker the larger the share of its row."""
    counted = Counter({gold: sum(row.values()) for gold, row in confusions.items()})
    counted.update(dict.fromkeys((predicted for row in confusions.values() for predicted in row), 0))
    names = sorted(counted, key=lambda name: (-counted[name], name))
    if len(names) < 2:
        return ""
    rest = len(names) > MOST_LABELS
    shown = names[: MOST_LABELS - 1] if rest else names
    place = {name: index for index, name in enumerate(shown)}
    counts = [[0] * (len(shown) + rest) for _ in range(len(shown) + rest)]
    for gold, row in confusions.items():
        for predicted, number in row.items():
            counts[place.get(gold, len(shown))][place.get(predicted, len(shown))] += number
    titles = [visible(name, longest=LONGEST) for name in shown] + [f"{OTHERS} ({len(names) - len(shown):,})"] * rest
    labels = [visible(name, longest=12) for name in shown] + [OTHERS] * rest
    if len(set(labels)) < len(labels):  # long names that begin alike
        labels = [f"{number} {label}" for number, label in enumerate(labels, start=1)]
    size, head = len(labels) * CELL, round(14 + 6.5 * max(map(columns, labels)))
    parts = []
    for index, (label, name, numbers) in enumerate(zip(labels, titles, counts, strict=True)):
        x, y, total = SIDE + (index + 0.5) * CELL, head + index * CELL, max(sum(numbers), 1)
        parts += [
            f'<text class="tick" x="{SIDE - 6}" y="{y + CELL / 2}" dy=".35em" text-anchor="end">{escape(label)}</text>',
            f'<text class="tick" transform="translate({x} {head - 6}) rotate(-60)" dy=".35em">{escape(label)}</text>',
        ]
        for column, number in enumerate(numbers):
            if number:
                hit = "right" if column == index and not name.startswith(OTHERS) else "wrong"
                title = f"{name} predicted as {titles[column]}: {number:,} ({100 * number / total:.1f} % of {name})"
                parts.append(
                    f'<rect class="{hit}" x="{SIDE + column * CELL}" y="{y}" width="{CELL}" height="{CELL}" '
                    f'fill-opacity="{0.08 + 0.92 * (number / total) ** 0.5:.3f}"><title>{escape(title)}</title></rect>'
                )
    parts.append(f'<rect class="grid" x="{SIDE}" y="{head}" width="{size}" height="{size}"/>')
    width, height = SIDE + size + 60, head + size + 4
    return (
        f'<div class="scroll"><svg class="matrix" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="Confusion matrix of {len(names):,} labels; the worst confusions stand in the table">'
        f"{''.join(parts)}</svg></div>\n"
    )


def worst_confusions(confusions: Confusions) -> str:
    """Return the most frequent faults as a table."""
    faults = [
        (number, gold, predicted)
        for gold, row in confusions.items()
        for predicted, number in row.items()
        if predicted != gold
    ]
    if not faults:
        return quiet("There are none.")
    total = sum(number for number, _, _ in faults)
    rows = []
    for number, gold, predicted in sorted(faults, key=lambda fault: (-fault[0], fault[1:]))[:MOST_FAULTS]:
        shares = [number / sum(confusions[gold].values()), number / total]
        names = [visible(name, longest=LONGEST) for name in (gold, predicted)]
        rows.append([*names, f"{number:,}", *(f"{100 * share:.1f} %" for share in shares)])
    return table(("gold", "predicted", "number", "of gold", "of all faults"), rows, texts=2)
