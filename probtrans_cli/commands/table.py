"""The verb `table`: finished runs beside the figures of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from probtrans_cli.reports import table as report
from probtrans_cli.reports.table import markdown

__all__ = ["TableRequest", "markdown", "table"]


@dataclass(frozen=True)
class TableRequest:
    """What `table` is asked for."""

    runs: Sequence[str]
    """Run folders, and exported folders."""


def table(request: TableRequest) -> dict[str, Any]:
    """The rows of the table; :func:`markdown` makes text of them.

    Raises:
        CheckpointError: none of the folders is a finished run.
    """
    return report.table(request.runs)
