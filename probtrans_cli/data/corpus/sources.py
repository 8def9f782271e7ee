"""The files that a recipe names: found, fingerprinted, and read as sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probtrans_cli.data.files import display_name, find_all, open_lines
from probtrans_cli.data.readers import format_by_name, format_of, read_corpus
from probtrans_cli.data.readers.appearance import (
    IN_WORDS,
    Appearance,
    appearance,
    appearance_of,
    misread,
)
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data
from probtrans_cli.text import first_of

SPLITS = ("train", "dev", "test", "extra")


@dataclass(slots=True)
class Source:
    """One file of a split, found and fingerprinted; ``lines`` holds standard input, which can be read only once."""

    split: str
    path: Path
    size: int
    mtime_ns: int
    sha256: str
    lines: list[str] | None = field(default=None, repr=False)
    format: str = "text"
    """How it is read; never `auto`."""

    def entry(self) -> dict[str, str | int]:
        """What the manifest says about it."""
        return {"path": str(self.path), "bytes": self.size, "mtime_ns": self.mtime_ns, "sha256": self.sha256}

    def sentences(self, data: Data) -> Iterator[Sentence]:
        """Yield the sentences that have a word.

        Raises:
            DataError: the file is malformed.
        """
        for sentence in read_corpus(self.path, self.format, data=data, lines=self.lines):
            if sentence.words:
                yield sentence


def require_sentences(found: Mapping[str, int], split: str) -> None:
    """Refuse a split without a sentence; ``found``: how many there are, by file.

    Raises:
        DataError: there is none in any of its files.
    """
    if found and not any(found.values()):
        several = len(found) > 1
        hint = f"check the file{'s' * several} of data.{split}"
        raise DataError(f"{first_of(list(found))}: no sentence in {'them' if several else 'it'}", hint=hint)


def without_sentences(found: Mapping[str, int], split: str) -> list[str]:
    """What is to be told of files that have no sentence, where others have some."""
    empty = [name for name, number in found.items() if not number]
    if not empty:
        return []
    return [f"data.{split}: {len(empty):,} of {len(found):,} files have no sentence: {first_of(empty)}"]


QUICKLY_READ = 1 << 30
"""Bytes that are read again to see whether they are the same: about a second's work."""


def find_sources(data: Data, known: Mapping[tuple[str, int, int], str]) -> list[Source]:
    """Find and fingerprint the files of all splits; standard input is read to its end.

    ``known`` gives sha256 by (path, bytes, mtime_ns): of a large corpus, a file that has not been touched is not read
    again. Of a small one it is: a copy may have size and time of another file.

    Raises:
        DataError: a file is missing or cannot be read, or standard input is named twice.
    """
    found: list[tuple[str, Path]] = []
    for split in SPLITS:
        paths = getattr(data, split)
        if isinstance(paths, list) and not paths:
            raise DataError(f"data.{split} is an empty list", hint="name at least one file")
        for name in [paths] if isinstance(paths, str) else paths or []:
            found += [(split, path) for path in find_all(name, f"data.{split}")]
    total = sum(path.stat().st_size for _, path in found if str(path) != "-")
    sources: list[Source] = []
    for split, path in found:
        if str(path) != "-":
            status = path.stat()
            key = (str(path), status.st_size, status.st_mtime_ns)
            believed = known.get(key) if total > QUICKLY_READ else None
            source = Source(split, path, status.st_size, status.st_mtime_ns, believed or sha256(path))
            source.format = format_of(path, data.format)
            sources.append(source)
        elif any(source.lines is not None for source in sources):
            raise DataError("standard input is named twice in data", hint="it can be read only once")
        else:
            source = _standard_input(split)
            source.format = format_of(path, data.format, source.lines)
            sources.append(source)
    return sources


def repetitions(sources: Sequence[Source]) -> Iterator[str]:
    """Yield what to tell of files that a split reads more than once, also under several names."""
    first: dict[tuple[str, str], Source] = {}
    again: dict[tuple[str, str], int] = {}
    for source in sources:
        key = source.split, source.sha256
        if first.setdefault(key, source) is not source:
            again[key] = again.get(key, 0) + 1
    for (split, sha256), number in again.items():
        shown = display_name(first[split, sha256].path)
        yield f"data.{split} names {shown}, or copies of it, {number + 1} times: its sentences count as often"


def by_content(source: Source, format: str) -> bool:
    """Whether it is CoNLL-U by its content alone; ``format``: `data.format`."""
    return format == "auto" and source.format == "conllu" and format_by_name(source.path) is None


def appearances(sources: Sequence[Source], format: str) -> Iterator[str]:
    """Yield what to tell of files that are read as CoNLL-U because they look so, or as text although they do not.

    ``format``: `data.format`.
    """
    seen: dict[tuple[bool, Appearance], list[str]] = {}
    for source in sources:
        if by_content(source, format):
            kind: Appearance = "conllu"
        elif source.format in _PLAIN:
            kind = appearance_of(source.path) if source.lines is None else appearance(source.lines)
        else:
            continue
        if (is_text := source.format in _PLAIN) and kind == "text":
            continue
        names = seen.setdefault((is_text, kind), [])
        if (name := display_name(source.path)) not in names:
            names.append(name)
    for (is_text, kind), names in seen.items():
        if is_text:
            yield misread(first_of(names), kind, f"if that is not meant, set {_REMEDIES[kind]}")
        else:
            told = "each line would be a sentence with data.format=text"
            yield f"{first_of(names)}: read as {IN_WORDS[kind]}, as the content looks so; {told}"


_PLAIN = ("text", "documents")  # formats that any lines have
_REMEDIES = {
    "conllu": "data.format=conllu",
    "columns": "data.format=columns, or table for a sentence a line",
    "jsonl": "data.format=jsonl",
}


def _standard_input(split: str) -> Source:
    lines = list(open_lines("-"))
    digest, size = hashlib.sha256(), 0
    for line in lines:
        raw = line.encode() + b"\n"
        digest.update(raw)
        size += len(raw)
    return Source(split, Path("-"), size, 0, digest.hexdigest(), lines)


def sha256(path: Path) -> str:
    """The checksum of a file.

    Raises:
        DataError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", hint="check the file's permissions") from None
