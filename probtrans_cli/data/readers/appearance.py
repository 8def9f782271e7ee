"""What a file is to all appearance, whatever its name: CoNLL-U, rows of other columns, JSON lines, or text.

Text is what any file could be. So a file without a known name is CoNLL-U where its first lines look so, and one that is
read as text although it looks like something else is told.
"""

from __future__ import annotations

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
from probtrans_cli.folders.places import holds
from probtrans_cli.text import from_json

Appearance = Literal["conllu", "columns", "jsonl", "text"]
IN_WORDS: dict[Appearance, str] = {
    "conllu": "CoNLL-U",
    "columns": "rows of columns",
    "jsonl": "JSON lines",
    "text": "text",
}
LOOKED_AT = 100
"""Lines that tell it."""
_ID = re.compile(r"\d+([-.]\d+)?")
_HEAD = re.compile(r"\d+|_")
_TAG = re.compile(r"O|[BILUES]-\S+")
_COMMENT = re.compile(r"#\s*(sent_id\s*=|text\s*=|newdoc\b|newpar\b|global\.columns\s*=)")
_LEAST_COLUMNS = 8  # of CoNLL-U and its relatives, which differ: CoNLL-U Plus, CoNLL-X, CoNLL-2009
_HELD = 1 << 20  # characters of lines that have been passed on
_LEAST_ROWS = 5  # that show that their last column has tags


def begun(lines: Iterable[str]) -> tuple[list[str], Iterator[str]]:
    """The lines up to the first one that is neither blank nor a comment, none where a file is empty; and all lines."""
    return up_to(lines, _has_content)


def _has_content(line: str) -> bool:
    return bool(line.strip()) and line[0] != "#"


def begins_as_conllu(lines: Iterable[str]) -> tuple[bool, Iterator[str]]:
    """Whether the first line that is neither blank nor a comment is a word of CoNLL-U, or a comment names columns; and
    all lines."""
    seen, every = begun(lines)
    named = any(column_names(line) is not None for line in seen if line.startswith("#"))
    return named or (bool(seen) and seen[-1].count("\t") == len(COLUMNS) - 1), every


def look_ahead(lines: Iterable[str]) -> tuple[bool, Iterator[str]]:
    """Whether lines are CoNLL-U to all appearance, and all of them.

    No more of them is read than what decides it: a comment that UD defines, or else the first line that is neither
    blank nor begins with `#`, as text may.
    """
    seen, every = up_to(lines, lambda line: bool(_COMMENT.match(line)) or _has_content(line))
    return appearance(seen) == "conllu", every


def appearance(lines: Iterable[str]) -> Appearance:
    """What the lines of a file look like, of which no more than the first are read."""
    begin, every = begun(lines)
    lines, _ = up_to(islice(every, len(begin) + LOOKED_AT), lambda _: False)
    content: list[str] = []
    for line in lines:
        if not content and _COMMENT.match(line):
            return "conllu"
        if _has_content(line):
            content.append(line.removesuffix("\r"))
    if not content:
        return "text"
    if _is_row(content[0]):
        return "conllu"
    if is_object(content[0]):
        return "jsonl"
    return "columns" if _have_columns(content) else "text"


def _is_row(line: str) -> bool:
    """Whether it is a word in ten columns, or one with its number in so many that they could be those of a treebank;
    or one with spaces between columns, as it is copied from a page: its reader says what is wrong with it."""
    row = line.split("\t")
    if len(row) > 1:
        return len(row) == len(COLUMNS) or (len(row) >= _LEAST_COLUMNS and _ID.fullmatch(row[0]) is not None)
    row = line.split()
    if len(row) < _LEAST_COLUMNS or not _ID.fullmatch(row[0]):
        return False
    return row.count("_") > 1 and any(map(_HEAD.fullmatch, row[6:9]))


def is_object(line: str) -> bool:
    """Whether a line is a JSON object."""
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(from_json(line), dict)
    except ValueError:
        return False


def _have_columns(content: Sequence[str]) -> bool:
    """Whether lines have the same number of columns with tabs between them, or the last one is a tag of an entity."""
    if content[0].startswith(DOCUMENT):
        return True
    tabs = {line.count("\t") for line in content}
    if len(content) > 1 and tabs != {0}:
        return len(tabs) == 1
    rows = [line.split() for line in content if not line.startswith(DOCUMENT)]
    return len(rows) >= _LEAST_ROWS and all(len(row) > 1 and _TAG.fullmatch(row[-1]) for row in rows)


def appearance_of(path: str | Path) -> Appearance:
    """What a file looks like; text where it cannot be read, and where it can be read only once."""
    if str(path) == "-" or not holds(Path.is_file, Path(path)):
        return "text"
    try:
        with closing(open_lines(path)) as lines:  # type: ignore[type-var]
            return appearance(lines)
    except DataError:  # who reads it says so
        return "text"


def misread(path: str | Path, kind: Appearance, remedy: str) -> str:
    """What to tell of a file that is read as text and does not look so."""
    return f"warning: {display_name(path)}: looks like {IN_WORDS[kind]}, but each line is read as a sentence: {remedy}"


def watched(lines: Iterable[str], tell: Callable[[Appearance], None]) -> Iterator[str]:
    """The same lines, none of which waits for the next; ``tell`` is told what the first of them look like, if that is
    not text."""
    given = iter(lines)
    seen: list[str] = []
    room = _HELD
    for line in islice(given, LOOKED_AT):
        room -= len(line)
        if room >= 0:
            seen.append(line)
        yield line
    if (kind := appearance(seen)) != "text":
        tell(kind)
    yield from given
