"""Plain text: one sentence a line, its tokens separated by white space."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from probtrans_cli.data.sentence import Sentence

# White space between tokens. No-break spaces do not break: corpora use them inside a token ("4 1/2").
_BETWEEN_TOKENS = re.compile("[^\\S\u00a0\u2007\u202f]+")


def read_text(lines: Iterable[str], name: str, *, keep_empty: bool = False) -> Iterator[Sentence]:
    """Yield one sentence a line, its tokens separated by white space (a no-break space does not separate).

    Blank lines are skipped, or with ``keep_empty`` give a sentence without words.
    """
    for number, line in enumerate(lines, start=1):
        words = tokens_of(line)
        if words or keep_empty:
            yield Sentence(words=words, where=f"{name}:{number}")


def tokens_of(line: str) -> list[str]:
    """The tokens of a line; none of a blank one."""
    return line.split() if line.isascii() else [word for word in _BETWEEN_TOKENS.split(line) if word]
