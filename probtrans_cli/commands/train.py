"""The verb `train`: one run, or one for each of several seeds. The loop itself is in ``training/loop.py``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from probtrans_cli import console
from probtrans_cli.commands.fetch import fetch_missing
from probtrans_cli.commands.launch import AT_NO_UPDATE, GO_ON, launch, processes
from probtrans_cli.data.processes import Ranks
from probtrans_cli.errors import CheckpointError, DataError, ProbtransError, UsageError, of_the_system, reason
from probtrans_cli.folders import find_folder
from probtrans_cli.folders.checkpoints import installed
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import dump_recipe, get_ready, load_recipe
from probtrans_cli.reports.pages import NAME as REPORT
from probtrans_cli.reports.pages import write_report
from probtrans_cli.reports.scores import flattened, over_seeds, training_report
from probtrans_cli.text import printable
from probtrans_cli.training import run_folder
from probtrans_cli.training.watch import launched, stopped_at_once
from probtrans_cli.version import __version__

if TYPE_CHECKING:
    from probtrans_cli.training.loop import Trainer

__all__ = ["TrainRequest", "resolved", "seeds_of", "train", "training_report"]


@dataclass(frozen=True)
class TrainRequest:
    """The arguments of `train`."""

    recipe: str
    """A file, a shipped recipe's name, a run folder, or ``-``."""
    overrides: Sequence[str] = ()
    """``KEY=VALUE``, in order."""
    init_from: str | None = None
    """The weights to start with; the same as a last override ``model.init_from=...``."""
    run: Path | None = None
    """The run folder; None: the recipe's own where it is that of a run, else ``runs/NAME``."""
    resume: bool = False
    overwrite: bool = False
    seeds: Sequence[int] | None = None
    """One run each, in folders that end in ``-seedN``."""
    dry_run: bool = False
    """Prepare, build, do a few updates, write no run."""
    fetch: bool = False
    """Fetch missing public corpora first, without a question."""
    nproc: int | None = None
    """How many processes to start for it on this machine; None: this one, which may be one of several already."""

    def load(self) -> Recipe:
        origin = [] if self.init_from is None else [f"model.init_from={json.dumps(self.init_from)}"]
        return load_recipe(self.recipe, [*self.overrides, *origin]).resolved()


def arguments_of(request: TrainRequest) -> list[str]:
    levels = {console.QUIET: ["-q"], console.VERBOSE: ["-v"]}
    arguments = [*levels.get(console.STATE.level, []), "train", request.recipe, *request.overrides, "--json"]
    for name, value in (("--run", request.run), ("--init-from", request.init_from)):
        arguments += [] if value is None else [name, str(value)]
    if request.seeds is not None:
        arguments += ["--seeds", ",".join(map(str, request.seeds))]
    flags = {"--resume": request.resume, "--overwrite": request.overwrite, "--dry-run": request.dry_run}
    return [*arguments, *(name for name, value in flags.items() if value)]


def resolved(request: TrainRequest) -> str:
    header = [f"Resolved from {request.recipe} by probtrans {__version__}"]
    return dump_recipe(request.load(), header, complete=False)


def seeds_of(text: str | None) -> list[int] | None:
    """Return the seeds of a text such as ``0,1,2``."""
    if text is None:
        return None
    parts = [part.strip(" ") for part in text.split(",")]
    seeds = [int(part) for part in parts if re.fullmatch(r"[0-9]{1,10}", part)]
    if len(seeds) < len(parts) or max(seeds) >= 2**31:
        hint = "write --seeds 0,1,2: whole numbers from 0 to 2147483647"
        raise UsageError(f"--seeds {text!r} is not a list of seeds", hint=hint)
    return seeds


