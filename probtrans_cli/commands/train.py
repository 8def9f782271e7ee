"""The verb `train`: run folders, repeated seeds, and the report at the end. The loop itself is in ``engine.py``."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from probtrans_cli import __version__, checkpoint, console
from probtrans_cli.data.corpus.gold import label_warnings
from probtrans_cli.errors import CheckpointError, ProbtransError, RecipeError, UsageError
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import dump_recipe, load_recipe
from probtrans_cli.reports.scores import over_seeds

# Sections that may differ when a run is resumed: they do not change what is computed.
MAY_CHANGE = {"log", "save", "runtime"}
# What a run folder holds when the training failed at its data or its model, before the recipe was written.
BEFORE_A_RECIPE = {"log.txt", "exit.json", "metrics.jsonl"}
# Where a run that is to be overwritten waits in its own folder.
ASIDE = ".replaced"


def train(
    source: str,
    overrides: Sequence[str],
    *,
    run: Path | None,
    resume: bool,
    overwrite: bool,
    seeds: Sequence[int] | None,
    dry_run: bool,
) -> dict[str, Any]:
    """Train one run, or one for each of ``seeds``, and return the final scores (with mean and s.d. over seeds)."""
    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other", hint="give one of them")
    recipe = load_recipe(source, overrides).resolved()
    if run is None:
        given = Path(source)
        run = given if given.is_dir() and (given / "recipe.yaml").exists() else Path("runs") / recipe.name
    if seeds is None:
        return train_one(recipe, run, source, resume=resume, overwrite=overwrite, dry_run=dry_run)
    if len(set(seeds)) != len(seeds):
        raise UsageError(f"--seeds names a seed twice: {','.join(map(str, seeds))}")
    runs = []
    for seed in seeds:
        console.log(f"seed {seed} of {','.join(map(str, seeds))}")
        folder = run.with_name(f"{run.name}-seed{seed}")
        one = recipe.model_copy(update={"seed": seed})
        runs.append(train_one(one, folder, source, resume=resume, overwrite=overwrite, dry_run=dry_run))
    return {"name": recipe.name, "seeds": list(seeds), **({} if dry_run else over_seeds(runs)), "runs": runs}


def train_one(
    recipe: Recipe, run: Path, source: str, *, resume: bool, overwrite: bool, dry_run: bool
) -> dict[str, Any]:
    """Train one run folder; returns ``{"name", "run", "seed", "step", "dev": {...}, "test": {...}}``, also "extra"."""
    from probtrans_cli.data.corpus.prepared import prepare  # noqa: PLC0415

    _require_origin(recipe)
    if dry_run:
        return _dry_run(recipe, run, prepare(recipe))
    _claim(recipe, run, source, resume=resume, overwrite=overwrite)
    console.STATE.open_log(run / "log.txt")
    try:
        prepared = prepare(recipe)
        console.log(f"{'prepared' if prepared.fresh else 'up to date'}: {prepared.folder}")
        for note in prepared.manifest.get("notes", []):
            console.log(note)
        from probtrans_cli.training.loop import Trainer  # noqa: PLC0415

        # A link whose checkpoint is gone is an error of Trainer's, not a reason to begin again in silence.
        begin = not (resume and os.path.lexists(run / "checkpoints" / "last"))
        trainer = Trainer(recipe, prepared, run, resume=not begin)
        if begin:
            _write_recipe(recipe, run, prepared.manifest)
        shutil.rmtree(run / ASIDE, ignore_errors=True)
        scores = trainer.train()
        for warning in label_warnings(recipe.task, prepared.labels, prepared.splits, prepared.manifest):
            console.log(warning)
    except BaseException as error:
        code = (
            error.exit_code if isinstance(error, ProbtransError) else 130 if isinstance(error, KeyboardInterrupt) else 1
        )
        _write_exit(run, code, str(error) or type(error).__name__)
        if _put_back(run):
            console.log(f"{run}: what was there is kept")
        raise
    finally:
        console.STATE.close_log()
    result = {
        "name": recipe.name, "run": str(run), "seed": recipe.seed, "step": trainer.model.step,
        "seconds": round(trainer.state.seconds, 1), **scores,
    }  # fmt: skip
    _write_exit(run, 0, "done")
    return result


def _require_origin(recipe: Recipe) -> None:
    """Refuse what is not there to start from before corpora are prepared."""
    name = recipe.model.init_from
    if name is not None and not Path(name).exists() and not Path(name.rpartition("@")[0] or name).exists():
        hint = "give a run folder such as runs/NAME, a checkpoint, or a folder with a BERT model of transformers'"
        raise CheckpointError(f"model.init_from: there is no {name}", hint=hint)


def _claim(recipe: Recipe, run: Path, source: str, *, resume: bool, overwrite: bool) -> None:
    """Make the run folder ours, or say why not."""
    if run.exists() and not run.is_dir():
        raise UsageError(f"{run} is a file", hint="choose another --run folder")
    _put_back(run)
    checkpoint.recover(run / "checkpoints")
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


def _write_recipe(recipe: Recipe, run: Path, manifest: dict[str, Any]) -> None:
    sources = [entry for entries in manifest["sources"].values() for entry in entries]
    header = [
        f"Resolved recipe of this run. Made by probtrans {__version__}, Python {sys.version.split()[0]}.",
        "Command: " + " ".join(["probtrans", *sys.argv[1:]]),
        *(f"Data: {entry['path']} sha256 {entry['sha256']}" for entry in sources),
    ]
    checkpoint.replace_text(run / "recipe.yaml", dump_recipe(recipe, header))


def _write_exit(run: Path, code: int, reason: str) -> None:
    (run / "exit.json").write_text(json.dumps({"exit": code, "reason": reason}) + "\n", encoding="utf-8")


def _dry_run(recipe: Recipe, run: Path, prepared: Any) -> dict[str, Any]:
    """Build the model and do one update on the widest batch, without writing a run."""
    import tempfile  # noqa: PLC0415

    from probtrans_cli.training.loop import Trainer  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        seconds = Trainer(recipe, prepared, Path(folder), resume=False).rehearse()
    return {
        "name": recipe.name, "run": str(run), "seed": recipe.seed, "dry_run": True,
        "seconds_per_epoch": round(seconds, 1), "estimated_seconds": round(seconds * recipe.train.epochs, 1),
    }  # fmt: skip
