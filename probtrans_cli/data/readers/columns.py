"""Column files in the manner of CoNLL: one word a line, its annotations beside it, a blank line after a sentence.

There is no one format. Files differ in what separates the columns and in which of them hold the word and the tag; a
blank line may hold white space; ``-DOCSTART-`` lines mark documents and are no words. ``#`` begins no comment: it is
a word like others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from probtrans_cli.data.codecs.entities import TAG_END, MisfitError, Scheme, detect, faults, read_spans, tags_of
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Columns

DOCUMENT = "-DOCSTART-"


def read_tagged(lines: Iterable[str], name: str, columns: Columns) -> Iterator[Sentence]:
    """Yield the sentences of a column file with their tags, which mark entities if the section says so.

    A tag that breaks the rules of its scheme is one of the sentence's ``faults``, unless the section is strict.

    Raises:
        DataError: a line is malformed, or a tag is none of its scheme or, where the section is strict, breaks the
            scheme's rules; the message names the line.
    """
    found = read_columns(lines, name, word=columns.word, tag=columns.tag, separator=columns.separator)
    if columns.entities is None:
        for words, tags, where in found:
            yield Sentence(words=words, tags={"tag": tags}, where=where)
        return
    every = list(found)  # only the whole corpus shows the scheme
    strict = columns.strict
    scheme: Scheme = _detected(every, strict=strict) if columns.scheme == "auto" else columns.scheme
    for words, tags, where in every:
        broken = list(faults(tags, scheme))
        if fatal := next((fault for fault in broken if strict or not fault.known), None):
            hint = f"the tags are read as {scheme}: mend this one, or set data.columns.scheme"
            raise DataError(f"{_line(where, fatal.index)}: {fatal.reason}", hint=hint)
        converted = tags_of(read_spans(tags), len(tags), columns.entities)
        yield Sentence(
            words=words,
            tags={"tag": converted},
            form=TAG_END.join(converted),
            where=where,
            faults=tuple(f"{_line(where, fault.index)}: {fault.reason}" for fault in broken),
        )


def _detected(found: Sequence[tuple[list[str], list[str], str]], *, strict: bool) -> Scheme:
    try:
        return detect((tags for _, tags, _ in found), strict=strict)
    except MisfitError as error:
        where = _line(found[error.sequence][2], error.index)
        hint = (
            "mend the tag, or say with data.columns.tag which column has the tags, or with data.columns.scheme how "
            "they mark entities"
        )
        verb = "fits" if strict else "has"
        message = (
            f"{where}: {error.reason} (no scheme {verb} all tags of the file; {error.scheme} {verb} them up to here)"
        )
        raise DataError(message, hint=hint) from None


def _line(where: str, index: int) -> str:
    """The line of a word in a file of one a line, from that of its sentence, ``file:line``."""
    name, _, first = where.rpartition(":")
    return f"{name}:{int(first) + index}"


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
