"""What a prepared folder was made from, and whether it is still up to date."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from probtrans_cli import console
from probtrans_cli.data.corpus.sources import QUICKLY_READ, Source, sha256
from probtrans_cli.data.files import expand_home
from probtrans_cli.data.readers import format_of
from probtrans_cli.data.vocabularies import VOCABULARIES
from probtrans_cli.recipe.data import FORMATS, Data, FormatOptions, VocabularySection
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.text import from_json

FORMAT = 1  # of the prepared folder; another number makes every older folder stale
MANIFEST, LABELS = "manifest.json", "labels.json"
_KEYS = {"format", "version", "data", "fingerprint", "sources", "vocabulary", "labels", "splits", "files"}


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
    names = (*_options(), "longest", "too_long", "extra")
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
        "sources": [(source.split, format_of(source.path, data.format), source.sha256) for source in sources],
        **{name: section for name, section in described.items() if name in options},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def folder_of(recipe: Recipe) -> Path:
    """Where the prepared corpus of a recipe lies: `data.prepared`, or a name made of the data section."""
    if recipe.data.prepared is not None:
        return expand_home(recipe.data.prepared)
    text = json.dumps(canonical(recipe.data), sort_keys=True, separators=(",", ":"))
    return Path("prepared") / f"{recipe.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The content of a folder's manifest; None where there is none of this version of the format."""
    try:
        manifest = from_json((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    complete = isinstance(manifest, dict) and manifest.keys() >= _KEYS and manifest["format"] == FORMAT
    return manifest if complete else None


def up_to_date(folder: Path, data: Data, sources: Sequence[Source]) -> bool:
    """Whether a folder is whole and was made from this section and these files."""
    old = read_manifest(folder)
    if old is None or old["data"] != canonical(data):
        return False
    before = [(split, entry["sha256"]) for split in old["sources"] for entry in old["sources"][split]]
    if before != [(source.split, source.sha256) for source in sources]:
        return False
    if not all((folder / name).is_file() and (folder / name).stat().st_size == n for name, n in old["files"].items()):
        return False
    columns = {name for source in sources for name in FORMATS[format_of(source.path, data.format)].columns}
    if not columns <= old["labels"].keys():  # prepared before the format had all of them
        return False
    if name := damaged(folder, old):
        console.log(f"{folder / name}: damaged: the corpus is prepared again")
        return False
    return True


def damaged(folder: Path, manifest: dict[str, Any]) -> str | None:
    """A file of a folder whose content is not what was written, by the checksums of its manifest; None: there is none.

    Folders of an earlier version have no checksums, and those of large ones are left to ``prepare --force``.
    """
    sums = manifest.get("sha256", {})
    if sum(manifest["files"].values()) > QUICKLY_READ:
        return None
    return next((name for name in sums if sha256(folder / name) != sums[name]), None)
