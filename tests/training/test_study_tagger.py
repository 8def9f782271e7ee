"""`uncertainty-ewt-bayes` in earnest: uncertain weights give probabilities that can be believed, in one pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Invoke

pytestmark = pytest.mark.exhaustive
RECIPE = "uncertainty-ewt-bayes"
DROPOUT = ("model.bayes=null", "model.dropout=0.1", "model.embedding_dropout=0.1", "optim.weight_decay=0.01")


def scores(invoke: Invoke, run: str, *arguments: str) -> dict[str, Any]:
    ran = invoke("eval", run, "--uncertainty", "--json", *arguments)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)["scores"]["test"]
    return found


def test_the_study_tagger(invoke: Invoke, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of the recipe's header for seed 0, with room for another machine's rounding."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(corpora))
    for name, overrides in (("bayes", ()), ("plain", ("model.bayes=null",)), ("dropout", DROPOUT)):
        assert invoke("train", RECIPE, "--run", name, "runtime.threads=1", *overrides).code == 0
    moments, draws = scores(invoke, "bayes"), scores(invoke, "bayes", "--weights", "64")
    plain, dropout = scores(invoke, "plain"), scores(invoke, "dropout")
    of = {name: one["uncertainty"] for name, one in (("moments", moments), ("draws", draws), ("plain", plain))}
    assert moments["accuracy"] >= 0.795
    assert of["moments"]["nll"] <= 0.570
    assert of["moments"]["ece"] <= 0.015
    assert of["moments"]["nll"] <= of["plain"]["nll"] - 0.06
    assert of["moments"]["nll"] < dropout["uncertainty"]["nll"]
    assert abs(of["moments"]["nll"] - of["draws"]["nll"]) <= 0.01
    assert 0.8 <= of["moments"]["mutual_information"] / of["draws"]["mutual_information"] <= 1.1
