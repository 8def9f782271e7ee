"""Column files in the manner of CoNLL: one word a line, its annotations beside it, a blank line after a sentence.

There is no one format. Files differ in what separates the columns and in which of them hold the word and the tag; a
blank line may hold white space; ``-DOCSTART-`` lines mark documents and are no words. ``#`` begins a comment only where
the section says so: else it is a word like others. As for the scorer conlleval, all lines of a file have equally many
columns; what has more or fewer has a space within a word or a tag, lacks one, or is a comment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from probtrans_cli.data.entities import (
    TAG_END,
    MisfitError,
    Scheme,
    detect,
    faults,
    plain_tags,
    read_spans,
    tags_of,
)
from probtrans_cli.data.sentence import Sentence, TagFault
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Columns
from probtrans_cli.text import counted

DOCUMENT = "-DOCSTART-"
TAG = "tag"  # the column of the tags


class Rows(NamedTuple):
    """The words of a sentence, their tags as they stand, and the lines of the file on which they stand, from 1."""

    words: list[str]
    tags: list[str]
    lines: list[int]


class Marked(NamedTuple):
    """A sentence whose tags mark entities, in the plain spelling of ``scheme``."""

    words: list[str]
    tags: list[str]
    where: str  # `file:line` of its first word
    repairs: list[TagFault]  # the tags that are spelled otherwise
    broken: list[TagFault]  # the tags that break the rules of the scheme


class Options(NamedTuple):
    """How messages call what a user can set; by default the keys of a recipe."""

    comments: str = "data.columns.comments"
    comments_set: str = 'data.columns.comments="# "'
    tag: str = "name the column of the tags with data.columns.tag"
    scheme: str = ", or say with data.columns.scheme how they mark entities"


OF_RECIPE = Options()
OF_SCORE = Options(
    comments="--comments",
    comments_set='--comments "# "',
    tag="put the tags into the last column",
    scheme="; all tags of a column must be of one scheme",
)
"""What messages of `score` name, which has options for the keys of a recipe."""


# --- sentences --------------------------------------------------------------------------------------------------------


def read_tagged(
    lines: Iterable[str], name: str, columns: Columns, *, options: Options = OF_RECIPE
) -> Iterator[Sentence]:
    """Yield the sentences of a column file with their tags, which mark entities if the section says so.

    A tag that breaks the rules of its scheme, or is spelled otherwise, is one of the sentence's ``faults``, unless the
    section is strict.

    Raises:
        DataError: a line is malformed, or a tag is none of its scheme or, where the section is strict, breaks the
            scheme's rules or is spelled otherwise; the message names the line.
    """
    if columns.entities is None:
        first = True
        for rows in read_rows(lines, name, columns, options=options):
            where = f"{name}:{rows.lines[0]}"
            yield Sentence(words=rows.words, tags={TAG: rows.tags}, where=where, may_be_header=first)
            first = False
        return
    for sentence in read_entities(lines, name, columns, options=options)[1]:
        converted = tags_of(read_spans(sentence.tags), len(sentence.tags), columns.entities)
        yield Sentence(
            words=sentence.words,
            tags={TAG: converted},
            form=TAG_END.join(converted),
            where=sentence.where,
            faults=(*sentence.repairs, *sentence.broken),
        )


def read_entities(
    lines: Iterable[str],
    name: str,
    columns: Columns,
    *,
    types_alone: bool = False,
    prefer: Scheme = "iob2",
    options: Options = OF_RECIPE,
) -> tuple[Scheme, list[Marked]]:
    """Return how a column file marks entities, and its sentences.

    Args:
        types_alone: read a type without a letter, ``PERSON``, as ``I-PERSON``.
        prefer: the scheme that is meant where several fit equally well.
        options: how messages call what a user can set.
    """
    sentences = list(read_rows(lines, name, columns, options=options))  # the whole corpus shows notation and scheme
    plain = plain_tags(Counter(chain.from_iterable(rows.tags for rows in sentences)), types_alone=types_alone)

    def refused(rows: Rows, index: int, reason: str, remedy: str) -> DataError:
        return DataError(f"{name}:{rows.lines[index]}: {reason}", hint=_hint(remedy, rows.words[index], options))

    marked = []
    odd = {tag for tag, spelled in plain.items() if spelled.repair or spelled.misfit}
    for rows in sentences:
        repairs = []
        for index, tag in enumerate(rows.tags) if odd else ():
            if tag in odd:
                spelled = plain[tag]
                reason = spelled.misfit or f"{tag!r} for {spelled.tag!r}"
                if spelled.misfit or columns.strict:
                    raise refused(rows, index, reason, f"mend the tag, or {options.tag}")
                repairs.append(TagFault(f"{name}:{rows.lines[index]}", reason, spelled.repair))
        tags = [plain[tag].tag for tag in rows.tags]
        marked.append(Marked(rows.words, tags, f"{name}:{rows.lines[0]}", repairs, []))
    scheme: Scheme
    if columns.scheme != "auto":
        scheme = columns.scheme
    else:
        try:
            scheme = detect((sentence.tags for sentence in marked), strict=columns.strict, prefer=prefer)
        except MisfitError as error:
            verb = "fits" if columns.strict else "has"
            reason = f"{error.reason} (no scheme {verb} all tags of the file; {error.scheme} {verb} them up to here)"
            remedy = f"mend the tag, or {options.tag}{options.scheme}"
            raise refused(sentences[error.sequence], error.index, reason, remedy) from None
    for rows, sentence in zip(sentences, marked, strict=True):
        for fault in faults(sentence.tags, scheme):
            if columns.strict or not fault.known:
                remedy = f"the tags are read as {scheme}: mend this one{options.scheme}"
                raise refused(rows, fault.index, fault.reason, remedy)
            sentence.broken.append(TagFault(f"{name}:{rows.lines[fault.index]}", fault.reason))
    return scheme, marked


def _hint(hint: str, word: str, options: Options) -> str:
    if not word.startswith("#"):
        return hint
    return f"if lines that begin with '#' are comments, say so with {options.comments_set}; else {hint}"


# --- rows -------------------------------------------------------------------------------------------------------------


def read_rows(lines: Iterable[str], name: str, columns: Columns, *, options: Options = OF_RECIPE) -> Iterator[Rows]:
    r"""Yield the sentences of a column file, with their tags as they stand.

    ``lines`` may end in ``\n`` or ``\r\n``. Spaces at the edges of a column are dropped; within it, a no-break space
    or a space of no width is a character like others. Only lines with a word are sentences; several blank lines in a
    row, and none at the end, are fine. A tab at the end of a line is dropped where the section counts columns from 0,
    or tags mark entities: else it could stand in front of an empty tag.

    Raises:
        DataError: a line has too few columns, or other columns than the lines before, or no word or no tag, or is a
            comment that reads like a word, or holds ``\r``; the message starts with ``name:line:``.
    """
    rows = Rows([], [], [])
    first, first_width, first_line = 0, 0, ""  # of the first line with columns
    # No comment may have the columns and the tag of a word: it could be the word `#`.
    of_words: set[tuple[int, str]] = set()
    of_comments: dict[tuple[int, str], int] = {}
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r\n")
        if "\r" in line:
            hint = "lines end in \\n or \\r\\n: write them so"
            raise DataError(f"{name}:{number}: a line end \\r within the line", hint=hint)
        if not line.strip() or line.startswith(DOCUMENT):
            if rows.words:
                yield rows
                rows = Rows([], [], [])
            continue
        row = _split(line, columns)
        width = len(row)
        is_comment = columns.comments is not None and (
            f"{line} ".replace("\t", " ").startswith(columns.comments.replace("\t", " "))
        )
        if not is_comment:
            if problem := _problem(row, columns):
                separation = "tabs in a line that has one, else by spaces"
                separation = separation if columns.separator is None else repr(columns.separator)
                hint = f"columns count from 0, negative ones from the end, and are separated by {separation}"
                if not row[-1]:
                    hint += f"; a separator at the end of a line begins one more: {options.tag}"
                raise DataError(f"{name}:{number}: {problem}", hint=_hint(hint, line, options))
            if not first:
                first, first_width, first_line = number, width, line
            elif width != first_width:
                hint = "a word or tag with a space needs tabs between columns; mend the line"
                message = f"{name}:{number}: {counted(width, 'column')}, but line {first} has {first_width}"
                raise DataError(message, hint=_hint(hint, line if line.startswith("#") else first_line, options))
            rows.words.append(row[columns.word])
            rows.tags.append(row[columns.tag])
            rows.lines.append(number)
        if columns.comments is not None and -width <= columns.tag < width:
            look = width, row[columns.tag]
            of_comments.setdefault(look, number) if is_comment else of_words.add(look)
            if look in of_words and look in of_comments:
                hint = f"leave out {options.comments} if this is a word, or give more of what comments begin with, "
                hint += "such as '# id'"
                problem = f"begins with {columns.comments!r} as comments do, but has the columns and the tag "
                raise DataError(f"{name}:{of_comments[look]}: {problem}{look[1]!r} of a word", hint=hint)
    if rows.words:
        yield rows


def _split(line: str, columns: Columns) -> list[str]:
    if columns.separator is None and "\t" not in line:
        return [value for value in line.split(" ") if value]
    row = [value.strip(" ") for value in line.split(columns.separator or "\t")]
    if columns.word >= 0 and columns.tag >= 0:
        least = 1 + max(columns.word, columns.tag)
    else:
        least = len(row) if columns.entities is None else 2
    while len(row) > least and not row[-1]:
        row.pop()
    return row


def _problem(row: list[str], columns: Columns) -> str | None:
    width = counted(len(row), "column")
    for kind, column in (("word", columns.word), ("tag", columns.tag)):
        if not -len(row) <= column < len(row):
            return f"{width}, but the {kind} is column {column}"
        if not row[column]:
            return f"the {kind} (column {column} of {len(row)}) is empty"
    if columns.word % len(row) == columns.tag % len(row):
        return f"{width}, so that the word (column {columns.word}) and the tag (column {columns.tag}) are the same"
    return None
