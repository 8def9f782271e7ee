"""What `-v train --dry-run` tells of the shapes in a network."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from probtrans_cli import console
from probtrans_cli.training.execution import shapes_reported


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