def train(request: TrainRequest) -> dict[str, Any]:
    """Train one run, or one for each seed, and return the final scores (with mean and s.d. over seeds).

    Raises:
        StoppedError: a signal such as SIGTERM came; if updates were being done, their state is saved.
    """
    get_ready()
    if "RANK" not in os.environ or request.fetch:  # who started several processes is asked once, or not at all
        fetch_missing(request.recipe, request.overrides, ask=not request.fetch)
    if request.nproc is not None and request.nproc > 1:
        if launched() is not None:
            raise UsageError("--nproc within several processes that a launcher has started", hint="leave --nproc out")
        with stopped_at_once(AT_NO_UPDATE, GO_ON):
            recipe, _ = _recipe_and_folders(request, request.nproc)
            return launch(arguments_of(request), request.nproc, recipe.runtime)
    # Within the processes: until they have found each other, a signal ends each of them as it ends any other program.
    with processes() as ranks, stopped_at_once(AT_NO_UPDATE, GO_ON, several=ranks.world > 1):
        if ranks.attempt > 0:  # a launcher has started all processes anew
            request = replace(request, resume=True, overwrite=False)
        return _train(request, ranks)


def folder_of(request: TrainRequest, recipe: Recipe) -> Path:
    if request.run is not None:
        return request.run
    is_run = (Path(request.recipe) / "recipe.yaml").exists()
    return Path(request.recipe) if is_run else Path("runs") / recipe.name


