"""Resuming: whenever and however a training is killed, continuing it gives the bits of the unbroken run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import small_trainings
from small_trainings import has_lines, until
from support import COMMAND, Forks, environment, seeded, skip_if_ignored, workplace

from probtrans_cli import checkpoint

MANY = ("train.epochs=2", "save.every_steps=1", "eval.every_steps=5", "save.keep=2")
VARIANTS = {
    "plain": (*MANY, "optim.schedule={kind: plateau, patience: 1}"),
    "ema": (*MANY, "train.epochs=4", "optim.ema=0.9", "save.every_steps=2"),
    "accumulate": (
        "train.epochs=4", "train.accumulate=2", "save.every_steps=3", "optim.kind=adamw", "train.patience=4",
        "task.output=tied",
    ),
    "tagging": (
        *MANY,
        "task={kind: tagging, word_dropout: 1.0}",
        "data.vocabulary={kind: words, features: {rows: 100}}",
        "eval.every_steps=null",
    ),
    "bayes": (
        *MANY,
        "task={kind: tagging}",
        "model={kind: transformer, width: 8, heads: 2, inner: 8, layers: 1, bayes: {norms: true, kl_warmup: 0.5}}",
    ),
    "ivon": (*MANY, "task={kind: tagging}", "optim.kind=ivon"),
    "openie": (
        *MANY,
        "data={train: embedded:tuples/dev.jsonl, dev: embedded:tuples/dev.jsonl, format: extractions, "
        "select: {words: 9}}",
        "task={kind: openie, rows: 2, iterative_steps: 1, label_source: scheduled, word_dropout: 0.5}",
        "train.batch_sentences=8",
    ),
}  # fmt: skip

Whole = Callable[[str], tuple[Path, int]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workplace(tmp_path_factory.mktemp("resume"))


@pytest.fixture(scope="module")
def whole(folder: Path, forks: Forks) -> Whole:
    """Train a variant without a break, once; returns its run, and how many operations on files that took."""

    @cache
    def trained(variant: str) -> tuple[Path, int]:
        ended = forks.run(command(variant, f"whole-{variant}"), folder)
        assert ended.code == 0, ended.stderr
        return folder / f"runs/whole-{variant}", ended.operations

    return trained


def command(variant: str, run: str, *more: str) -> list[str]:
    return ["train", "tiny.yaml", *VARIANTS[variant], "--run", f"runs/{run}", *more]


def weights(run: Path) -> dict[str, bytes]:
    """Every tensor file of best and last."""
    found = {
        f"{link}/{path.relative_to(run / 'checkpoints' / link)}": path.read_bytes()
        for link in ("best", "last")
        for path in sorted((run / "checkpoints" / link).rglob("*.safetensors"))
    }
    assert {"best/model.safetensors", "last/training/optimizer.safetensors"} <= found.keys()
    return found


def metrics(run: Path) -> list[dict[str, Any]]:
    lines = small_trainings.metrics(run)
    return [{key: value for key, value in line.items() if key != "words_per_second"} for line in lines]


def state(run: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((run / "checkpoints/last/training/state.json").read_text("utf-8"))
    values.pop("seconds")
    return values


def assert_same(run: Path, whole: Path) -> None:
    """The two runs are equal to the bit."""
    assert weights(run) == weights(whole)
    assert metrics(run) == metrics(whole)
    assert state(run) == state(whole)
    names = [[(one / "checkpoints" / link).readlink() for link in ("best", "last")] for one in (run, whole)]
    assert names[0] == names[1]
    kept = [[path.name for _, path in checkpoint.steps(one / "checkpoints")] for one in (run, whole)]
    assert kept[0] == kept[1], "a checkpoint is left, or is missing"
    assert not list((run / "checkpoints").glob(".*")), "something half-written is left"
    for name in ("config.json", "eval.json", "labels.json", "vocabulary.json"):
        assert (run / "checkpoints/best" / name).read_bytes() == (whole / "checkpoints/best" / name).read_bytes()
    assert json.loads((run / "exit.json").read_text())["exit"] == 0


KILLS = [
    ("plain", 2, "files"),
    *(pytest.param(variant, 2, "files", marks=pytest.mark.slow) for variant in list(VARIANTS)[1:]),
    *(pytest.param(variant, 3, "calls", marks=pytest.mark.slow) for variant in ("openie",)),
    *(pytest.param(variant, 10, "calls", marks=pytest.mark.exhaustive) for variant in VARIANTS),
]


@pytest.mark.parametrize(("variant", "kills", "counted"), KILLS)
def test_kills_at_random_moments(
    variant: str, kills: int, counted: str, forks: Forks, folder: Path, whole: Whole
) -> None:
    """A moment is a number of operations on files, or of calls of functions (which takes three times as long), so it
    is the same on every machine."""
    choose = seeded(variant)
    unbroken, count = whole(variant)
    if counted == "calls":
        count = forks.run(command(variant, f"counted-{variant}"), folder, counted=counted).operations
    killed, rounds = 0, 0
    run = folder / f"runs/killed-{variant}-{kills}"
    while killed < kills:
        arguments = command(variant, run.name, *(["--resume"] if run.exists() else []))
        ended = forks.run(arguments, folder, die_at=choose.randint(count // 20, count * 3 // 5), counted=counted)
        if ended.code == -signal.SIGKILL:
            killed += 1
            continue
        assert ended.code == 0, ended.stderr  # it was done before that moment: check it, and begin another
        assert_same(run, unbroken)
        shutil.rmtree(run)
        rounds += 1
        assert rounds < 3 * kills, "the training is too short to be killed"
    ended = forks.run(command(variant, run.name, "--resume"), folder)
    assert ended.code == 0, ended.stderr
    assert_same(run, unbroken)


@pytest.mark.slow
def test_a_kill_at_every_operation_on_files(forks: Forks, folder: Path, whole: Whole) -> None:
    """Each attempt is killed one or a few file operations later than the one before: every place is met, also those
    inside the writing of a checkpoint, of links, and of the final scores."""
    run = folder / "runs/operations"
    kills, position = 0, 1
    while True:
        arguments = command("ema", run.name, *(["--resume"] if run.exists() else []))
        ended = forks.run(arguments, folder, die_at=position)
        if ended.code == 0:
            break
        assert ended.code == -signal.SIGKILL, ended.stderr
        kills += 1
        position += 1 + kills // 2
    assert kills >= 12
    assert_same(run, whole("ema")[0])


@pytest.mark.slow
def test_a_kill_in_the_final_phase(forks: Forks, folder: Path, whole: Whole) -> None:
    unbroken, _ = whole("plain")
    original = folder / "runs/final"
    shutil.copytree(unbroken, original, symlinks=True)
    arguments = command("plain", original.name, "--resume")
    ended = forks.run(arguments, folder)
    assert ended.code == 0, ended.stderr
    assert_same(original, unbroken)  # to resume what is done changes nothing
    for position in range(8, ended.operations, 9):
        assert forks.run(arguments, folder, die_at=position).code == -signal.SIGKILL
    assert forks.run(arguments, folder).code == 0
    assert_same(original, unbroken)


def test_a_kill_between_the_links_of_a_better_checkpoint(folder: Path, whole: Whole, forks: Forks) -> None:
    """`last` already names the new best checkpoint, `best` does not yet: resuming puts it right."""
    unbroken, _ = whole("plain")
    scores = [line["perplexity"] for line in metrics(unbroken) if line["split"] == "dev"]
    better = sum(score < min(scores[:number], default=1e9) for number, score in enumerate(scores))
    run = folder / "runs/links"
    ended = forks.run(command("plain", run.name), folder, die_at=better + 1, die_on=".best.partial")  # 1 for the first
    assert ended.code == -signal.SIGKILL
    assert (run / "checkpoints/last").readlink() == (unbroken / "checkpoints/best").readlink()
    assert (run / "checkpoints/best").readlink() != (unbroken / "checkpoints/best").readlink()
    assert forks.run(command("plain", run.name, "--resume"), folder).code == 0
    assert_same(run, unbroken)


MORE = ((signal.SIGUSR1, 75), (signal.SIGINT, 130), (signal.SIGHUP, 75), (signal.SIGQUIT, 75))
STOPS = [(signal.SIGTERM, 75), *(pytest.param(*stop, marks=pytest.mark.slow) for stop in MORE)]


@pytest.mark.parametrize(("number", "code"), STOPS, ids=lambda value: getattr(value, "name", None))
def test_a_signal_saves_and_stops(number: signal.Signals, code: int, forks: Forks, folder: Path, whole: Whole) -> None:
    skip_if_ignored(number)
    run = folder / f"runs/stopped-{number.name}"
    arguments = [*command("ema", run.name), "save.every_steps=null"]
    process = forks.start(arguments, folder)
    until(lambda: has_lines(run, 3))
    os.kill(process, number)
    ended = forks.wait(folder)
    assert ended.code == code, ended.stderr
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert f"probtrans train {run.relative_to(folder)} --resume" in ended.stderr
    assert json.loads((run / "exit.json").read_text())["exit"] == code
    assert state(run)["step"] >= 3
    ended = forks.run(["train", f"runs/{run.name}", "--resume"], folder)  # as the message says
    assert ended.code == 0, ended.stderr
    unbroken, _ = whole("ema")
    assert weights(run)["best/model.safetensors"] == weights(unbroken)["best/model.safetensors"]
    assert weights(run) == weights(unbroken)
    assert metrics(run) == metrics(unbroken)


def test_a_training_that_goes_on_does_not_say_that_it_was_interrupted(forks: Forks, folder: Path) -> None:
    run = folder / "runs/again"

    def killed(*options: str) -> None:
        ended = forks.run(command("plain", run.name, *options), folder, die_at=1, die_on=".best.partial")
        assert ended.code == -signal.SIGKILL, ended.stderr

    killed()
    for note, stays in ('{"exit": 75, "reason": "stopped by SIGTERM"}', False), ("somebody's own", True):
        (run / "exit.json").write_text(note, "utf-8")
        killed("--resume")
        assert (run / "exit.json").exists() is stays


def test_a_signal_in_the_final_phase(forks: Forks, folder: Path, whole: Whole) -> None:
    """The training is done and saved, the final scores are being computed: 75 too, and --resume ends it."""
    run = folder / "runs/late"
    arguments = [*command("plain", run.name), "task.eval_masks=200"]
    process = forks.start(arguments, folder)
    until(lambda: (run / "checkpoints/last").exists() and state(run)["finished"])
    os.kill(process, signal.SIGTERM)
    ended = forks.wait(folder)
    assert ended.code == 75, ended.stderr
    assert "--resume" in ended.stderr
    ended = forks.run([*arguments, "--resume"], folder)
    assert ended.code == 0, ended.stderr
    assert weights(run) == weights(whole("plain")[0])


@pytest.mark.exhaustive
def test_kills_of_the_command_itself(folder: Path, whole: Whole) -> None:
    """The same with whole processes instead of forks."""
    run = folder / "runs/process"
    for lines in (2, 9):
        arguments = command("accumulate", run.name, *(["--resume"] if run.exists() else []))
        with subprocess.Popen([*COMMAND, *arguments], cwd=folder, env=environment(), stderr=subprocess.DEVNULL) as one:
            until(lambda lines=lines: has_lines(run, lines))
            one.kill()
        assert one.returncode == -signal.SIGKILL
    arguments = command("accumulate", run.name, "--resume", "--json")
    done = subprocess.run([*COMMAND, *arguments], cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["test"]["perplexity"] > 1
    assert_same(run, whole("accumulate")[0])


def test_a_kill_during_the_last_save_leaves_no_checkpoint_too_many(forks: Forks, folder: Path, whole: Whole) -> None:
    run, (unbroken, _) = folder / "runs/last-save", whole("plain")
    saves = state(unbroken)["step"]  # one after each update
    renames = forks.run(command("plain", run.name), folder, die_on=".last.partial").operations
    assert renames == saves
    shutil.rmtree(run)
    ended = forks.run(command("plain", run.name), folder, die_at=saves, die_on=".last.partial")
    assert ended.code == -signal.SIGKILL
    (run / "checkpoints/last").unlink()
    (run / "checkpoints/last").symlink_to(f"step-{saves:06d}")  # as if the kill had come right after this link
    assert len(checkpoint.steps(run / "checkpoints")) > len(checkpoint.steps(unbroken / "checkpoints"))
    ended = forks.run(command("plain", run.name, "--resume"), folder)
    assert ended.code == 0, ended.stderr
    assert_same(run, unbroken)


# --- what a copy of a run loses ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped_early(forks: Forks, folder: Path) -> Path:
    """A run that was killed at its eighth save; do not change it."""
    ended = forks.run(command("plain", "stopped-early"), folder, die_at=8, die_on=".last.partial")
    assert ended.code == -signal.SIGKILL
    return folder / "runs/stopped-early"


def no_links(checkpoints: Path) -> None:
    """As `rsync --no-links` and object storage leave it."""
    for name in ("best", "last"):
        (checkpoints / name).unlink()


def dangling_last(checkpoints: Path) -> None:
    shutil.rmtree((checkpoints / "last").resolve())


def half_a_newest(checkpoints: Path) -> None:
    no_links(checkpoints)
    (checkpoint.steps(checkpoints)[-1][1] / "training/optimizer.safetensors").unlink()


def folders_for_links(checkpoints: Path) -> None:
    """As `cp -L` and zip leave it."""
    for name in ("best", "last"):
        original = (checkpoints / name).resolve()
        (checkpoints / name).unlink()
        shutil.copytree(original, checkpoints / name)


def folders_for_links_alone(checkpoints: Path) -> None:
    folders_for_links(checkpoints)
    for _, path in checkpoint.steps(checkpoints):
        shutil.rmtree(path)


LOSSES = (half_a_newest, folders_for_links, no_links, dangling_last, folders_for_links_alone)


SLOWER = [pytest.param(lose, marks=pytest.mark.slow) for lose in LOSSES[2:]]


@pytest.mark.parametrize("lose", [*LOSSES[:2], *SLOWER], ids=lambda lose: lose.__name__)
def test_resuming_a_copy_that_lost_its_links(
    lose: Callable[[Path], None], forks: Forks, folder: Path, whole: Whole, stopped_early: Path
) -> None:
    """It goes on from the newest complete checkpoint, says so, and ends like the unbroken run."""
    run = folder / f"runs/copy-{lose.__name__}"
    shutil.copytree(stopped_early, run, symlinks=True)
    lose(run / "checkpoints")
    newest = checkpoint.steps(run / "checkpoints")[-1][0] if "folders" not in lose.__name__ else None
    ended = forks.run(command("plain", run.name, "--resume"), folder)
    assert ended.code == 0, ended.stderr
    if newest is not None:
        taken = newest - (lose is half_a_newest)
        assert f"checkpoints/last: {'points at' if lose is dangling_last else 'no such link'}" in ended.stderr
        assert f"taking step-{taken:06d}, the newest complete checkpoint" in ended.stderr
        assert f"resuming runs/{run.name} after step {taken}" in ended.stderr
    assert "gone" not in ended.stderr or lose is dangling_last
    assert_same(run, whole("plain")[0])


def test_resuming_where_no_checkpoint_is_complete_is_refused(forks: Forks, folder: Path, stopped_early: Path) -> None:
    run = folder / "runs/incomplete"
    shutil.copytree(stopped_early, run, symlinks=True)
    no_links(run / "checkpoints")
    for _, path in checkpoint.steps(run / "checkpoints"):
        (path / "training/state.json").unlink()
    before = sorted((run / "checkpoints").glob("step-*/**/*"))
    ended = forks.run(command("plain", run.name, "--resume"), folder)
    assert ended.code == 4, ended.stderr
    assert "no complete checkpoint: step-" in ended.stderr
    assert "lacks training/state.json" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert sorted((run / "checkpoints").glob("step-*/**/*")) == before


@pytest.mark.slow
def test_a_run_whose_checkpoints_are_all_gone_is_not_begun_again_in_silence(
    forks: Forks, folder: Path, whole: Whole
) -> None:
    run = folder / "runs/gone"
    shutil.copytree(whole("plain")[0], run, symlinks=True)
    for _, path in checkpoint.steps(run / "checkpoints"):
        shutil.rmtree(path)
    ended = forks.run(command("plain", run.name, "--resume"), folder)
    assert ended.code == 4, ended.stderr
    assert "no checkpoint" in ended.stderr
    shutil.rmtree(run / "checkpoints")
    for name in ("gone", "fresh"):  # where nothing was ever begun, --resume begins
        ended = forks.run(command("plain", name, "--resume"), folder)
        assert ended.code == 0, ended.stderr
        assert ("has no checkpoint yet: starting from the beginning" in ended.stderr) == (name == "gone")
        assert_same(folder / "runs" / name, whole("plain")[0])
