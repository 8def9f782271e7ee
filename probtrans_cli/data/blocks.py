"""Files cut into blocks, which several processes can read at the same time.

A block is a range of bytes, or a file that cannot be cut, as it is compressed or says in its first line how it is read.
The range says only roughly where the block begins: a sentence belongs to the block in whose range the sentence before
it ends. So blocks follow from the sizes of files and little more, and reading a block needs little more than its bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from probtrans_cli.data.files import decoded, display_name, ending_of, open_lines, raw_lines
from probtrans_cli.errors import DataError, reason

Ends = Literal["line", "empty line"]  # what ends a sentence in a file: every line does, or an empty one
_COLUMNS = re.compile(rb"(\xef\xbb\xbf)?#\s*global\.columns\s*=")
_PIECE = 1 << 20  # bytes read at a time to count lines


@dataclass(frozen=True, slots=True)
class Version:
    """A file as it was at a moment: its bytes, when it was last written (nanoseconds), and its number on its disk."""

    size: int
    modified: int
    inode: int

    @classmethod
    def of(cls, path: str) -> Version:
        """Return the version of a file as it is now; raise an OSError or ValueError if there is none."""
        status = Path(path).stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


@dataclass(frozen=True, slots=True)
class Block:
    """A file, or the sentences of a file that begin about in the bytes ``[begin, end)``, ``size`` bytes of it."""

    path: str
    size: int
    begin: int = 0
    end: int | None = None  # None: up to the end of the file
    file: Version | None = None  # its file, as it was when the block was cut; None: this is not checked

    def __str__(self) -> str:
        name, is_whole = display_name(self.path), self.begin == 0 and self.end is None
        return name if is_whole else f"{name}, bytes {self.begin:,} to {self.begin + self.size:,}"


def cut(path: str, size: int, largest: int, file: Version | None = None) -> list[Block]:
    """Cut a file of ``size`` bytes into ranges of at most ``largest`` bytes.

    A file that is compressed, or says in its first line what its columns are (CoNLL-U Plus), is a single block.
    ``file``: what :func:`require_unchanged` is to compare with.
    """
    try:
        with Path(path).open("rb") as content:
            names_columns = _COLUMNS.match(content.readline(_PIECE)) is not None
    except OSError:  # the reader of the block says so
        names_columns = False
    if size <= largest or ending_of(path) or names_columns:
        return [Block(path, size, file=file)]
    begins = range(0, size, largest)
    return [
        Block(path, min(largest, size - at), at, None if at + largest >= size else at + largest, file) for at in begins
    ]


def require_unchanged(block: Block) -> None:
    """Refuse a block whose file is no longer what it was when the block was cut."""
    before = block.file
    if before is None:
        return
    try:
        now = Version.of(block.path)
    except OSError as error:
        raise DataError(f"{block.path}: cannot be read: {reason(error)}", hint="check the path") from None
    if now == before:
        return
    change = "it has been written or replaced"
    if now.size != before.size:
        change = f"its size was {before.size:,}, and is {now.size:,} now"
    hint = "put it back, and the same command does this block again; a file with other sentences is another job: "
    hint += "give that one another folder"
    raise DataError(f"{display_name(block.path)}: changed since the command began: {change}", hint=hint)


def checksum(block: Block, ends: Ends) -> str:
    """Return the sha256 of a block's bytes, as they are in the file; raise a DataError if it cannot be read."""
    digest = hashlib.sha256()
    with _opened(block, ends) as (file, size):
        left = size
        while left and (piece := file.read(min(left, _PIECE))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def lines_of(block: Block, ends: Ends) -> Iterator[str]:
    """Yield the lines of a block, as :func:`probtrans_cli.data.files.open_lines` does; ``ends``: what ends a sentence
    in the file.

    Raises:
        DataError: as `open_lines`; lines are counted from the beginning of the block, see :func:`in_file`.
    """
    if block.begin == 0 and block.end is None:  # the whole file, which may be compressed
        yield from open_lines(block.path)
        return

    def first(lines: Iterator[bytes], size: int) -> Iterator[bytes]:
        while size > 0 and (line := next(lines, b"")):
            size -= len(line)
            yield line

    with _opened(block, ends) as (file, size):
        yield from decoded(first(raw_lines(file), size), block.path, begins=block.begin == 0)


@contextmanager
def _opened(block: Block, ends: Ends) -> Iterator[tuple[BinaryIO, int]]:
    """Yield the file of a block, at the beginning of the block's first sentence, and the bytes of its sentences."""
    try:
        with Path(block.path).open("rb") as file:
            end = file.seek(0, 2) if block.end is None else _behind_sentence(file, block.end, ends)
            begin = _behind_sentence(file, block.begin, ends)
            file.seek(begin)
            yield file, max(0, end - begin)
    except OSError as error:
        raise DataError(f"{block.path}: cannot be read: {reason(error)}", hint="check the path") from None


def _behind_sentence(file: BinaryIO, position: int, ends: Ends) -> int:
    """Return the end of the first sentence that ends behind a position, which is within a line or where one begins.

    A line that is too long ends where it becomes so: it is refused with the block in which it begins.
    """
    if position == 0:
        return 0
    file.seek(position)
    lines = raw_lines(file)
    line = next(lines, b"")  # where only the end of a line is left, it looks like an empty line, and is none
    while line and ends == "empty line":
        line = next(lines, b"")
        if line in (b"\n", b"\r\n"):
            break
    return file.tell()


def in_file(block: Block, ends: Ends, message: str) -> str:
    """Return a message about a block with the numbers that lines have in the file, if that is still there."""
    if block.begin == 0:
        return message
    before = 0
    try:
        with Path(block.path).open("rb") as file:
            left = _behind_sentence(file, block.begin, ends)
            file.seek(0)
            while left and (piece := file.read(min(left, _PIECE))):
                before += piece.count(b"\n")
                left -= len(piece)
    except OSError:
        return message
    name = display_name(block.path)
    return re.sub(re.escape(name) + r":(\d+)", lambda line: f"{name}:{int(line[1]) + before}", message)
