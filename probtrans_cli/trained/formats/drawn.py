"""A model's tree as something to draw: what the formats that are pictures share."""

from __future__ import annotations

import numpy as np

from probtrans_cli.trained.formats import DisplayOptions
from probtrans_cli.trained.latent_labels import as_notes
from probtrans_cli.trained.parses import Tree, no_gold
from probtrans_cli.trees.drawing.drawing import Arc, Drawing, reads_right_to_left

GOLD = "gold"  # the channel, so to speak, of a treebank's own arcs


def drawing(tree: Tree, options: DisplayOptions) -> Drawing:
    """The tree as something to draw."""
    arcs = [
        Arc(number, int(head), float(p) if options.probability and not np.isnan(p) else None, tree.reading.channel)
        for number, (head, p) in enumerate(zip(tree.heads, tree.probabilities, strict=True), start=1)
    ]
    if options.gold:
        arcs += [Arc(number, head, None, GOLD) for number, head in enumerate(gold_heads(tree), start=1)]
    title = f"channel {tree.reading.channel}" if options.several else ""
    notes = () if tree.latent_labels is None else as_notes(*tree.latent_labels)
    words = tuple(tree.sentence.words)
    return Drawing(words, tuple(arcs), title, notes, right_to_left=reads_right_to_left(words))


def gold_heads(tree: Tree) -> list[int]:
    """The heads that the input gives.

    Raises:
        DataError: it gives none, or not for every word.
    """
    if tree.sentence.heads is None:
        raise no_gold(tree.sentence)
    return tree.sentence.heads
