"""What ends several processes ends all of them, with one message: a kill, a hang, a lack of memory, a signal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from several_processes import Held, place, ranks
from small_trainings import customize, has_lines, until
from support import COMMAND, environment
from test_resume import state

pytestmark = pytest.mark.slow
LONG = ("train.epochs=500", "save.every_steps=10", "save.keep=2", "eval.every_epochs=100", "log.every_steps=1")
SOON = 30.0  # seconds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return place(tmp_path_factory.mktemp("lost"))


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    stderr: str
    seconds: float


class Job:
    """A command that runs several processes, or one of several."""

    def __init__(self, command: list[str], folder: Path, run: str, **more: str) -> None:
        self.folder, self.run = folder, folder / "runs" / run
        self.log = folder / f"{run}.stderr"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment(**more), stdout=subprocess.DEVNULL, stderr=log
            )

    def after(self, lines: int) -> None:
        """Wait until the run has so many lines of metrics."""
        until(lambda: has_lines(self.run, lines), self.process, self.log)

    def rank(self, number: int) -> int:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                given = (path / "environ").read_bytes().split(b"\0")
            except (OSError, ValueError):
                continue
            if parent == self.process.pid and f"RANK={number}".encode() in given:
                return int(path.name)
        raise AssertionError(f"there is no rank {number}")

    def end(self) -> Ended:
        began = time.monotonic()
        code = self.process.wait(timeout=120)
        return Ended(code, self.log.read_text("utf-8"), time.monotonic() - began)


def several(folder: Path, run: str, nproc: int, *more: str, **variables: str) -> Job:
    """`probtrans train --nproc N`."""
    options = ["--run", f"runs/{run}", "--nproc", str(nproc)]
    return Job([*COMMAND, "-q", "train", "tiny.yaml", *LONG, *more, *options], folder, run, **variables)


def one_message(ended: Ended) -> str:
    """The only thing that was said, without its hint."""
    lines = [line for line in ended.stderr.splitlines() if not line.startswith("  ->")]
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


def test_a_process_that_is_killed_is_named(folder: Path) -> None:
    job = several(folder, "killed", 2)
    job.after(lines=25)
    os.kill(job.rank(1), signal.SIGKILL)
    ended = job.end()
    assert ended.seconds < SOON
    assert ended.code == 8
    assert "rank 1 of 2 (process " in one_message(ended)
    assert int(state(job.run)["step"]) >= 10  # restarts of torchrun, below, go on from there


def test_a_signal_to_the_launcher_saves_once(folder: Path) -> None:
    """What goes on from there has the same bits: see the jobs of Slurm, and the trainings that are stopped."""
    held = Held(folder)
    job = several(folder, "stopped", 2, "save.every_steps=null", **held.environment)
    held.wait(2, job.process, job.log)
    job.process.terminate()
    ended = job.end()
    assert ended.code == 75, ended.stderr
    assert "stopped by SIGTERM; saved step" in one_message(ended)
    assert "  -> continue with: probtrans train runs/stopped --resume --nproc 2" in ended.stderr
    assert json.loads((job.run / "exit.json").read_text("utf-8"))["exit"] == 75
    assert int(state(job.run)["step"]) >= 5


def test_a_process_that_stands_still_is_named_after_the_timeout(folder: Path) -> None:
    job = several(folder, "still", 2, "runtime.timeout=3")
    job.after(lines=5)
    os.kill(job.rank(1), signal.SIGSTOP)
    ended = job.end()
    assert ended.code == 8
    assert "rank 1 of 2 (process " in one_message(ended)


HANGS = """
import sys, time
from probtrans_cli.training.loop import Trainer
def fault(batch):
    {what}
batch = Trainer._batch
def _batch(self, *arguments):
    if self.ranks.rank == 1 and self.state.step == 3:
        self.model.task.training = fault
    return batch(self, *arguments)
