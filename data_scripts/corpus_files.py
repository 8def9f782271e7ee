"""What the scripts of this folder share: public files with known checksums, files converted from a user's own copy of
a licensed corpus, and trees in brackets.

A file takes its place when it is whole and right, or not at all; a different file that is already there is left alone
without ``--force``. Standard library only.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import http.client
import os
import re
import sys
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

BLOCK = 1 << 16
SECONDS = 60


class CorpusError(Exception):
    """A file cannot be had, or is not the one it should be; the message is for the user."""


@dataclass(frozen=True)
class KnownFile:
    """A file of known content: its place under the folder of the corpus, its SHA-256, its size in bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class PublicFile(KnownFile):
    """A file of a public repository (``owner/name/commit``) and its path there."""

    repository: str
    upstream: str

    def open_remote(self) -> BinaryIO:
        """The official file, over https."""
        address = f"https://raw.githubusercontent.com/{self.repository}/{self.upstream}"
        try:
            response: BinaryIO = urllib.request.urlopen(address, timeout=SECONDS)
        except urllib.error.URLError as error:
            raise CorpusError(f"{address}: {error}; without a network take a local copy with --from DIR") from error
        return response

    def open_local(self, folder: Path) -> BinaryIO:
        """A local copy, under its official path or name or the one it gets here, gzipped or not."""
        stems = dict.fromkeys((self.upstream, self.upstream.rpartition("/")[2], self.path))
        names = [stem + end for stem in stems for end in ("", ".gz")]
        for name in names:
            path = folder / name
            if path.is_file():
                return cast(BinaryIO, gzip.open(path)) if name.endswith(".gz") else path.open("rb")
        raise CorpusError(f"{folder}: none of {', '.join(names)} is there; give --from the folder that holds them")


def files_of(corpus: str) -> list[PublicFile]:
    """Return the public files of a corpus, from the table of all corpora beside this file."""
    lines = Path(__file__).with_name("corpora.tsv").read_text("utf-8").splitlines()
    rows = (line.split("\t") for line in lines[1:])
    return [
        PublicFile(path, sha256, int(size), repository, upstream)
        for name, path, sha256, size, repository, upstream in rows
        if name == corpus
    ]


@dataclass(frozen=True)
class Options:
    """The command line of a script."""

    source: Path | None
    to: Path
    force: bool


# --- command line -----------------------------------------------------------------------------------------------------


def user_path(path: str) -> Path:
    """A path that a user names, with the home folder for `~`, which no shell says after `--to=`."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  (pathlib's takes `./~` for `~`)


def fetch_corpus(
    description: str | None, folder: str, licence: str, files: Iterable[PublicFile], arguments: Sequence[str] | None
) -> int:
    """The whole of a script that only downloads; returns the exit status."""
    options = fetch_options(description, folder, arguments)
    print(licence, file=sys.stderr)
    return report(fetch(files, options))


def fetch_options(
    description: str | None,
    folder: str,
    arguments: Sequence[str] | None,
    *,
    source: tuple[str, str] = ("DIR", "take a local copy, no network"),
) -> Options:
    """The command line of a script that downloads; ``folder`` is where the corpus lies under ``$PROBTRANS_DATA``,
    ``source`` says what may be given instead of the network, and what becomes of it."""
    parser, default = _parser(description, folder)
    parser.add_argument("--from", dest="source", type=user_path, metavar=source[0], help=source[1])
    return _options(parser, default, arguments)


def convert_options(description: str | None, folder: str, source: str, arguments: Sequence[str] | None) -> Options:
    """The command line of a script that converts the user's own copy; ``source`` says which folder that is."""
    parser, default = _parser(description, folder)
    parser.add_argument("source", type=user_path, metavar="DIR", help=source)
    return _options(parser, default, arguments)


def _parser(description: str | None, folder: str) -> tuple[argparse.ArgumentParser, Path]:
    default = user_path(os.environ.get("PROBTRANS_DATA") or "data") / folder
    return argparse.ArgumentParser(description=(description or "").split("\n", maxsplit=1)[0]), default


def _options(parser: argparse.ArgumentParser, default: Path, arguments: Sequence[str] | None) -> Options:
    parser.add_argument(
        "--to", type=user_path, default=default, metavar="DIR", help=f"folder to write to (now {default})"
    )
    parser.add_argument("--force", action="store_true", help="replace files that differ")
    options = parser.parse_args(arguments)
    return Options(options.source, options.to, options.force)


def report(steps: Iterable[str]) -> int:
    """Print what each step says; the exit status: 0 all in place, 3 not."""
    try:
        for line in steps:
            print(line)
    except CorpusError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


def warn(message: str) -> None:
    """Tell of something odd that need not be wrong."""
    print(f"warning: {message}", file=sys.stderr)


def expect(what: str, found: int, expected: int) -> None:
    """Warn of a count that is not the published one."""
    if found != expected:
        warn(f"{what}: {found:,}, published {expected:,}; is this the original corpus?")


def start(main: Callable[[], int]) -> None:
    """Run a script and exit with its status."""
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None


# --- public files -----------------------------------------------------------------------------------------------------


def fetch(files: Iterable[PublicFile], options: Options) -> Iterator[str]:
    """Put public files in place, one after the other, and say what happened to each.

    Raises:
        CorpusError: at the first file that cannot be had or is not the right one; those before it are in place.
    """
    source = options.source
    for file in files:

        def opener(file: PublicFile = file) -> BinaryIO:
            return file.open_local(source) if source else file.open_remote()

        yield place(file, opener, options)


