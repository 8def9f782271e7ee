"""A sentence, as every reader yields it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from conllu.parser import parse_comment_line
from numpy.typing import NDArray

from probtrans_cli.data.tokens import tokenize

BITS = 3  # of a label in a grid as it is stored: there are eight labels at most
MOST_ROWS = 20  # so many rows of a grid fit into 64 bits


class TagFault(NamedTuple):
    """A tag of a column file that is read although it is not as it should be."""

    where: str  # `file:line`
    reason: str
    reading: str | None = None
    """How it is read, if its spelling is wrong; None: it breaks its scheme's rules, and is read as by conlleval."""


@dataclass(slots=True)
class Sentence:
    """The words of a sentence and what its source says about them.

    ``n`` is the number of words; ``words``, every column of ``tags``, ``heads``, ``relations``, ``parents``, ``rows``
    and every row of ``grid`` have that length.
    """

    words: list[str]
    """Syntactic words (the FORM column), without multiword tokens and empty nodes."""
    tags: dict[str, list[str]] = field(default_factory=dict)
    """Labels of the words by column (`upos`, `xpos`, `feats`, `tag`, ...); tags that are `_` throughout are absent."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels of the whole sentence by column."""
    heads: list[int] | None = None
    """Head of every word: 0 for the root, otherwise 1..n; None when any HEAD is `_`."""
    relations: list[str] | None = None
    """Relation of every word to its head (the DEPREL column), `_` where it is not annotated."""
    parents: list[int] | None = None
    """Position of every word's parent in a semantic graph, from 0; -1 = it has none."""
    grid: list[list[int]] | None = None
    """Rows of labels, each a label for every word: a row for each tuple, or for each level of nested coordinations."""
    extra: int = 0
    """Number of extra words at the end, ``[unused1]``, ``[unused2]``, ..., which are not in the text: they stand for
    words of a relation that the sentence lacks."""
    form: str | None = None
    """Its gold annotation for scoring, as text: its logical form, the tags of its entities, one a line, or a JSON list
    of its gold tuples, ``[relation, arg1, arg2, ...]``, or of its coordinations, ``[word, [[from, to], ...]]``."""
    looked_up: list[str] | None = None
    """The words as the vocabulary reads them, where some are respelled; None: as they are. See
    :mod:`probtrans_cli.data.vocabularies.spelling`."""
    text: str | None = None
    """The raw text that was divided into words; None if the source has words."""
    lines: list[str] | None = None
    """Source lines of a CoNLL-U block without line ends: comments, words, multiword tokens, empty nodes."""
    rows: list[int] | None = None
    """For every word the index of its line in ``lines``."""
    windows: bool = False
    r"""Whether its source lines end in ``\r\n``."""
    begins: bool = False
    """Whether it is the first of a document."""
    may_be_header: bool = False
    """Whether its first line is that of a file that may have a header."""
    unread: str = ""
    """Why it is too long for the model; empty: it is read."""
    where: str = ""
    """`file:line` of the first line, for messages."""
    place: tuple[int, int] | None = None
    """Of one of several sentences of a line: the number of the line, from 1, and of the characters before it there."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many tuples or coordinations of its source are rows of ``grid`` (``kept``), and how many are not, by the
    reason; see :mod:`probtrans_cli.data.corpus.tally`."""
    faults: tuple[TagFault, ...] = ()
    """Tags that break the rules of their scheme, or are spelled otherwise, and are read all the same."""

    @property
    def missing_head(self) -> str | None:
        """The `file:line` of its first word whose HEAD is `_`; None: all words have one, or it has no such column."""
        name, _, first = self.where.rpartition(":")
        rows = (row for row in self.rows or () if (self.lines or ())[row].split("\t")[6] == "_")
        return next((f"{name}:{int(first) + row}" for row in rows), None)

    @property
    def id(self) -> str | None:
        """Its name in CoNLL-U, in the comment ``# sent_id = ...``; None if there is no such comment."""
        comments = (pair for line in self.lines or () if line.startswith("#") for pair in parse_comment_line(line))
        return next((value for name, value in comments if name == "sent_id"), None)


def divided(text: str, where: str = "") -> Sentence:
    """Return the sentence of a text, divided into its tokens."""
    return Sentence(tokenize(text), text=text, where=where)


def extra_words(number: int) -> list[str]:
    """Return how the extra words of a sentence are spelled; see :attr:`Sentence.extra`."""
    return [f"[unused{i}]" for i in range(1, number + 1)]


def character_spans(sentence: Sentence) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of a sentence, and the characters ``[begin, end)`` of each of its words, without extra words.

    A sentence that was read as words has the text of its words with a space between two.
    """
    words = sentence.words[: len(sentence.words) - sentence.extra]
    text = " ".join(words) if sentence.text is None else sentence.text
    spans = []
    end = 0
    for number, word in enumerate(words):
        # Words may hold spaces or be empty, so without a text their places follow from their lengths.
        start = text.index(word, end) if sentence.text is not None else end + (number > 0)
        end = start + len(word)
        spans.append((start, end))
    return text, spans


def pack_rows(rows: Sequence[Sequence[int]], length: int) -> list[int]:
    """Return the numbers that stand for a grid of ``length`` words, each the sum over rows r of ``label * 8 ** r``."""
    if len(rows) > MOST_ROWS:
        raise ValueError(f"{len(rows)} rows, more than {MOST_ROWS}")
    packed = [0] * length
    for r, row in enumerate(rows):
        if len(row) != length or not all(0 <= label < 1 << BITS for label in row):
            raise ValueError(f"row {r} is not a label from 0 to 7 for each of {length} words")
        for i, label in enumerate(row):
            packed[i] |= label << (BITS * r)
    return packed


def unpack_rows(values: NDArray[np.integer[Any]], rows: int) -> NDArray[np.int64]:
    """Return the first ``rows`` rows of labels, [..., rows, w], of the numbers ``values`` [..., w] of words.

    A row that a sentence does not have is 0 throughout, and so is padding.
    """
    if not 0 <= rows <= MOST_ROWS:
        raise ValueError(f"{rows} rows, more than {MOST_ROWS}")
    shifts = BITS * np.arange(rows, dtype=np.int64)[:, None]
    return (values.astype(np.int64)[..., None, :] >> shifts) & ((1 << BITS) - 1)
