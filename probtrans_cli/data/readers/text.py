"""Plain text: one sentence a line, its tokens separated by white space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import words_of


def read_text(lines: Iterable[str], name: str, *, keep_empty: bool = False) -> Iterator[Sentence]:
    """Yield one sentence a line, its tokens separated by white space (a no-break space does not separate).

    Blank lines are skipped, or with ``keep_empty`` give a sentence without words.
    """
    for number, line in enumerate(lines, start=1):
        words = words_of(line)
        if words or keep_empty:
            yield Sentence(words=words, where=f"{name}:{number}")
