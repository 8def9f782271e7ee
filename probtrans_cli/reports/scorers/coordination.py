"""Coordinations of any system against gold ones, see ``data/codecs/coordination_scores.py``."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from probtrans_cli.data.codecs.coordination_scores import Compat, counts_of, scores_of
from probtrans_cli.data.files import display_name, find, open_lines
from probtrans_cli.data.readers.coordination_rows import read_coordinations
from probtrans_cli.errors import DataError, UsageError

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
    files = (read_coordinations(open_lines(find(name)), display_name(name)) for name in (predictions, gold))
    for ours, theirs in zip_longest(*files):
        if ours is None or theirs is None:
            name, other = (predictions, gold) if ours is None else (gold, predictions)
            raise DataError(f"{name}: fewer sentences than {other}", hint="score the same sentences, in the same order")
        if ours.words != theirs.words:
            raise DataError(f"{ours.where}: other words than {theirs.where}", hint="score the same sentences")
        counts.update(counts_of(theirs.found, ours.found, compat))
        sentences += 1
    if not sentences:
        raise DataError(f"{predictions}: there is no sentence in it", hint="check the file")
    criteria = scores_of(counts)
    found: dict[str, Any] = dict(criteria[MAIN])
    found |= {f"f1_{name}": scores["f1"] for name, scores in criteria.items() if name != MAIN}
    return found | {
        "sentences": sentences,
        "gold_coordinations": counts["gold"],
        "coordinations": counts["predicted"],
        "criteria": criteria,
    }
