"""Folders to start from may lie with the corpora."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from small_starts import FOLDER, SIZES, TAGGING, train

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def moved(bert: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The BERT folder below $PROBTRANS_DATA."""
    del bert
    Path("corpora/models").mkdir(parents=True)
    monkeypatch.setenv("PROBTRANS_DATA", str(Path("corpora").absolute()))
    return Path("bert").rename("corpora/models/bert")


def test_the_folder_of_the_weights_may_be_named_as_corpora_are(moved: Path, capfd: pytest.CaptureFixture[str]) -> None:
    vocabulary = "data.vocabulary={kind: wordpiece, folder: models/bert}"
    assert train(SIZES, vocabulary, TAGGING, "--init-from", "models/bert") == 0
    assert "started from models/bert" in capfd.readouterr().err
    Path("models").mkdir()
    shutil.copytree(moved, "models/bert")  # what is in the current folder goes before
    Path("models/bert/config.json").write_text("{", "utf-8")
    assert train(SIZES, vocabulary, TAGGING, "--init-from", "models/bert", name="other") == 4
    assert "models/bert/config.json: not JSON" in capfd.readouterr().err


def test_a_home_folder_is_found(bert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    del bert
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert train(SIZES, FOLDER, TAGGING, "model.init_from=~/bert") == 0
