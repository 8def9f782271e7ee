"""Where commands are run: in the folder of the trained runs, or in a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from run_of_every_task import Say
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
def say(runs: Path, empty: Path, invoke: Invoke) -> Say:
    return Say(runs / "runs", invoke)
