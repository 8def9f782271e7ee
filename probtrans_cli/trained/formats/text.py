"""Plain text: the sentence, below it what the task says of it, a line each, and an empty line."""

from __future__ import annotations

from collections.abc import Iterator

from probtrans_cli.data.sentence import character_spans
from probtrans_cli.trained.formats import Content, DisplayOptions


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """A block for each sentence, as soon as it is there."""
    del options
    for one in content.analyses:
        text, _ = character_spans(one.sentence)
        yield "\n".join([text, *one.places(probability=False).lines, "", ""])
