"""`prepare`: from the corpora of a recipe to a folder of encoded splits, once; then "up to date" until they change.

    prepared/NAME-FINGERPRINT/
      manifest.json                 sources with sha256, counts, the data section: what the folder was made from
      vocabulary.json [spm.model]   from the training file only
      labels.json                   from the training file only
      train.arrow [dev.arrow test.arrow extra.arrow], or shards train-00000-000.arrow, ...

The folder is written under another name, synced and renamed, so it is never there incomplete. That of a corpus in
several parts keeps the other name after a kill, and the next process goes on with it.
"""

from __future__ import annotations

import json
import re
import shutil
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from probtrans_cli import atomic, console
from probtrans_cli.data.corpus.manifest import (
    LABELS,
    MANIFEST,
    PREPARED,
    SPLITS,
    Source,
    appearances,
    find_sources,
    folder_of,
    is_intact,
    read_manifest,
    repetitions,
    sha256,
    up_to_date,
)
from probtrans_cli.data.corpus.parts import begin_job, encode_all, load_labels, parts_of
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.corpus.tally import label_warnings
from probtrans_cli.data.files import display_name
from probtrans_cli.data.vocabularies import VOCABULARIES, load_vocabulary
from probtrans_cli.data.vocabularies.base import WORDS_FILE, Vocabulary
from probtrans_cli.errors import DataError, UsageError, unwritten
from probtrans_cli.folders import find_folder, lock, regular
from probtrans_cli.folders.job import BLOCKS, FAILED, JOB
from probtrans_cli.recipe.data import FORMATS
from probtrans_cli.recipe.schema import Recipe

_SHARD = re.compile(rf"({'|'.join(SPLITS)})(-\d{{5,}}-\d{{3,}})?\.arrow")
_EARLIER = re.compile(rf"(begun|counted|part-({'|'.join(SPLITS)})-\d{{5,}})\.json")
"""What earlier versions have left in an unfinished folder."""


@dataclass(slots=True, weakref_slot=True)
class Prepared:
    """An encoded corpus, with what training, evaluation and parsing need to know about the data."""

    folder: Path  # where it is (or, after ``check``, would be)
    vocabulary: Vocabulary  # from word to ids
    labels: dict[str, list[str]]
    """Labels of every column in the training file, by falling count; the index is the label id."""
    splits: dict[str, Split]  # `train` and, where the recipe names them, `dev`, `test`, `extra` and `raw`
    manifest: dict[str, Any]  # the content of manifest.json
    fresh: bool  # true if it was made now, False if it was up to date


def prepare(
    recipe: Recipe, *, force: bool = False, check: bool = False, again: str | None = None, jobs: int = 1
) -> Prepared:
    """Encode the corpora of a recipe, unless the prepared folder is up to date. One process at a time encodes into a
    folder; another one waits, and takes what the first has made.

    Args:
        recipe: its sections ``data`` and ``task`` matter, and its name.
        force: make the folder again even if it is up to date.
        check: read and count everything, but write nothing.
        again: the fingerprint of a corpus that was prepared before, and is taken if the folder that its vocabulary was
            read from is gone.
        jobs: number of processes that count and encode; the result does not depend on it.

    Raises:
        DataError: a corpus is missing, malformed, empty, or lacks the column that the task predicts.
        RecipeError: a sentencepiece vocabulary of this size cannot be made from the corpus.
        UsageError: the target folder holds something else.
    """
    if again is not None and (earlier := _by_fingerprint(recipe, again)) is not None:
        return earlier
    folder = folder_of(recipe)
    _check_target(folder)
    old = read_manifest(folder)
    checksums = {
        (entry["path"], entry["bytes"], entry["mtime_ns"]): entry["sha256"]
        for entries in (old["sources"].values() if old else ())
        for entry in entries
    }
    sources = find_sources(recipe.data, {} if check or force else checksums)
    if check:  # in a temporary folder, which is removed with the returned object
        new = Path(mkdtemp(prefix="probtrans-"))
        try:
            manifest = encode_all(recipe.data, sources, new, jobs)
            prepared = open_prepared(new, manifest)
            prepared.folder, prepared.fresh = folder, True
            del manifest["shards"], manifest["sha256"]
            _check_task(recipe, prepared, sources)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        weakref.finalize(prepared, shutil.rmtree, new, ignore_errors=True)
        return prepared
    if not force and (current := _current(folder, recipe, sources)) is not None:
        return current
    with lock.locked(lock.beside(folder), str(folder), wait=True) as alone:
        if not force and (current := _current(folder, recipe, sources)) is not None:
            return current  # another process was faster
        return _make(folder, recipe, sources, jobs, force=force, alone=alone)


