"""`prepare`: from the corpora of a recipe to a folder of encoded splits, once; then "up to date" until they change.

    prepared/NAME-FINGERPRINT/
      manifest.json                 sources with sha256, counts, the data section: what the folder was made from
      vocabulary.json [spm.model]   from the training file only
      labels.json                   from the training file only
      train.arrow [dev.arrow test.arrow extra.arrow]

The folder is written under another name, synced and renamed: it is whole or not there.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from probtrans_cli import __version__, console
from probtrans_cli.data.corpus.documents import PAIR, encode_corpus, labels_of
from probtrans_cli.data.corpus.gold import NewLabels, label_warnings
from probtrans_cli.data.corpus.lengths import Shortened
from probtrans_cli.data.corpus.store import Labels, Split, write_split
from probtrans_cli.data.readers.annotated import CASES
from probtrans_cli.data.readers.table_of_readers import (
    ABSENT,
    COLUMNS,
    OPTIONS,
    SPLITS,
    Source,
    display_name,
    expand_home,
    find_sources,
    format_of,
)
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.enclosed import enclosing
from probtrans_cli.data.vocabularies.wordpiece import WORDPIECE_FILES
from probtrans_cli.data.vocabularies.wordpiece_building import fingerprint_of
from probtrans_cli.data.vocabularies.words import (
    SUBWORDS_FILE,
    WORDS_FILE,
    Vocabulary,
    build_vocabulary,
    load_vocabulary,
)
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.recipe.data import Data, WordPieceVocabulary
from probtrans_cli.recipe.schema import Recipe

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Group

FORMAT = 1  # of the prepared folder; another number makes every older folder stale
MANIFEST, LABELS = "manifest.json", "labels.json"
QUANTILES = {"min": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "95%": 0.95, "99%": 0.99, "max": 1.0}
_OURS = {MANIFEST, LABELS, WORDS_FILE, SUBWORDS_FILE, *WORDPIECE_FILES, *(f"{split}.arrow" for split in SPLITS)}
_KEYS = {"format", "version", "data", "fingerprint", "sources", "vocabulary", "labels", "splits", "files"}
_ABANDONED = 6 * 3600  # seconds after which an unfinished folder of a killed process is removed


@dataclass(slots=True)
class Prepared:
    """An encoded corpus: what training, evaluation and parsing need to know about the data."""

    folder: Path
    """Where it is (or, after ``check``, would be)."""
    vocabulary: Vocabulary
    """From word to ids."""
    labels: dict[str, list[str]]
    """Labels of every column in the training file, by falling count; the index is the label id."""
    splits: dict[str, Split]
    """`train` and, where the recipe names them, `dev`, `test` and `extra`."""
    manifest: dict[str, Any]
    """The content of manifest.json."""
    fresh: bool
    """True if it was made now, False if it was up to date."""


def prepare(recipe: Recipe, *, force: bool = False, check: bool = False) -> Prepared:
    """Encode the corpora of a recipe, unless the prepared folder is up to date.

    Args:
        recipe: its sections ``data`` and ``task`` matter, and its name.
        force: make the folder again even if it is up to date.
        check: read and count everything, but write nothing.

    Raises:
        DataError: a corpus is missing, malformed, empty, or lacks the column that the task predicts.
        RecipeError: a sentencepiece vocabulary of this size cannot be made from the corpus.
        UsageError: the target folder holds something else.
    """
    folder = _folder_of(recipe)
    _check_target(folder)
    old = _read_manifest(folder)
    known = {
        (entry["path"], entry["bytes"], entry["mtime_ns"]): entry["sha256"]
        for entries in (old["sources"].values() if old else ())
        for entry in entries
    }
    sources = find_sources(recipe.data, known)
    if not (force or check):
        with _locked(folder.parent):
            current = open_prepared(folder) if _up_to_date(folder, recipe.data, sources) else None
        if current is not None:
            _check_task(recipe, current, sources)
            return current
    prepared, tables = _encode_all(recipe, folder, sources)
    _check_task(recipe, prepared, sources)
    if check:
        return prepared
    return _write_folder(prepared, tables, lambda: not force and _up_to_date(folder, recipe.data, sources))


def open_prepared(folder: Path) -> Prepared:
    """Open a folder that :func:`prepare` made, without looking at its sources.

    Raises:
        DataError: it is missing, of another format, or damaged.
    """
    manifest = _read_manifest(folder)
    if manifest is None:
        hint = "run `probtrans prepare RECIPE`"
        raise DataError(f"{folder}: no prepared corpus of this version of probtrans there", hint=hint)
    try:
        labels = json.loads((folder / LABELS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / LABELS}: {error}", hint="run `probtrans prepare --force`") from None
    splits = {name: Split.open(folder / f"{name}.arrow") for name in manifest["splits"]}
    return Prepared(folder, load_vocabulary(folder), labels, splits, manifest, fresh=False)


# --- the folder -------------------------------------------------------------------------------------------------------


def _canonical(data: Data) -> dict[str, Any]:
    """The data section without the folder's own name, which changes nothing about its content; a vocabulary's folder is
    that content."""
    canonical = data.model_dump(mode="json", exclude={"prepared": True, **_not_given(data)})
    if isinstance(data.vocabulary, WordPieceVocabulary) and data.vocabulary.folder is not None:
        canonical["vocabulary"]["folder"] = fingerprint_of(data.vocabulary)
    return canonical


def _not_given(data: Data) -> dict[str, Any]:
    """Keys that are younger than the format: left out where they ask for nothing."""
    names = (*OPTIONS, "longest", "too_long", "extra")
    without: dict[str, Any] = {name: True for name in names if getattr(data, name) == Data.model_fields[name].default}
    later = {"features": None, "punctuation": True}
    absent = {name for name, default in later.items() if getattr(data.vocabulary, name, default) == default}
    return without | {"vocabulary": absent}


def _folder_of(recipe: Recipe) -> Path:
    if recipe.data.prepared is not None:
        return expand_home(recipe.data.prepared)
    canonical = json.dumps(_canonical(recipe.data), sort_keys=True, separators=(",", ":"))
    return Path("prepared") / f"{recipe.name}-{hashlib.sha256(canonical.encode()).hexdigest()[:8]}"


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    complete = isinstance(manifest, dict) and manifest.keys() >= _KEYS and manifest["format"] == FORMAT
    return manifest if complete else None


def _check_target(folder: Path) -> None:
    """Refuse to replace what is not a prepared corpus: ``data.prepared: .`` must not cost the user a folder."""
    try:  # one look: another process may replace the folder at any moment
        strangers = [path for path in folder.iterdir() if path.name not in _OURS]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        strangers = [folder] if folder.exists() else []
    if strangers:
        hint = "choose another data.prepared, or move the folder away"
        raise UsageError(f"{folder} is not a prepared corpus: it holds {strangers[0].name}", hint=hint)


def _up_to_date(folder: Path, data: Data, sources: list[Source]) -> bool:
    old = _read_manifest(folder)
    if old is None or old["data"] != _canonical(data):
        return False
    before = [(split, entry["sha256"]) for split in old["sources"] for entry in old["sources"][split]]
    if before != [(source.split, source.sha256) for source in sources]:
        return False
    return all((folder / name).is_file() and (folder / name).stat().st_size == n for name, n in old["files"].items())


def _write_folder(prepared: Prepared, tables: dict[str, pa.Table], already_there: Callable[[], bool]) -> Prepared:
    """Write the folder and return it as training will read it: mapped into memory instead of held in it."""
    folder = prepared.folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(folder)
        new = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=".part", dir=folder.parent))
        try:
            _fill(new, prepared, tables)
            with _locked(folder.parent):
                if not already_there():  # another process may have been faster
                    _replace(new, folder)
                made = open_prepared(folder)
                made.fresh = True
                return made
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        hint = "choose another data.prepared"
        raise DataError(
            f"{error.filename or folder}: cannot be written: {error.strerror or error}", hint=hint
        ) from None


def _fill(new: Path, prepared: Prepared, tables: dict[str, pa.Table]) -> None:
    umask = os.umask(0)
    os.umask(umask)
    new.chmod(0o777 & ~umask)  # mkdtemp makes private folders
    prepared.vocabulary.save(new)
    (new / LABELS).write_text(json.dumps(prepared.labels, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for name, table in tables.items():
        write_split(new / f"{name}.arrow", table)
    prepared.manifest["files"] = {path.name: path.stat().st_size for path in sorted(new.iterdir())}
    text = json.dumps(prepared.manifest, ensure_ascii=False, indent=1)
    (new / MANIFEST).write_text(text + "\n", encoding="utf-8")
    for path in (*new.iterdir(), new):
        _sync(path)


def _replace(new: Path, folder: Path) -> None:
    """Put the new folder in the old one's place; a full folder cannot be renamed over, so the old one steps aside."""
    aside = new.with_suffix(".old")
    if folder.exists():
        folder.rename(aside)
    try:
        new.rename(folder)
    except BaseException:  # Ctrl-C between the two renames included
        if aside.exists() and not folder.exists():
            aside.rename(folder)
        raise
    _sync(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time rename or open what is in a folder; the lock is no file and dies with its process."""
    with ExitStack() as stack:
        with suppress(OSError):  # no such folder yet, or a file system without locks: go on without
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _remove_abandoned(folder: Path) -> None:
    for path in [*folder.parent.glob(f".{folder.name}-*.part"), *folder.parent.glob(f".{folder.name}-*.old")]:
        with suppress(FileNotFoundError):  # its owner, another process, has just finished with it
            if time.time() - path.stat().st_mtime > _ABANDONED:
                shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- encoding ---------------------------------------------------------------------------------------------------------


def _encode_all(recipe: Recipe, folder: Path, sources: list[Source]) -> tuple[Prepared, dict[str, pa.Table]]:
    data = recipe.data
    counts: dict[str, Counter[str]] = {column: Counter() for column in COLUMNS[data.format]}

    def training_words() -> Iterator[list[str]]:
        for sentence in _sentences(sources, "train", data):
            for column, tags in sentence.tags.items():
                counts[column].update(tags)
            for column, label in sentence.labels.items():
                counts[column][label] += 1
            yield sentence.words

    vocabulary = build_vocabulary(data.vocabulary, training_words())
    labels = {column: _by_count(counter, absent=ABSENT.get(column)) for column, counter in counts.items()}
    if "case" in labels:
        labels["case"] = list(CASES)  # of which the training file has a few: they are not learned, but reported
    if data.format == "documents":
        vocabulary, labels = enclosing(vocabulary), labels_of(data.documents)
    there = [split for split in SPLITS if any(source.split == split for source in sources)]
    tables, notes, new_labels = {}, [], {}
    for name in there:
        sentences = Shortened(_sentences(sources, name, data), vocabulary, data)
        noted = NewLabels(sentences, labels)
        tables[name] = encode_corpus(data, noted, vocabulary, labels, training=name == "train")
        new_labels[name] = noted.counts
        if report := sentences.report(f"data.{name}"):
            notes.append(report)
    splits = {name: Split(table) for name, table in tables.items()}
    if data.format == "documents" and splits["train"].has(PAIR):
        counts[PAIR].update(labels[PAIR][label] for label in splits["train"].column(PAIR))
    manifest = {
        "format": FORMAT,
        "version": __version__,
        "data": _canonical(data),
        "fingerprint": _fingerprint(data, sources),
        "sources": {name: [source.entry() for source in sources if source.split == name] for name in there},
        "vocabulary": {"kind": data.vocabulary.kind, "size": vocabulary.size, "special": len(vocabulary.specials)},
        "labels": {column: {label: counts[column][label] for label in names} for column, names in labels.items()},
        "splits": {name: _statistics(split, labels, vocabulary) for name, split in splits.items()},
        "new_labels": new_labels,
        "notes": notes,
    }
    return Prepared(folder, vocabulary, labels, splits, manifest, fresh=True), tables


def _sentences(sources: list[Source], split: str, data: Data) -> Iterator[Sentence]:
    for source in sources:
        if source.split == split:
            yield from source.sentences(data)


def _by_count(counts: Counter[str], *, absent: str | None) -> list[str]:
    """Labels by falling count, equal counts alphabetically; ``absent`` is the absence of one."""
    return sorted((label for label in counts if label != absent), key=lambda label: (-counts[label], label))


def _statistics(split: Split, labels: Labels, vocabulary: Vocabulary) -> dict[str, Any]:
    words, tokens = int(split.words.sum()), int(split.lengths.sum())
    lengths = np.quantile(split.lengths, list(QUANTILES.values()), method="inverted_cdf")
    return {
        "sentences": len(split),
        "words": words,
        "tokens": tokens,
        "unknown": int((split.column("ids") == vocabulary.UNKNOWN).sum()) / tokens,  # that the model cannot tell
        "unseen": int((split.column("frequency") == 0).sum()) / words,
        "length": {name: int(length) for name, length in zip(QUANTILES, lengths, strict=True)},
        "columns": [name for name in (*labels, "heads") if split.has(name)],
    }


def _fingerprint(data: Data, sources: list[Source]) -> str:
    """One sha256 of all that determines the encoded corpus: the options and the bytes, not where they lie."""
    content = {
        "format": FORMAT,
        "vocabulary": _canonical(data)["vocabulary"],
        "sources": [(source.split, format_of(source.path, data.format), source.sha256) for source in sources],
        **{name: options for name, options in _canonical(data).items() if name in OPTIONS},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_task(recipe: Recipe, prepared: Prepared, sources: list[Source]) -> None:
    """A task that learns labels needs its column in every split; the readers of other formats see to theirs."""
    for warning in label_warnings(recipe.task, prepared.labels, prepared.splits, prepared.manifest):
        console.log(warning)
    column = recipe.task.chosen_column
    if column is None:
        return
    if column not in prepared.labels:
        there = ", ".join(prepared.labels)
        raise DataError(f"task.column: the data has no column {column!r}", hint=f"there are: {there}")
    for name, split in prepared.splits.items():
        if split.has(column) and (name != "train" or prepared.labels[column]):
            continue
        files = [source.path for source in sources if source.split == name]
        shown = ", ".join(display_name(path) for path in files)
        if all(format_of(path, recipe.data.format) == "text" for path in files):
            hint = "give a CoNLL-U file (data.format=conllu if its name does not end in .conllu)"
            raise DataError(f"{shown}: plain text has no {column.upper()} column to learn tagging from", hint=hint)
        others = [other for other in prepared.labels if other != column and split.has(other)]
        hint = f"set task.column={others[0]}" if others else "give a tagged treebank, or train with task.kind mlm"
        raise DataError(f"{shown}: every {column.upper()} is `_`, so there is no tagging to learn", hint=hint)


# --- report -----------------------------------------------------------------------------------------------------------


def report(prepared: Prepared, state: str) -> Group:
    """Return what to show on the screen: a table of the splits, vocabulary and labels in a line each, the state."""
    from rich.console import Group  # noqa: PLC0415  (only where something is shown)
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    manifest = prepared.manifest
    subwords = manifest["vocabulary"]["kind"] != "words"
    table = Table(box=None, pad_edge=False)
    table.add_column("split")
    for heading in ("sentences", "words", *(["pieces"] if subwords else []), "unknown", "unseen", *QUANTILES):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, split in manifest["splits"].items():
        row = [f"{split['sentences']:,}", f"{split['words']:,}"]
        row += [f"{split['tokens']:,}"] if subwords else []
        row += [f"{split['unknown']:.2%}", f"{split['unseen']:.2%}"]
        table.add_row(name, *row, *(str(length) for length in split["length"].values()))
    size = manifest["vocabulary"]["size"]
    special = manifest["vocabulary"].get("special", 3)
    units = "pieces" if subwords else "words"
    lines = [f"vocabulary  {size:,} {units} ({special} special); min to max: sentence lengths"]
    for column, every in manifest["labels"].items():
        counts = {label: count for label, count in every.items() if count}  # of the kinds of COGS train has a few
        if counts:
            shown = ", ".join(f"{label} {count:,}" for label, count in list(counts.items())[:20])
            more = f", and {len(counts) - 20} more" if len(counts) > 20 else ""
            lines.append(f"{column}  {len(counts)} labels: {shown}{more}")
    # Text, not str: labels are the user's and must not be read as markup.
    lines += manifest.get("notes", [])
    return Group(table, *(Text(line) for line in lines), Text(f"{state}: {prepared.folder}"))
