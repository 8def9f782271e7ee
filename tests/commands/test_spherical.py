"""A model whose latent variables are points on a sphere, through the commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Invoke, refused

from probtrans_cli import load
from probtrans_cli.models.outputs import TiedMean

pytestmark = pytest.mark.usefixtures("fresh")
SPHERICAL = ("model.latent=spherical", "model.word_std=0.1", "model.ternary_std=0.1", "train.epochs=2")
TEXT = "two farmers fold [MASK] .\n"


def test_hidden_words(invoke: Invoke) -> None:
    """They are learned, answered, and have probabilities; biases start at the frequencies as of labels."""
    options = ("task={kind: mlm, output: tied}", "model.root={labels: 4}", "model.gains=true")
    assert invoke("train", "tiny.yaml", "name=mlm", *SPHERICAL, *options).ok
    words = load("runs/mlm").network.words
    assert isinstance(words, TiedMean)
    assert bool((words.gains != 1).all())
    assert float(words.bias.detach().std()) > 0.1
    assert 1.0 < invoke("eval", "runs/mlm", "--split", "dev", "--json").scores["perplexity"] < 1e4
    Path("in.txt").write_text(TEXT, "utf-8")
    record = invoke("parse", "runs/mlm", "in.txt", "-f", "jsonl", "--top", "3", "--uncertainty").ok.json
    assert len(record["masks"]) == 1
    assert {"head_entropy"} <= record.keys()
    assert "latent_label_entropy" not in record
    refused(invoke("parse", "runs/mlm", "in.txt", "--labels"), 2, "have no latent labels", "model.latent")
    refused(invoke("eval", "runs/mlm", "--labels"), 2, "have no latent labels")


def test_tags(invoke: Invoke) -> None:
    """Doubtful heads are told, and that of labels is not there."""
    assert invoke("train", "tiny.yaml", "name=tags", *SPHERICAL, "task={kind: tagging, column: upos}").ok
    measured = invoke("eval", "runs/tags", "--split", "dev", "--uncertainty", "--json").scores["uncertainty"]
    assert "error_auroc_heads" in measured
    assert "error_auroc_latent_labels" not in measured
