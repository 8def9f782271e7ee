"""Two trainings and one folder: one of them trains, the other one is told who does."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from small_trainings import has_lines, until
from support import Ended, Forks, Invoke, refused, workplace

from probtrans_cli import checkpoint
from probtrans_cli.errors import StoppedError
from probtrans_cli.folders import lock
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.training.loop import Trainer
from probtrans_cli.training.watch import StopRequest

ENDLESS = ("train.epochs=1000000", "save.every_steps=1")


@pytest.fixture(scope="module")
def servers(forks: Forks) -> Iterator[list[Forks]]:
    second = Forks()
    yield [forks, second]
    second.close()


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    return [workplace(tmp_path / name) for name in ("first", "second")]


def updates(run: Path) -> list[int]:
    """The updates that metrics.jsonl tells of."""
    path = run / "metrics.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [line["step"] for line in found if line["split"] == "train"]


def stopped(server: Forks, process: int, place: Path, run: Path) -> Ended:
    """How a training ends that is stopped after some more updates."""
    before = len(updates(run))
    until(lambda: len(updates(run)) >= before + 3)
    os.kill(process, signal.SIGTERM)
    return server.wait(place)


def assert_whole(run: Path, seed: int) -> None:
    """Everything in the folder is of one training."""
    assert load_recipe(str(run)).seed == seed
    last = checkpoint.locate(f"{run}@last", training=True)
    assert (
        checkpoint.verify(last, training=True).json("training/state.json", dict[str, Any])["step"] == updates(run)[-1]
    )
    assert load_recipe(str(last / "recipe.yaml")).seed == seed
    assert updates(run) == list(range(1, len(updates(run)) + 1))
    assert json.loads((run / "exit.json").read_text("utf-8"))["exit"] == 75
    assert not lock.inside(run).exists()


@pytest.mark.slow
def test_of_two_trainings_at_once_one_goes_on(servers: list[Forks], places: list[Path]) -> None:
    run = places[0].parent / "runs/both"
    processes = []
    for number, (server, place) in enumerate(zip(servers, places, strict=True)):
        arguments = ["train", "tiny.yaml", *ENDLESS, f"seed={number + 5}", "--run", str(run)]
        processes.append(server.start(arguments, place))
    errors = [place / "stderr" for place in places]
    until(lambda: any(path.exists() and "is in use by" in path.read_text("utf-8") for path in errors))
    (loser,) = [number for number, path in enumerate(errors) if "is in use by" in path.read_text("utf-8")]
    winner = 1 - loser
    ended = servers[loser].wait(places[loser])
    assert ended.code == 2, ended.stderr
    assert f"{run} is in use by process {processes[winner]} on {socket.gethostname()}" in ended.stderr
    assert "--run DIR" in ended.stderr
    assert (ended.stdout, "Traceback" in ended.stderr) == ("", False)
    ended = stopped(servers[winner], processes[winner], places[winner], run)
    assert ended.code == 75, ended.stderr
    assert_whole(run, winner + 5)


def test_nothing_is_done_to_a_live_run(
    forks: Forks, places: list[Path], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = places[0].parent / "runs/live"
    process = forks.start(["train", "tiny.yaml", *ENDLESS, "--run", str(run)], places[0])
    until(lambda: has_lines(run, 3))
    monkeypatch.chdir(places[1])
    for option in ("--resume", "--overwrite"):
        refused(invoke("train", "tiny.yaml", *ENDLESS, "--run", str(run), option), 2, f"in use by process {process} on")
    assert stopped(forks, process, places[0], run).code == 75
    assert_whole(run, 3)


def test_a_killed_training_keeps_nobody_out(forks: Forks, places: list[Path]) -> None:
    run = places[0].parent / "runs/killed"
    arguments = ["train", "tiny.yaml", *ENDLESS, "--run", str(run)]
    process = forks.start(arguments, places[0])
    until(lambda: has_lines(run, 3))
    os.kill(process, signal.SIGKILL)
    assert forks.wait(places[0]).code == -signal.SIGKILL
    assert lock.inside(run).exists()
    process = forks.start([*arguments, "--resume"], places[0])
    assert stopped(forks, process, places[0], run).code == 75
    assert_whole(run, 3)


def test_a_signal_that_comes_while_processes_agree_is_not_lost() -> None:
    """It comes after the number of this update was read: nobody stops yet, and all do after the next one."""
    stop = StopRequest(lambda: None, several=True)

    def largest(asked: int, where: str) -> int:
        del where
        stop.handle(signal.SIGTERM, None)
        return asked

    trainer: Any = MagicMock(ranks=SimpleNamespace(largest=largest, again=str), state=SimpleNamespace(step=3))
    Trainer._leave_if(trainer, stop)
    with pytest.raises(StoppedError, match="stopped by SIGTERM"):
        Trainer._leave_if(trainer, stop)