def _current(folder: Path, recipe: Recipe, sources: Sequence[Source]) -> Prepared | None:
    with lock.held_for_a_moment(folder.parent):
        current = open_prepared(folder) if up_to_date(folder, recipe.data, sources) else None
    if current is not None:
        _check_task(recipe, current, sources)
    return current


def _by_fingerprint(recipe: Recipe, fingerprint: str) -> Prepared | None:
    """Return the prepared folder with this fingerprint, if the folder that its vocabulary was read from is gone."""
    origin = recipe.data.vocabulary.read_from
    if origin is None or find_folder(origin).is_dir():
        return None
    # Whatever the vocabulary was read from: the names of folders follow from its content.
    named = [folder_of(recipe)] if recipe.data.prepared is not None else PREPARED.glob(f"{recipe.name}-????????")
    for folder in sorted(named):
        manifest = read_manifest(folder)
        if manifest is None or manifest["fingerprint"] != fingerprint:
            continue
        sources = find_sources(recipe.data, {})
        with lock.held_for_a_moment(folder.parent):
            prepared = open_prepared(folder) if is_intact(folder, manifest, sources) else None
        if prepared is not None:
            console.log(f"the vocabulary's folder {origin} is gone: what was read there is in {folder}")
            _check_task(recipe, prepared, sources)
            return prepared
    return None


def open_prepared(folder: Path, manifest: dict[str, Any] | None = None) -> Prepared:
    """Open a folder that :func:`prepare` made, without looking at its sources; ``manifest``: its content,
    where the folder has no `manifest.json` yet."""
    manifest = manifest or read_manifest(folder)
    if manifest is None:
        hint = "run `probtrans prepare RECIPE`"
        raise DataError(f"{folder}: no prepared corpus of this version of probtrans there", hint=hint)
    # A folder of an earlier version has a single file for each split.
    shards = manifest.get("shards") or {name: [f"{name}.arrow"] for name in manifest["splits"]}
    splits = {name: Split(*(folder / file for file in files)) for name, files in shards.items()}
    return Prepared(folder, load_vocabulary(folder), load_labels(folder), splits, manifest, fresh=False)


def _check_task(recipe: Recipe, prepared: Prepared, sources: Sequence[Source]) -> None:
    for warning in chain(
        appearances(sources),
        repetitions(sources),
        prepared.manifest.get("warnings", []),
        label_warnings(recipe.task, prepared.labels, prepared.splits, prepared.manifest),
    ):
        console.log(warning)
    for column in recipe.task.learned:
        if column not in prepared.labels:
            columns = list(prepared.labels) or ["none"]
            hint = f"there are: {', '.join(columns)}" if len(columns) > 1 else f"set task.column={columns[0]}"
            raise DataError(f"task.column: the data has no column {column!r}", hint=hint)
        for name, split in prepared.splits.items():
            if name == "raw" or (split.has(column) and not (name == "train" and not prepared.labels[column])):
                continue
            files = [source for source in sources if source.split == name]
            shown = ", ".join(display_name(source.path) for source in files)
            if not any("tags" in FORMATS[source.format].gives for source in files):
                hint = "give a CoNLL-U file, or set data.format"
                raise DataError(f"{shown}: plain text has no {column.upper()} column to learn tagging from", hint=hint)
            usable = [name for name, labels in prepared.labels.items() if labels and name != column and split.has(name)]
            hint = f"set task.column={usable[0]}" if usable else "give a tagged treebank, or train with task.kind mlm"
            if recipe.task.facts.chosen_column is None:
                hint = f"learn other columns than {column}, or give a treebank with it"
            raise DataError(f"{shown}: every {column.upper()} is `_`, so there is no tagging to learn", hint=hint)


# --- the folder -------------------------------------------------------------------------------------------------------


