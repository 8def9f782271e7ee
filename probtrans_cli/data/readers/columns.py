"""Column files in the manner of CoNLL: one word a line, its annotations beside it, a blank line after a sentence.

There is no one format. Files differ in what separates the columns and in which of them hold the word and the tag; a
blank line may hold white space; ``-DOCSTART-`` lines mark documents and are no words. ``#`` begins no comment: it is
a word like others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from probtrans_cli.errors import DataError

DOCUMENT = "-DOCSTART-"


def read_columns(
    lines: Iterable[str], name: str, *, word: int = 0, tag: int = -1, separator: str | None = None
) -> Iterator[tuple[list[str], list[str], str]]:
    r"""Yield the words and tags of each sentence and where it begins (``name:line``); its words lie on lines in a row.

    ``lines`` may end in ``\n`` or ``\r\n``. Spaces at the edges of a column are dropped; within it, a no-break space
    or a space of no width is a character like others. Only lines with a word are sentences; several blank lines in a
    row, and none at the end, are fine.

    Args:
        lines: the lines of the file.
        name: what the file is called in messages.
        word: column of the words, from 0; negative numbers count from the last column.
        tag: column of the tags, likewise.
        separator: what stands between two columns; None: a tab in a line that has one, else one space or more.

    Raises:
        DataError: a line has too few columns, or no word or no tag; the message starts with ``name:line:``.
    """
    words: list[str] = []
    tags: list[str] = []
    first = 1
    for number, raw in enumerate(lines, start=1):
        line = raw.removesuffix("\n").removesuffix("\r")
        if line.strip() and not line.startswith(DOCUMENT):
            if not words:
                first = number
            row = _row(line, separator)
            if problem := _problem(row, word, tag):
                hint = (
                    f"columns count from 0, negative ones from the end, and are separated by {_separation(separator)}"
                )
                raise DataError(f"{name}:{number}: {problem}", hint=hint)
            words.append(row[word])
            tags.append(row[tag])
        elif words:
            yield words, tags, f"{name}:{first}"
            words, tags = [], []
    if words:
        yield words, tags, f"{name}:{first}"


def _row(line: str, separator: str | None) -> list[str]:
    if separator is None and "\t" not in line:
        return [value for value in line.split(" ") if value]
    return [value.strip(" ") for value in line.split(separator or "\t")]


def _problem(row: list[str], word: int, tag: int) -> str | None:
    """What keeps a row from having a word and a tag of its own; None if it has both."""
    found = f"{len(row)} column{'s' if len(row) > 1 else ''}"
    for kind, column in (("word", word), ("tag", tag)):
        if not -len(row) <= column < len(row):
            return f"{found}, but the {kind} is column {column}"
        if not row[column]:
            return f"the {kind} (column {column} of {len(row)}) is empty"
    if word % len(row) == tag % len(row):
        return f"{found}, so that the word (column {word}) and the tag (column {tag}) are the same"
    return None


def _separation(separator: str | None) -> str:
    return "tabs in a line that has one, else by spaces" if separator is None else repr(separator)
