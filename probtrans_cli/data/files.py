"""Files of a corpus: where they are, how they are unpacked, and how their bytes become lines.

A compressed file may hold several streams one behind the other, as `cat` and parallel compressors write them. If one of
them is damaged or cut off, or other bytes follow, the file is refused instead of being read as a shorter one.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import IO, BinaryIO

from probtrans_cli.corpora import command_for
from probtrans_cli.errors import DataError, UsageError, reason
from probtrans_cli.folders import holds, places

EMBEDDED = "embedded:"
LONGEST_LINE = 8 << 20  # bytes of a line: a longer one is refused before it is held in memory
MOST_LINES = 100_000  # lines at the beginning of a file in which something is looked for
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")  # endings of the names of compressed files, in lower case
ENDINGS = f"{', '.join(COMPRESSED[:-1])} or {COMPRESSED[-1]}"  # the same, in words
UNPACKED_BYTES, UNPACKED_RATIO = 1 << 26, 1000
"""An archive that unpacks to more than these bytes, and to more than so many times its own, is no corpus: text is
packed to a tenth or so, and a tenth of a megabyte of Zstandard may stand for gigabytes."""
_PIECE = 1 << 17  # bytes
_XZ_MEMORY = 1 << 29  # bytes; `xz -9` needs an eighth of it
_PATTERN = re.compile(r"[*?\[]")


def display_name(path: str | Path) -> str:
    """Return how a source is called in messages: its path, or `<stdin>` for `-`."""
    return "<stdin>" if str(path) == "-" else str(path)


# --- lines ------------------------------------------------------------------------------------------------------------


def open_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a file without their ``\\n``, one at a time; `-` is standard input, and files whose names end
    as one of :data:`COMPRESSED` are unpacked.

    A byte-order mark at the start of a line is dropped: files that were joined have some within. Nothing but ``\\n``
    ends a line (not U+2028 or a form feed).

    Raises:
        DataError: the file cannot be opened or unpacked, is not UTF-8, or has a line of more than
            :data:`LONGEST_LINE` bytes; the message names the line.
    """
    name = display_name(path)
    number = 0
    try:
        with _open_bytes(str(path)) as file:
            for line in decoded(raw_lines(file), name):
                number += 1
                yield line
    except ArchiveError as error:
        hint = "the file is damaged, cut off, or has something behind its end: fetch it again; a file that is not "
        hint += f"compressed must not end in {ending_of(path)}"
        raise DataError(f"{name}:{number + 1}: cannot be unpacked: {error}", hint=error.hint or hint) from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {reason(error)}", hint="check the path") from None


def raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """Iterate over the lines of a file with their ends; of a too long one no more than what :func:`decoded` refuses."""
    return iter(partial(file.readline, LONGEST_LINE + 1), b"")


def decoded(lines: Iterable[bytes], name: str, *, begins: bool = True) -> Iterator[str]:
    """Yield lines as text without their ``\\n`` and without a byte-order mark; ``begins``: they are the first of their
    file.

    Raises:
        DataError: a line is not UTF-8, or too long; the message names its number, counted from 1.
    """
    number, longest = 0, LONGEST_LINE
    try:
        for raw in lines:
            number += 1
            if len(raw) > longest:
                hint = f"a line is a sentence or a word: end each with a line break, not more than {longest:,} bytes"
                raise DataError(f"{name}:{number}: a line of more than {longest:,} bytes", hint=hint)
            yield raw.decode("utf-8").removesuffix("\n").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        hint = "corpora are UTF-8: convert it with iconv"
        hint += f"; a compressed file must end in {ENDINGS}" if number == 1 and begins else ""
        bad = f"byte 0x{error.object[error.start]:02x} at {error.start + 1}"
        raise DataError(f"{name}:{number}: not UTF-8 ({bad})", hint=hint) from None


def _open_bytes(path: str) -> AbstractContextManager[BinaryIO]:
    if path == "-":
        # A reader of our own: Python closes its own at exit, and dies if a thread still waits in it.
        return open(sys.stdin.fileno(), "rb", closefd=False)
    if not ending_of(path):
        return Path(path).open("rb")
    status = Path(path).stat()
    if stat.S_ISREG(status.st_mode) and not status.st_size:
        # No program writes an archive of no bytes, but a download that was cut off leaves one.
        hint = "fetch it again; an archive of nothing has some bytes, too"
        raise DataError(f"{path}: an archive of no bytes: it was cut off", hint=hint)
    file = Path(path).open("rb")  # noqa: SIM115  (closed with the returned reader)
    try:
        size = file.seek(0, io.SEEK_END) if file.seekable() else 0
        if size:
            file.seek(0)
        return io.BufferedReader(_Unpacked(_KINDS[ending_of(path)](file), file, size), _PIECE)
    except BaseException:
        file.close()
        raise


