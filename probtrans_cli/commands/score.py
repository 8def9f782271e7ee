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
    single_match: bool | None = None
    """Of tuples: whether recall counts a prediction for one gold tuple only."""
    default_confidence: float | None = None
    """Of tuples: the confidence of those that have none; None: they are an error."""
    compat: str | None = None
    """Of coordinations: the code that is followed where it counts otherwise."""
    comments: str | None = None
    """Of tags in columns: what the comments of the files begin with; None: there are none."""


def score(request: ScoreRequest) -> dict[str, Any]:
    """Scores of a file.

    Raises:
        DataError: a file cannot be read, or the two are not of the same sentences.
        UsageError: a gold file is needed.
    """
    row = SCORERS[request.kind]
    options = {
        name: value
        for name in ("column", "single_match", "default_confidence", "compat", "comments")
        if (value := getattr(request, name)) is not None
    }
    for name, value in options.items():
        if name not in row.options:
            given = f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
            raise UsageError(f"{given}: not of {row.name}", hint="leave it out")
    scores = row.module().score(request.predictions, request.gold, **options)
    return {"kind": request.kind, "predictions": request.predictions, "gold": request.gold, "scores": scores}


def scored(result: dict[str, Any]) -> str:
    """The scores for people."""
    return split_report(result["predictions"], result["scores"])
