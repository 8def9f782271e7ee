"""From files to sentences: where a corpus lies, how its bytes become lines, and which reader takes them."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Literal

from probtrans_cli.data.readers.annotated import read_semantic, read_tagged
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.readers.labelled import read_jsonl, read_table
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data, Documents

Format = Literal["auto", "conllu", "text", "columns", "table", "jsonl", "cogs", "documents"]
EMBEDDED = "embedded:"
SPLITS = ("train", "dev", "test", "extra")
OPTIONS = ("columns", "table", "jsonl", "documents")  # sections of `data` that say what stands where
# The columns of labels that a format may have.
_TAGS = ("upos", "xpos")
COLUMNS: dict[Format, tuple[str, ...]] = {
    "auto": _TAGS,
    "conllu": _TAGS,
    "text": _TAGS,
    "columns": ("tag",),
    "table": ("label",),
    "jsonl": ("label",),
    "cogs": ("role", "category", "noun_type", "verb_name", "offset", "position", "case"),
    "documents": ("pair",),
}
ABSENT = {"upos": "_", "xpos": "_", "tag": "_"}  # how a column says that a word has no label
_CONLLU_ENDINGS = (".conllu", ".conllu.gz", ".conllup", ".conllup.gz")
# White space between tokens. No-break spaces do not break: corpora use them inside a token ("4 1/2").
_BETWEEN_TOKENS = re.compile("[^\\S\u00a0\u2007\u202f]+")


def display_name(path: str | Path) -> str:
    """How a source is called in messages: its path, or `<stdin>` for `-`."""
    return "<stdin>" if str(path) == "-" else str(path)


def open_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a file without their ``\\n``, one at a time; `-` is standard input, `.gz` is unpacked.

    A byte-order mark at the start is dropped. Nothing but ``\\n`` ends a line (not U+2028 or a form feed).

    Raises:
        DataError: the file cannot be opened or unpacked, or is not UTF-8; the message names the line.
    """
    name = display_name(path)
    number = 0
    try:
        with _open_bytes(str(path)) as file:
            for number, raw in enumerate(file, start=1):
                line = raw.decode("utf-8").removesuffix("\n")
                yield line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeDecodeError as error:
        hint = "corpora are UTF-8: convert it with iconv"
        hint += "; a compressed file must end in .gz" if number == 1 else ""
        bad = error.object[error.start]
        raise DataError(f"{name}:{number}: not UTF-8 (byte 0x{bad:02x} at {error.start + 1})", hint=hint) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        hint = "the file is damaged or cut off: fetch it again; a file that is not compressed must not end in .gz"
        raise DataError(f"{name}:{number + 1}: cannot be unpacked: {error}", hint=hint) from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror or error}", hint="check the path") from None


def _open_bytes(path: str) -> IO[bytes] | gzip.GzipFile:
    if path == "-":
        # A reader of our own: Python closes its own at exit, and dies if a thread still waits in it.
        return open(sys.stdin.fileno(), "rb", closefd=False)
    return gzip.open(path, "rb") if path.endswith(".gz") else Path(path).open("rb")


def read_text(lines: Iterable[str], name: str, *, keep_empty: bool = False) -> Iterator[Sentence]:
    """Yield one sentence a line, its tokens separated by white space (a no-break space does not separate).

    Blank lines are skipped, or with ``keep_empty`` give a sentence without words.
    """
    for number, line in enumerate(lines, start=1):
        words = _tokens(line)
        if words or keep_empty:
            yield Sentence(words=words, where=f"{name}:{number}")


def _tokens(line: str) -> list[str]:
    return line.split() if line.isascii() else [word for word in _BETWEEN_TOKENS.split(line) if word]


def read_documents(lines: Iterable[str], name: str, documents: Documents) -> Iterator[Sentence]:
    """Yield the sentences of text in lines, the first one of every document marked; blank lines and headings are
    between documents."""
    begins, stops = True, set(documents.stops or ())
    for number, line in enumerate(lines, start=1):
        tokens = _tokens(line)
        if not tokens or tokens[0] == documents.heading:
            begins = True
            continue
        ends = [position for position, token in enumerate(tokens[:-1], start=1) if token in stops]
        for start, end in pairwise([0, *ends, len(tokens)]):
            yield Sentence(words=tokens[start:end], begins=begins, where=f"{name}:{number}")
            begins = False


def format_of(path: str | Path, format: Format = "auto") -> Format:
    """Resolve `auto` by the file name; standard input is text."""
    if format != "auto":
        return format
    return "conllu" if str(path).lower().endswith(_CONLLU_ENDINGS) else "text"


def read_corpus(
    path: str | Path, format: Format = "auto", *, data: Data | None = None, lines: Iterable[str] | None = None
) -> Iterator[Sentence]:
    """Yield the sentences of a file (`-` is standard input) in its format; ``lines`` replaces its content.

    ``data`` has the options of formats that have some.

    Raises:
        DataError: see :func:`open_lines` and the readers.
    """
    given, name = open_lines(path) if lines is None else lines, display_name(path)
    match format_of(path, format), data:
        case "conllu", _:
            return read_conllu(given, name)
        case "columns", Data(columns=columns):
            return read_tagged(given, name, columns)
        case "table", Data(table=table):
            return read_table(given, name, table)
        case "jsonl", Data(jsonl=keys):
            return read_jsonl(given, name, keys)
        case "documents", Data(documents=documents):
            return read_documents(given, name, documents)
        case "cogs", _:
            return read_semantic(given, name)
    return read_text(given, name)