def up_to(lines: Iterable[str], is_last: Callable[[str], bool]) -> tuple[list[str], Iterator[str]]:
    """Return the first lines, up to the first for which ``is_last`` holds, and all lines.

    They are held in memory, so they are no more than :data:`MOST_LINES`, and hardly more than :data:`LONGEST_LINE`.
    """
    lines = iter(lines)
    first: list[str] = []
    room = LONGEST_LINE
    for line in islice(lines, MOST_LINES):
        first.append(line)
        room -= len(line)
        if is_last(line) or room < 0:
            break
    return first, chain(first, lines)


def begin(lines: Iterable[str]) -> tuple[str, Iterator[str]]:
    """Return the first line that is not blank, without white space around it (or an empty text), and all lines."""
    first, lines = up_to(lines, lambda line: bool(line.strip()))
    return first[-1].strip() if first else "", lines


# --- compressed files -------------------------------------------------------------------------------------------------


class ArchiveError(DataError):
    """An archive that cannot be unpacked; it has a hint where there is a special reason."""


def ending_of(path: str | Path) -> str:
    return next((ending for ending in COMPRESSED if str(path).lower().endswith(ending)), "")


class _Unpacked(io.RawIOBase):
    """The content of an archive: its faults are ArchiveErrors, and so is content that is far too long for its size.

    ``size``: bytes of the archive, or 0 if unknown.
    """

    def __init__(self, source: IO[bytes], file: IO[bytes], size: int) -> None:
        self.source, self.file = source, file
        self.limit = max(UNPACKED_BYTES, UNPACKED_RATIO * size) if size else None
        self.unpacked = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        try:
            count = int(self.source.readinto(buffer))  # type: ignore[attr-defined]
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk, not the content
                raise
            hint = None
            if "too much memory for decoding" in str(error):  # Zstandard's words for a window of more than 2**27 bytes
                hint = "its window is larger than 128 MiB: pack it again without --ultra and with --long=27 at most"
            elif "Memory usage limit" in str(error):
                hint = f"it needs more than {_XZ_MEMORY >> 20} MiB to be unpacked: pack it again with xz -9 at most"
            raise ArchiveError(str(error), hint=hint) from None
        self.unpacked += count
        if self.limit is not None and self.unpacked > self.limit:
            message = f"it has more than {self.limit:,} bytes, {UNPACKED_RATIO:,} times its size or more"
            hint = "no text does; if this one should, unpack it, and give the unpacked file"
            raise ArchiveError(message, hint=hint)
        return count

    def close(self) -> None:
        self.source.close()
        self.file.close()
        super().close()


class _Streams(io.RawIOBase):
    """The content of all streams of an .xz or .bz2 file; ``begin`` makes the decompressor of a stream.

    The modules of Python ignore bytes behind the first stream that begin no further stream, and end there, also where
    they are a damaged stream, or where zeros stand between two streams. ``zeros``: how many zeros, or a multiple of
    them, may stand behind a stream; 0: none.
    """

    def __init__(
        self, file: IO[bytes], begin: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor], *, zeros: int = 0
    ) -> None:
        self.file, self.begin, self.multiple = file, begin, zeros
        self.stream: lzma.LZMADecompressor | bz2.BZ2Decompressor | None = begin()
        self.rest = b""  # read, and not decompressed yet

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        content = b""
        while not content:
            if self.stream is None and not self.next():
                return 0
            assert self.stream is not None
            piece = b""
            if self.stream.needs_input:
                piece, self.rest = self.rest or self.file.read(_PIECE), b""
                if not piece:
                    raise EOFError("it ends before the end of a stream")
            content = self.stream.decompress(piece, len(view))
            if self.stream.eof:
                self.rest, self.stream = self.stream.unused_data, None
        view[: len(content)] = content
        return len(content)

    def next(self) -> bool:
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

    stream: IO[bytes] = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
    return stream


_KINDS: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),  # type: ignore[dict-item,return-value]
    ".xz": lambda file: _Streams(file, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY), zeros=4),  # type: ignore[dict-item,return-value]
    ".bz2": lambda file: _Streams(file, bz2.BZ2Decompressor),  # type: ignore[dict-item,return-value]
    ".zst": _zstandard,
}


# --- places -----------------------------------------------------------------------------------------------------------


