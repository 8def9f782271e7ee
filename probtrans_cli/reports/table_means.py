"""Means over corpora for the verb `table`: of models that differ in their name and files alone. Imports no torch."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from probtrans_cli.reports.finished import Finished
from probtrans_cli.reports.scores import is_share

Seeds = Sequence[Finished]
"""Runs that differ in nothing but the seed: a row of the table."""


@dataclass(frozen=True)
class OverCorpora:
    """Rows of one model, each trained on another corpus, and the mean of their runs."""

    rows: Sequence[Seeds]
    mean: Seeds
    """For each seed that all rows have, a run whose scores are means over the corpora."""


def over_corpora(rows: Sequence[Seeds]) -> list[OverCorpora]:
    """The mean for each model that stands in several rows, one for each of several corpora.

    Scores that are no shares, as a perplexity, are left out: those of two corpora have no scale in common. There is no
    mean where two rows are scored on the same files, of test or, where one of them has no test set, of dev; nor where
    no seed or no score is in all of them.
    """
    families: dict[str, list[Seeds]] = {}
    for row in rows:
        families.setdefault(row[0].settings, []).append(row)
    found = []
    for family in families.values():
        by_seed = [{run.recipe.seed: run for run in row} for row in family]
        seeds = [seed for seed in by_seed[0] if all(seed in row for row in by_seed)]
        split = "test" if all(row[0].corpora["test"] for row in family) else "dev"
        different = {json.dumps(row[0].corpora[split]) for row in family}
        if 1 < len(different) == len(family):
            mean = [_mean([row[seed] for row in by_seed]) for seed in seeds]
            if any(chain.from_iterable(run.scores.values() for run in mean)):
                found.append(OverCorpora(family, mean))
    return found


def _mean(runs: Seeds) -> Finished:
    """A run with the mean scores, the mean time and all speeds of runs on several corpora."""
    first = runs[0]
    names = list(dict.fromkeys(run.name for run in runs))
    name = f"mean of {len(runs)} ({names[0]}" + (f" to {names[-1]})" if len(names) > 1 else ")")
    splits = [split for split in first.scores if all(split in run.scores for run in runs)]
    seconds = [run.seconds for run in runs if run.seconds is not None]
    return replace(
        first,
        recipe=first.recipe.model_copy(update={"name": name}),
        scores={split: _mean_scores([run.scores[split] for run in runs]) for split in splits},
        parameters=max(run.parameters for run in runs),
        speeds=list(chain.from_iterable(run.speeds for run in runs)),
        seconds=statistics.fmean(seconds) if seconds else None,
        command="",
    )


def _mean_scores(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """The means of the shares that all have."""
    names = [name for name in scores[0] if is_share(name) and all(name in others for others in scores)]
    return {name: statistics.fmean(others[name] for others in scores) for name in names}
