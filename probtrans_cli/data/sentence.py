"""One sentence, as every reader yields it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Sentence:
    """The words of a sentence and, where the source has them, its tags, its tree and its raw lines.

    ``n`` is the number of words; ``words``, ``upos``, ``xpos``, ``heads`` and ``rows`` have that length.
    """

    words: list[str]
    """Syntactic words (the FORM column), without multiword tokens and empty nodes."""
    upos: list[str] | None = None
    """Universal part-of-speech tags; None when the whole column is `_` or the source is plain text."""
    xpos: list[str] | None = None
    """Language-specific tags; None when the whole column is `_` or the source is plain text."""
    heads: list[int] | None = None
    """Head of every word: 0 for the root, otherwise 1..n; None when any HEAD is `_`."""
    lines: list[str] | None = None
    """Source lines of a CoNLL-U block without line ends: comments, words, multiword tokens, empty nodes."""
    rows: list[int] | None = None
    """For every word the index of its line in ``lines``."""
    where: str = ""
    """`file:line` of the first line, for messages."""
