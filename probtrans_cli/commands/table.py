"""The verb `table`: finished runs beside the figures of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from probtrans_cli.reports import table as report
from probtrans_cli.reports.pages import table_page
from probtrans_cli.reports.table import RIVAL, beside, markdown, rival_of

__all__ = ["Form", "TableRequest", "table", "written"]

Form = Literal["markdown", "beside", "html"]
FORMS: dict[Form, Callable[[dict[str, Any]], str]] = {"markdown": markdown, "beside": beside, "html": table_page}


@dataclass(frozen=True)
class TableRequest:
    """What `table` is asked for."""

    runs: Sequence[str]
    """Run folders, and exported folders."""
    format: Form = "markdown"


def table(request: TableRequest) -> dict[str, Any]:
    """The rows of the table, and apart from them those of means over corpora, each with the runs of its ``rival``, the
    transformer that it stands beside in ``-f beside``, or none; :func:`written` makes text of them.

    Raises:
        CheckpointError: none of the folders is a finished run.
    """
    result = report.table(request.runs)
    for rows in result.values():
        for row in rows:
            rival = None if row["model"] == RIVAL else rival_of(row, rows)
            row["rival"] = None if rival is None else rival["runs"]
    return result


def written(request: TableRequest, result: dict[str, Any]) -> str:
    """The table as text: Markdown, with a row for each model or for each model and its rival, or an HTML page."""
    return FORMS[request.format](result)
