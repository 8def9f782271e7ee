"""Learning rates, what decays and which rate it has, IVON, and optimizers without torch's compiler."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from probtrans_cli.recipe.schema import Optim
from probtrans_cli.training import optim
from probtrans_cli.training.optim import IVON, uncompiled


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
    section = Optim.model_validate({"lr": 2.0, "schedule": {"kind": "cosine", "warmup": 0.2, "final": 0.1}})
    assert section.schedule.rate(2.0, 1.5, 0) == pytest.approx(0.2)  # beyond the end
    plateau = Optim.model_validate({"lr": 2.0, "schedule": {"kind": "plateau", "factor": 0.5}})
    assert [plateau.schedule.rate(2.0, 0.5, drops) for drops in range(3)] == [2.0, 1.0, 0.5]


@pytest.mark.parametrize(("decayed", "kept"), [("all", False), ("matrices", True)])
def test_what_decays(decayed: str, kept: bool) -> None:
    """Without a gradient decay alone moves a parameter."""
    network = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    section = Optim.model_validate({"kind": "adamw", "lr": 0.1, "weight_decay": 0.5, "decayed": decayed})
    for parameter in network.parameters():
        nn.init.constant_(parameter, 1.0)
        parameter.grad = torch.zeros_like(parameter)
    optim.Optimizers(section, network).step(section.lr)
    after = {name: float(value.min()) for name, value in network.state_dict().items()}
    assert after.pop("0.weight") == pytest.approx(0.95)
    assert list(after.values()) == pytest.approx([1.0 if kept else 0.95] * 3)


class _Network(nn.Module):
    """What the optimizers see of a network: an encoder between two other parts."""

    def __init__(self) -> None:
        super().__init__()
        self.unary, self.encoder, self.output = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)


def test_a_high_rate_of_the_encoder_is_named_where_training_diverges() -> None:
    for rate, named in ((0.5, False), (2.0, True)):
        advice = optim.Optimizers(Optim.model_validate({"encoder_rate": rate}), _Network()).advice
        assert advice.startswith("lower optim.lr")
        assert ("optim.encoder_rate" in advice) == named


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
        moved.step(0.1)
        steps = [float((one - old).detach().abs().max()) for one, old in zip(network.parameters(), before, strict=True)]
        assert steps == pytest.approx([0.1 * factor for factor in expected], rel=1e-5)


OPTIONS = {"lr": 0.2, "effective_size": 50.0, "hessian_start": 0.3, "betas": (0.8, 0.95), "prior_precision": 0.02}


def loss_of(parameter: Tensor) -> Tensor:
    target = torch.linspace(-1, 2, parameter.numel(), dtype=parameter.dtype).view_as(parameter)
    return ((parameter - target).cosh() - 1).mean() * 3


def update(parameter: Tensor, optimizer: IVON, loss: Callable[[Tensor], Tensor], draws: int = 1) -> None:
    optimizer.zero_grad()
    for _ in range(draws):
        optimizer.sample()
        loss(parameter).backward()
        optimizer.restore()
    optimizer.step()


@pytest.mark.parametrize(("draws", "clip"), [(1, math.inf), (3, 0.05)])
def test_steps_are_the_lines_of_the_algorithm(draws: int, clip: float) -> None:
    """Five steps, every weight by itself in Python's numbers, with the same noise."""
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(2, 3, dtype=torch.float64))
    start = parameter.detach().clone()
    optimizer = IVON([parameter], **OPTIONS, clip=clip)
    torch.manual_seed(1)
    for _ in range(5):
        update(parameter, optimizer, loss_of, draws)
    torch.manual_seed(1)
    lam, delta, (b1, b2), h0 = 50.0, 0.02, (0.8, 0.95), 0.3
    means, hessians, momenta = start.flatten().tolist(), [h0] * 6, [0.0] * 6
    for t in range(1, 6):
        gradients, found = [0.0] * 6, [0.0] * 6
        for _ in range(draws):
            noise = torch.randn(2, 3, dtype=torch.float64).flatten().tolist()
            sigma = [1 / math.sqrt(lam * (h + delta)) for h in hessians]
            theta = [m + s * e for m, s, e in zip(means, sigma, noise, strict=True)]
            at = torch.tensor(theta, dtype=torch.float64).view(2, 3).requires_grad_()
            (gradient,) = torch.autograd.grad(loss_of(at), at)
            for i, g in enumerate(gradient.flatten().tolist()):
                gradients[i] += g / draws
                found[i] += g * (theta[i] - means[i]) / sigma[i] ** 2 / draws
        for i in range(6):
            momenta[i] = b1 * momenta[i] + (1 - b1) * gradients[i]
            h = hessians[i]
            hessians[i] = b2 * h + (1 - b2) * found[i] + 0.5 * (1 - b2) ** 2 * (h - found[i]) ** 2 / (h + delta)
            step = (momenta[i] / (1 - b1**t) + delta * means[i]) / (hessians[i] + delta)
            means[i] -= 0.2 * (h0 + delta) * min(max(step, -clip), clip)
    assert parameter.detach().flatten().tolist() == pytest.approx(means, rel=1e-9)
    assert optimizer.state[parameter]["hessian"].flatten().tolist() == pytest.approx(hessians, rel=1e-9)


