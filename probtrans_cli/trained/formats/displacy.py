"""displaCy's manual input: a line of JSON for each tree."""

from __future__ import annotations

from collections.abc import Iterator

from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trained.formats.drawn import drawing
from probtrans_cli.trees.drawing.records import displacy_line


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """A line for each tree, as soon as it is there."""
    probability = options.probability
    return (displacy_line(drawing(one, options), show_probability=probability) + "\n" for one in content.analyses)
