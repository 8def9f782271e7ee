"""The files that a recipe names: found, fingerprinted, and read as sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probtrans_cli.data.files import display_name, find_all, open_lines
from probtrans_cli.data.readers import format_by_name, format_of
from probtrans_cli.data.readers.appearance import IN_WORDS, Appearance, appearance, appearance_of, misread
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data
from probtrans_cli.text import first_of

SPLITS = ("train", "dev", "test", "extra")


@dataclass(slots=True)
class Source:
    """A file of a split, with its checksum; ``lines`` holds standard input, which can be read only once."""

    split: str
    path: Path
    size: int
    mtime_ns: int
    sha256: str
    lines: list[str] | None = field(default=None, repr=False)
    format: str = "text"  # how it is read; never `auto`

    def by_content(self, format: str) -> bool:
        """Return whether the file is CoNLL-U by its content alone; ``format``: `data.format`."""
        return format == "auto" and self.format == "conllu" and format_by_name(self.path) is None

    def entry(self) -> dict[str, str | int]:
        """Return what the manifest says about it."""
        return {"path": str(self.path), "bytes": self.size, "mtime_ns": self.mtime_ns, "sha256": self.sha256}


QUICKLY_READ = 1 << 30  # bytes that are read again to see whether they are the same: about a second's work


def find_sources(data: Data, checksums: Mapping[tuple[str, int, int], str]) -> list[Source]:
    """Find and fingerprint the files of all splits; standard input is read to its end.

    ``checksums`` gives sha256 by (path, bytes, mtime_ns): of a large corpus, a file that has not been touched is not
    read again. Of a small one it is: a copy may have size and time of another file.

    Raises:
        DataError: a file is missing or cannot be read, or standard input is named twice.
    """
    paths: list[tuple[str, Path]] = []
    for split in SPLITS:
        names = getattr(data, split)
        if isinstance(names, list) and not names:
            raise DataError(f"data.{split} is an empty list", hint="name at least one file")
        for name in [names] if isinstance(names, str) else names or []:
            paths += [(split, path) for path in find_all(name, f"data.{split}")]
    large = sum(path.stat().st_size for _, path in paths if str(path) != "-") > QUICKLY_READ
    sources: list[Source] = []
    for split, path in paths:
        if str(path) != "-":
            status = path.stat()
            key = (str(path), status.st_size, status.st_mtime_ns)
            checksum = (checksums.get(key) if large else None) or sha256(path)
            source = Source(split, path, status.st_size, status.st_mtime_ns, checksum)
        elif any(source.lines is not None for source in sources):
            raise DataError("standard input is named twice in data", hint="it can be read only once")
        else:
            lines = list(open_lines("-"))
            digest, size = hashlib.sha256(), 0
            for line in lines:
                raw = line.encode() + b"\n"
                digest.update(raw)
                size += len(raw)
            source = Source(split, Path("-"), size, 0, digest.hexdigest(), lines)
        source.format = format_of(path, data.format, source.lines)
        sources.append(source)
    return sources


def repetitions(sources: Sequence[Source]) -> Iterator[str]:
    """Yield a warning for each file that a split reads more than once, also under several names."""
    first: dict[tuple[str, str], Source] = {}
    again: dict[tuple[str, str], int] = {}
    for source in sources:
        key = source.split, source.sha256
        if first.setdefault(key, source) is not source:
            again[key] = again.get(key, 0) + 1
    for (split, checksum), number in again.items():
        shown = display_name(first[split, checksum].path)
        yield f"data.{split} names {shown}, or copies of it, {number + 1} times: its sentences count as often"


_PLAIN = ("text", "documents")  # formats that any lines have
_REMEDIES = {
    "conllu": "data.format=conllu",
    "columns": "data.format=columns, or table for a sentence a line",
    "jsonl": "data.format=jsonl",
    "markup": "data.train, data.dev, ... to plain text",
    "bytes": "data.train, data.dev, ... to files in UTF-8: convert it with iconv",
}


def appearances(sources: Sequence[Source], format: str) -> Iterator[str]:
    """Yield a warning for files that are read as CoNLL-U because they look so, or as text although they do not.

    ``format``: `data.format`.
    """
    files: dict[tuple[bool, Appearance], list[str]] = {}
    for source in sources:
        is_text = source.format in _PLAIN
        if source.by_content(format):
            kind: Appearance = "conllu"
        elif is_text:
            kind = appearance_of(source.path) if source.lines is None else appearance(source.lines)
        else:
            continue
        if is_text and kind == "text":
            continue
        names = files.setdefault((is_text, kind), [])
        if (name := display_name(source.path)) not in names:
            names.append(name)
    for (is_text, kind), names in files.items():
        if is_text:
            yield misread(first_of(names), kind, f"if that is not meant, set {_REMEDIES[kind]}")
        else:
            explanation = "each line would be a sentence with data.format=text"
            yield f"{first_of(names)}: read as {IN_WORDS[kind]}, as the content looks so; {explanation}"


def sha256(path: Path) -> str:
    """Return the checksum of a file; raise a DataError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", hint="check the file's permissions") from None
