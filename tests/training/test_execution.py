"""How a network is executed: compiled it learns the same, and its shapes are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from support import Invoke, workplace
from torch import Tensor, nn

from probtrans_cli import console
from probtrans_cli.training.update import shapes_reported

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

        def graph(words: Any, at: Any = None) -> Any:
            return forward(words, at=at)

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


class Answer(NamedTuple):
    scores: Tensor
    nothing: None = None


class Small(nn.Module):
    """Two layers, one of which is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.unused = nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(7, 7)

    def forward(self, words: Tensor, *, mask: Tensor) -> Answer:
        return Answer(self.again(self.again(self.first(words))) * mask)


def run(network: nn.Module) -> None:
    network(torch.zeros(2, 4, 3), mask=torch.ones(2, 4, 1))


def test_every_module_that_is_called_tells_its_shapes_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console.STATE, "level", console.VERBOSE)
    network = Small()
    with shapes_reported(network):
        run(network)
        run(network)
    assert capsys.readouterr().err.splitlines() == [
        "first (Linear): [2, 4, 3] -> [2, 4, 5]",
        "again (Linear): [2, 4, 5] -> [2, 4, 5]",
        "network (Small): [2, 4, 3] [2, 4, 1] -> [2, 4, 5]",
    ]
    run(network)
    assert capsys.readouterr().err == ""


def test_without_details_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    network = Small()
    with shapes_reported(network):
        run(network)
        assert not network.first._forward_hooks
    assert capsys.readouterr().err == ""
