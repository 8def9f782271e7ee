"""`prepare`: from the corpora of a recipe to a folder of encoded splits, once; then "up to date" until they change.

    prepared/NAME-FINGERPRINT/
      manifest.json                 sources with sha256, counts, the data section: what the folder was made from
      vocabulary.json [spm.model]   from the training file only
      labels.json                   from the training file only
      train.arrow [dev.arrow test.arrow extra.arrow], or shards train-00000-000.arrow, ...

The folder is written under another name, synced and renamed: it is whole or not there. That of a corpus in several
parts keeps the other name after a kill, and the next process goes on with it.
"""

from __future__ import annotations

import json
import re
import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NoReturn

from probtrans_cli import atomic, console
from probtrans_cli.data.corpus.gold import label_warnings
from probtrans_cli.data.corpus.manifest import (
    LABELS,
    MANIFEST,
    canonical,
    fingerprint,
    folder_of,
    is_whole,
    made_before,
    of_these,
    read_manifest,
    shards_of,
    up_to_date,
)
from probtrans_cli.data.corpus.parts import COUNTED, encode_all, load_labels, parts_of
from probtrans_cli.data.corpus.sources import SPLITS, Source, appearances, find_sources, repetitions, sha256
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.files import display_name
from probtrans_cli.data.vocabularies import files as vocabulary_files
from probtrans_cli.data.vocabularies import load_vocabulary
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import DataError, UsageError, unwritten
from probtrans_cli.folders import lock, regular
from probtrans_cli.folders.checkpoints import json_object
from probtrans_cli.folders.places import find_folder
from probtrans_cli.recipe.data import FORMATS
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.version import __version__

BEGUN = "begun.json"
"""What the corpus is that an unfinished folder holds a part of."""
_OURS = re.compile(rf"({'|'.join(SPLITS)})(-\d{{5,}}-\d{{3,}})?\.arrow|part-({'|'.join(SPLITS)})-\d{{5,}}\.json")


@dataclass(slots=True, weakref_slot=True)
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
        jobs: so many processes count and encode; the result is the same.

    Raises:
        DataError: a corpus is missing, malformed, empty, or lacks the column that the task predicts.
        RecipeError: a sentencepiece vocabulary of this size cannot be made from the corpus.
        UsageError: the target folder holds something else.
    """
    if again is not None and (kept := _kept(recipe, again)) is not None:
        return kept
    folder = folder_of(recipe)
    _check_target(folder)
    old = read_manifest(folder)
    known = {
        (entry["path"], entry["bytes"], entry["mtime_ns"]): entry["sha256"]
        for entries in (old["sources"].values() if old else ())
        for entry in entries
    }
    sources = find_sources(recipe.data, {} if check or force else known)
    if check:
        return _checked(folder, recipe, sources, jobs)
    if not force and (current := _current(folder, recipe, sources)) is not None:
        return current
    with lock.locked(lock.beside(folder), str(folder), wait=True) as alone:
        if not force and (current := _current(folder, recipe, sources)) is not None:
            return current  # another process was faster
        resumed = alone and not force
        return _make(
            folder, recipe, sources, jobs, resumed, lambda: not force and up_to_date(folder, recipe.data, sources)
        )


def _checked(folder: Path, recipe: Recipe, sources: Sequence[Source], jobs: int) -> Prepared:
    """The corpora, encoded and checked, in a folder that is gone with what is returned."""
    new = Path(mkdtemp(prefix="probtrans-"))
    try:
        manifest = encode_all(recipe.data, sources, new, jobs)
        prepared = _opened(new, manifest)
        prepared.folder, prepared.fresh = folder, True
        del manifest["shards"], manifest["sha256"]
        _check_task(recipe, prepared, sources)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    weakref.finalize(prepared, shutil.rmtree, new, ignore_errors=True)
    return prepared


def _current(folder: Path, recipe: Recipe, sources: Sequence[Source]) -> Prepared | None:
    """The prepared folder, if it is up to date."""
    with lock.held_for_a_moment(folder.parent):
        current = open_prepared(folder) if up_to_date(folder, recipe.data, sources) else None
    if current is not None:
        _check_task(recipe, current, sources)
    return current


def _kept(recipe: Recipe, fingerprint: str) -> Prepared | None:
    """The prepared folder with this fingerprint, where the folder that its vocabulary was read from is gone: what was
    read there is told by the corpus alone."""
    origin = recipe.data.vocabulary.read_from
    if origin is None or find_folder(origin).is_dir():
        return None
    for folder in made_before(recipe):
        manifest = read_manifest(folder)
        if manifest is None or manifest["fingerprint"] != fingerprint:
            continue
        sources = find_sources(recipe.data, {})
        with lock.held_for_a_moment(folder.parent):
            found = open_prepared(folder) if of_these(manifest, sources) and is_whole(folder, manifest) else None
        if found is not None:
            console.log(f"the vocabulary's folder {origin} is gone: what was read there is in {folder}")
            _check_task(recipe, found, sources)
            return found
    return None


def open_prepared(folder: Path) -> Prepared:
    """Open a folder that :func:`prepare` made, without looking at its sources.

    Raises:
        DataError: it is missing, of another format, or damaged.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        hint = "run `probtrans prepare RECIPE`"
        raise DataError(f"{folder}: no prepared corpus of this version of probtrans there", hint=hint)
    return _opened(folder, manifest)


def _opened(folder: Path, manifest: dict[str, Any]) -> Prepared:
    splits = {name: Split.open(*(folder / file for file in files)) for name, files in shards_of(manifest).items()}
    return Prepared(folder, load_vocabulary(folder), load_labels(folder), splits, manifest, fresh=False)


