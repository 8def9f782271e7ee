"""The verb `table`: finished runs beside the figures of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from probtrans_cli.reports import table as report
from probtrans_cli.reports.pages import table_page
from probtrans_cli.reports.sweeps import sweep_picture

FORMS: dict[str, Callable[[dict[str, Any]], str]] = {
    "text": report.plain,
    "markdown": report.markdown,
    "beside": report.beside,
    "html": table_page,
    "sweep": sweep_picture,
}
"""Texts of the result of :func:`table`."""


def table(runs: Sequence[str]) -> dict[str, Any]:
    """Return the rows of the table, and apart from them those of means over corpora, each with the runs of its
    ``rival``, the transformer that it stands beside in ``-f beside``, or none."""
    result = report.table(runs)
    for rows in result.values():
        for row in rows:
            rival = None if row["model"] == report.RIVAL else report.rival_of(row, rows)
            row["rival"] = None if rival is None else rival["runs"]
    return result
