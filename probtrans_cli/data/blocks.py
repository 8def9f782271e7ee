"""Files cut into blocks, which several processes can read at the same time.

A block is a whole file, as one must be that is compressed or says in its first line how it is read, or a range of
bytes. The range says only about where the block begins: a sentence belongs to the block in whose range the sentence
before it ends. So blocks are known from the sizes of files and little more, and who reads a block looks at little more
than its bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from probtrans_cli.data.files import decoded, display_name, is_compressed, open_lines, raw_line, raw_lines
from probtrans_cli.errors import DataError, reason

Ends = Literal["line", "empty line"]
"""What ends a sentence in a file: every line does, or an empty one."""
_EMPTY = (b"\n", b"\r\n")
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
        """The file as it is now.

        Raises:
            OSError, ValueError: there is none.
        """
        found = Path(path).stat()
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)


@dataclass(frozen=True, slots=True)
class Block:
    """A whole file, or the sentences of a file that begin about in the bytes ``[begin, end)``; ``size`` is the bytes of
    the block."""

    path: str
    size: int
    begin: int = 0
    end: int | None = None
    """None: up to the end of the file."""
    file: Version | None = None
    """Its file, as it was when the block was cut; None: nobody asks."""

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole file."""
        return self.begin == 0 and self.end is None

    def __str__(self) -> str:
        name = display_name(self.path)
        return name if self.is_whole else f"{name}, bytes {self.begin:,} to {self.begin + self.size:,}"


def cut(path: str, size: int, most: int, file: Version | None = None) -> list[Block]:
    """The blocks of a file of ``size`` bytes: itself if it is compressed, says in its first line what its columns are
    (CoNLL-U Plus), or has at most ``most`` bytes, else ranges of so many. ``file``: what :func:`require_unchanged` is
    to compare with."""
    if size <= most or is_compressed(path) or _begins_with_columns(path):
        return [Block(path, size, file=file)]
    begins = range(0, size, most)
    return [Block(path, min(most, size - at), at, None if at + most >= size else at + most, file) for at in begins]


def _begins_with_columns(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return _COLUMNS.match(file.readline(_PIECE)) is not None
    except OSError:
        return False  # who reads it says so


def require_unchanged(block: Block) -> None:
    """Refuse a block whose file is no longer what it was when the block was cut.

    Raises:
        DataError: it has another size, has been written again or replaced, or is gone.
    """
    before = block.file
    if before is None:
        return
    try:
        now = Version.of(block.path)
    except OSError as error:
        raise _unread(block, error) from None
    if now == before:
        return
    what = "it has been written or replaced"
    if now.size != before.size:
        what = f"its size was {before.size:,}, and is {now.size:,} now"
    hint = "put it back, and the same command does this block again; a file with other sentences is another job: "
    hint += "give that one another folder"
    raise DataError(f"{display_name(block.path)}: changed since the command began: {what}", hint=hint)


def checksum(block: Block, ends: Ends) -> str:
    """The sha256 of a block's bytes, as they are in the file.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        with Path(block.path).open("rb") as file:
            if block.is_whole:
                return hashlib.file_digest(file, "sha256").hexdigest()
            digest = hashlib.sha256()
            left = _enter(file, block, ends)
            while left and (piece := file.read(min(left, _PIECE))):
                digest.update(piece)
                left -= len(piece)
            return digest.hexdigest()
    except OSError as error:
        raise _unread(block, error) from None


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
            left = _enter(file, block, ends)
            yield from decoded(_first_of(raw_lines(file), left), block.path, begins=block.begin == 0)
    except OSError as error:
        raise _unread(block, error) from None


def _unread(block: Block, error: OSError) -> DataError:
    return DataError(f"{block.path}: cannot be read: {reason(error)}", hint="check the path")


def _enter(file: BinaryIO, block: Block, ends: Ends) -> int:
    """Go to where the first sentence of a block begins; how many bytes its sentences have."""
    end = file.seek(0, 2) if block.end is None else _behind_sentence(file, block.end, ends)
    begin = _behind_sentence(file, block.begin, ends)
    file.seek(begin)
    return max(0, end - begin)


def _first_of(lines: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The first lines, which have so many bytes."""
    while size > 0 and (line := next(lines, b"")):
        size -= len(line)
        yield line


def _behind_sentence(file: BinaryIO, position: int, ends: Ends) -> int:
    """Where the first sentence ends that does so behind a position, within a line, or in the line that begins there.

    A line that is too long ends where it is so: who reads the block in which it begins refuses it.
    """
    if position == 0:
        return 0
    file.seek(position)
    line = raw_line(file)
    while line and ends == "empty line":
        line = raw_line(file)
        if line in _EMPTY:
            break
    return file.tell()


def in_file(block: Block, ends: Ends, message: str) -> str:
    """A message about a block with the numbers that lines have in the whole file, if that is still there."""
    if block.begin == 0:
        return message
    try:
        before = _lines_before(block, ends)
    except OSError:
        return message
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