def place(file: KnownFile, opener: Callable[[], BinaryIO], options: Options) -> str:
    """Put one file of known checksum in place and say what happened; raises :class:`CorpusError`."""
    target = options.to / file.path
    if target.exists():
        found = checksum(target) if target.is_file() else "no regular file"
        if found == file.sha256:
            return f"{target}: already in place"
        if not options.force:
            raise CorpusError(
                f"{target}: a different file is in the way (expected sha256 {file.sha256}, found {found}); "
                "move it away or add --force"
            )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with opener() as source:
            _write_checked(source, target, file)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, http.client.HTTPException) as error:
        # a broken archive, a full disk, a lost connection
        raise CorpusError(f"{target}: {error or type(error).__name__}") from error
    return f"{target}: written, checksum right"


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in _blocks(file):
            digest.update(block)
    return digest.hexdigest()


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """The contents of an open file, piece by piece."""
    while block := file.read(BLOCK):
        yield block


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.partial")


def _write_checked(source: BinaryIO, target: Path, file: KnownFile) -> None:
    """Copy to a temporary name, compare the checksum, rename; a file that differs never takes its place."""
    temporary = _temporary(target)
    digest = hashlib.sha256()
    done = 0
    try:
        with temporary.open("wb") as copy:
            for block in _blocks(source):
                copy.write(block)
                digest.update(block)
                done += len(block)
                if sys.stderr.isatty():
                    print(f"\r{target.name}: {done / 1e6:.1f} of {file.size / 1e6:.1f} MB", end="", file=sys.stderr)
                if done > file.size:
                    break  # cannot be the right file; do not fill the disk
        if sys.stderr.isatty():
            print(file=sys.stderr)
        if digest.hexdigest() != file.sha256:
            raise CorpusError(
                f"{target.name}: wrong checksum, nothing written: expected sha256 {file.sha256}, "
                f"got {digest.hexdigest()}" + (" (of the part read; the file is too long)" if done > file.size else "")
            )
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


# --- a user's own copy ------------------------------------------------------------------------------------------------


def read_lines(path: Path) -> list[str]:
    r"""The lines of a text, without ``\n`` or ``\r\n``; raises :class:`CorpusError` with the line that is not UTF-8."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror or error}; give the folder that holds it") from error
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise CorpusError(f"{path}:{number}: not UTF-8 (byte 0x{content[error.start]:02x})") from None
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def write_texts(texts: Mapping[str, str], options: Options) -> Iterator[str]:
    """Put the files of a converted corpus in place, all or none of them, and say so; raises :class:`CorpusError`."""
    contents = {options.to / name: text.encode() for name, text in texts.items()}
    same = set()
    for target, content in contents.items():
        if target.is_file() and target.read_bytes() == content:
            same.add(target)
        elif target.exists() and not options.force:
            raise CorpusError(f"{target}: a different file is in the way; move it away or add --force")
    new = [target for target in contents if target not in same]
    try:
        for target in new:
            target.parent.mkdir(parents=True, exist_ok=True)
            _temporary(target).write_bytes(contents[target])
        for target in new:
            _temporary(target).replace(target)
    except OSError as error:
        raise CorpusError(f"{options.to}: {error}") from error
    finally:
        for target in new:
            _temporary(target).unlink(missing_ok=True)
    for target in contents:
        yield f"{target}: {'already in place' if target in same else 'written'}"


# --- trees in brackets ------------------------------------------------------------------------------------------------

_SYMBOL = re.compile(r"[()]|[^\s()]+")


def tagged_sentences(
    lines: Iterable[str], name: str, *, skip_wordless: bool = False
) -> Iterator[list[tuple[str, str]]]:
    """Yield the (word, tag) pairs of each tree, empty elements (``-NONE-``) left out.

    A tree is what one outermost pair of brackets holds; its label may be missing. Time is linear in its length, and a
    deep one needs no deep recursion. With ``skip_wordless`` brackets around a tag alone are passed over.

    Raises:
        CorpusError: the brackets do not match, or hold something else than ``(TAG word)`` or ``(LABEL (...) ...)``;
            the message starts with ``name:line:``.
    """
    depth = first = number = 0
    innermost = False  # no bracket has been closed since the last one was opened
    inside: list[str] = []  # the words since the last bracket of either kind
    found: list[tuple[str, str]] = []
    for number, line in enumerate(lines, start=1):
        for symbol in _SYMBOL.findall(line):
            if symbol == "(":
                if len(inside) > 1:
                    raise CorpusError(f"{name}:{number}: ({' '.join(inside)} ( holds both a word and brackets")
                first = first if depth else number
                depth += 1
                innermost, inside = True, []
            elif symbol == ")":
                if innermost:
                    found += _leaf(inside, f"{name}:{number}", skip_wordless)
                depth -= 1
                innermost, inside = False, []
                if depth < 0:
                    raise CorpusError(f"{name}:{number}: a closing bracket too many")
                if depth == 0:
                    yield found
                    found = []
            elif innermost:
                inside.append(symbol)
            else:
                where = "after a closing bracket" if depth else "outside of all brackets"
                raise CorpusError(f"{name}:{number}: {symbol!r} {where}")
    if depth:
        raise CorpusError(f"{name}:{number}: {depth} brackets are not closed; the tree begins in line {first}")


def _leaf(inside: list[str], where: str, skip_wordless: bool) -> list[tuple[str, str]]:
    """The word and tag between two brackets, or nothing."""
    if len(inside) == 2:
        return [] if inside[0] == "-NONE-" else [(inside[1], inside[0])]
    if skip_wordless and len(inside) < 2:
        return []
    raise CorpusError(f"{where}: ({' '.join(inside)}) instead of (TAG word)")
