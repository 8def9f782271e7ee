"""Shared by tests that start from other weights: a small vocabulary, options of short trainings, and the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from probtrans_cli.__main__ import run
from probtrans_cli.trained.model import Model

SPECIAL = "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK]"
PLAIN = "the this two every cheap farmers fold ##es ##ed ##ing dog cat"
PIECES = f"{SPECIAL} {PLAIN}".split()
LETTERS = [prefix + letter for prefix in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz"]
ROWS = "positions: {kind: absolute, rows: 64}"
SIZES = f"model={{kind: transformer, preset: bert, width: 8, heads: 2, inner: 12, layers: 2, {ROWS}}}"
OFTEN = ["runtime={device: cpu, threads: 1}", "optim.lr=1.0e-9", "--json"]
SMALL = "model={labels: 8, channels: 2, iterations: 2, decomposition: {kind: uv, rank: 2}}"
FOLDER = "data.vocabulary={kind: wordpiece, folder: bert}"
TAGGING = "task={kind: tagging, column: upos}"
MLM = "task={kind: mlm, output: bert, eval_masks: 1}"
Says = Callable[..., str]


def train(*arguments: str, name: str = "run") -> int:
    """Train for two updates, unless the arguments say how long; returns the exit code."""
    long = any(argument.startswith(("train.steps=", "train.epochs=")) for argument in arguments)
    return run(["train", "tiny.yaml", f"name={name}", *OFTEN, *([] if long else ["train.steps=2"]), *arguments])


def loaded(name: str = "run") -> Model:
    return Model.load(f"runs/{name}")


def saved_as(kind: str, base: Any, names: list[str] | None = None, **options: Any) -> Any:
    """A random model of theirs with another head in place of the folder's; its labels are called so."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(**{**base.config.to_dict(), **options})
    if names is not None:
        config.id2label = dict(enumerate(names))
        config.label2id = {name: id for id, name in enumerate(names)}
    torch.manual_seed(2)
    model = getattr(transformers, kind)(config)
    model.save_pretrained("bert")
    return model
