"""Compressed files, unpacked as they are read: all of their streams, or an error.

What is compressed may be several streams one behind the other, as `cat` and parallel compressors make them. Where one
of them is damaged or cut off, or something else stands behind them, the file is refused, and never just shorter.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
"""Endings of the names of compressed files, in lower case."""
ENDINGS = f"{', '.join(COMPRESSED[:-1])} or {COMPRESSED[-1]}"
"""The same, in words."""
UNPACKED_BYTES, UNPACKED_RATIO = 1 << 26, 1000
"""An archive that unpacks to more than so many bytes, and to more than so many times its own, is no corpus: text is
packed to a tenth or so, and a tenth of a megabyte of Zstandard may stand for gigabytes."""
_PIECE = 1 << 17  # bytes
_XZ_MEMORY = 1 << 29  # bytes; `xz -9` needs an eighth of it


class ArchiveError(Exception):
    """An archive that cannot be unpacked; ``hint``: what to do about it, where that is known."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def ending_of(path: str | Path) -> str:
    """The ending of :data:`COMPRESSED` that a name has; empty: none."""
    return next((ending for ending in COMPRESSED if str(path).lower().endswith(ending)), "")


def is_compressed(path: str | Path) -> bool:
    """Whether the name of a file says that it is compressed."""
    return bool(ending_of(path))


def open_archive(path: str) -> io.BufferedReader:
    """Open a file that :func:`is_compressed`, to read what is in it.

    Reading raises an ArchiveError where the file is damaged, is cut off, has something behind its last stream, or
    unpacks to far more than any text does.
    """
    file = Path(path).open("rb")  # noqa: SIM115  (what is returned closes it)
    try:
        size = file.seek(0, io.SEEK_END) if file.seekable() else 0
        if size:
            file.seek(0)
        return io.BufferedReader(_Unpacked(_KINDS[ending_of(path)](file), file, size), _PIECE)
    except BaseException:
        file.close()
        raise


class _Unpacked(io.RawIOBase):
    """What is in an archive, with errors of one class, and not too much of it; ``size``: bytes of the archive, 0 where
    nobody knows."""

    def __init__(self, source: IO[bytes], file: IO[bytes], size: int) -> None:
        self.source, self.file = source, file
        self.most = max(UNPACKED_BYTES, UNPACKED_RATIO * size) if size else None
        self.unpacked = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        try:
            count = int(self.source.readinto(buffer))  # type: ignore[attr-defined]
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            raise ArchiveError(str(error), _too_much_memory(str(error))) from None
        except OSError as error:
            if error.errno is not None:  # the disk, not the content
                raise
            raise ArchiveError(str(error), _too_much_memory(str(error))) from None
        self.unpacked += count
        if self.most is not None and self.unpacked > self.most:
            what = f"it has more than {self.most:,} bytes, {UNPACKED_RATIO:,} times its size or more"
            raise ArchiveError(what, "no text does; if this one should, unpack it, and give the unpacked file")
        return count

    def close(self) -> None:
        self.source.close()
        self.file.close()
        super().close()


def _too_much_memory(message: str) -> str | None:
    if "too much memory for decoding" in message:  # what Zstandard says of a window of more than 2**27 bytes
        return "its window is larger than 128 MiB: pack it again without --ultra and with --long=27 at most"
    if "Memory usage limit" in message:
        return f"it needs more than {_XZ_MEMORY >> 20} MiB to be unpacked: pack it again with xz -9 at most"
    return None


class _Streams(io.RawIOBase):
    """The content of all streams of an .xz or .bz2 file.

    The modules of Python would take what follows the first stream, and is none, for something that does not matter, and
    end there, also where it is a damaged stream, or where zeros stand between two streams.
    """

    def __init__(
        self, file: IO[bytes], begin: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor], *, zeros: int = 0
    ) -> None:
        self.file, self.begin = file, begin
        self.multiple = zeros  # zeros may stand behind a stream, so many or a multiple of it; 0: none
        self.stream: lzma.LZMADecompressor | bz2.BZ2Decompressor | None = begin()
        self.rest = b""  # read, and not given to a stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        content = b""
        while not content:
            if self.stream is None and not self.next():
                return 0
            assert self.stream is not None
            content = self.stream.decompress(self.packed(), len(view))
            if self.stream.eof:
                self.rest, self.stream = self.stream.unused_data, None
        view[: len(content)] = content
        return len(content)

    def packed(self) -> bytes:
        """What the stream gets next: something, if it needs it."""
        assert self.stream is not None
        if not self.stream.needs_input:
            return b""
        piece, self.rest = self.rest or self.file.read(_PIECE), b""
        if not piece:
            raise EOFError("it ends before the end of a stream")
        return piece

    def next(self) -> bool:
        """Begin the next stream; False: there is none."""
        zeros = 0
        while self.rest or (more := self.file.read(_PIECE)):
            self.rest = self.rest or more
            if not self.multiple:
                break
            behind = self.rest.lstrip(b"\0")
            zeros += len(self.rest) - len(behind)
            self.rest = behind
            if behind:
                break
        if self.multiple and zeros % self.multiple:
            raise EOFError(f"{zeros} zeros behind a stream, which is no multiple of {self.multiple}")
        self.stream = self.begin() if self.rest else None
        return self.stream is not None


def _zstandard(file: IO[bytes]) -> IO[bytes]:
    import pyarrow as pa  # noqa: PLC0415  (a third of a second; it brings the codec, which Python 3.14 is the first to have)

    found: IO[bytes] = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
    return found


def _xz(file: IO[bytes]) -> IO[bytes]:
    return _Streams(file, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY), zeros=4)  # type: ignore[return-value]


def _gzip(file: IO[bytes]) -> IO[bytes]:
    return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]


def _bz2(file: IO[bytes]) -> IO[bytes]:
    return _Streams(file, bz2.BZ2Decompressor)  # type: ignore[return-value]


_KINDS: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {".gz": _gzip, ".xz": _xz, ".bz2": _bz2, ".zst": _zstandard}
