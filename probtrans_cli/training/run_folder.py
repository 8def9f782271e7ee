"""The folder of a run: who may write into it, what happens to a run that is there, and how the new one ended.

    runs/NAME/
      recipe.yaml      resolved and runnable; written when the run begins
      metrics.jsonl    the figures of the training, one JSON object a line
      tensorboard/     the same for TensorBoard, with `log.tensorboard`
      exit.json        exit code and reason; written when it ends
      report.html      the same to look at
      .replaced/       the run that `--overwrite` replaces, until the new one begins
      .probtrans.lock  who trains here now

Nothing is removed here that no run has written. Imports no torch.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from probtrans_cli import atomic, console
from probtrans_cli.errors import CheckpointError, ProbtransError, RecipeError, UsageError, unwritten
from probtrans_cli.folders import checkpoints, lock, regular
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import dump_recipe, load_stored
from probtrans_cli.text import first_of, from_json
from probtrans_cli.version import __version__

# Sections that may differ when a run is resumed: they do not change what is computed.
MAY_CHANGE = {"log", "save", "runtime"}
# Keys of files that may have moved: their content is compared.
FILES = {"data.train", "data.dev", "data.test", "data.extra", "data.raw"}
# What a run folder holds when the training failed at its data or its model, before the recipe was written.
BEFORE_A_RECIPE = {"log.txt", "exit.json", "metrics.jsonl"}
# What a run folder may hold when the training has begun.
AFTERWARDS = {"recipe.yaml", "report.html"}
# Where a run that is to be overwritten waits in its own folder.
ASIDE = ".replaced"
# How a run's recipe begins, by which it is told from a recipe that somebody wrote.
HEADER = "Resolved recipe of this run."

# The names of what runs write, beside recipe.yaml, BEFORE_A_RECIPE and the checkpoints themselves.
_HIDDEN = re.compile(r"\.(recipe\.yaml|metrics\.jsonl|exit\.json|report\.html)\.partial|" + re.escape(lock.NAME))
_FOLDERS = {
    "trees": re.compile(r"\.?([0-9]{4,}-channel-(mean|[0-9]+)\.svg|index\.html)(\.partial)?"),
    "tensorboard": re.compile(r"events\.out\.tfevents\..*"),
}
_CHECKPOINTS = re.compile(
    r"eval-(dev|test|extra)\.json|reliability(-[a-z]+)?\.svg|"
    r"\.(eval-(dev|test|extra)\.json|reliability(-[a-z]+)?\.svg|best|last|step-[0-9]+(-[0-9a-f]{8})?)\.(partial|replaced)"
)


@contextmanager
def claimed(recipe: Recipe, run: Path, source: str, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """Within: this process alone has the run folder, and it is ready. ``source``: the recipe as the user named it.

    Raises:
        UsageError: it cannot be made; another process trains there; it holds something, and is neither to be resumed
            nor overwritten, or holds what no run writes.
        RecipeError: the run that is to be resumed was started with another recipe.
        CheckpointError: it is to be resumed, and copies have put other folders in the place of its links; or a link, a
            pipe or a device is in the place of what a run writes.
    """
    if run.exists() and not run.is_dir():
        raise UsageError(f"{run} is a file", hint="choose another --run folder")
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(str(run), error, UsageError, hint="choose another --run folder") from None
    if not os.access(run, os.W_OK):
        raise UsageError(f"{run}: cannot be written", hint="choose another --run folder")
    hint = "wait for its end, or give another folder with --run DIR"
    with lock.locked(lock.inside(run), str(run), hint=hint):
        _make_ready(recipe, run, source, resume=resume, overwrite=overwrite)
        yield


def _make_ready(recipe: Recipe, run: Path, source: str, *, resume: bool, overwrite: bool) -> None:
    for name in sorted({*BEFORE_A_RECIPE, *AFTERWARDS}):
        regular.refuse_others(run / name)
    for name in (ASIDE, "checkpoints", *_FOLDERS):
        regular.refuse_others(run / name, folder=True)
    if _has_our_recipe(run) or _has_our_recipe(run / ASIDE):
        _put_back(run)
    # A copied recipe alone makes no run.
    ours = _has_our_recipe(run) and any((run / name).exists() for name in ("metrics.jsonl", "log.txt", "checkpoints"))
    foreign = list(_foreign(run, begun=ours))
    elsewhere = "move that away, or give another folder with --run DIR"
    if foreign and not (ours or checkpoints.newest(run / "checkpoints")):
        raise UsageError(f"{run} is not a run folder: it holds {first_of(foreign)}", hint=elsewhere)
    occupied = _is_occupied(run)
    if occupied and not (resume or overwrite):
        afresh = f"probtrans train {source} [KEY=VALUE]... --run {run} --overwrite"
        raise UsageError(
            f"{run} is not empty", hint=f"continue it:  probtrans train {run} --resume\nstart afresh: {afresh}"
        )
    if occupied and overwrite and foreign:
        raise UsageError(f"{run} holds what no run writes: {first_of(foreign)}; nothing was removed", hint=elsewhere)
    if occupied and overwrite and not ours:
        raise UsageError(f"{run} is not a run folder: it has no recipe.yaml of a run; nothing was removed")
    atomic.recover(run / "checkpoints", _CHECKPOINTS)
    if resume:
        if not occupied:
            console.log(f"nothing to resume in {run}: starting")
        if (stored := run / "recipe.yaml").exists():
            hint = f"resume it as it is: probtrans train {run} --resume; or start another run with --run DIR"
            require_same(recipe, stored, hint)
        checkpoints.settle(run / "checkpoints")
    elif occupied:
        (run / ASIDE).mkdir()
        # The recipe first, and back again last: where it is tells after a kill which of the two runs is whole.
        for path in sorted(run.iterdir(), key=lambda path: path.name != "recipe.yaml"):
            if path.name not in (ASIDE, lock.NAME):
                path.rename(run / ASIDE / path.name)
    # The note of how a training was interrupted goes; that of a training which came to its end stays.
    note = run / "exit.json"
    if _is_file_of_a_run(note, begun=False) and from_json(regular.read_bytes(note))["exit"] != 0:
        note.unlink()


def _is_occupied(run: Path) -> bool:
    return any(path.name not in BEFORE_A_RECIPE and not _HIDDEN.fullmatch(path.name) for path in run.iterdir())


def has_not_begun(run: Path) -> bool:
    """Return True for the folder of a training that ended before its recipe was written: it has a log, or the lock,
    and nothing that is not ours."""
    try:
        return any(run.iterdir()) and not _is_occupied(run) and not list(_foreign(run, begun=False))
    except OSError:  # no folder, or one that cannot be read
        return False


def to_resume(run: Path) -> bool:
    """Return True if there is a checkpoint to continue with.

    A link whose checkpoint is gone counts: that is an error to report, not a reason to begin again in silence.
    """
    folder = run / "checkpoints"
    if checkpoints.steps(folder) or any(os.path.lexists(folder / link) for link in checkpoints.LINKS):
        return True
    if (run / "recipe.yaml").exists():
        console.log(f"{run} has no checkpoint yet: starting from the beginning")
    return False


def corpus_of(run: Path) -> str | None:
    """Return the fingerprint of the corpora of a run from its last checkpoint; None: there is none."""
    try:
        fingerprint = checkpoints.json_object(checkpoints.locate(f"{run}@last") / checkpoints.STATE).get("data")
    except (CheckpointError, OSError):
        return None  # verifying the checkpoint says what is wrong with it
    return fingerprint if isinstance(fingerprint, str) else None


def begin(recipe: Recipe, run: Path, manifest: dict[str, Any]) -> None:
    sources = [entry for entries in manifest["sources"].values() for entry in entries]
    header = [
        f"{HEADER} Made by probtrans {__version__}, Python {sys.version.split()[0]}.",
        "Command: " + shlex.join(["probtrans", *sys.argv[1:]]),
        *(f"Data: {entry['path']} sha256 {entry['sha256']}" for entry in sources),
    ]
    atomic.replace_text(run / "recipe.yaml", dump_recipe(recipe, header))


def forget_replaced(run: Path) -> None:
    """Remove the run that this one replaces, as this one has begun, unless it holds what no run writes."""
    aside = run / ASIDE
    if aside.is_dir() and not list(_foreign(aside, begun=True)):
        shutil.rmtree(aside, ignore_errors=True)


def failed(run: Path, error: BaseException) -> None:
    """Note how the run ended, and put back what it was to replace if it has not begun."""
    code = 130 if isinstance(error, KeyboardInterrupt) else 1
    if isinstance(error, ProbtransError):
        code = error.exit_code
    try:
        write_exit(run, code, str(error) or type(error).__name__)
    finally:  # on a full disk, too
        if _put_back(run):
            console.log(f"{run}: what was there is kept")


def write_exit(run: Path, code: int = 0, reason: str = "done") -> None:
    atomic.replace_text(run / "exit.json", json.dumps({"exit": code, "reason": reason}) + "\n")


def _put_back(run: Path) -> bool:
    """Put back what was set aside, where the new run has not begun; return whether there was something."""
    aside = run / ASIDE
    if not aside.is_dir() or (run / "recipe.yaml").exists():
        forget_replaced(run)
        return False
    for path in sorted(aside.iterdir(), key=lambda path: path.name == "recipe.yaml"):
        if (run / path.name).is_dir():
            regular.remove(run / path.name)
        path.rename(run / path.name)
    aside.rmdir()
    return True


def require_same(recipe: Recipe, path: Path, hint: str, *, but: Collection[str] = ()) -> None:
    """Raise a RecipeError that names the keys, ``but`` for some, in which a recipe is not that of ``path``."""
    old, new = load_stored(path).resolved().model_dump(), recipe.model_dump()
    keys = (key for name in new if name not in MAY_CHANGE for key in _different(name, old[name], new[name]))
    if different := [key for key in keys if key not in but]:
        raise RecipeError(f"{path}: the run was started with another {first_of(different)}", hint=hint)


def _different(key: str, old: Any, new: Any) -> Iterator[str]:
    """Yield the keys of a recipe, from ``key`` on, whose values differ; of a list, that of the list."""
    if isinstance(old, dict) and isinstance(new, dict) and old.get("kind") == new.get("kind"):
        for name in dict.fromkeys([*old, *new]):
            yield from _different(f"{key}.{name}", old.get(name), new.get(name))
    elif old != new:
        yield key


# --- what a run writes, and what somebody else has put there ----------------------------------------------------------


def _has_our_recipe(folder: Path) -> bool:
    try:
        with regular.open_file(folder / "recipe.yaml") as lines:
            return lines.readline().startswith(f"# {HEADER}".encode())
    except OSError:
        return False


def _foreign(run: Path, *, begun: bool) -> Iterator[str]:
    """Yield what no run has written, relative to the run folder; ``begun``: it is surely the folder of a run."""
    for path in sorted(run.iterdir()):
        if path.name == "checkpoints" and path.is_dir():
            numbered = {folder for _, folder in checkpoints.steps(path)}
            for entry in sorted(path.iterdir()):
                is_link_of_ours = entry.name in checkpoints.LINKS
                if entry.is_symlink() and is_link_of_ours:
                    continue
                if entry in numbered or (entry.is_dir() and is_link_of_ours):
                    yield from (str(stranger.relative_to(run)) for stranger in checkpoints.strangers(entry))
                elif not is_link_of_ours and not _CHECKPOINTS.fullmatch(entry.name):
                    yield str(entry.relative_to(run))
        elif path.name in _FOLDERS and path.is_dir():
            names = _FOLDERS[path.name]
            yield from (f"{path.name}/{file.name}" for file in sorted(path.iterdir()) if not names.fullmatch(file.name))
        elif not _is_file_of_a_run(path, begun=begun):
            yield path.name


def _is_file_of_a_run(path: Path, *, begun: bool) -> bool:
    """Return True if a run writes a file of this name; before a run has begun, its content counts, too."""
    if path.is_dir():
        return False
    if path.name not in BEFORE_A_RECIPE:
        return (begun and path.name in AFTERWARDS) or bool(_HIDDEN.fullmatch(path.name))
    if begun:
        return True
    if path.name == "metrics.jsonl":
        return path.stat().st_size == 0
    if path.name == "exit.json":
        try:
            return bool(from_json(regular.read_bytes(path)).keys() == {"exit", "reason"})
        except (OSError, ValueError, AttributeError):
            return False
    return True  # a log, which is only appended to


# --- the figures of a training ----------------------------------------------------------------------------------------


class Metrics:
    """`metrics.jsonl`, one JSON object a line, and with ``tensorboard`` its numbers in the folder of that name.

    A resumed run repeats the updates after ``step`` and the evaluations after ``evaluated``, so their lines are dropped
    when the file is opened. Without a folder nothing is written: of several processes one writes.

    Raises:
        UsageError: the package for TensorBoard is not installed.
    """

    def __init__(self, run: Path | None, step: int, evaluated: int, *, tensorboard: bool = False) -> None:
        self.path = None if run is None else run / "metrics.jsonl"
        self.board: Any = None
        if run is None or self.path is None:
            return
        lines = []
        if os.path.lexists(self.path):
            for line in regular.read_text(self.path, "replace").splitlines():
                try:
                    values = from_json(line)
                    if values["step"] <= (step if values["split"] == "train" else evaluated):
                        lines.append(line)
                except (ValueError, KeyError, TypeError):  # half a line, of the moment of a kill, or none of ours
                    continue
        if tensorboard:
            try:
                # Imported here: few need it, and it takes a second.
                from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
            except ImportError:
                fault = "log.tensorboard needs the package tensorboard, which is not installed"
                raise UsageError(fault, hint="pip install 'probtrans[tensorboard]', or log.tensorboard=false") from None
            regular.refuse_folder_of_others(run / "tensorboard")  # its file is opened by that package
            self.board = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1 if step else None)
        atomic.replace_text(self.path, "".join(line + "\n" for line in lines))

    def write(self, values: dict[str, Any]) -> None:
        """Append one line."""
        if self.path is None:
            return
        try:
            with regular.append(self.path) as file:
                file.write(json.dumps(values) + "\n")
        except OSError as error:
            raise unwritten(str(self.path), error) from None
        numbers = {name: value for name, value in values.items() if isinstance(value, int | float) and name != "step"}
        self._show(values["split"], numbers, values["step"])

    def final(self, scores: Mapping[str, Mapping[str, float]], step: int) -> None:
        """Show the final scores by split, of the best ``step``, in TensorBoard as `final`."""
        for split, numbers in scores.items():
            self._show(f"final/{split}", numbers, step)
        if self.board is not None:
            self.board.flush()

    def _show(self, group: str, numbers: Mapping[str, float], step: int) -> None:
        if self.board is not None:
            for name, value in numbers.items():
                self.board.add_scalar(f"{group}/{name}", value, step)
