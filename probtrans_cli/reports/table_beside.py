"""The verb `table`, each model beside the transformer that learned the same: one row for both. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from probtrans_cli.reports.table import as_markdown, score_in_words, time_in_words

RIVAL = "transformer"
"""The kind of model that others stand beside."""
LONGER = 2.0
"""How many times as long a rival may have been trained."""


def beside(result: dict[str, Any]) -> str:
    """The rows of :func:`probtrans_cli.reports.table.table` as Markdown, transformers within the rows of their rivals.

    Where a cell has two figures, the model's stands first, then the transformer's. A transformer that is nobody's rival
    has a row of its own.
    """
    lines = [_cells(*pair) for rows in (result["rows"], result["means"]) for pair in _pairs(rows)]
    shown = [header for header in lines[0] if any(line[header] for line in lines)]
    return as_markdown(shown, [[line[header] for header in shown] for line in lines])


def _pairs(rows: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Each model with its rival, then the transformers that are nobody's."""
    pairs = [(row, rival_of(row, rows)) for row in rows if row["model"] != RIVAL]
    used = [id(rival) for _, rival in pairs if rival is not None]
    return pairs + [(row, None) for row in rows if row["model"] == RIVAL and id(row) not in used]


def rival_of(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The transformer that learned the same task from the same corpora; of several the best one on dev.

    Perplexities must be over the same vocabulary and masks, too. One that started from weights of another training is a
    rival only of a model that did so, too. One that took more than twice as long is a rival only where no other is, as
    an hour's training beside one of ten minutes.
    """
    same = ("corpora", "task", "column", "metric", "pretrained", "scale")
    scored = [one for one in rows if one["model"] == RIVAL and _is_scored(one)]
    rivals = [one for one in scored if all(one[key] == row[key] for key in same)]
    choose = max if row["larger_is_better"] else min
    in_time = [one for one in rivals if _seconds(one, 0.0) <= LONGER * _seconds(row, math.inf)]
    return choose(in_time or rivals, key=_on_dev, default=None)


def _is_scored(row: dict[str, Any]) -> bool:
    """Whether a row has its metric, which a mean over corpora may lack."""
    return row["metric"] in (row["dev"] or row["test"] or {})


def _seconds(row: dict[str, Any], unknown: float) -> float:
    """How long a seed's training took, ``unknown`` where that was not written down."""
    seconds: float | None = row["seconds"]
    return unknown if seconds is None else seconds


def _on_dev(row: dict[str, Any]) -> float:
    score: float = (row["dev"] or row["test"])[row["metric"]]["mean"]
    return score


def _cells(row: dict[str, Any], rival: dict[str, Any] | None) -> dict[str, str]:
    both = [row] if rival is None else [row, rival]
    metric, alone = row["metric"], row["model"] == RIVAL
    ours = _said(row)
    theirs = ours if alone else "" if rival is None else _said(rival)
    floors = {name: _scores(row).get(f"floor_{name}") for name in ("uas", "uuas")}
    bias = {name: score_in_words(name, floor and floor | {"sd": None}) for name, floor in floors.items()}
    speeds = ["" if (speed := one["words_per_second"]) is None else f"{speed:,.0f}" for one in both]
    times = ["" if one["seconds"] is None else time_in_words(one["seconds"]) for one in both]
    return {
        "recipe": row["recipe"],
        "task": " ".join(filter(None, [row["task"], row["column"]])),
        "metric": metric,
        "paper": score_in_words(metric, row["paper"]),
        "ours": "" if alone else ours,
        RIVAL: theirs,
        "UAS": _joined(score_in_words("uas", _scores(one).get("uas")) for one in both),
        "UUAS": _joined(score_in_words("uuas", _scores(one).get("uuas")) for one in both),
        "untrained bias, UAS": bias["uas"],
        "untrained bias, UUAS": bias["uuas"],
        "parameters": _joined(f"{one['encoder_parameters']:,}" for one in both),
        "words/s": _joined(speeds),
        "time": _joined(times),
        "seeds": _joined(str(len(one["seeds"])) for one in both),
        "command": row["command"],
    }


def _joined(texts: Iterable[str]) -> str:
    """The model's figure and the transformer's, without those that are not known."""
    return " / ".join(filter(None, texts))


def _said(row: dict[str, Any]) -> str:
    """The row's score in its metric, and whether it is of dev."""
    text = score_in_words(row["metric"], _scores(row).get(row["metric"]))
    return text if row["test"] or not text else f"{text} (dev)"


def _scores(row: dict[str, Any]) -> dict[str, Any]:
    """The scores on test, or where there is no test set on dev."""
    return row["test"] or row["dev"] or {}