Trainer._batch = _batch
from probtrans_cli.__main__ import main
main(sys.argv[1:])
"""


@contextmanager
def by_hand(folder: Path, run: str, what: str, *more: str) -> Iterator[list[Job]]:
    """Two processes as a scheduler starts them; the second one does something else in its third update."""
    command = [sys.executable, "-c", HANGS.format(what=what), "train", "tiny.yaml", *LONG, *more]
    jobs = []
    for number, given in enumerate(ranks(2)):
        job = Job([*command, "--run", f"runs/{run}"], folder, f"{run}-{number}", **given)
        job.run = folder / "runs" / run
        jobs.append(job)
    yield jobs
    for job in jobs:
        job.process.kill()


HANG = r"waited \d+ s for rank 1 of 2 \(process .*\), which is at: the batches of update 4"


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        ("time.sleep(1000)", 8, HANG),
        ("raise MemoryError", 6, "rank 1 of 2: out of memory with a batch of "),
        ("from probtrans_cli.errors import DataError; raise DataError('no such tag')", 3, "rank 1 of 2: no such tag"),
    ],
)
def test_a_hang_or_an_error_in_one_process_is_told_once(fault: str, code: int, message: str, folder: Path) -> None:
    with by_hand(folder, f"error-{code}", fault, *(["runtime.timeout=3"] if code == 8 else [])) as jobs:
        first, second = (job.end() for job in jobs)
    assert (first.code, second.code) == (code, code)
    errors = [line for line in (first.stderr + second.stderr).splitlines() if line.startswith("error")]
    assert len(errors) == 1
    assert re.search(message, errors[0])
    assert json.loads((jobs[0].run / "exit.json").read_text("utf-8"))["exit"] == code


SLOW_TO_SPEAK = """
import os, time
from probtrans_cli.training.watch import Watch
publish = Watch._publish
def slowly(self, fault, listeners):
    publish(self, fault, listeners)
    time.sleep(1.0)
Watch._publish = slowly
"""


def test_what_all_processes_find_the_first_one_tells(folder: Path) -> None:
    """Even a slow one: the others end after it, as the launcher ends all processes once one ends."""
    customized = customize(folder, SLOW_TO_SPEAK)
    ended = several(folder, "slowly", 2, "data.train=nowhere.conllu", **customized).end()
    assert ended.code == 3
    assert "nowhere.conllu" in one_message(ended)
    for nproc, change, words in ((8, "log.every_steps=1", "train.accumulate is 4"), (1, "train.every=3", "every")):
        ended = several(folder, f"refused-{nproc}", nproc, change).end()  # one process is no launch
        assert ended.code == 2
        assert words in one_message(ended)


LATE = """
import sys, time
import torch
import torch.distributed as dist
from probtrans_cli import __main__ as program
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(3.0)
def exchange(arguments):
    dist.init_process_group("gloo")
    if dist.get_rank():
        program.slow = Slow()
        dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda done: done.value()[0])
    else:
        time.sleep(1.5)
        dist.all_reduce(torch.ones(3))
        time.sleep(3.0)
    return 0
program.run = exchange
program.main()
"""


def test_a_late_answer_of_another_process_aborts_nothing(folder: Path) -> None:
    """One that comes while Python ends: a thread of torch would call Python then."""
    jobs = [
        Job([sys.executable, "-c", LATE], folder, f"late-{number}", **given) for number, given in enumerate(ranks(2))
    ]
    assert jobs[1].end().code == 0, jobs[1].log.read_text("utf-8")
    jobs[0].end()


def torchrun(folder: Path, run: str, *options: str, changes: tuple[str, ...] = LONG) -> Job:
    """Two processes under `torchrun`."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *options]
    program = ["-m", "--", "probtrans_cli", "-q", "train", "tiny.yaml", *changes, f"name={run}"]
    return Job([*command, *program], folder, run)


@pytest.mark.exhaustive
def test_an_error_under_torchrun_is_told(folder: Path) -> None:
    """Beside the report of the launcher, which ends all processes as soon as one ends."""
    ended = torchrun(folder, "told", changes=("train.eval_every=30",)).end()
    assert ended.code == 1
    assert [line for line in ended.stderr.splitlines() if line.startswith("error: ") and "eval_every" in line]


def test_restarts_of_torchrun_resume(folder: Path) -> None:
    job = torchrun(folder, "restarted", "--max-restarts", "2")
    job.after(lines=25)
    os.kill(job.rank(1), signal.SIGKILL)
    log: Callable[[], str] = (job.run / "log.txt").read_text
    until(lambda: "resuming" in log(), log=job.log)
    job.after(lines=60)
    job.process.terminate()
    job.end()
    assert json.loads((job.run / "exit.json").read_text("utf-8"))["exit"] == 75
    assert "Traceback" not in log()
