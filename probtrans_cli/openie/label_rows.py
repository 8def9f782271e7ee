"""Rows of labels in the files that OpenIE6 is trained on: a line with the words of a sentence, below it lines of tags.

Words and tags are separated by white space, and every line of tags is a row, with a tag for every word. The first line
that is not blank tells which of two kinds a file is:

- Sentences end in extra words, ``[unused1] [unused2] [unused3]`` (`extags`): each such line begins a sentence, and
  blank lines mean nothing.
- They do not (`cctags`): a sentence is the first line, and the first one behind a blank line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from probtrans_cli.data.sentence import extra_words
from probtrans_cli.data.tokens import words_of
from probtrans_cli.errors import DataError
from probtrans_cli.text import printable

NONE = 0
FIX = "data.grid.fix_lengths=true (of convert: --fix-lengths) cuts longer lines and continues shorter ones with NONE"
MEND = "a line of tags has one for every word: mend the file"


@dataclass
class Block:
    """A sentence with its rows."""

    words: list[str]
    """Without the extra words."""
    extra: int
    """How many extra words stand behind these."""
    where: str
    rows: list[list[int]] = field(default_factory=list)
    """A label for every word and every extra word."""
    counts: Counter[str] = field(default_factory=Counter)
    """How many lines of tags were ``cut`` or ``padded``."""


def read_blocks(
    lines: Iterable[str], name: str, tags: Mapping[str, int], *, fix: bool | None = None
) -> Iterator[Block]:
    """Yield the sentences of a file.

    Args:
        lines: of the file.
        name: how messages call it.
        tags: the number of every tag; that of NONE is 0.
        fix: whether lines of tags are cut or padded where they have not as many tags as the sentence has words; None:
            they are not, and there is no recipe that could say it.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    block: Block | None = None
    marked: bool | None = None
    after_blank = True
    for number, line in enumerate(lines, start=1):
        fields, where = words_of(line), f"{name}:{number}"
        if not fields:
            after_blank = True
            continue
        extra = extra_of(fields)
        marked = bool(extra) if marked is None else marked
        are_tags = all(field in tags for field in fields)
        if are_tags and (block is None or (after_blank and not marked)):
            hint = "the words stand above their tags" if block is None else "a blank line stands before a sentence only"
            raise DataError(f"{where}: tags before any sentence", hint=hint)
        if extra if marked else after_blank:
            if block is not None:
                yield block
            block = Block(fields[: len(fields) - extra], extra, where)
        elif block is not None:
            block.rows.append(_row(fields, where, block, tags, fix))
        after_blank = False
    if block is not None:
        yield block


def extra_of(words: list[str]) -> int:
    """How many extra words a line ends in."""
    last = words[-1]
    number = int(last[7:-1]) if last.startswith("[unused") and last[7:-1].isdecimal() and len(last) < 12 else 0
    return number if number and words[len(words) - number :] == extra_words(number) else 0


def _row(given: list[str], where: str, block: Block, tags: Mapping[str, int], fix: bool | None) -> list[int]:
    unknown = next((tag for tag in given if tag not in tags), None)
    if unknown is not None:
        begins = f"ends in {' '.join(extra_words(block.extra))}" if block.extra else "stands behind an empty line"
        hint = f"tags are {', '.join(tags)}; the line of a sentence {begins}"
        raise DataError(f"{where}: unknown tag {printable(unknown)!r}", hint=hint)
    length = len(block.words) + block.extra
    row = [tags[tag] for tag in given]
    if len(row) != length and not fix:
        words = f"{length} words" if not block.extra else f"{length} words, extra words included,"
        raise DataError(f"{where}: {len(row)} tags of the {words} of {block.where}", hint=MEND if fix is None else FIX)
    if len(row) != length:
        block.counts["cut" if len(row) > length else "padded"] += 1
    return [*row[:length], *[NONE] * (length - len(row))]
