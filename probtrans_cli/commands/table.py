"""The verb `table`: finished runs beside the figures of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from probtrans_cli.reports import table as report
from probtrans_cli.reports.table import markdown
from probtrans_cli.reports.table_page import page

__all__ = ["Form", "TableRequest", "table", "written"]

Form = Literal["markdown", "html"]


@dataclass(frozen=True)
class TableRequest:
    """What `table` is asked for."""

    runs: Sequence[str]
    """Run folders, and exported folders."""
    format: Form = "markdown"


def table(request: TableRequest) -> dict[str, Any]:
    """The rows of the table; :func:`written` makes text of them.

    Raises:
        CheckpointError: none of the folders is a finished run.
    """
    return report.table(request.runs)


def written(request: TableRequest, result: dict[str, Any]) -> str:
    """The table as text: Markdown, or an HTML page with the learning curves of its runs."""
    return page(result) if request.format == "html" else markdown(result)
