"""Scores of a model on a split: its task's, and those of its induced trees where the split has gold trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from probtrans_cli.data.store import Split
from probtrans_cli.model import Model, Reading
from probtrans_cli.trees import decode, score

CHOICE_SENTENCES = 1000  # of dev, to choose a channel by: its standard error is then below half a point


def has_trees(split: Split) -> bool:
    """Whether every sentence of the split has gold heads."""
    return split.has("heads") and bool((split.column("heads") >= 0).all())


def columns(split: Split, name: str) -> list[np.ndarray]:
    """One array a sentence."""
    return [split.row(name, index) for index in range(len(split))]


def task_scores(model: Model, split: Split, *, final: bool) -> dict[str, float]:
    """The task's own scores."""
    model.network.eval()
    return model.task.evaluate(model.network, split, model.evaluation(), final=final)


def tree_scores(model: Model, split: Split, reading: Reading, *, baselines: bool) -> dict[str, Any]:
    """Attachment scores of the decoded trees (``trees/score.py`` names the conventions), with the floors if asked."""
    gold, punct = columns(split, "heads"), columns(split, "punct") if split.has("punct") else None
    scores: dict[str, Any] = dict(score.attachment(gold, model.trees(split, reading), punct))
    scores["reading"] = vars(reading)
    if baselines:
        scores["floors"] = score.floors(gold, punct, columns(split, "frequency"))
    return scores


def choose_channel(model: Model, dev: Split) -> Reading:
    """The channel (or the mean) with the best UUAS on dev, punctuation removed; ties to the first.

    Uses at most ``CHOICE_SENTENCES`` sentences, evenly spread over dev.
    """
    reading = model.reading
    chosen = np.unique(np.linspace(0, len(dev) - 1, min(len(dev), CHOICE_SENTENCES)).astype(np.int64))
    wanted = {int(index): position for position, index in enumerate(chosen)}
    channels: list[int | str] = [*range(model.recipe.model.channels), "mean"]
    heads: dict[int | str, list[np.ndarray]] = {channel: [np.zeros(0, dtype=np.int64)] * len(chosen) for channel in channels}
    for indices, arcs, mask in model.arcs(dev):
        for channel in channels:
            decoded = decode.decode(decode.arc_scores(arcs, channel, reading.iteration), mask, reading.decoder)
            for index, row, real in zip(indices, decoded, mask, strict=True):
                if int(index) in wanted:
                    heads[channel][wanted[int(index)]] = row[real]
    gold = [dev.row("heads", int(index)) for index in chosen]
    punct = [dev.row("punct", int(index)) for index in chosen] if dev.has("punct") else None
    kind = "no_punct" if punct is not None else "with_punct"
    best = max(channels, key=lambda channel: score.attachment(gold, heads[channel], punct)[kind]["all"]["uuas"] or 0.0)
    return Reading(best, reading.iteration, reading.decoder, chosen_on="dev")
