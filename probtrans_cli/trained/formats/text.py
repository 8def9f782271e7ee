"""Plain text for people: the sentence, below it what the task says of it, a line each, and an empty line.

Nothing reads it again, so what a terminal would obey or hide is shown as escapes, as in pictures.
"""

from __future__ import annotations

from collections.abc import Iterator

from probtrans_cli.data.sentence import character_spans
from probtrans_cli.text import harmless
from probtrans_cli.trained.formats import Content, DisplayOptions


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """A block for each sentence, as soon as it is there."""
    del options
    for one in content.analyses:
        text, _ = character_spans(one.sentence)
        lines = [harmless(line, keep="\t") for line in (text, *one.places(probability=False).lines)]
        yield "\n".join([*lines, "", ""])
