"""Trainings of recipes with `model.from`: the folder may lie with the corpora, and is needed at the start alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from small_starts import FOLDER, SIZES, TAGGING, Says, loaded, train
from support import interrupted

from probtrans_cli.__main__ import run

FROM = "model={kind: transformer, from: models/bert}"
INTERRUPTED = ("train.steps=6", "optim.lr=0.01", "save.every_steps=2", "save.keep=99")


@pytest.fixture
def moved(bert: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    Path("corpora/models").mkdir(parents=True)
    monkeypatch.setenv("PROBTRANS_DATA", str(Path("corpora").absolute()))
    return Path("bert").rename("corpora/models/bert")


def tensors(name: str) -> dict[str, torch.Tensor]:
    return loaded(name).network.state_dict()


def test_it_is_the_same_training_as_with_everything_written_out(moved: Path, says: Says) -> None:
    assert "started from models/bert: " in says(0, FROM, TAGGING, "optim.lr=0.01")
    shutil.copytree(moved, "bert")
    whole = [SIZES, FOLDER, TAGGING, "model.init_from=bert", "model.std=0.5", "optim.lr=0.01"]
    assert train(*whole, name="written") == 0
    one, other = tensors("run"), tensors("written")
    assert one.keys() == other.keys()
    assert all(torch.equal(value, other[key]) for key, value in one.items())


def test_a_trained_run_does_not_need_the_folder(moved: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert train(FROM, TAGGING) == 0
    shutil.rmtree(moved)
    text = Path("runs/run/recipe.yaml").read_text("utf-8")
    assert "\n  from: null\n" in text
    assert "\n  width: 8\n" in text
    capfd.readouterr()
    assert run(["eval", "runs/run", "--split", "test", "--json"]) == 0
    assert run(["parse", "runs/run", "-f", "conllu", "test.conllu"]) == 0
    assert run(["train", "runs/run", "name=other"]) == 4  # another one starts from it
    assert "model.init_from: there is no models/bert" in capfd.readouterr().err


def test_a_training_is_resumed_to_the_bit_where_the_folder_is_gone(
    moved: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("whole", "broken"):
        assert train(FROM, TAGGING, *INTERRUPTED, name=name) == 0
    last = interrupted(Path("runs/broken"))
    shutil.rmtree(moved)
    capfd.readouterr()
    assert run(["train", "runs/broken", "--resume", "--json"]) == 0
    out = capfd.readouterr()
    assert f"resuming runs/broken after step {int(last.name[5:])}" in out.err
    assert "the vocabulary's folder models/bert is gone: what was read there is in prepared/broken-" in out.err
    for link in ("best", "last"):
        for name in ("model.safetensors", "training/optimizer.safetensors"):
            files = [Path("runs", one, "checkpoints", link, name) for one in ("whole", "broken")]
            assert files[0].read_bytes() == files[1].read_bytes()
    assert json.loads(out.out)["test"] == json.loads(Path("runs/whole/checkpoints/best/eval.json").read_text())["test"]


def test_a_folder_that_is_gone_with_its_prepared_corpus_is_told_of(
    moved: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train(FROM, TAGGING, *INTERRUPTED) == 0
    shutil.rmtree(moved)
    shutil.rmtree("prepared")
    capfd.readouterr()
    assert run(["train", "runs/run", "--resume"]) == 3
    assert "neither vocab.txt nor tokenizer.json" in capfd.readouterr().err


def test_the_folder_of_the_weights_may_be_named_as_corpora_are(moved: Path, says: Says) -> None:
    vocabulary = "data.vocabulary={kind: wordpiece, folder: models/bert}"
    assert "started from models/bert" in says(0, SIZES, vocabulary, TAGGING, "--init-from", "models/bert")
    Path("models").mkdir()
    shutil.copytree(moved, "models/bert")  # what is in the current folder goes before
    Path("models/bert/config.json").write_text("{", "utf-8")
    assert "models/bert/config.json: not JSON" in says(
        4, SIZES, vocabulary, TAGGING, "--init-from", "models/bert", name="other"
    )


def test_a_home_folder_is_found(bert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert train("model={kind: transformer, from: ~/bert}", TAGGING) == 0
