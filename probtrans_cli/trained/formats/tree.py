"""Pictures of characters, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trained.formats.drawn import GOLD, drawing, gold_heads
from probtrans_cli.trained.parses import Analysis
from probtrans_cli.trees.drawing.drawing import Arc
from probtrans_cli.trees.drawing.terminal import terminal


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """A picture for each tree, as soon as it is there."""
    return (as_picture(one, options) for one in content.analyses)


def as_picture(analysis: Analysis, options: DisplayOptions) -> str:
    """The tree for a terminal; the gold tree is a picture of its own below it, as arcs have no colours there."""
    ours = drawing(analysis, replace(options, gold=False))
    pictures = [ours]
    if options.gold:
        gold = tuple(Arc(number, head, None, GOLD) for number, head in enumerate(gold_heads(analysis), start=1))
        title = ours.title or ("" if analysis.reading is None else f"channel {analysis.reading.channel}")
        pictures = [replace(ours, title=title), replace(ours, title=GOLD, arcs=gold, notes=(), spans=())]
    texts = [
        (terminal(one, coloured=options.coloured) if analysis.words else one.title).rstrip("\n") for one in pictures
    ]
    return "\n".join(texts) + "\n\n"
