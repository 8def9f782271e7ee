"""The GPU path: training in bfloat16, saving, resuming, scoring; compiled. Opt-in: `pytest -m gpu`.

`PROBTRANS_TEST_DEVICE=cpu` runs them on a CPU instead, as a test of themselves; there nothing is recorded. What
compiles runs in a process of its own: the checks of shapes that this one puts into every function of the encoder cannot
be traced.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import COMMAND, environment

from probtrans_cli.__main__ import run

pytestmark = pytest.mark.gpu
DEVICE = os.environ.get("PROBTRANS_TEST_DEVICE", "cuda")
FIELD = ["model.labels=16", "model.channels=2"]
TRANSFORMER = ["model.kind=transformer", "model.width=32", "model.heads=2", "model.inner=64", "model.layers=2"]
SHORT = ["train.steps=30", "train.batch_words=512", f"runtime.device={DEVICE}"]
STILL = {
    "field": [*FIELD, "model.dropout=0"],
    "transformer": [*TRANSFORMER, *(f"model.{one}dropout=0" for one in ("", "embedding_", "attention_"))],
}
WAYS = {"compiled": ["runtime.compile=true"]}


@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_training_scores_and_resumes(tmp_path, monkeypatch, capsys, precision):
    monkeypatch.chdir(tmp_path)
    command = ["train", "quickstart", *FIELD, *SHORT, f"runtime.precision={precision}"]
    assert run([*command, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert math.isfinite(first["test"]["perplexity"])
    assert run([*command, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test"]["loss"] == pytest.approx(first["test"]["loss"], abs=1e-3)
    assert run(["eval", "runs/quickstart", "--require", "perplexity<=400"]) == 0


def trained(folder: Path, *changes: str) -> dict[str, Any]:
    """The figures of the test set."""
    command = [*COMMAND, "-q", "train", "quickstart", *SHORT, *changes, "--json"]
    result = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["test"]


@pytest.mark.parametrize(("encoder", "way"), [("field", "compiled"), ("transformer", "compiled")])
def test_it_learns_as_much_in_every_way(tmp_path, encoder, way):
    """Without dropout both ways compute the same, but for the rounding of bfloat16; trees are scored, too."""
    eager = trained(tmp_path, *STILL[encoder], "name=eager")
    other = trained(tmp_path, *STILL[encoder], "name=other", *WAYS[way])
    assert math.isfinite(eager["perplexity"])
    assert 0 < other["trees"]["no_punct"]["all"]["uuas"] < 1
    assert other["loss"] == pytest.approx(eager["loss"], abs=0.02)