def find(path: str, key: str | None = None) -> Path:
    """Find a corpus: `embedded:NAME` in the package, else the current folder, else $PROBTRANS_DATA (default `data/`).

    A name that is not there is also tried with `.gz` appended. `-` (standard input) is returned as it is.

    Args:
        path: how it is named.
        key: of the recipe where it is named.

    Raises:
        DataError: there is no such file; the message lists the places, and begins with the key.
    """
    if path == "-":
        return Path(path)
    begins = f"{key}: " if key else ""
    places = _places(path, begins)
    for place in places:
        for candidate in (place, Path(f"{place}.gz")):
            if _is(Path.is_file, candidate):
                return candidate
    for place in places:
        if _is(Path.is_dir, place):
            hint = "name a file in it; several are a list, '[a.conllu, b.conllu]'"
            raise DataError(f"{begins}{path!r} is a folder ({place.absolute()}), not a corpus", hint=hint)
    tried = ", ".join(str(place) for place in places)
    raise DataError(f"{begins}there is no corpus {path!r} (tried {tried}; also with .gz)", hint=_where_to_get(path))


def _places(path: str, begins: str) -> list[Path]:
    if path.startswith(EMBEDDED):
        root = (Path(__file__).parents[2] / "embedded").resolve()
        place = (root / path.removeprefix(EMBEDDED)).resolve()
        if not path.removeprefix(EMBEDDED) or not place.is_relative_to(root):
            hint = "for example embedded:toy/train.conllu"
            raise DataError(f"{begins}{path!r} is not inside the package", hint=hint)
        return [place]
    if not path or path.endswith("/"):
        hint = "data.train, data.dev, data.test and data.extra name files"
        raise DataError(f"{begins}{path!r} does not name a file", hint=hint)
    given = expand_home(path)
    if given.is_absolute():
        return [given]
    return [given, Path(os.environ.get("PROBTRANS_DATA") or "data") / given]


def expand_home(path: str) -> Path:
    """Return the path with a leading `~/` replaced by the home folder, which no shell does after `data.train=`."""
    return Path.home() / path[2:] if path.startswith("~/") else Path(path)


def _is(kind: Callable[[Path], bool], path: Path) -> bool:
    try:
        return kind(path)
    except OSError:  # a folder that may not be entered, a name that is too long
        return False


def _where_to_get(path: str) -> str:
    if path.startswith(EMBEDDED):
        return "the embedded corpus is embedded:toy/{train,dev,test}.conllu"
    script = "python data_scripts/ud_english_ewt.py" if path.startswith("ud/en_ewt/") else "the script in data_scripts/"
    return f"run {script} to fetch a public corpus, or set PROBTRANS_DATA to the folder that holds it"


@dataclass(slots=True)
class Source:
    """One file of a split, found and fingerprinted; ``lines`` holds standard input, which can be read only once."""

    split: str
    path: Path
    size: int
    mtime_ns: int
    sha256: str
    lines: list[str] | None = field(default=None, repr=False)

    def entry(self) -> dict[str, str | int]:
        """What the manifest says about it."""
        return {"path": str(self.path), "bytes": self.size, "mtime_ns": self.mtime_ns, "sha256": self.sha256}

    def sentences(self, data: Data) -> Iterator[Sentence]:
        """Yield the sentences that have a word.

        Raises:
            DataError: the file is malformed, or holds no sentence.
        """
        count = 0
        for sentence in read_corpus(self.path, data.format, data=data, lines=self.lines):
            if sentence.words:
                count += 1
                yield sentence
        if not count:
            raise DataError(
                f"{display_name(self.path)}: no sentence in it", hint=f"check the file of data.{self.split}"
            )


def find_sources(data: Data, known: Mapping[tuple[str, int, int], str]) -> list[Source]:
    """Find and fingerprint the files of all splits; standard input is read to its end.

    ``known`` gives sha256 by (path, bytes, mtime_ns): a file that has not been touched is not read again.

    Raises:
        DataError: a file is missing or cannot be read, or standard input is named twice.
    """
    sources: list[Source] = []
    for split in SPLITS:
        paths = getattr(data, split)
        if isinstance(paths, list) and not paths:
            raise DataError(f"data.{split} is an empty list", hint="name at least one file")
        for name in [paths] if isinstance(paths, str) else paths or []:
            path = find(name, f"data.{split}")
            if str(path) != "-":
                status = path.stat()
                key = (str(path), status.st_size, status.st_mtime_ns)
                sources.append(Source(split, path, status.st_size, status.st_mtime_ns, known.get(key) or _sha256(path)))
            elif any(source.lines is not None for source in sources):
                raise DataError("standard input is named twice in data", hint="it can be read only once")
            else:
                sources.append(_standard_input(split))
    return sources


def _standard_input(split: str) -> Source:
    lines = list(open_lines("-"))
    digest, size = hashlib.sha256(), 0
    for line in lines:
        raw = line.encode() + b"\n"
        digest.update(raw)
        size += len(raw)
    return Source(split, Path("-"), size, 0, digest.hexdigest(), lines)


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", hint="check the file's permissions") from None
