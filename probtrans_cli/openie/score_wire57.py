"""Tuples of any system against gold tuples by the Wire57-C score, see ``openie/wire57.py``."""

from __future__ import annotations

from typing import Any

from probtrans_cli.openie.score_carb import read_both, tuple_counts
from probtrans_cli.openie.wire57 import wire57_scores


def score(predictions: str, gold: str | None) -> dict[str, Any]:
    """See :class:`probtrans_cli.reports.scorers.Scoring`. Confidences do not matter, and may be missing."""
    theirs, ours = read_both("wire57", predictions, gold, default_confidence=1.0)
    scores = wire57_scores(theirs, ours)
    return {name: round(value, 4) for name, value in scores.items()} | tuple_counts(theirs, ours)
