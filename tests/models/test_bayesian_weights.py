"""Gaussian weights: their divergence from the prior, and its gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from probtrans_cli.models.bayesian.weights import kl, kl_gradient

PRIORS = ((0.0, 1.0), (0.3, 0.25), "by weight")


def given(columns: int, prior: object) -> tuple[Tensor, Tensor, float | Tensor, float | Tensor]:
    """Means ``[5, 4]``, log deviations ``[5, columns]``, mean and variance of the prior."""
    generator = torch.Generator().manual_seed(columns)
    mean, log_sd, other = (torch.randn(5, size, generator=generator).double() for size in (4, columns, 4))
    if isinstance(prior, tuple):
        return mean, log_sd, *prior
    return mean, log_sd, other, (other.square() + 0.1)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("columns", [1, 4], ids=["row", "full"])
def test_the_divergence_is_that_of_torch(columns: int, prior: object) -> None:
    mean, log_sd, centre, variance = given(columns, prior)
    deviation = torch.as_tensor(variance, dtype=torch.float64).sqrt()
    other = Normal(torch.as_tensor(centre, dtype=torch.float64).expand(5, 4), deviation.expand(5, 4))
    wanted = kl_divergence(Normal(mean, log_sd.exp().expand(5, 4)), other).sum()
    assert float(kl(mean, log_sd, centre, variance)) == pytest.approx(float(wanted), abs=1e-9)


def test_equation_twelve_in_loops() -> None:
    mean, log_sd, _, _ = given(1, (0.0, 1.0))
    total = 0.0
    for row, log_sigma in zip(mean.tolist(), log_sd[:, 0].tolist(), strict=True):
        variance, columns = math.exp(2 * log_sigma), len(row)
        total += columns * variance + sum(one * one for one in row) - columns - columns * math.log(variance)
    assert float(kl(mean, log_sd, 0.0, 1.0)) == pytest.approx(total / 2, abs=1e-9)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("columns", [1, 4], ids=["row", "full"])
def test_its_gradient_is_that_of_autograd(columns: int, prior: object) -> None:
    mean, log_sd, centre, variance = given(columns, prior)
    mean.requires_grad_(True)
    log_sd.requires_grad_(True)
    assert torch.autograd.gradcheck(lambda m, s: kl(m, s, centre, variance), (mean, log_sd))
    wanted = torch.autograd.grad(kl(mean, log_sd, centre, variance), (mean, log_sd))
    for found, one in zip(kl_gradient(mean, log_sd, centre, variance), wanted, strict=True):
        assert found.shape == one.shape
        assert torch.allclose(found, one, rtol=0, atol=1e-12)


def test_the_prior_itself_is_at_no_distance() -> None:
    mean = torch.full((3, 2), 0.5)
    assert float(kl(mean, torch.full((3, 1), math.log(0.2)), 0.5, 0.04)) == pytest.approx(0.0, abs=1e-6)
