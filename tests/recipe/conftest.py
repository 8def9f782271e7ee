"""A BERT folder for `model.from`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CONFIG = {
    "model_type": "bert", "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 40,
    "hidden_act": "gelu_new", "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3,
    "max_position_embeddings": 64, "type_vocab_size": 1, "layer_norm_eps": 1e-7, "initializer_range": 0.03,
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The config.json of `models/small` below $PROBTRANS_DATA, which is not the current folder."""
    path = tmp_path / "corpora" / "models" / "small" / "config.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "corpora"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return path
