"""Optimizers without torch's compiler: the same numbers, and two seconds less."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from probtrans_cli.training.ivon import IVON
from probtrans_cli.training.optim import uncompiled

COMPILER = ("torch._dynamo", "torch._inductor", "sympy")


def moved(kind: type[torch.optim.Adam]) -> tuple[Tensor, dict[str, Tensor]]:
    """Weights after some updates, half of them by an optimizer that took the other's state; and that state."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(5))
    options = {"lr": 0.1, "weight_decay": 0.01}
    optimizer = kind([{"params": [weight], **options}])
    for number in range(6):
        if number == 3:
            state = optimizer.state_dict()
            optimizer = kind([{"params": [weight], **options}])
            optimizer.load_state_dict(state)
        (weight.square().sum() + weight[0] * number).backward()
        optimizer.step()
        optimizer.zero_grad()
    return weight.detach(), optimizer.state_dict()["state"][0]


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_it_moves_as_it_did(kind: type[torch.optim.Adam]) -> None:
    wanted, of_wanted = moved(kind)
    found, of_found = moved(uncompiled(kind))
    assert torch.equal(found, wanted)
    assert of_found.keys() == of_wanted.keys()
    assert all(torch.equal(torch.as_tensor(of_found[name]), torch.as_tensor(of_wanted[name])) for name in of_wanted)


def test_it_is_still_the_same_kind() -> None:
    assert issubclass(uncompiled(torch.optim.Adam), torch.optim.Adam)
    assert uncompiled(IVON).__name__ == "IVON"


def test_a_training_does_not_load_the_compiler() -> None:
    program = f"""
import sys
import torch
from probtrans_cli.training.ivon import IVON
from probtrans_cli.training.optim import uncompiled

weight = torch.nn.Parameter(torch.ones(3))
adam = uncompiled(torch.optim.Adam)([weight], lr=0.1)
ivon = uncompiled(IVON)([weight], lr=0.1, effective_size=10.0)
ivon.sample()
weight.square().sum().backward()
ivon.restore()
for one in (adam, ivon):
    one.step()
    one.load_state_dict(one.state_dict())
print(*[name for name in {COMPILER} if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []
