"""Where commands are run: in the folder of the trained runs, or in a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from run_of_every_task import SENTENCE
from support import Invoke


@pytest.fixture
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


@pytest.fixture
def copied(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(trained, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def say(runs: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What `parse` of a task's run writes about a text."""
    monkeypatch.chdir(tmp_path)

    def run(task: str, *options: str, text: str | None = None, name: str = "in.txt") -> str:
        Path(name).write_text(text or f"{SENTENCE.get(task, 'two cheap farmers fold')}\n", "utf-8")
        ran = invoke("parse", str(runs / "runs" / task), name, *options).ok
        return ran.out

    return run
