"""The folder of a run: who may write into it, what happens to a run that is there, and how the new one ended.

    runs/NAME/
      recipe.yaml      resolved and runnable; written when the run begins
      exit.json        exit code and reason; written when it ends
      .replaced/       the run that `--overwrite` replaces, until the new one begins

Imports no torch.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from probtrans_cli import atomic, console
from probtrans_cli.errors import ProbtransError, RecipeError, UsageError
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import dump_recipe, load_recipe
from probtrans_cli.version import __version__

# Sections that may differ when a run is resumed: they do not change what is computed.
MAY_CHANGE = {"log", "save", "runtime"}
# What a run folder holds when the training failed at its data or its model, before the recipe was written.
BEFORE_A_RECIPE = {"log.txt", "exit.json", "metrics.jsonl"}
# Where a run that is to be overwritten waits in its own folder.
ASIDE = ".replaced"


def claim(recipe: Recipe, run: Path, source: str, *, resume: bool, overwrite: bool) -> None:
    """Make the run folder ours, or say why not; ``source`` is the recipe as the user named it, for messages.

    Raises:
        UsageError: it is not empty and neither to be resumed nor overwritten, is no run folder, or cannot be made.
        RecipeError: the run that is to be resumed was started with another recipe.
    """
    if run.exists() and not run.is_dir():
        raise UsageError(f"{run} is a file", hint="choose another --run folder")
    _put_back(run)
    atomic.recover(run / "checkpoints")
    occupied = run.is_dir() and any(path.name not in BEFORE_A_RECIPE for path in run.iterdir())
    if resume and not occupied:
        console.log(f"nothing to resume in {run}: starting")
    if occupied and overwrite:
        if not (run / "recipe.yaml").exists():
            raise UsageError(f"{run} is not a run folder: it has no recipe.yaml; nothing was removed")
        _set_aside(run)
    elif occupied and resume:
        _check_same(recipe, run)
    elif occupied:
        afresh = f"probtrans train {source} [KEY=VALUE]... --run {run} --overwrite"
        raise UsageError(
            f"{run} is not empty", hint=f"continue it:  probtrans train {run} --resume\nstart afresh: {afresh}"
        )
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{run}: cannot be made: {error.strerror}", hint="choose another --run folder") from None


def to_resume(run: Path) -> bool:
    """Whether there is a checkpoint to continue with.

    A link whose checkpoint is gone counts: that is an error to report, not a reason to begin again in silence.
    """
    return os.path.lexists(run / "checkpoints" / "last")


def begin(recipe: Recipe, run: Path, manifest: dict[str, Any]) -> None:
    """Write the resolved recipe with the command and the corpora in its header; ``manifest``: of the prepared data."""
    sources = [entry for entries in manifest["sources"].values() for entry in entries]
    header = [
        f"Resolved recipe of this run. Made by probtrans {__version__}, Python {sys.version.split()[0]}.",
        "Command: " + " ".join(["probtrans", *sys.argv[1:]]),
        *(f"Data: {entry['path']} sha256 {entry['sha256']}" for entry in sources),
    ]
    atomic.replace_text(run / "recipe.yaml", dump_recipe(recipe, header))


def forget_replaced(run: Path) -> None:
    """Remove the run that this one replaces, as this one has begun."""
    shutil.rmtree(run / ASIDE, ignore_errors=True)


def failed(run: Path, error: BaseException) -> None:
    """Note how the run ended, and put back what it was to replace if it has not begun."""
    code = 130 if isinstance(error, KeyboardInterrupt) else 1
    _write_exit(run, error.exit_code if isinstance(error, ProbtransError) else code, str(error) or type(error).__name__)
    if _put_back(run):
        console.log(f"{run}: what was there is kept")


def done(run: Path) -> None:
    """Note that the run came to its end."""
    _write_exit(run, 0, "done")


def _write_exit(run: Path, code: int, reason: str) -> None:
    atomic.replace_text(run / "exit.json", json.dumps({"exit": code, "reason": reason}) + "\n")


def _set_aside(run: Path) -> None:
    """Keep what is in a run folder until the run that is to replace it has begun: its data or model may have faults."""
    (run / ASIDE).mkdir()
    # The recipe first, and back again last: where it is tells after a kill which of the two runs is whole.
    for path in sorted(run.iterdir(), key=lambda path: path.name != "recipe.yaml"):
        if path.name != ASIDE:
            path.rename(run / ASIDE / path.name)


def _put_back(run: Path) -> bool:
    """Undo :func:`_set_aside` where the new run has not begun; whether there was something to put back."""
    aside = run / ASIDE
    if not aside.is_dir() or (run / "recipe.yaml").exists():
        shutil.rmtree(aside, ignore_errors=True)
        return False
    for path in sorted(aside.iterdir(), key=lambda path: path.name == "recipe.yaml"):
        if (run / path.name).is_dir():
            shutil.rmtree(run / path.name)
        path.rename(run / path.name)
    aside.rmdir()
    return True


def _check_same(recipe: Recipe, run: Path) -> None:
    """Refuse to resume a run with a recipe that computes something else."""
    path = run / "recipe.yaml"
    if not path.exists():
        return
    old, new = load_recipe(str(path)).resolved().model_dump(), recipe.model_dump()
    different = [name for name in new if name not in MAY_CHANGE and old[name] != new[name]]
    if different:
        raise RecipeError(
            f"{path}: the run was started with another {', '.join(different)}",
            hint=f"resume it as it is: probtrans train {run} --resume; or start another run with --run DIR",
        )
