"""A model whose latent variables are points on a sphere, through the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Invoke, refused

from probtrans_cli import load
from probtrans_cli.models.outputs import TiedMean

pytestmark = pytest.mark.usefixtures("fresh")
SPHERICAL = ("model.latent=spherical", "model.word_std=0.1", "model.ternary_std=0.1", "train.epochs=2")
TEXT = "two farmers fold [MASK] .\n"


def run(invoke: Invoke, *arguments: str) -> str:
    ran = invoke(*arguments).ok
    return ran.out


def test_hidden_words(invoke: Invoke) -> None:
    """They are learned, answered, and have probabilities; biases start at the frequencies as of labels."""
    options = ("task={kind: mlm, output: tied}", "model.root={labels: 4}", "model.gains=true")
    run(invoke, "train", "tiny.yaml", "name=mlm", *SPHERICAL, *options)
    words = load("runs/mlm").network.words
    assert isinstance(words, TiedMean)
    assert bool((words.gains != 1).all())
    assert float(words.bias.detach().std()) > 0.1
    scores = json.loads(run(invoke, "eval", "runs/mlm", "--split", "dev", "--json"))["scores"]["dev"]
    assert 1.0 < scores["perplexity"] < 1e4
    Path("in.txt").write_text(TEXT, "utf-8")
    (line,) = run(invoke, "parse", "runs/mlm", "in.txt", "-f", "jsonl", "--top", "3", "--uncertainty").splitlines()
    found = json.loads(line)
    assert len(found["masks"]) == 1
    assert {"head_entropy"} <= found.keys()
    assert "latent_label_entropy" not in found
    refused(invoke("parse", "runs/mlm", "in.txt", "--labels"), 2, "have no latent labels", "model.latent")
    refused(invoke("eval", "runs/mlm", "--labels"), 2, "have no latent labels")


def test_tags(invoke: Invoke) -> None:
    """Doubtful heads are told, and that of labels is not there."""
    run(invoke, "train", "tiny.yaml", "name=tags", *SPHERICAL, "task={kind: tagging, column: upos}")
    told = json.loads(run(invoke, "eval", "runs/tags", "--split", "dev", "--uncertainty", "--json"))
    found = told["scores"]["dev"]["uncertainty"]
    assert "error_auroc_heads" in found
    assert "error_auroc_latent_labels" not in found
