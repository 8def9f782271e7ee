"""Lines of the files that other systems read: rows of labels, and tuples as CaRB and AllenNLP write them.

What is written here is read again by :mod:`probtrans_cli.data.readers`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from probtrans_cli.data.codecs import coordinations, extractions

_CLOSING = re.compile(r"<(?=/?(?:arg1|rel|arg2)>)")


def extraction_lines(words: Sequence[str], rows: Sequence[Sequence[int]]) -> list[str]:
    """A sentence in the manner of OpenIE6's `extags`: its words, and a line of tags for each row.

    Places and times have one label, which is written as LOC; OpenIE6 reads TIME as the same.

    Args:
        words: with the extra words behind them.
        rows: a label for each of them; see :data:`probtrans_cli.data.codecs.extractions.LABELS`.

    Raises:
        ValueError: a row has another length.
    """
    tags = [tag if tag in extractions.TAGS and "/" not in tag else "LOC" for tag in extractions.LABELS]
    return [" ".join(words), *(_tags(row, tags, len(words)) for row in rows)]


def coordination_lines(words: Sequence[str], rows: Sequence[Sequence[int]]) -> list[str]:
    """A sentence in the manner of OpenIE6's `cctags`: its words, a line of tags for each row, and an empty line.

    Raises:
        ValueError: a row has another length.
    """
    return [" ".join(words), *(_tags(row, coordinations.LABELS, len(words)) for row in rows), ""]


def _tags(row: Sequence[int], tags: Sequence[str], length: int) -> str:
    if len(row) != length:
        raise ValueError(f"a row of {len(row)} labels of {length} words")
    return " ".join(tags[label] for label in row)


def carb_line(sentence: str, tuple_: Sequence[str], confidence: float | None = None) -> str:
    """A line as CaRB reads it: of a prediction, or without a confidence a gold tuple.

    ``tuple_``: the relation, then the arguments.
    """
    between = [] if confidence is None else [repr(confidence)]
    return "\t".join([_plain(sentence), *between, *map(_plain, tuple_)])


def allennlp_line(sentence: str, tuple_: Sequence[str], confidence: float) -> str:
    """A line as AllenNLP writes it; all arguments but the first one are its second argument.

    What looks like a tag in a text gets a blank behind its ``<``, so that the line can be read.
    """
    relation, arg1, *others = (_CLOSING.sub("< ", _plain(text)) for text in tuple_)
    parts = {"arg1": arg1, "rel": relation, "arg2": " ".join(others)}
    tagged = " ".join(f"<{name}> {text} </{name}>" for name, text in parts.items())
    return f"{_plain(sentence)}\t{tagged}\t{confidence!r}"


def _plain(text: str) -> str:
    """A text without tabs and line ends, which would be taken for those of the file."""
    return " ".join(text.split())
