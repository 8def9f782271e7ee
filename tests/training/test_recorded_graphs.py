"""Shapes of padded batches are few, and a training whose encoder is asked for them alone learns the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bench.settings import sentence_lengths
from support import Invoke, refused, workplace

from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.training.graphs import padded_size


def test_sizes_are_those_that_it_names() -> None:
    assert sorted({padded_size(size) for size in range(1, 400)}) == [
        8,
        12,
        16,
        24,
        32,
        48,
        64,
        96,
        128,
        192,
        256,
        384,
        512,
    ]
    assert all(size <= padded_size(size) < 1.5 * max(size, 8) for size in range(1, 3000))


def test_sizes_stay_below_a_limit() -> None:
    assert padded_size(100, 120) == 120
    assert padded_size(90, 120) == 96
    assert padded_size(121, 120) == 121  # which the encoder refuses by itself


def test_the_shapes_of_an_epoch_are_few() -> None:
    """Of a treebank in batches of 4,096 words."""
    lengths = np.array(sentence_lengths()[0])
    shapes = [(len(one), int(lengths[one].max())) for epoch in range(3) for one in plan(lengths, 4096, 0, epoch)]
    padded = {(padded_size(b), padded_size(n)) for b, n in shapes}
    assert len(set(shapes)) > 3 * len(padded)
    assert len(padded) <= 32


@pytest.mark.parametrize("model", [(), ("model={kind: transformer, width: 8, inner: 12, heads: 2, layers: 2}",)])
def test_a_training_in_few_shapes_learns_the_same(
    model: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """The compiler is left out: what it would be given is computed as it is."""
    monkeypatch.chdir(workplace(tmp_path))
    asked: list[dict[str, Any]] = []

    def compile(forward: Any, **how: Any) -> Any:
        asked.append(how)
        return forward

    monkeypatch.setattr(torch, "compile", compile)
    still = ("model.dropout=0", *(("model.embedding_dropout=0", "model.attention_dropout=0") if model else ()))
    losses = []
    for name, more in (("plain", ()), ("graphs", ("runtime.compile=true", "runtime.graphs=true"))):
        ran = invoke("-q", "train", "tiny.yaml", *model, *still, *more, "--run", name)
        assert ran.code == 0, ran.err
        lines = map(json.loads, Path(name, "metrics.jsonl").read_text("utf-8").splitlines())
        losses.append([line["loss"] for line in lines])
    assert asked == [{"dynamic": True, "mode": "reduce-overhead"}]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("runtime.graphs=true",), ("runtime.graphs", "runtime.compile")),
        (("runtime.graphs=true", "runtime.compile=true", "train.accumulate=2"), ("runtime.graphs", "train.accumulate")),
    ],
)
def test_what_graphs_need_is_said(
    overrides: tuple[str, ...], words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.chdir(workplace(tmp_path))
    refused(invoke("train", "tiny.yaml", *overrides), 2, *words)
