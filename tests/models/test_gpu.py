"""The GPU path: training in bfloat16, saving, resuming, scoring. Opt-in: `pytest -m gpu`."""

from __future__ import annotations

import json
import math

import pytest

from probtrans_cli.__main__ import run

pytestmark = pytest.mark.gpu
SMALL = ["model.labels=16", "model.channels=2", "train.steps=30", "train.batch_words=512", "runtime.device=cuda"]


@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_training_scores_and_resumes(tmp_path, monkeypatch, capsys, precision):
    monkeypatch.chdir(tmp_path)
    command = ["train", "quickstart", *SMALL, f"runtime.precision={precision}"]
    assert run([*command, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert math.isfinite(first["test"]["perplexity"])
    assert run([*command, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test"]["loss"] == pytest.approx(first["test"]["loss"], abs=1e-3)
    assert run(["eval", "runs/quickstart", "--require", "perplexity<=400"]) == 0


OF_INDUCTOR = "ignore:.torch.jit.script_method. is deprecated:DeprecationWarning"
"""What torch 2.11 says of itself under Python 3.12 when it is told to compile."""


@pytest.mark.filterwarnings(OF_INDUCTOR)
def test_compiled_encoder_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["train", "quickstart", *SMALL, "runtime.compile=true", "--json"]) == 0
    assert math.isfinite(json.loads(capsys.readouterr().out)["test"]["perplexity"])


@pytest.mark.filterwarnings(OF_INDUCTOR)
def test_a_transformer_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = ["model.kind=transformer", "model.width=32", "model.heads=2", "model.inner=64", "model.layers=2"]
    command = ["train", "quickstart", *sizes, *SMALL[2:], "--json"]
    assert run(command) == 0
    assert math.isfinite(json.loads(capsys.readouterr().out)["test"]["perplexity"])
    assert run([*command, "name=compiled", "runtime.compile=true"]) == 0
    assert math.isfinite(json.loads(capsys.readouterr().out)["test"]["perplexity"])
