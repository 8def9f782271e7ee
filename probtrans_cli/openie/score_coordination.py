"""Coordinations of any system against gold ones, see ``openie/coordination_scores.py``."""

from __future__ import annotations

from typing import Any

from probtrans_cli.data.files import display_name, find, open_lines
from probtrans_cli.errors import UsageError
from probtrans_cli.openie.coordination_rows import read_coordinations
from probtrans_cli.openie.coordination_scores import Compat, counts_of, scores_of
from probtrans_cli.reports.scorers import side_by_side

MAIN = "exact"


def score(predictions: str, gold: str | None, *, compat: Compat | None = None) -> dict[str, Any]:
    """See :class:`probtrans_cli.reports.scorers.Scoring`; the main scores are those of the criterion "exact".

    Args:
        predictions: the file that is scored.
        gold: the file with the gold coordinations.
        compat: ``o6``: as the code of OpenIE6 counts.
    """
    if gold is None:
        raise UsageError("score coordination needs the gold coordinations", hint="add --gold FILE")
    counts = counts_of({}, {})
    sentences = 0
    ours, theirs = (read_coordinations(open_lines(find(name)), display_name(name)) for name in (predictions, gold))
    for one, other in side_by_side(ours, theirs, predictions, gold):
        counts.update(counts_of(other.found, one.found, compat))
        sentences += 1
    criteria = scores_of(counts)
    found: dict[str, Any] = dict(criteria[MAIN])
    found |= {f"f1_{name}": scores["f1"] for name, scores in criteria.items() if name != MAIN}
    return found | {
        "sentences": sentences,
        "gold_coordinations": counts["gold"],
        "coordinations": counts["predicted"],
        "criteria": criteria,
    }
