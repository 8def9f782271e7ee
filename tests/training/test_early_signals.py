"""A signal to a command that prepares a corpus, or that is about to train: 75, one message, and it goes on."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from small_trainings import customize, until
from support import COMMAND, Forks, environment, skip_if_ignored, workplace

from probtrans_cli.__main__ import send_again
from probtrans_cli.commands import prepare, train
from probtrans_cli.errors import StoppedError
from probtrans_cli.folders import lock
from probtrans_cli.recipe import reference
from probtrans_cli.training.watch import stopped_at_once

SIGNAL_AT_A_START = """
import os, signal, subprocess
if "RANK" in os.environ:
    import time
    time.sleep(100)
else:
    import torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler as handler
    begin = handler.SubprocessHandler._popen
    def begun(*arguments):
        process = begin(*arguments)
        os.kill(os.getpid(), signal.SIGTERM)
        return process
    handler.SubprocessHandler._popen = begun
"""

SLOW = """
import os, sys, time
from pathlib import Path
def wait(*_):
    Path("reached").touch()
    for _ in range(600):
        time.sleep(0.1)
if "{where}" == "ranks":
    if "RANK" in os.environ:
        wait()
else:
    from probtrans_cli.data.corpus import prepared
    prepared.{where} = wait
"""
CHANGES = ("train.epochs=1", "train.accumulate=2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return workplace(tmp_path)


def stopped(folder: Path, where: str, *arguments: str, number: int = signal.SIGTERM) -> tuple[int, str]:
    """Send a signal to a command where it waits; its exit code, and the only thing that it says but for its log."""
    skip_if_ignored(number)
    customized = customize(folder, SLOW.format(where=where))
    with subprocess.Popen(
        [*COMMAND, "-q", *arguments], cwd=folder, env=environment(**customized), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        until((folder / "reached").exists, process)
        process.send_signal(number)
        out, err = process.communicate(timeout=180)  # the launcher of torch waits for its processes
    assert out == ""
    return process.returncode, err


@pytest.mark.parametrize("command", ["train", "prepare"])
def test_signals_raise_nothing_before_the_schema_of_recipes_is_made(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pydantic would take what they raise for a fault of its own, and go on."""
    module = importlib.import_module(f"probtrans_cli.commands.{command}")

    def stopped_at_once(*_: str, several: bool = False) -> NoReturn:
        del several
        assert reference.root.cache_info().currsize == 1
        raise StoppedError("here")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(module, "stopped_at_once", stopped_at_once)
    reference.root.cache_clear()
    request = {"train": train.TrainRequest, "prepare": prepare.PrepareRequest}[command]
    with pytest.raises(StoppedError, match="here"):
        getattr(module, command)(request("tiny.yaml"))


@pytest.mark.parametrize(("number", "error"), [(signal.SIGHUP, StoppedError), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_while_a_generator_is_destroyed_is_sent_again(
    number: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python drops what its handler raises there."""

    def numbers() -> Iterator[int]:
        try:
            yield 1
        finally:
            os.kill(os.getpid(), number)

    def stopped() -> None:
        with stopped_at_once("here", "again"):
            next(numbers())  # and destroyed
            time.sleep(20.0)

    skip_if_ignored(number)
    monkeypatch.setattr(sys, "unraisablehook", send_again)
    with pytest.raises(error):
        stopped()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["find_sources", pytest.param("encode_all", marks=pytest.mark.exhaustive)])
def test_a_prepare(where: str, folder: Path, forks: Forks) -> None:
    code, err = stopped(folder, where, "prepare", "tiny.yaml")
    assert (code, err) == (75, "error: stopped by SIGTERM while preparing\n  -> the same command goes on\n")
    assert not list((folder / "prepared").glob(".*.lock"))
    assert forks.run(["prepare", "tiny.yaml"], folder).code == 0


def training(folder: Path, forks: Forks, where: str, *options: str, number: int = signal.SIGTERM) -> None:
    """A training that is stopped before its first update, and goes on, in one process."""
    arguments = ["train", "tiny.yaml", *CHANGES]
    code, err = stopped(folder, where, *arguments, *options, number=number)
    name = signal.Signals(number).name
    message = f"stopped by {name} while preparing, or at the very end"
    assert (code, err) == (75, f"error: {message}\n  -> continue with the same command and --resume\n")
    if where != "ranks":
        assert json.loads((folder / "runs/tiny/exit.json").read_text("utf-8")) == {"exit": 75, "reason": message}
        assert not lock.inside(folder / "runs/tiny").exists()
    done = forks.run([*arguments, "--resume"], folder)
    assert done.code == 0, done.stderr
    assert json.loads((folder / "runs/tiny/exit.json").read_text("utf-8"))["exit"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.exhaustive)])
@pytest.mark.slow
def test_a_training_of_one_process(number: int, folder: Path, forks: Forks) -> None:
    training(folder, forks, "encode_all", number=number)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["ranks", pytest.param("encode_all", marks=pytest.mark.exhaustive)])
def test_a_training_of_two_processes(where: str, folder: Path, forks: Forks) -> None:
    """While the first one prepares, and before there is one that could tell."""
    training(folder, forks, where, "--nproc", "2")


@pytest.mark.slow
def test_a_process_that_is_just_being_started_is_ended(folder: Path) -> None:
    """The launcher of torch does not know it yet: it would go on, and nobody who reads the streams would see an end."""
    customized = environment(**customize(folder, SIGNAL_AT_A_START))
    command = [*COMMAND, "-q", "train", "tiny.yaml", *CHANGES, "--nproc", "2"]
    ended = subprocess.run(command, cwd=folder, env=customized, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 75
    assert ended.stderr.startswith("error: stopped by SIGTERM while preparing")
