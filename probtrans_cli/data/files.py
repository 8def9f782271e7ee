"""Files of a corpus: where they are, how they are unpacked, and how their bytes become lines.

A compressed file may hold several streams one behind the other, as `cat` and parallel compressors write them. If one of
them is damaged or cut off, or other bytes follow, the file is refused instead of being read as a shorter one.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import IO, BinaryIO

from probtrans_cli.errors import DataError, reason
from probtrans_cli.folders.places import holds, places

EMBEDDED = "embedded:"
LONGEST_LINE = 8 << 20
"""Bytes of a line: a longer one is refused before it is held in memory."""
MOST_LINES = 100_000
"""Lines at the beginning of a file in which something is looked for."""
SCRIPTS = {"ud/en_ewt/": "ud_english_ewt", "ud/": "ud_treebanks"}
"""By how a name in a recipe begins: the script in data_scripts/ that puts the file in place."""


def display_name(path: str | Path) -> str:
    """How a source is called in messages: its path, or `<stdin>` for `-`."""
    return "<stdin>" if str(path) == "-" else str(path)


def open_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a file without their ``\\n``, one at a time; `-` is standard input, and what is compressed (a
    name that ends as one of :data:`COMPRESSED`) is unpacked.

    A byte-order mark at the start is dropped. Nothing but ``\\n`` ends a line (not U+2028 or a form feed).

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


def raw_line(file: BinaryIO) -> bytes:
    """The next line of a file with its end; of one that is too long no more than what :func:`decoded` refuses."""
    return file.readline(LONGEST_LINE + 1)


def raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """All lines, each as by :func:`raw_line`."""
    return iter(partial(file.readline, LONGEST_LINE + 1), b"")


def decoded(lines: Iterable[bytes], name: str, *, begins: bool = True) -> Iterator[str]:
    """Yield lines as text without their ``\\n``; ``begins``: they are the first of their file, which may begin with a
    byte-order mark.

    Raises:
        DataError: one is not UTF-8, or too long; the message names its number, the first one being 1.
    """
    number, longest = 0, LONGEST_LINE
    try:
        for raw in lines:
            number += 1
            if len(raw) > longest:
                hint = f"a line is a sentence or a word: end each with a line break, not more than {longest:,} bytes"
                raise DataError(f"{name}:{number}: a line of more than {longest:,} bytes", hint=hint)
            line = raw.decode("utf-8").removesuffix("\n")
            yield line.removeprefix("\ufeff") if number == 1 and begins else line
    except UnicodeDecodeError as error:
        hint = "corpora are UTF-8: convert it with iconv"
        hint += f"; a compressed file must end in {ENDINGS}" if number == 1 and begins else ""
        bad = f"byte 0x{error.object[error.start]:02x} at {error.start + 1}"
        raise DataError(f"{name}:{number}: not UTF-8 ({bad})", hint=hint) from None


def _open_bytes(path: str) -> AbstractContextManager[BinaryIO]:
    if path == "-":
        # A reader of our own: Python closes its own at exit, and dies if a thread still waits in it.
        return open(sys.stdin.fileno(), "rb", closefd=False)
    if is_compressed(path):
        _refuse_nothing(path)
        return open_archive(path)
    return Path(path).open("rb")


def _refuse_nothing(path: str) -> None:
    """Refuse an archive of no bytes: no program writes one, but a download that was cut off leaves one.

    Raises:
        DataError: it is such a file.
    """
    status = Path(path).stat()
    if stat.S_ISREG(status.st_mode) and not status.st_size:
        hint = "fetch it again; an archive of nothing has some bytes, too"
        raise DataError(f"{path}: an archive of no bytes: it was cut off", hint=hint)


def up_to(lines: Iterable[str], last: Callable[[str], bool]) -> tuple[list[str], Iterator[str]]:
    """The first lines, up to the first one that is the ``last`` that is wanted, and all lines.

    They are held in memory, so they are no more than :data:`MOST_LINES`, and hardly more than :data:`LONGEST_LINE`.
    """
    given = iter(lines)
    seen: list[str] = []
    room = LONGEST_LINE
    for line in islice(given, MOST_LINES):
        seen.append(line)
        room -= len(line)
        if last(line) or room < 0:
            break
    return seen, chain(seen, given)


def begin(lines: Iterable[str]) -> tuple[str, Iterator[str]]:
    """The first line that is not blank, without white space around it (empty if there is none), and all lines."""
    seen, every = up_to(lines, lambda line: bool(line.strip()))
    return seen[-1].strip() if seen else "", every


def find(path: str, key: str | None = None, *, once: bool = False) -> Path:
    """Find a corpus: `embedded:NAME` in the package, else the current folder, else $PROBTRANS_DATA (default `data/`).

    A name that is not there is also tried with `.gz` and the others of :data:`COMPRESSED` appended. `-` (standard
    input) is returned as it is.

    Args:
        path: how it is named.
        key: of the recipe where it is named.
        once: it is read only once, and may be a pipe, or a device such as /dev/stdin.

    Raises:
        DataError: there is no such file; the message lists the places, and begins with the key.
    """
    if path == "-":
        return Path(path)
    begins = f"{key}: " if key else ""
    found = _places(path, begins)
    for place in found:
        for candidate in (place, *(Path(f"{place}{ending}") for ending in COMPRESSED)):
            if holds(Path.is_file, candidate):
                return candidate
    for place in found:
        if holds(Path.is_dir, place):
            hint = "name a file in it; several are a list, '[a.conllu, b.conllu]'"
            raise DataError(f"{begins}{path!r} is a folder ({place.absolute()}), not a corpus", hint=hint)
        if once and holds(Path.exists, place):
            return place
        if holds(Path.exists, place):
            hint = "a corpus is read more than once: write it into a file, or give - for standard input"
            raise DataError(f"{begins}{path!r} is a device or a pipe, not a file", hint=hint)
    tried = ", ".join(str(place) for place in found)
    what, hint = ("file", "check the name") if once else ("corpus", _where_to_get(path))
    raise DataError(f"{begins}there is no {what} {path!r} (tried {tried}; also with {ENDINGS})", hint=hint)


def find_all(path: str, key: str | None = None) -> list[Path]:
    """Find corpora: as :func:`find`, and all files below a folder, or that a name with `*`, `?` or `[` fits, in
    alphabetical order. Names that begin with `.` or `_` are left out there: they are of tools.

    Raises:
        DataError: there is none; the message begins with the key.
    """
    if path == "-" or path.startswith(EMBEDDED) or not path.strip("/"):
        return [find(path, key)]
    given = places(path.rstrip("/"))
    if any(holds(Path.is_file, Path(f"{place}{ending}")) for place in given for ending in ("", *COMPRESSED)):
        return [find(path, key)]
    found: list[Path] = []
    what = "no file"
    for place in given:
        if holds(Path.is_dir, place):
            found = [one for one in sorted(place.rglob("*")) if _is_data(one.relative_to(place)) and one.is_file()]
            what = "a folder without a file"
        elif any(mark in path for mark in "*?["):
            # The part in front of the first pattern is a folder, which is taken as it stands.
            fixed = list(takewhile(lambda part: not any(mark in part for mark in "*?["), place.parts))
            root, pattern = Path(*fixed), str(Path(*place.parts[len(fixed) :]))
            found = sorted(one for one in root.glob(pattern) if _is_data(one.relative_to(root)) and one.is_file())
            what = "no file fits"
        if found:
            return found
    if what == "no file":
        return [find(path, key)]
    begins = f"{key}: " if key else ""
    tried = ", ".join(str(place) for place in given)
    raise DataError(f"{begins}{path!r}: {what} (tried {tried})", hint="name a file, a folder of files, or a pattern")


def _is_data(path: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.parts)


def _places(path: str, begins: str) -> list[Path]:
    if path.startswith(EMBEDDED):
        root = (Path(__file__).parents[1] / "embedded").resolve()
        place = (root / path.removeprefix(EMBEDDED)).resolve()
        if not path.removeprefix(EMBEDDED) or not place.is_relative_to(root):
            hint = "for example embedded:toy/train.conllu"
            raise DataError(f"{begins}{path!r} is not inside the package", hint=hint)
        return [place]
    if not path or path.endswith("/"):
        hint = "data.train, data.dev, data.test and data.extra name files"
        raise DataError(f"{begins}{path!r} does not name a file", hint=hint)
    return places(path)


def _where_to_get(path: str) -> str:
    if path.startswith(EMBEDDED):
        return "there are embedded:toy/{train,dev,test}.conllu and embedded:tuples/{train,dev}.jsonl"
    known = (f"python data_scripts/{script}.py" for start, script in SCRIPTS.items() if path.startswith(start))
    script = next(known, "the script in data_scripts/")
    return f"run {script} to fetch a public corpus, or set PROBTRANS_DATA to the folder that holds it"


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
