"""Where the commands are run: in the folder of the trained runs, in a new one, or in a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support import workplace


@pytest.fixture
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the trained runs, to read only, as the current folder."""
    monkeypatch.chdir(trained)
    return trained


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new workplace as the current folder."""
    monkeypatch.chdir(workplace(tmp_path))
    return tmp_path


@pytest.fixture
def copied(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the trained runs as the current folder."""
    shutil.copytree(trained, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"