def _recipe_and_folders(request: TrainRequest, world: int) -> tuple[Recipe, list[Path]]:
    if request.resume and request.overwrite:
        raise UsageError("--resume and --overwrite exclude each other", hint="give one of them")
    if request.resume and run_folder.has_not_begun(Path(request.recipe)):
        message = (
            f"{printable(request.recipe, 200)}: the training ended before its recipe was written: nothing to resume"
        )
        hint = f"start it again with its recipe: probtrans train RECIPE [KEY=VALUE]... --run {request.recipe} --resume"
        raise UsageError(message, hint=printable(hint, 400))
    if request.recipe == "-" and world > 1:
        raise UsageError("several processes cannot read one recipe from stdin", hint="give a file")
    recipe = request.load()
    section = recipe.train
    if section.accumulate < world:  # processes that would never have a batch: a recipe alone says what an update is
        fewer = "start one" if section.accumulate == 1 else f"start {section.accumulate} or fewer"
        words = max(1, section.batch_words * section.accumulate // world)
        raise UsageError(
            f"{world} processes share the batches of an update, and train.accumulate is {section.accumulate}",
            hint=f"train.accumulate={world} train.batch_words={words} makes updates as large as they are now, in "
            f"{world} batches; a run that has begun keeps its own: {fewer}",
        )
    run = folder_of(request, recipe)
    if request.seeds is None:
        return recipe, [run]
    if len(set(request.seeds)) != len(request.seeds):
        raise UsageError(f"--seeds names a seed twice: {','.join(map(str, request.seeds))}")
    return recipe, [run.with_name(f"{run.name}-seed{seed}") for seed in request.seeds]


def _train(request: TrainRequest, ranks: Ranks) -> dict[str, Any]:
    recipe, folders = _recipe_and_folders(request, ranks.world)
    if request.seeds is None:
        return _train_one(request, recipe, folders[0], ranks)
    runs = []
    for seed, folder in zip(request.seeds, folders, strict=True):
        console.log(f"seed {seed} of {','.join(map(str, request.seeds))}")
        runs.append(_train_one(request, recipe.model_copy(update={"seed": seed}), folder, ranks))
    over = {} if request.dry_run else over_seeds(runs)
    return {"name": recipe.name, "seeds": list(request.seeds), **over, "runs": runs}


def _train_one(request: TrainRequest, recipe: Recipe, run: Path, ranks: Ranks) -> dict[str, Any]:
    # What is not there is missed before corpora are prepared, which takes no torch.
    if (name := recipe.model.init_from) is not None and (request.dry_run or not request.resume):
        folder = find_folder(name)
        there = folder.exists() or Path(str(folder).rpartition("@")[0] or folder).exists()
        if not there and installed(name) is None:
            hint = "give a run folder such as runs/NAME, a checkpoint, or a folder with a BERT model of transformers'"
            raise CheckpointError(f"model.init_from: there is no {name}", hint=hint)
    if recipe.runtime.device == "cuda":
        from probtrans_cli.trained.machine import require_device  # noqa: PLC0415

        require_device(recipe.runtime)
    if request.dry_run:
        from probtrans_cli.data.corpus.prepared import prepare  # noqa: PLC0415

        prepared = prepare(recipe)
        from probtrans_cli.training.loop import Trainer  # noqa: PLC0415
        from probtrans_cli.training.update import shapes_reported  # noqa: PLC0415

        ranks.start(recipe.runtime)
        with TemporaryDirectory() as place:
            trainer = Trainer(recipe, prepared, Path(place), resume=False, ranks=ranks)
            with shapes_reported(trainer.network):
                seconds = trainer.rehearse()
            passes = trainer.plan.passes(len(trainer.plan.batches(0)))
        return {
            "name": recipe.name, "run": str(run), "seed": recipe.seed, "dry_run": True,
            "seconds_per_epoch": round(seconds, 1), "estimated_seconds": round(seconds * passes, 1),
        }  # fmt: skip
    if not ranks.first:
        from probtrans_cli.data.corpus.prepared import prepare  # noqa: PLC0415
        from probtrans_cli.training.loop import Trainer  # noqa: PLC0415

        ranks.of_run(str(run), lambda _: None)
        resume = ranks.wait_for_first(f"{run} ready") == "resume"
        prepared = prepare(recipe, again=run_folder.corpus_of(run) if resume else None)
        ranks.start(recipe.runtime)
        trainer = Trainer(recipe, prepared, run, resume=resume, ranks=ranks)
        return _result(run, trainer, trainer.train())
    with run_folder.claimed(recipe, run, request.recipe, resume=request.resume, overwrite=request.overwrite):
        return _train_in(request, recipe, run, ranks)


def _train_in(request: TrainRequest, recipe: Recipe, run: Path, ranks: Ranks) -> dict[str, Any]:
    from probtrans_cli.data.corpus.prepared import prepare  # noqa: PLC0415
    from probtrans_cli.data.corpus.tally import label_warnings  # noqa: PLC0415

    console.STATE.open_log(run / "log.txt")
    began = False
    ranks.of_run(str(run), lambda error: _end_of_run(run, recipe, error))
    try:
        resume = request.resume and run_folder.to_resume(run)
        prepared = prepare(recipe, again=run_folder.corpus_of(run) if resume else None)
        console.log(f"{'prepared' if prepared.fresh else 'up to date'}: {prepared.folder}")
        for note in prepared.manifest.get("notes", []):
            console.log(note)
        from probtrans_cli.training.loop import Trainer  # noqa: PLC0415

        ranks.done(f"{run} ready", "resume" if resume else "")
        ranks.start(recipe.runtime)
        trainer = Trainer(recipe, prepared, run, resume=resume, ranks=ranks)
        if not resume:
            run_folder.begin(recipe, run, prepared.manifest)
        run_folder.forget_replaced(run)
        began = True
        scores = trainer.train()
        trainer.metrics.final({split: flattened(of_split) for split, of_split in scores.items()}, trainer.model.step)
        for warning in label_warnings(recipe.task, prepared.labels, prepared.splits, prepared.manifest):
            console.log(warning)
    except OSError as error:
        ranks.claim()
        fault = of_the_system(error)
        _note_failure(run, fault or error)
        if fault is None:
            raise
        raise fault from None
    except BaseException as error:
        ranks.claim()
        _note_failure(run, error)
        raise
    else:
        run_folder.write_exit(run)
    finally:
        if began:
            _report(run, recipe)
        console.STATE.close_log()
    return _result(run, trainer, scores)


def _result(run: Path, trainer: Trainer, scores: dict[str, Any]) -> dict[str, Any]:
    recipe = trainer.recipe
    return {
        "name": recipe.name, "task": recipe.task.kind, "run": str(run), "seed": recipe.seed,
        "step": trainer.model.step, "seconds": round(trainer.state.seconds, 1), **scores,
    }  # fmt: skip


def _end_of_run(run: Path, recipe: Recipe, error: ProbtransError) -> None:
    with suppress(OSError, DataError):
        console.STATE.repeat(f"error: {error.message}")
    _note_failure(run, error)
    if (run / "recipe.yaml").exists():
        _report(run, recipe)


def _note_failure(run: Path, error: BaseException) -> None:
    with suppress(OSError, DataError):
        run_folder.failed(run, error)


def _report(run: Path, recipe: Recipe) -> None:
    try:
        write_report(run, recipe)
    except Exception as error:  # whatever it is, a page to look at must not cost a training its end
        fault = reason(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        console.log(f"no {REPORT} in {run}: {fault}")
