"""LaTeX: one document with a picture for each tree."""

from __future__ import annotations

from collections.abc import Iterator

from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trained.formats.drawn import drawing
from probtrans_cli.trees.drawing.latex import latex


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """The document in pieces, one for each tree."""
    return latex((drawing(one, options) for one in content.analyses), show_probability=options.probability)
