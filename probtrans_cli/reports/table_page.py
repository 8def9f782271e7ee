"""The verb `table` as one HTML page: the table, and the learning curves of its runs over each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from probtrans_cli.reports.curves import Curve, chart, read_metrics
from probtrans_cli.reports.markup import quiet, table
from probtrans_cli.reports.table import TEXTS, in_cells
from probtrans_cli.text import visible
from probtrans_cli.trees.drawing.html import document


def page(result: dict[str, Any]) -> str:
    """The page of a table of :func:`probtrans_cli.reports.table.table`; a row's runs have one colour."""
    header, rows = in_cells(result)
    texts = next((index for index, name in enumerate(header) if name not in TEXTS), len(header))
    safe = [[visible(cell, longest=300) if cell else "" for cell in row] for row in rows]
    body = f"<section><h2>Scores</h2>\n{table(header, safe, texts=texts)}"
    body += quiet("Mean ± standard deviation over seeds.") + "</section>\n"
    if curves := _curves(result["rows"]):
        body += f'<section><h2>Learning curves</h2>\n<div class="charts">{curves}</div></section>\n'
    return document(
        "probtrans_cli.reports", "report.html", title="Runs", styles=["report.css"], scripts=["curves.js"],
        facts="", body=body,
    )  # fmt: skip


def _curves(rows: list[dict[str, Any]]) -> str:
    """The charts: of dev scores one for every metric, as they have no scale in common."""
    runs = [
        (colour, row["metric"], run, list(read_metrics(_folder(run) / "metrics.jsonl")))
        for colour, row in enumerate(rows)
        for run in row["runs"]
    ]

    def curves(split: str, key: str, metric: str | None = None) -> list[Curve]:
        return [
            Curve.of(
                visible(run, longest=80),
                ((line["step"], line.get(key)) for line in lines if line["split"] == split),
                colour,
                points=split == "dev",
            )
            for colour, of_run, run, lines in runs
            if metric in (None, of_run)
        ]

    metrics = dict.fromkeys(row["metric"] for row in rows)
    charts = [chart(f"Dev {metric}", curves("dev", metric, metric), score=metric, named=True) for metric in metrics]
    charts += [
        chart("Training loss", curves("train", "loss"), score="loss", named=True),
        chart("Dev loss", curves("dev", "loss"), score="loss", named=True),
        chart("Learning rate", curves("train", "lr"), score="lr", zero=True, named=True),
        chart("Words a second", curves("train", "words_per_second"), score="words_per_second", zero=True, named=True),
    ]
    return "".join(charts)


def _folder(name: str) -> Path:
    """The folder of a run, also where a checkpoint of it was named."""
    path = Path(name)
    return path if (path / "metrics.jsonl").is_file() else path.resolve().parent.parent
