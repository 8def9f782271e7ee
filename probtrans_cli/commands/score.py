"""The verb `score`: the scorers alone, for files of any system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from probtrans_cli.errors import UsageError
from probtrans_cli.reports.scorers import SCORERS, ScorerName
from probtrans_cli.reports.scores import split_report

__all__ = ["ScoreRequest", "score", "scored"]


@dataclass(frozen=True)
class ScoreRequest:
    """What `score` is asked for."""

    kind: ScorerName
    """A row of :data:`probtrans_cli.reports.scorers.SCORERS`."""
    predictions: str
    """The file that is scored."""
    gold: str | None = None
    """The file that it is scored against; None: it holds the gold itself."""
    column: str | None = None
    """Of CoNLL-U, the column of the tags that probabilities are of; None: the only one that can be meant."""


def score(request: ScoreRequest) -> dict[str, Any]:
    """Scores of a file.

    Raises:
        DataError: a file cannot be read, or the two are not of the same sentences.
        UsageError: a gold file is needed.
    """
    row = SCORERS[request.kind]
    if request.column is not None and not row.has_column:
        raise UsageError(f"--column {request.column}: not of {row.name}", hint="leave it out")
    options = {"column": request.column} if row.has_column else {}
    scores = row.module().score(request.predictions, request.gold, **options)
    return {"kind": request.kind, "predictions": request.predictions, "gold": request.gold, "scores": scores}


def scored(result: dict[str, Any]) -> str:
    """The scores for people."""
    return split_report(result["predictions"], result["scores"])
