"""The learning rate as a function of progress, and what decays."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

from probtrans_cli.recipe.schema import Optim
from probtrans_cli.training import optim


def rates(schedule: dict[str, object]) -> list[float]:
    section = Optim.model_validate({"lr": 2.0, "schedule": schedule})
    return [section.schedule.rate(section.lr, step / 10, 0) for step in range(11)]


def test_linear_is_bert_s() -> None:
    """Up over the warm-up, then by equal steps down to `final`."""
    assert rates({"kind": "linear", "warmup": 0.2}) == pytest.approx([0, 1, 2, *(2 - k / 4 for k in range(1, 9))])
    assert rates({"kind": "linear", "warmup": 0.0, "final": 0.5}) == pytest.approx([2 - k / 10 for k in range(11)])


def test_cosine_and_constant() -> None:
    cosine = rates({"kind": "cosine", "warmup": 0.2, "final": 0.1})
    assert cosine[:3] == pytest.approx([0.0, 1.0, 2.0])
    assert all(later < one for one, later in pairwise(cosine[2:]))
    assert cosine[6] == pytest.approx(1.1)
    assert cosine[-1] == pytest.approx(0.2)
    assert rates({"kind": "constant"}) == [2.0] * 11


@pytest.mark.parametrize(("decayed", "kept"), [("all", False), ("matrices", True)])
def test_what_decays(decayed: str, kept: bool) -> None:
    """Without a gradient decay alone moves a parameter."""
    network = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    section = Optim.model_validate({"kind": "adamw", "lr": 0.1, "weight_decay": 0.5, "decayed": decayed})
    for parameter in network.parameters():
        nn.init.constant_(parameter, 1.0)
        parameter.grad = torch.zeros_like(parameter)
    optim.Optimizers(section, network).step()
    after = {name: float(value.min()) for name, value in network.state_dict().items()}
    assert before.keys() == after.keys()
    assert after.pop("0.weight") == pytest.approx(0.95)
    assert list(after.values()) == pytest.approx([1.0 if kept else 0.95] * 3)


class _Network(nn.Module):
    """What the optimizers see of a network: an encoder between two other parts."""

    def __init__(self) -> None:
        super().__init__()
        self.unary, self.encoder, self.output = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)


def test_a_high_rate_of_the_encoder_is_named_where_training_diverges() -> None:
    for rate, named in ((0.5, False), (2.0, True)):
        steadier = optim.Optimizers(Optim.model_validate({"encoder_rate": rate}), _Network()).steadier
        assert steadier.startswith("lower optim.lr")
        assert ("optim.encoder_rate" in steadier) == named


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_the_encoder_has_a_rate_of_its_own(kind: str) -> None:
    """The first update of Adam moves whatever has a gradient by the rate; `layer_decay` multiplies it."""
    options = {"kind": kind, "lr": 1.0, "eps": 1e-30, "encoder_rate": 0.25, "decayed": "matrices"}
    network = _Network()
    stages = [[network.unary.weight], [network.encoder.bias], [network.output.weight]]
    for parameter in network.parameters():
        nn.init.zeros_(parameter)
        parameter.grad = torch.ones_like(parameter)
    for decay, expected in ((1.0, [1, 1, 0.25, 0.25, 1, 1]), (0.5, [0.25, 1, 0.25, 0.125, 1, 1])):
        before = [parameter.clone() for parameter in network.parameters()]
        moved = optim.Optimizers(Optim.model_validate({**options, "layer_decay": decay}), network, stages=stages)
        moved.set_rate(0.1)
        moved.step()
        steps = [float((one - old).detach().abs().max()) for one, old in zip(network.parameters(), before, strict=True)]
        assert steps == pytest.approx([0.1 * factor for factor in expected], rel=1e-5)