def test_curvature_and_mean_of_a_parabola() -> None:
    """Loss ½ Σ a θ²: of 1,000 coordinates the mean of h goes to a, that of m to 0."""
    torch.manual_seed(0)
    parameter, a = torch.nn.Parameter(torch.ones(1000)), 2.0
    # h goes to the curvature of the loss that is minimised: a sum over coordinates, so each has its own a.
    optimizer = IVON(
        [parameter], lr=0.1, effective_size=1000.0, hessian_start=0.5, betas=(0.9, 0.99), prior_precision=1e-6
    )
    least = math.inf
    for _ in range(1000):
        update(parameter, optimizer, lambda theta: (0.5 * a * theta.square()).sum())
        least = min(least, float((optimizer.state[parameter]["hessian"] + 1e-6).min()))
    assert least > 0
    assert float(optimizer.state[parameter]["hessian"].mean()) == pytest.approx(a, rel=0.03)
    assert abs(float(parameter.detach().mean())) < 0.01
    torch.testing.assert_close(
        optimizer.deviation(parameter).mean(), torch.tensor((1000 * a) ** -0.5), rtol=0.03, atol=0
    )


@pytest.mark.parametrize("size", [1e-3, 1e4])
def test_the_precision_stays_positive(size: float) -> None:
    """Whatever the gradients are: the last term of h's line sees to it."""
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.zeros(500))
    optimizer = IVON(
        [parameter], lr=1e-3, effective_size=10.0, hessian_start=0.1, betas=(0.9, 0.9), prior_precision=1e-3
    )
    for _ in range(300):
        update(parameter, optimizer, lambda theta: (theta * size * torch.randn(500)).sum())
        assert float((optimizer.state[parameter]["hessian"] + 1e-3).min()) > 0
        assert torch.isfinite(optimizer.deviation(parameter)).all()


def test_restore_gives_the_mean_back_to_the_bit() -> None:
    parameter = torch.nn.Parameter(torch.randn(100))
    before = parameter.detach().clone()
    optimizer = IVON([parameter], lr=0.1, effective_size=10.0)
    optimizer.sample()
    assert not torch.equal(parameter.detach(), before)
    optimizer.restore()
    assert torch.equal(parameter.detach(), before)


def test_refusals() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2))
    for wrong in ({"lr": 0.0}, {"effective_size": -1.0}, {"hessian_start": 0.0}, {"clip": 0.0}, {"betas": (1.0, 0.5)}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            IVON([parameter], **({"lr": 0.1, "effective_size": 1.0} | wrong))
    with pytest.raises(ValueError, match="prior_precision"):
        IVON([parameter], lr=0.1, effective_size=1.0, prior_precision=-1.0)
    with pytest.raises(RuntimeError, match="without a draw"):
        IVON([parameter], lr=0.1, effective_size=1.0).step()


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
    assert issubclass(uncompiled(kind), kind)
    wanted, of_wanted = moved(kind)
    found, of_found = moved(uncompiled(kind))
    assert torch.equal(found, wanted)
    assert of_found.keys() == of_wanted.keys()
    assert all(torch.equal(torch.as_tensor(of_found[name]), torch.as_tensor(of_wanted[name])) for name in of_wanted)


@pytest.mark.slow
def test_a_training_does_not_load_the_compiler() -> None:
    program = f"""
import sys
import torch
from probtrans_cli.training.optim import IVON
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
