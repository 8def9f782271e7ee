"""What a prepared folder was made from, and whether it is still up to date."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from probtrans_cli import console
from probtrans_cli.data.corpus.sources import QUICKLY_READ, Source, by_content, sha256
from probtrans_cli.data.vocabularies import VOCABULARIES
from probtrans_cli.folders import regular
from probtrans_cli.folders.places import expand_home
from probtrans_cli.recipe.base import FormatOptions
from probtrans_cli.recipe.data import FORMATS, Data, VocabularySection
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.text import from_json

NonNegative = Annotated[int, Field(ge=0)]
SplitName = Literal["train", "dev", "test", "extra"]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,100}$")]
FORMAT = 1  # of the prepared folder; another number makes every older folder stale
MANIFEST, LABELS = "manifest.json", "labels.json"
PREPARED = Path("prepared")


class _Part(BaseModel):
    """What the manifest says of a part; a later version may say more."""

    model_config = ConfigDict(extra="allow", strict=True)


class _SourceEntry(_Part):
    path: str
    bytes: NonNegative
    mtime_ns: int
    sha256: str


class _Statistics(_Part):
    sentences: NonNegative
    words: NonNegative
    tokens: NonNegative
    unknown: float
    unseen: float
    length: dict[str, NonNegative]


class _OfVocabulary(_Part):
    size: NonNegative
    special: NonNegative = 3


class _Manifest(_Part):
    """The form of a manifest; keys with a default are not in the folders of earlier versions."""

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
        parts += [one for one in (self.new_labels, self.shards) if one is not None]
        if any(part.keys() != self.splits.keys() for part in parts) or "train" not in self.splits:
            raise ValueError("parts of several corpora")
        if not self.sha256.keys() <= self.files.keys():
            raise ValueError("a checksum of no file")
        return self


def canonical(data: Data) -> dict[str, Any]:
    """What of a data section determines a prepared folder, as JSON values.

    The folder's own name changes nothing about its content. A vocabulary may stand for more than its keys say, see
    ``VocabularyKind.identity``.
    """
    content = data.model_dump(mode="json", exclude={"prepared": True, **_not_given(data)})
    content["vocabulary"] |= VOCABULARIES[data.vocabulary.kind].identity(data.vocabulary)
    return content


def _options() -> set[str]:
    """The sections of ``data`` that belong to one format each."""
    return {format.options for format in FORMATS.values() if format.options is not None}


def _not_given(data: Data) -> dict[str, Any]:
    """Keys that are younger than the format of the folder: left out where they ask for nothing."""
    names = (*_options(), "longest", "too_long", "extra", "select", "shard_sentences")
    without: dict[str, Any] = {name: _later_keys(getattr(data, name)) for name in ("vocabulary", *_options())}
    return without | {name: True for name in names if getattr(data, name) == Data.model_fields[name].default}


def _later_keys(section: VocabularySection | FormatOptions) -> set[str]:
    """Such keys within a section."""
    return {name for name, default in section.added_later.items() if getattr(section, name) == default}


def fingerprint(data: Data, sources: Sequence[Source]) -> str:
    """One sha256 of all that determines the encoded corpus: the options and the bytes, not where they lie."""
    described, options = canonical(data), _options()
    content = {
        "format": FORMAT,
        "vocabulary": described["vocabulary"],
        "sources": [(source.split, source.format, source.sha256) for source in sources],
        **{name: section for name, section in described.items() if name in {*options, "select", "shard_sentences"}},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def folder_of(recipe: Recipe) -> Path:
    """Where the prepared corpus of a recipe lies: `data.prepared`, or a name made of the data section."""
    if recipe.data.prepared is not None:
        return expand_home(recipe.data.prepared)
    text = json.dumps(canonical(recipe.data), sort_keys=True, separators=(",", ":"))
    return PREPARED / f"{recipe.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def made_before(recipe: Recipe) -> list[Path]:
    """The folders that may hold the prepared corpus of a recipe, whatever its data section stood for at the time."""
    if recipe.data.prepared is not None:
        return [folder_of(recipe)]
    return sorted(PREPARED.glob(f"{recipe.name}-????????"))


def shards_of(manifest: Mapping[str, Any]) -> dict[str, list[str]]:
    """The files of every split, in order; a folder of an earlier version has one each."""
    return manifest.get("shards") or {name: [f"{name}.arrow"] for name in manifest["splits"]}


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The content of a folder's manifest; None where there is none of this version of the format, or a damaged one."""
    try:
        manifest: dict[str, Any] = from_json(regular.read_text(folder / MANIFEST))
        _Manifest.model_validate(manifest)
    except (OSError, ValueError):  # what pydantic raises is a ValueError, too
        return None
    return manifest


def up_to_date(folder: Path, data: Data, sources: Sequence[Source]) -> bool:
    """Whether a folder is whole and was made from this section and these files."""
    old = read_manifest(folder)
    if old is None or old["data"] != canonical(data):
        return False
    if not of_these(old, sources) or not _is_there(folder, old):
        return False
    columns = {name for source in sources for name in FORMATS[source.format].columns}
    if not columns <= old["labels"].keys():  # prepared before the format had all of them
        return False
    if any(not {*FORMATS[source.format].stored_later} <= _columns(old, source.split) for source in sources):
        return False
    if any(by_content(source, data.format) for source in sources) and old["fingerprint"] != fingerprint(data, sources):
        return False  # an earlier version has read it as text
    if name := damaged(folder, old):
        console.log(f"{folder / name}: damaged: the corpus is prepared again")
        return False
    return True


def _columns(manifest: dict[str, Any], split: str) -> set[str]:
    return {*manifest["splits"][split].get("columns", ())}


def of_these(manifest: dict[str, Any], sources: Sequence[Source]) -> bool:
    """Whether a folder was made from files of this content."""
    before = [(split, entry["sha256"]) for split in manifest["sources"] for entry in manifest["sources"][split]]
    return before == [(source.split, source.sha256) for source in sources]


def is_whole(folder: Path, manifest: dict[str, Any]) -> bool:
    """Whether all files of a folder are there and as they were written."""
    return _is_there(folder, manifest) and damaged(folder, manifest) is None


def _is_there(folder: Path, manifest: dict[str, Any]) -> bool:
    sizes = manifest["files"].items()
    return all(regular.is_file(folder / name) and (folder / name).stat().st_size == size for name, size in sizes)


def damaged(folder: Path, manifest: dict[str, Any]) -> str | None:
    """A file of a folder whose content is not what was written, by the checksums of its manifest; None: there is none.

    Folders of an earlier version have no checksums, and those of large ones are left to ``prepare --force``.
    """
    sums = manifest.get("sha256", {})
    if sum(manifest["files"].values()) > QUICKLY_READ:
        return None
    return next((name for name in sums if sha256(folder / name) != sums[name]), None)
