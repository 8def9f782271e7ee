"""HTML: one offline page of all sentences, with every channel and iteration."""

from __future__ import annotations

from collections.abc import Iterator

from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trees.drawing.html import page


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """The page in pieces, one for each sentence. It always has the probabilities."""
    del options
    return page(content.every, title=content.title)