def _check_task(recipe: Recipe, prepared: Prepared, sources: Sequence[Source]) -> None:
    """Tell what is odd about the labels; a task that learns them needs their columns in every split."""
    odd = appearances(sources, recipe.data.format)
    for warning in chain(odd, repetitions(sources), prepared.manifest.get("warnings", [])):
        console.log(warning)
    for warning in label_warnings(recipe.task, prepared.labels, prepared.splits, prepared.manifest):
        console.log(warning)
    for column in recipe.task.learned:
        if column not in prepared.labels:
            first, *others = prepared.labels or ["none"]
            hint = f"there are: {', '.join([first, *others])}" if others else f"set task.column={first}"
            raise DataError(f"task.column: the data has no column {column!r}", hint=hint)
        for name, split in prepared.splits.items():
            if not split.has(column) or (name == "train" and not prepared.labels[column]):
                _refuse(column, prepared, split, [source for source in sources if source.split == name])


def _refuse(column: str, prepared: Prepared, split: Split, sources: Sequence[Source]) -> NoReturn:
    """Say which files lack the labels of a column, and what to do about it."""
    shown = ", ".join(display_name(source.path) for source in sources)
    if not any("tags" in FORMATS[source.format].gives for source in sources):
        hint = "give a CoNLL-U file, or set data.format"
        raise DataError(f"{shown}: plain text has no {column.upper()} column to learn tagging from", hint=hint)
    others = [other for other, names in prepared.labels.items() if names and other != column and split.has(other)]
    hint = f"set task.column={others[0]}" if others else "give a tagged treebank, or train with task.kind mlm"
    raise DataError(f"{shown}: every {column.upper()} is `_`, so there is no tagging to learn", hint=hint)


# --- the folder -------------------------------------------------------------------------------------------------------


def _check_target(folder: Path) -> None:
    """Refuse to replace what is not a prepared corpus: ``data.prepared: .`` must not cost the user a folder."""
    try:  # one look: another process may replace the folder at any moment
        if not folder.is_file():
            regular.refuse_folder_of_others(folder)
        strangers = [path for path in folder.iterdir() if not _is_ours(path.name)]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        strangers = [folder] if folder.exists() else []
    if strangers:
        hint = "choose another data.prepared, or move the folder away"
        raise UsageError(f"{folder} is not a prepared corpus: it holds {strangers[0].name}", hint=hint)


def _is_ours(name: str) -> bool:
    """Whether `prepare` writes files of this name, or has left half of one."""
    if name.startswith(".") and name.endswith(atomic.PARTIAL):
        return _is_ours(name[1 : -len(atomic.PARTIAL)])
    return name in {MANIFEST, LABELS, COUNTED, BEGUN, *vocabulary_files()} or _OURS.fullmatch(name) is not None


def _make(
    folder: Path,
    recipe: Recipe,
    sources: Sequence[Source],
    jobs: int,
    resumed: bool,
    already_there: Callable[[], bool],
) -> Prepared:
    """Write the folder and return it as training will read it: mapped into memory instead of held in it.

    ``resumed``: what a kill has left of a corpus in several parts is taken, and left by a kill.
    """
    in_parts = len(parts_of(recipe.data, sources)) > len({source.split for source in sources})
    place = _unfinished(folder, recipe, sources) if in_parts and resumed else atomic.folder_beside(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with place as new:
            manifest = encode_all(recipe.data, sources, new, jobs)
            _check_task(recipe, _opened(new, manifest), sources)
            _fill(new, manifest)
            atomic.sync_folder(new)
            with lock.held_for_a_moment(folder.parent):
                if not already_there():  # where there are no locks, another process may have been faster
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
    """Within: the folder in which a corpus of several parts is encoded, with what a kill or an error has left of the
    same corpus. It stays unless it was renamed. One process at a time is here.

    Raises:
        UsageError: something else has its name.
    """
    new = folder.with_name(f".{folder.name}.unfinished")
    made_of = {"data": canonical(recipe.data), "fingerprint": fingerprint(recipe.data, sources)}
    what = {"version": __version__, **made_of}
    regular.refuse_folder_of_others(new)  # what is in it is written again under the same names
    if new.exists():
        if strangers := [path.name for path in new.iterdir() if not _is_ours(path.name)]:
            raise UsageError(f"{new}: holds {strangers[0]}, which is not of a corpus", hint="move it away")
        if json_object(new / BEGUN) != what:
            atomic.remove_folder(new)
    new.mkdir(parents=True, exist_ok=True)
    atomic.replace_text(new / BEGUN, json.dumps(what))
    yield new


def _fill(new: Path, manifest: dict[str, Any]) -> None:
    """Give the files their last names, and write the manifest."""
    (new / BEGUN).unlink(missing_ok=True)  # at first: from now on, what is there is not what the parts have said
    for split, names in manifest["shards"].items():
        if len(names) == 1:  # as earlier versions call it
            (new / names[0]).rename(new / f"{split}.arrow")
            manifest["sha256"][f"{split}.arrow"] = manifest["sha256"].pop(names[0])
            names[:] = [f"{split}.arrow"]
    for path in new.iterdir():
        if path.name == COUNTED or path.name.startswith("part-") or path.name.endswith(atomic.PARTIAL):
            path.unlink()
    written = sorted(new.iterdir())
    known = manifest["sha256"]
    manifest["files"] = {path.name: path.stat().st_size for path in written}
    manifest["sha256"] = {path.name: known.get(path.name) or sha256(path) for path in written}
    text = json.dumps(manifest, ensure_ascii=False, indent=1)
    (new / MANIFEST).write_text(text + "\n", encoding="utf-8")
