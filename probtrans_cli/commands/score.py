"""The verb `score`: the scorers alone, for files of any system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


def score(request: ScoreRequest) -> dict[str, Any]:
    """Scores of a file.

    Raises:
        DataError: a file cannot be read, or the two are not of the same sentences.
        UsageError: a gold file is needed.
    """
    scores = SCORERS[request.kind].module().score(request.predictions, request.gold)
    return {"kind": request.kind, "predictions": request.predictions, "gold": request.gold, "scores": scores}


def scored(result: dict[str, Any]) -> str:
    """The scores for people."""
    return split_report(result["predictions"], result["scores"])
