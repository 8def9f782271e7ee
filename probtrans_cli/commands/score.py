"""The verb `score`: the scorers alone, for files of any system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probtrans_cli.errors import UsageError
from probtrans_cli.reports.scorers import SCORERS, ScorerName


def score(kind: ScorerName, predictions: str, gold: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Score a file.

    Args:
        kind: a row of :data:`probtrans_cli.reports.scorers.SCORERS`.
        predictions: the file to score.
        gold: the file that it is scored against; None: it holds the gold itself.
        options: of the scorers, by name; None: not given.

    Raises:
        DataError: a file cannot be read, or the two are not of the same sentences.
        UsageError: a gold file is needed, or an option is not of the scorer.
    """
    if predictions == gold == "-":
        raise UsageError("predictions and gold cannot both be standard input", hint="give a file for one of them")
    row = SCORERS[kind]
    options = {name: value for name, value in options.items() if value is not None}
    for name, value in options.items():
        if name not in row.options:
            option = f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
            raise UsageError(f"{option}: not of {row.name}", hint="leave it out")
    scores = row.score(predictions, gold, **options)
    return {"kind": kind, "predictions": predictions, "gold": gold, "scores": scores}