def find(path: str, key: str | None = None, *, once: bool = False) -> Path:
    """Find a corpus: `embedded:NAME` in the package, else the current folder, else $PROBTRANS_DATA (default `data/`).

    A name that is not there is also tried with `.gz` and the others of :data:`COMPRESSED` appended. `-` (standard
    input) is returned as it is.

    Raises:
        DataError: there is no such file; the message lists the places, and begins with the key.
    """
    if path == "-":
        return Path(path)
    begins = f"{key}: " if key else ""
    if path.startswith(EMBEDDED):
        root = (Path(__file__).parents[1] / "embedded").resolve()
        place = (root / path.removeprefix(EMBEDDED)).resolve()
        if not path.removeprefix(EMBEDDED) or not place.is_relative_to(root):
            hint = "for example embedded:toy/train.conllu"
            raise DataError(f"{begins}{path!r} is not inside the package", hint=hint)
        candidates = [place]
    elif not path or path.endswith("/"):
        hint = "data.train, data.dev, data.test, data.extra and data.raw name files"
        raise DataError(f"{begins}{path!r} does not name a file", hint=hint)
    else:
        candidates = places(path)
    for place in candidates:
        for file in (place, *(Path(f"{place}{ending}") for ending in COMPRESSED)):
            if holds(Path.is_file, file):
                return file
    for place in candidates:
        if holds(Path.is_dir, place):
            hint = "name a file in it; several are a list, '[a.conllu, b.conllu]'"
            raise DataError(f"{begins}{path!r} is a folder ({place.absolute()}), not a corpus", hint=hint)
        if holds(Path.exists, place):
            if once:
                return place
            hint = "a corpus is read more than once: write it into a file, or give - for standard input"
            raise DataError(f"{begins}{path!r} is a device or a pipe, not a file", hint=hint)
    tried = ", ".join(map(str, candidates))
    if once:
        hint = "check the name"
    elif path.startswith(EMBEDDED):
        hint = "there are embedded:toy/{train,dev,test}.conllu and embedded:tuples/{train,dev}.jsonl"
    else:
        command = command_for(path)
        hint = f"fetch it: {command}; or" if command else "check the name (`probtrans fetch` lists what it can get), or"
        hint += " set PROBTRANS_DATA to the folder that holds it"
    kind = "file" if once else "corpus"
    raise DataError(f"{begins}there is no {kind} {path!r} (tried {tried}; also with {ENDINGS})", hint=hint)


def find_all(path: str, key: str | None = None) -> list[Path]:
    """Find corpora: as :func:`find`, and all files below a folder, or that a name with `*`, `?` or `[` fits, in
    alphabetical order. Names that begin with `.` or `_` are left out there: they are of tools."""
    if path == "-" or path.startswith(EMBEDDED) or not path.strip("/"):
        return [find(path, key)]
    candidates = places(path.rstrip("/"))
    if any(holds(Path.is_file, Path(f"{place}{ending}")) for place in candidates for ending in ("", *COMPRESSED)):
        return [find(path, key)]
    problem = None
    for place in candidates:
        if holds(Path.is_dir, place):
            root, paths, problem = place, place.rglob("*"), "a folder without a file"
        elif _PATTERN.search(path):
            # The part in front of the first pattern is a folder, which is taken as it stands.
            fixed = list(takewhile(lambda part: not _PATTERN.search(part), place.parts))
            root, problem = Path(*fixed), "no file fits"
            paths = root.glob(str(Path(*place.parts[len(fixed) :])))
        else:
            continue
        hidden = (".", "_")
        files = sorted(file for file in paths if not any(p.startswith(hidden) for p in file.relative_to(root).parts))
        if files := [file for file in files if file.is_file()]:
            return files
    if problem is None:
        return [find(path, key)]
    begins = f"{key}: " if key else ""
    tried = ", ".join(map(str, candidates))
    hint = "name a file, a folder of files, or a pattern"
    raise DataError(f"{begins}{path!r}: {problem} (tried {tried})", hint=hint)


def require_output(path: Path | None, option: str, inputs: Iterable[str] = ()) -> None:
    """Refuse a file that the user has named for an output, and that cannot be meant.

    Raises:
        UsageError: it is one of the inputs, or `-`, or has the name of a compressed file.
    """
    if path is None:
        return
    if str(path) == "-":
        raise UsageError(f"{option} -: standard output is no file", hint=f"leave out {option}, or name a file")
    if path.suffix.lower() in COMPRESSED:
        hint = f"leave out {path.suffix}, and compress the file afterwards"
        raise UsageError(f"{option} {path}: what is written is not compressed", hint=hint)
    if path.is_file() and any(Path(name).is_file() and path.samefile(name) for name in inputs):
        raise UsageError(f"{option} {path}: it is an input", hint="choose another file")
