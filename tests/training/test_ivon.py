"""IVON: a step against the lines of the algorithm in a loop, what it finds on a loss that is known, and its bounds."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from probtrans_cli.training.ivon import IVON

OPTIONS = {"lr": 0.2, "effective_size": 50.0, "hessian_start": 0.3, "betas": (0.8, 0.95), "prior_precision": 0.02}


def loss_of(parameter: Tensor) -> Tensor:
    """Something with a curvature that changes."""
    target = torch.linspace(-1, 2, parameter.numel(), dtype=parameter.dtype).view_as(parameter)
    return ((parameter - target).cosh() - 1).mean() * 3


def updated(parameter: Tensor, optimizer: IVON, draws: int) -> None:
    optimizer.zero_grad()
    for _ in range(draws):
        optimizer.sample()
        loss_of(parameter).backward()
        optimizer.restore()
    optimizer.step()


@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize("clip", [math.inf, 0.05])
def test_steps_are_the_lines_of_the_algorithm(draws: int, clip: float) -> None:
    """Five steps, every weight by itself in Python's numbers, with the same noise."""
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(2, 3, dtype=torch.float64))
    start = parameter.detach().clone()
    optimizer = IVON([parameter], **OPTIONS, clip=clip)
    torch.manual_seed(1)
    for _ in range(5):
        updated(parameter, optimizer, draws)
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
        [parameter], lr=0.1, effective_size=1000.0, hessian_start=0.5, betas=(0.9, 0.999), prior_precision=1e-6
    )
    least = math.inf
    for _ in range(5000):
        optimizer.zero_grad()
        optimizer.sample()
        (0.5 * a * parameter.square()).sum().backward()
        optimizer.restore()
        optimizer.step()
        least = min(least, float((optimizer.state[parameter]["hessian"] + 1e-6).min()))
    assert least > 0
    assert float(optimizer.state[parameter]["hessian"].mean()) == pytest.approx(a, rel=0.03)
    assert abs(float(parameter.detach().mean())) < 0.01
    torch.testing.assert_close(
        optimizer.deviation(parameter).mean(), torch.tensor((1000 * a) ** -0.5), rtol=0.03, atol=0
    )


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_the_precision_stays_positive(size: float) -> None:
    """Whatever the gradients are: the last term of h's line sees to it."""
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.zeros(500))
    optimizer = IVON(
        [parameter], lr=1e-3, effective_size=10.0, hessian_start=0.1, betas=(0.9, 0.9), prior_precision=1e-3
    )
    for _ in range(300):
        optimizer.zero_grad()
        optimizer.sample()
        (parameter * size * torch.randn(500)).sum().backward()
        optimizer.restore()
        optimizer.step()
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
            IVON([parameter], **({"lr": 0.1, "effective_size": 1.0} | wrong))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="prior_precision"):
        IVON([parameter], lr=0.1, effective_size=1.0, prior_precision=-1.0)
    with pytest.raises(RuntimeError, match="without a draw"):
        IVON([parameter], lr=0.1, effective_size=1.0).step()
