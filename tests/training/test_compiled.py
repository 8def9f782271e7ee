"""A training whose encoder is compiled learns the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support import Invoke, workplace

TRANSFORMER = "model={kind: transformer, width: 8, inner: 12, heads: 2, layers: 2}"
COMPILED = "runtime.compile=true"


@pytest.mark.parametrize("model", [(), (TRANSFORMER,)])
def test_a_compiled_training_learns_the_same(
    model: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """The compiler is left out: what it would be given is computed as it is. It is never asked for arcs, which trees
    are scored by: with whole numbers as symbols, torch's says of a transformer that there are none."""
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
    for name, more in (("plain", ()), ("compiled", (COMPILED,))):
        ran = invoke("-q", "train", "tiny.yaml", *model, *still, *more, "--run", name, "--json")
        assert ran.code == 0, ran.err
        trees.append(ran.json["test"]["trees"]["no_punct"]["all"]["uas"])
        lines = map(json.loads, Path(name, "metrics.jsonl").read_text("utf-8").splitlines())
        losses.append([line["loss"] for line in lines])
    assert asked == [{"dynamic": True}]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert trees[1] == pytest.approx(trees[0], abs=0.02)
