"""Files cut into blocks, which several processes can read at the same time.

A block is a whole file, as a compressed one must be, or a range of bytes. The range says only about where the block
begins: a sentence belongs to the block in whose range the sentence before it ends. So blocks are known from the sizes
of files alone, and who reads a block looks at little more than its bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from probtrans_cli.data.files import COMPRESSED, decoded, display_name, open_lines
from probtrans_cli.errors import DataError, reason

Ends = Literal["line", "empty line"]
"""What ends a sentence in a file: every line does, or an empty one."""
_EMPTY = (b"\n", b"\r\n")
_PIECE = 1 << 20  # bytes read at a time to count lines


@dataclass(frozen=True, slots=True)
class Block:
    """A whole file, or the sentences of a file that begin about in the bytes ``[begin, end)``; ``size`` is the bytes of
    the block."""

    path: str
    size: int
    begin: int = 0
    end: int | None = None
    """None: up to the end of the file."""

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole file."""
        return self.begin == 0 and self.end is None

    def __str__(self) -> str:
        name = display_name(self.path)
        return name if self.is_whole else f"{name}, bytes {self.begin:,} to {self.begin + self.size:,}"


def cut(path: str, size: int, most: int) -> list[Block]:
    """The blocks of a file of ``size`` bytes: itself if it is compressed or has at most ``most`` bytes, else ranges of
    so many."""
    if path.endswith(COMPRESSED) or size <= most:
        return [Block(path, size)]
    begins = range(0, size, most)
    return [Block(path, min(most, size - at), at, None if at + most >= size else at + most) for at in begins]


def lines_of(block: Block, ends: Ends) -> Iterator[str]:
    """Yield the lines of a block, as :func:`probtrans_cli.data.files.open_lines` does; ``ends``: what ends a sentence
    in the file.

    Raises:
        DataError: as `open_lines`; lines are counted from the beginning of the block, see :func:`in_file`.
    """
    if block.is_whole:
        yield from open_lines(block.path)
        return
    try:
        with Path(block.path).open("rb") as file:
            begin = _behind_sentence(file, block.begin, ends)
            end = None if block.end is None else _behind_sentence(file, block.end, ends)
            file.seek(begin)
            content = file.read() if end is None else file.read(end - begin)
    except OSError as error:
        raise DataError(f"{block.path}: cannot be read: {reason(error)}", hint="check the path") from None
    yield from decoded(io.BytesIO(content), block.path, begins=block.begin == 0)


def _behind_sentence(file: BinaryIO, position: int, ends: Ends) -> int:
    """Where the first sentence ends that does so behind a position, within a line, or in the line that begins there."""
    if position == 0:
        return 0
    file.seek(position)
    line = file.readline()
    while line and ends == "empty line":
        line = file.readline()
        if line in _EMPTY:
            break
    return file.tell()


def in_file(block: Block, ends: Ends, message: str) -> str:
    """A message about a block with the numbers that lines have in the whole file."""
    if block.begin == 0:
        return message
    before = _lines_before(block, ends)
    named = re.compile(re.escape(display_name(block.path)) + r":(\d+)")
    return named.sub(lambda found: f"{display_name(block.path)}:{int(found[1]) + before}", message)


def _lines_before(block: Block, ends: Ends) -> int:
    with Path(block.path).open("rb") as file:
        left = _behind_sentence(file, block.begin, ends)
        file.seek(0)
        count = 0
        while left and (piece := file.read(min(left, _PIECE))):
            count += piece.count(b"\n")
            left -= len(piece)
    return count


def total(blocks: Sequence[Block]) -> int:
    """Bytes of some blocks."""
    return sum(block.size for block in blocks)
