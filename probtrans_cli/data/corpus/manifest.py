"""The files that a recipe names, what a prepared folder was made from, and whether it is still up to date."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from probtrans_cli import console
from probtrans_cli.data.files import display_name, find_all, open_lines
from probtrans_cli.data.readers import format_by_name, format_of
from probtrans_cli.data.readers.appearance import IN_WORDS, Appearance, appearance, appearance_of, misread
from probtrans_cli.data.vocabularies import VOCABULARIES
from probtrans_cli.errors import DataError
from probtrans_cli.folders import expand_home, regular
from probtrans_cli.recipe.data import FORMATS, Data
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.text import first_of, from_json

NonNegative = Annotated[int, Field(ge=0)]
SplitName = Literal["train", "dev", "test", "extra", "raw"]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,100}$")]
FORMAT = 1  # of the prepared folder; another number makes every older folder stale
MANIFEST, LABELS = "manifest.json", "labels.json"
PREPARED = Path("prepared")
QUICKLY_READ = 1 << 30  # bytes that are read again to see whether they are the same: about a second's work
SPLITS = ("train", "dev", "test", "extra", "raw")


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
    by_content: bool = False  # whether `data.format` is auto, and it is CoNLL-U by its content alone


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
        source.format = format_of(path, "auto" if split == "raw" else data.format, source.lines)
        source.by_content = data.format == "auto" and source.format == "conllu" and format_by_name(path) is None
        sources.append(source)
    return sources


def repetitions(sources: Sequence[Source]) -> Iterator[str]:
    """Yield a warning for each file that a split reads more than once, also under several names, or that train has,
    too."""
    first: dict[tuple[str, str], Source] = {}
    again: dict[tuple[str, str], int] = {}
    for source in sources:
        key = source.split, source.sha256
        if first.setdefault(key, source) is not source:
            again[key] = again.get(key, 0) + 1
    for (split, checksum), number in again.items():
        shown = display_name(first[split, checksum].path)
        yield f"data.{split} names {shown}, or copies of it, {number + 1} times: its sentences count as often"
    for (split, checksum), source in first.items():
        learned = next((name for name in ("train", "raw") if (name, checksum) in first), None)
        if split not in ("train", "raw") and learned is not None:
            shown = display_name(source.path)
            copy = f"data.{split} names {shown}, a file of data.{learned} or a copy of one"
            yield f"{copy}: its scores are of what was learned"


_REMEDIES = {
    "conllu": "data.format=conllu",
    "columns": "data.format=columns, or table for a sentence a line",
    "jsonl": "data.format=jsonl",
    "markup": "data.train, data.dev, ... to plain text",
    "bytes": "data.train, data.dev, ... to files in UTF-8: convert it with iconv",
    "returns": "data.train, data.dev, ... to files whose lines end in \\n",
}


def appearances(sources: Sequence[Source]) -> Iterator[str]:
    """Yield a warning for files that are read as CoNLL-U because they look so, or as text although they do not."""
    files: dict[tuple[bool, Appearance], list[str]] = {}
    for source in sources:
        is_text = source.format in ("text", "documents")  # the formats that any lines have
        if source.by_content:
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


# --- the manifest -----------------------------------------------------------------------------------------------------


class _Lenient(BaseModel):
    """A part of the manifest, to which a later version may add keys."""

    model_config = ConfigDict(extra="allow", strict=True)


class _SourceEntry(_Lenient):
    path: str
    bytes: NonNegative
    mtime_ns: int
    sha256: str


class _Statistics(_Lenient):
    sentences: NonNegative
    words: NonNegative
    tokens: NonNegative
    unknown: float
    unseen: float
    length: dict[str, NonNegative]


class _OfVocabulary(_Lenient):
    size: NonNegative
    special: NonNegative = 3


class _Manifest(_Lenient):
    """The schema of a manifest; folders of earlier versions lack keys that have a default here."""

    format: Literal[1]
    version: str
    data: dict[str, Any]
    fingerprint: str
    sources: dict[SplitName, list[_SourceEntry]]
    vocabulary: _OfVocabulary
    labels: dict[str, dict[str, NonNegative]]
    splits: dict[SplitName, _Statistics]
    files: dict[FileName, NonNegative]
    shards: dict[SplitName, list[FileName]] | None = None
    sha256: dict[FileName, str] = {}
    new_labels: dict[SplitName, dict[str, dict[str, NonNegative]]] | None = None
    notes: list[str] = []
    warnings: list[str] = []

    @model_validator(mode="after")
    def _is_of_one_corpus(self) -> _Manifest:
        parts: list[Mapping[SplitName, Any]] = [self.sources]
        parts += [part for part in (self.new_labels, self.shards) if part is not None]
        if any(part.keys() != self.splits.keys() for part in parts) or "train" not in self.splits:
            raise ValueError("parts of several corpora")
        if not self.sha256.keys() <= self.files.keys():
            raise ValueError("a checksum of no file")
        return self


def canonical(data: Data) -> dict[str, Any]:
    """Return the part of a data section that determines a prepared folder, as JSON values.

    The folder's own name changes nothing about its content. Keys that are younger than the format of the folder are
    left out where they have their default, so that older folders stay up to date. A vocabulary may stand for more than
    its keys say, see ``VocabularyKind.identity``.
    """
    without: dict[str, Any] = {"prepared": True}
    of_formats = [format.options for format in FORMATS.values() if format.options is not None]
    for name in ("vocabulary", *of_formats):
        section = getattr(data, name)
        without[name] = _younger(section)
    for name in (*of_formats, "blocks", "longest", "too_long", "extra", "raw", "select", "shard_sentences"):
        if getattr(data, name) == Data.model_fields[name].default:
            without[name] = True
    content = data.model_dump(mode="json", exclude=without)
    content["vocabulary"] |= VOCABULARIES[data.vocabulary.kind].identity(data.vocabulary)
    return content


def _younger(section: Any) -> dict[str, Any]:
    """Return the keys of a section, and of its features, that are younger than the format and have their default."""
    keys: dict[str, Any] = {
        key: True for key, default in section.added_later.items() if getattr(section, key) == default
    }
    features = getattr(section, "features", None)
    return keys if features is None else keys | {"features": _younger(features)}


def fingerprint(data: Data, sources: Sequence[Source]) -> str:
    """Return a sha256 of all that determines the encoded corpus: the options and the bytes, not where they lie."""
    described = canonical(data)
    of_formats = {format.options for format in FORMATS.values()}
    content = {
        "format": FORMAT,
        "vocabulary": described["vocabulary"],
        "sources": [(source.split, source.format, source.sha256) for source in sources],
        **{name: section for name, section in described.items() if name in {*of_formats, "select", "shard_sentences"}},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def folder_of(recipe: Recipe) -> Path:
    """Return where the prepared corpus of a recipe lies: `data.prepared`, or a name made of the data section."""
    if recipe.data.prepared is not None:
        return expand_home(recipe.data.prepared)
    text = json.dumps(canonical(recipe.data), sort_keys=True, separators=(",", ":"))
    return PREPARED / f"{recipe.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the content of a folder's manifest; None where there is none of this format, or a damaged one."""
    try:
        manifest: dict[str, Any] = from_json(regular.read_text(folder / MANIFEST))
        _Manifest.model_validate(manifest)
    except (OSError, ValueError):  # pydantic's error is a ValueError, too
        return None
    return manifest


