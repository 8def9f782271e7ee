"""Shared by the tests of corpora: a small treebank in the current folder."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from small_treebank import DEV, TRAIN


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with `train.conllu` and `dev.conllu.gz`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "none"))
    (tmp_path / "train.conllu").write_text(TRAIN)
    (tmp_path / "dev.conllu.gz").write_bytes(gzip.compress(DEV.encode()))
    return tmp_path
