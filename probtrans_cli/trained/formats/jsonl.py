"""JSON lines: an object for each tree, with what the task says."""

from __future__ import annotations

from collections.abc import Iterator

from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trained.formats.drawn import gold_heads
from probtrans_cli.trained.parses import Analysis
from probtrans_cli.trees.drawing.records import json_line


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """A line for each tree, as soon as it is there."""
    return (as_json(analysis, options) for analysis in content.analyses)


def as_json(analysis: Analysis, options: DisplayOptions) -> str:
    """One line of JSON; probabilities are always in it."""
    more = {"gold": gold_heads(analysis)} if options.gold else {}
    return json_line(analysis.record() | more) + "\n"
