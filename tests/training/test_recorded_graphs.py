"""Shapes of padded batches are few; a training whose encoder is a graph, or one of few shapes, learns the same."""

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


TRANSFORMER = "model={kind: transformer, width: 8, inner: 12, heads: 2, layers: 2}"
COMPILED = "runtime.compile=true"
WAYS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "compiled": ((COMPILED,), {"dynamic": True}),
    "graphs": ((COMPILED, "runtime.graphs=true"), {"dynamic": True, "mode": "reduce-overhead"}),
}


@pytest.mark.parametrize(("way", "model"), [("compiled", ()), ("compiled", (TRANSFORMER,)), ("graphs", (TRANSFORMER,))])
def test_a_training_by_graphs_learns_the_same(
    way: str, model: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """The compiler is left out: what it would be given is computed as it is. It is never asked for arcs, which trees
    are scored by: with whole numbers as symbols, torch's says of a transformer that there are none."""
    changes, expected = WAYS[way]
    monkeypatch.chdir(workplace(tmp_path))
    asked: list[dict[str, Any]] = []

    def compile(forward: Any, **how: Any) -> Any:
        asked.append(how)

        def graph(unary: Any, mask: Any, at: Any = None) -> Any:
            return forward(unary, mask, at=at)

        return graph

    monkeypatch.setattr(torch, "compile", compile)
    still = ("model.dropout=0", *(("model.embedding_dropout=0", "model.attention_dropout=0") if model else ()))
    losses, trees = [], []
    for name, more in (("plain", ()), ("by-graphs", changes)):
        ran = invoke("-q", "train", "tiny.yaml", *model, *still, *more, "--run", name, "--json")
        assert ran.code == 0, ran.err
        trees.append(ran.json["test"]["trees"]["no_punct"]["all"]["uas"])
        lines = map(json.loads, Path(name, "metrics.jsonl").read_text("utf-8").splitlines())
        losses.append([line["loss"] for line in lines])
    assert asked == [expected]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert trees[1] == pytest.approx(trees[0], abs=0.02)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("runtime.graphs=true",), ("runtime.graphs", "a field cannot be recorded")),
        (
            (f"model={{kind: stacked, lower: {TRANSFORMER[6:]}}}", "runtime.graphs=true", "runtime.compile=true"),
            ("runtime.graphs", "a field cannot be recorded"),
        ),
        ((TRANSFORMER, "runtime.graphs=true"), ("runtime.graphs", "set `runtime.compile` to true")),
        (
            (TRANSFORMER, "runtime.graphs=true", "runtime.compile=true", "train.accumulate=2"),
            ("runtime.graphs", "train.accumulate"),
        ),
    ],
)
def test_what_graphs_need_is_said(
    overrides: tuple[str, ...], words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.chdir(workplace(tmp_path))
    refused(invoke("train", "tiny.yaml", *overrides), 2, *words)
