"""What a file looks like, whatever its name: CoNLL-U, rows of other columns, JSON, a page, bytes, or text.

Text is what any file could be. So a file without a known name is CoNLL-U where its first lines look so, and a warning
names a file that is read as text although it looks like something else.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Literal

from probtrans_cli.data.files import display_name, open_lines, up_to
from probtrans_cli.data.readers.columns import DOCUMENT
from probtrans_cli.data.readers.conllu import COLUMNS, column_names
from probtrans_cli.errors import DataError
from probtrans_cli.folders import holds
from probtrans_cli.text import from_json

Appearance = Literal["conllu", "columns", "jsonl", "markup", "bytes", "returns", "text"]
IN_WORDS: dict[Appearance, str] = {
    "conllu": "CoNLL-U",
    "columns": "rows of columns",
    "jsonl": "JSON",
    "markup": "HTML or XML",
    "bytes": "UTF-16 or no text at all",
    "returns": "lines that end in \\r alone",
    "text": "text",
}
LOOKED_AT = 100  # lines that decide what a file looks like
_ID = re.compile(r"\d+([-.]\d+)?")
_HEAD = re.compile(r"\d+|_")
_TAG = re.compile(r"O|[BILUES]-\S+")
_FILLER = re.compile(r"[-_*]|O|[BILUES]-\S+")  # of rows without an annotation in this column
_MARKUP = re.compile(r"<(!doctype|html|\?xml)\b", re.IGNORECASE)
_COMMENT = re.compile(r"#\s*(sent_id\s*=|text\s*=|newdoc\b|newpar\b|global\.columns\s*=)")
_LEAST_COLUMNS = 8  # of CoNLL-U and its relatives, which differ: CoNLL-U Plus, CoNLL-X, CoNLL-2009
_HELD = 1 << 20  # characters of lines that have been passed on
_LEAST_ROWS = 5  # that show that their last column has tags


def has_content(line: str) -> bool:
    """Return whether a line is neither blank nor a comment."""
    return bool(line.strip()) and line[0] != "#"


def begins_as_conllu(lines: Iterable[str]) -> tuple[bool, Iterator[str]]:
    """Return whether the first line that is neither blank nor a comment is a word of CoNLL-U, or a comment names
    columns; and all lines."""
    first, lines = up_to(lines, has_content)
    named = any(column_names(line) is not None for line in first if line.startswith("#"))
    return named or (bool(first) and first[-1].count("\t") == len(COLUMNS) - 1), lines


def look_ahead(lines: Iterable[str]) -> tuple[bool, Iterator[str]]:
    """Return whether lines look like CoNLL-U, and all of them.

    No more of them is read than what decides it: a comment that UD defines, or else the first line that is neither
    blank nor begins with `#`, as text may.
    """
    first, lines = up_to(lines, lambda line: bool(_COMMENT.match(line)) or has_content(line))
    return appearance(first) == "conllu", lines


def appearance(lines: Iterable[str]) -> Appearance:
    """Return what the lines of a file look like, of which no more than the first are read."""
    first, lines = up_to(lines, has_content)
    lines, _ = up_to(islice(lines, len(first) + LOOKED_AT), lambda _: False)
    content: list[str] = []
    for line in lines:
        if not content and _COMMENT.match(line):
            return "conllu"
        if has_content(line):
            content.append(line.removesuffix("\r"))
    if not content:
        return "text"
    if _is_row(content[0]):
        return "conllu"
    begin = "".join("".join(content[:2]).split())
    # An object, a list of objects, or an object over several lines.
    if is_object(content[0]) or begin.startswith('[{"') or (content[0].strip() == "{" and begin.startswith('{"')):
        return "jsonl"
    if any("\0" in line for line in content):
        return "bytes"
    if sum(line.count("\r") for line in content) >= len(content):
        return "returns"
    if _MARKUP.match(content[0].lstrip()):
        return "markup"
    return "columns" if _have_columns(content) or _has_table(content) else "text"


def _is_row(line: str) -> bool:
    """Return whether a line is a word in ten columns, or a number and so many columns that it could be of a treebank;
    or has spaces between such columns, as if copied from a page: the reader of CoNLL-U says what is wrong with it."""
    row = line.split("\t")
    if len(row) > 1:
        return len(row) == len(COLUMNS) or (len(row) >= _LEAST_COLUMNS and _ID.fullmatch(row[0]) is not None)
    row = line.split()
    if len(row) < _LEAST_COLUMNS or not _ID.fullmatch(row[0]):
        return False
    return row.count("_") > 1 and any(map(_HEAD.fullmatch, row[6:9]))


def is_object(line: str) -> bool:
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(from_json(line), dict)
    except ValueError:
        return False


def _have_columns(content: Sequence[str]) -> bool:
    if content[0].startswith(DOCUMENT):
        return True
    tabs = {line.count("\t") for line in content}
    if len(content) > 1 and tabs != {0}:
        return len(tabs) == 1
    rows = [line.split() for line in content if not line.startswith(DOCUMENT)]
    if len(rows) < _LEAST_ROWS:
        return False
    if all(len(row) > 1 and _TAG.fullmatch(row[-1]) for row in rows):
        return True
    width = len(rows[0])
    if width == 1 or any(len(row) != width for row in rows):
        return False
    tags, *others = zip(*rows, strict=True)
    return all(map(_TAG.fullmatch, tags)) or (width > 4 and any(all(map(_FILLER.fullmatch, c)) for c in others))


def _has_table(content: Sequence[str]) -> bool:
    """Return whether lines are rows with commas or semicolons, one column of which has few values, as labels are."""
    for separator in ",;":
        if any(f" {separator}" in line for line in content):  # so tokens of text stand
            continue
        try:
            rows = [row for row in csv.reader(content, delimiter=separator) if row][:-1]  # the last may be cut off
        except csv.Error:
            continue
        if len(rows) >= _LEAST_ROWS and len({len(row) for row in rows}) == 1 and len(rows[0]) > 1:
            # Without a header.
            columns = [[value.strip() for value in column[1:]] for column in zip(*rows, strict=True)]
            if any(2 * len(set(column)) <= len(column) and not any(" " in v for v in column) for column in columns):
                return True
    return False


def appearance_of(path: str | Path) -> Appearance:
    """Return what a file looks like; text where it cannot be read, and where it can be read only once."""
    if str(path) == "-" or not holds(Path.is_file, Path(path)):
        return "text"
    try:
        with closing(open_lines(path)) as lines:  # type: ignore[type-var]
            return appearance(lines)
    except DataError:  # the reader of the file says so
        return "text"


def misread(path: str | Path, kind: Appearance, remedy: str) -> str:
    """Return the warning about a file that is read as text and does not look so."""
    return f"warning: {display_name(path)}: looks like {IN_WORDS[kind]}, but each line is read as a sentence: {remedy}"


def watched(lines: Iterable[str], warn: Callable[[Appearance], None]) -> Iterator[str]:
    """Yield the same lines, none of which waits for the next; call ``warn`` if the first do not look like text."""
    lines = iter(lines)
    first: list[str] = []
    room = _HELD
    for line in islice(lines, LOOKED_AT):
        room -= len(line)
        if room >= 0:
            first.append(line)
        yield line
    if (kind := appearance(first)) != "text":
        warn(kind)
    yield from lines
