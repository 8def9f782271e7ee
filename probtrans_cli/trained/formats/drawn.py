"""What a model says of a sentence as something to draw: what the formats that are pictures share."""

from __future__ import annotations

from itertools import zip_longest

import numpy as np

from probtrans_cli.trained.formats import DisplayOptions
from probtrans_cli.trained.latent_labels import as_notes
from probtrans_cli.trained.parses import Analysis, no_gold
from probtrans_cli.trees.drawing.drawing import Arc, Drawing, reads_right_to_left

GOLD = "gold"  # the channel, so to speak, of a treebank's own arcs


def drawing(analysis: Analysis, options: DisplayOptions) -> Drawing:
    """The sentence with its tree, and what the task says of it: below the words, and above the sentence."""
    words = tuple(analysis.words)
    places = analysis.places(probability=options.probability)
    arcs = _arcs(analysis, options)
    if options.gold:
        arcs += [Arc(number, head, None, GOLD) for number, head in enumerate(gold_heads(analysis), start=1)]
    channel = f"channel {analysis.reading.channel}" if options.several and analysis.reading is not None else ""
    latent = () if analysis.latent_labels is None else as_notes(*analysis.latent_labels)
    notes = [(*one, *other) for one, other in zip_longest(places.notes_of(len(words)), latent, fillvalue=())]
    return Drawing(
        words,
        tuple(arcs),
        title=": ".join(part for part in (channel, places.title) if part),
        notes=tuple(notes),
        spans=tuple(places.spans),
        right_to_left=reads_right_to_left(words),
    )


def _arcs(analysis: Analysis, options: DisplayOptions) -> list[Arc]:
    if analysis.heads is None or analysis.probabilities is None or analysis.reading is None:
        return []
    count = len(analysis.heads)
    unknown = np.full(count, np.nan)
    known = analysis.probabilities if options.probability else unknown
    spread = unknown if analysis.deviations is None else analysis.deviations
    return [
        Arc(
            number + 1, int(analysis.heads[number]), _number(known[number]), analysis.reading.channel,
            _number(spread[number]),
        )
        for number in range(count)
    ]  # fmt: skip


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def gold_heads(analysis: Analysis) -> list[int]:
    """The heads that the input gives.

    Raises:
        DataError: it gives none, or not for every word.
    """
    if analysis.sentence.heads is None:
        raise no_gold(analysis.sentence)
    return analysis.sentence.heads