def up_to_date(folder: Path, data: Data, sources: Sequence[Source]) -> bool:
    """Return whether a folder is complete and was made from this section and these files."""
    old = read_manifest(folder)
    if old is None or old["data"] != canonical(data):
        return False
    for source in sources:
        format, stored = FORMATS[source.format], {*old["splits"].get(source.split, {}).get("columns", ())}
        # Prepared before the format had all of its columns?
        if not {*format.columns} <= old["labels"].keys() or not {*format.stored_later} <= stored:
            return False
    if any(source.by_content for source in sources) and old["fingerprint"] != fingerprint(data, sources):
        return False  # an earlier version has read it as text
    return is_intact(folder, old, sources)


def is_intact(folder: Path, manifest: Mapping[str, Any], sources: Sequence[Source]) -> bool:
    """Return whether a folder was made from files of this content, and all of its own are there as they were written.

    Folders of an earlier version have no checksums, and those of large ones are left to ``prepare --force``.
    """
    before = [(split, entry["sha256"]) for split, entries in manifest["sources"].items() for entry in entries]
    if before != [(source.split, source.sha256) for source in sources]:
        return False
    sizes, sums = manifest["files"], manifest.get("sha256", {})
    for name, size in sizes.items():
        if not (regular.is_file(folder / name) and (folder / name).stat().st_size == size):
            return False
    for name in sums if sum(sizes.values()) <= QUICKLY_READ else ():
        if sha256(folder / name) != sums[name]:
            console.log(f"{folder / name}: damaged: the corpus is prepared again")
            return False
    return True
