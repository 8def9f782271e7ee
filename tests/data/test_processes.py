"""Processes of our own: what they tell, how they fail, and that they end with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import environment

from probtrans_cli.data.processes import Pool
from probtrans_cli.errors import CheckpointError, OutOfMemoryError


def begin(folder: Path) -> Callable[[int], str]:
    def do(task: int) -> str:
        if task == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        if task == 8:
            raise CheckpointError("no such thing", hint="make it")
        if task == 9:
            raise OSError(28, "No space left on device", str(folder / "x"))
        return f"{folder.name} {task} {os.environ['OMP_NUM_THREADS']}"

    return do


def test_tasks_are_done_and_told(tmp_path: Path) -> None:
    """One process dies of a task; another one does the rest."""
    died = []

    def told(task: int, how: str) -> str:
        died.append((task, how))
        return "dead"

    reports = dict(Pool(2, begin, (tmp_path,), told).each([3, 7, 5, 4]))
    assert reports == {7: "dead"} | {task: f"{tmp_path.name} {task} 1" for task in (3, 4, 5)}
    assert died == [(7, "was ended by SIGKILL")]


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [(7, OutOfMemoryError, "SIGKILL"), (8, CheckpointError, "no such thing"), (9, OSError, "No space left")],
)
def test_what_cannot_go_on_is_raised(task: int, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message) as caught:
        list(Pool(1, begin, (tmp_path,)).each([task]))
    if task == 8:
        assert getattr(caught.value, "hint", None) == "make it"
    if task == 9:
        assert getattr(caught.value, "filename", None) == str(tmp_path / "x")


ORPHANS = """
import os, sys, time
from pathlib import Path
from probtrans_cli.data.processes import Pool
def begin(folder):
    def do(task):
        Path(folder, str(os.getpid())).touch()
        time.sleep(0.5)
    return do
if __name__ == "__main__":
    list(Pool(2, begin, (sys.argv[1],)).each(range(1000)))
"""


def test_they_end_with_who_started_them(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(ORPHANS, "utf-8")
    (tmp_path / "seen").mkdir()
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "seen")]
    with subprocess.Popen(command, env=environment()) as process:
        while len(list((tmp_path / "seen").iterdir())) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    until = time.monotonic() + 30
    workers = [int(path.name) for path in (tmp_path / "seen").iterdir()]
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < until
        time.sleep(0.05)
