"""Rows of labels in the files that OpenIE6 is trained on: a line with the words of a sentence, below it lines of tags.

Words and tags are separated by white space, and every line of tags is a row, with a tag for every word. The first line
that is not blank tells which of two kinds a file is:

- Sentences end in extra words, ``[unused1] [unused2] [unused3]`` (`extags`): each such line begins a sentence, and
  blank lines mean nothing.
- They do not (`cctags`): a sentence is the first line, and the first one behind a blank line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from probtrans_cli.data.files import up_to
from probtrans_cli.data.readers.appearance import has_content
from probtrans_cli.data.readers.conllu import COLUMNS, column_names
from probtrans_cli.data.sentence import extra_words
from probtrans_cli.data.tokens import words_of
from probtrans_cli.errors import DataError
from probtrans_cli.text import from_json, printable

GridFormat = Literal["extractions", "coordinations"]
NONE = 0
_ID = re.compile(r"\d+([-.]\d+)?")


@dataclass
class Block:
    """A sentence with its rows."""

    words: list[str]  # without the extra words
    extra: int  # how many extra words stand behind these
    where: str
    rows: list[list[int]] = field(default_factory=list)  # a label for every word and every extra word
    counts: Counter[str] = field(default_factory=Counter)
    """How many lines of tags were ``cut`` or ``padded``."""


def read_blocks(
    lines: Iterable[str], name: str, tags: Mapping[str, int], *, fix: bool | None = None
) -> Iterator[Block]:
    """Yield the sentences of a file.

    Args:
        tags: the number of every tag; that of NONE is 0.
        fix: whether lines of tags are cut or padded where they have not as many tags as the sentence has words; None:
            they are not, and there is no recipe that could say it.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    block: Block | None = None
    has_extra: bool | None = None
    after_blank = True
    for number, line in enumerate(lines, start=1):
        fields, where = words_of(line), f"{name}:{number}"
        if not fields:
            after_blank = True
            continue
        extra = extra_of(fields)
        has_extra = bool(extra) if has_extra is None else has_extra
        are_tags = all(field in tags for field in fields)
        if are_tags and (block is None or (after_blank and not has_extra)):
            hint = "the words stand above their tags" if block is None else "a blank line stands before a sentence only"
            raise DataError(f"{where}: tags before any sentence", hint=hint)
        if extra if has_extra else after_blank:
            if block is not None:
                yield block
            block = Block(fields[: len(fields) - extra], extra, where)
        elif block is not None:
            block.rows.append(_row(fields, where, block, tags, fix))
        after_blank = False
    if block is not None:
        yield block


def extra_of(words: list[str]) -> int:
    """Return how many extra words a line ends in."""
    last = words[-1]
    number = int(last[7:-1]) if last.startswith("[unused") and last[7:-1].isdecimal() and len(last) < 12 else 0
    return number if number and words[len(words) - number :] == extra_words(number) else 0


def _row(fields: list[str], where: str, block: Block, tags: Mapping[str, int], fix: bool | None) -> list[int]:
    unknown = next((tag for tag in fields if tag not in tags), None)
    if unknown is not None:
        begins = f"ends in {' '.join(extra_words(block.extra))}" if block.extra else "stands behind an empty line"
        hint = f"tags are {', '.join(tags)}; the line of a sentence {begins}"
        raise DataError(f"{where}: unknown tag {printable(unknown)!r}", hint=hint)
    length = len(block.words) + block.extra
    row = [tags[tag] for tag in fields]
    if len(row) != length and not fix:
        words = f"{length} words" if not block.extra else f"{length} words, extra words included,"
        hint = "data.grid.fix_lengths=true (of convert: --fix-lengths) cuts longer lines and continues shorter ones "
        hint = "a line of tags has one for every word: mend the file" if fix is None else f"{hint}with NONE"
        raise DataError(f"{where}: {len(row)} tags of the {words} of {block.where}", hint=hint)
    if len(row) != length:
        block.counts["cut" if len(row) > length else "padded"] += 1
    return [*row[:length], *[NONE] * (length - len(row))]


def grid_format(lines: Iterable[str]) -> tuple[GridFormat | None, Iterator[str]]:
    """Return what a file has, tuples or coordinations, or None if it has no line that is not blank; and all its lines.

    Lines of CoNLL-U have coordinations, and all others with tabs have tuples. A JSON object says it by its keys. A line
    of words that ends in extra words has tuples; else it has coordinations.
    """
    start, lines = up_to(lines, has_content)
    first = next((line.strip() for line in start if line.strip()), "")
    if not first:
        return None, lines
    last = start[-1].split("\t")
    if any(column_names(line) is not None for line in start if line.startswith("#")):
        return "coordinations", lines
    if len(last) == len(COLUMNS) and _ID.fullmatch(last[0]) and "(" not in last[3]:
        return "coordinations", lines
    if "\t" in first:
        return "extractions", lines
    if first.startswith("{"):
        try:
            record = from_json(first)
        except ValueError:  # a sentence that begins with a bracket
            record = None
        return "coordinations" if isinstance(record, dict) and "coordinations" in record else "extractions", lines
    return "extractions" if extra_of(words_of(first)) else "coordinations", lines