def _check_target(folder: Path) -> None:
    """Refuse to replace what is not a prepared corpus: ``data.prepared: .`` must not cost the user a folder."""
    try:  # a single look: another process may replace the folder at any moment
        if not folder.is_file():
            regular.refuse_folder_of_others(folder)
        strangers = [path for path in folder.iterdir() if not _is_of_corpus(path.name)]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        if folder.exists():
            fault = f"{folder} is a file, not a prepared corpus"
            raise UsageError(fault, hint="choose another data.prepared") from None
        return
    if strangers:
        hint = "choose another data.prepared, or move the folder away"
        raise UsageError(f"{folder} is not a prepared corpus: it holds {strangers[0].name}", hint=hint)


def _is_of_corpus(name: str) -> bool:
    """Return whether `prepare` writes files of this name, or has left half of such a file."""
    if name.startswith(".") and name.endswith(atomic.PARTIAL):
        return _is_of_corpus(name[1 : -len(atomic.PARTIAL)])
    files = {MANIFEST, LABELS, WORDS_FILE}.union(*(kind.files for kind in VOCABULARIES.values()))
    return name in files or bool(_SHARD.fullmatch(name) or _EARLIER.fullmatch(name))


def _make(folder: Path, recipe: Recipe, sources: Sequence[Source], jobs: int, *, force: bool, alone: bool) -> Prepared:
    """Write the folder and return it as training will read it: mapped into memory instead of held in it."""
    in_parts = len(parts_of(recipe.data, sources)) > len({source.split for source in sources})
    resumable = in_parts and alone and not force
    place = _unfinished(folder, recipe, sources) if resumable else atomic.folder_beside(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with place as new:
            manifest = encode_all(recipe.data, sources, new, jobs)
            _check_task(recipe, open_prepared(new, manifest), sources)
            _fill(new, manifest)
            atomic.sync_folder(new)
            with lock.held_for_a_moment(folder.parent):
                # Where there are no locks, another process may have been faster.
                if force or not up_to_date(folder, recipe.data, sources):
                    atomic.replace_folder(new, folder)
                made = open_prepared(folder)
                made.fresh = True
                return made
    except OSError as error:
        full = "make room, and give the same command again: parts that are done stay"
        name = str(error.filename or folder)
        raise unwritten(name, error, hint="choose another data.prepared", full=full) from None


@contextmanager
def _unfinished(folder: Path, recipe: Recipe, sources: Sequence[Source]) -> Iterator[Path]:
    """Yield the folder in which a corpus of several parts is encoded, with what a kill has left of the same corpus.

    It stays unless it was renamed. One process at a time is here.
    """
    new = folder.with_name(f".{folder.name}.unfinished")
    regular.refuse_folder_of_others(new)  # files in it are written again under the same names
    if new.exists():
        job = {JOB, BLOCKS, FAILED, *(path.name for path in atomic.left_of(new / JOB))}
        if strangers := [path.name for path in new.iterdir() if path.name not in job and not _is_of_corpus(path.name)]:
            raise UsageError(f"{new}: holds {strangers[0]}, which is not of a corpus", hint="move it away")
        try:
            begin_job(recipe.data, sources, new)
        except UsageError:  # of another corpus, or of an earlier version
            atomic.remove_folder(new)
    new.mkdir(parents=True, exist_ok=True)
    yield new


def _fill(new: Path, manifest: dict[str, Any]) -> None:
    # First of all: from now on, the shards do not have the names that the blocks of the job say.
    (new / JOB).unlink(missing_ok=True)
    for name in (BLOCKS, FAILED):
        shutil.rmtree(new / name, ignore_errors=True)
    for split, names in manifest["shards"].items():
        if len(names) == 1:  # named as by earlier versions
            (new / names[0]).rename(new / f"{split}.arrow")
            manifest["sha256"][f"{split}.arrow"] = manifest["sha256"].pop(names[0])
            names[:] = [f"{split}.arrow"]
    for path in new.iterdir():
        if path.name.endswith(atomic.PARTIAL):
            path.unlink()
    written = sorted(new.iterdir())
    checksums = manifest["sha256"]
    manifest["files"] = {path.name: path.stat().st_size for path in written}
    manifest["sha256"] = {path.name: checksums.get(path.name) or sha256(path) for path in written}
    text = json.dumps(manifest, ensure_ascii=False, indent=1)
    (new / MANIFEST).write_text(text + "\n", encoding="utf-8")
