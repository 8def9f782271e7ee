"""Gaussian weights: their divergence from the prior, its gradient, and what is read off a feed-forward layer."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from random_states import NEAR, normal, positive
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from probtrans_cli.models.bayesian.state import Together
from probtrans_cli.models.bayesian.weights import kl, kl_gradient

pytestmark = pytest.mark.usefixtures("double")
PRIORS = ((0.0, 1.0), (0.3, 0.25), "by weight")


def given(columns: int, prior: object) -> tuple[Tensor, Tensor, float | Tensor, float | Tensor]:
    """Means ``[5, 4]``, log deviations ``[5, columns]``, mean and variance of the prior."""
    generator = torch.Generator().manual_seed(columns)
    mean, log_sd, other = (torch.randn(5, size, generator=generator) for size in (4, columns, 4))
    if isinstance(prior, tuple):
        return mean, log_sd, *prior
    return mean, log_sd, other, (other.square() + 0.1)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("columns", [1, 4], ids=["row", "full"])
def test_the_divergence_is_that_of_torch(columns: int, prior: object) -> None:
    mean, log_sd, centre, variance = given(columns, prior)
    deviation = torch.as_tensor(variance).sqrt()
    other = Normal(torch.as_tensor(centre).expand(5, 4), deviation.expand(5, 4))
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


N, D, F, ROWS = 3, 5, 8, 4


def made(*, pre: bool) -> Together:
    """Behind a norm; the variances go together as those of a feed-forward layer do: nothing is cut off at 0."""
    widen, narrow = normal(F, D, seed=1), normal(D, F, seed=2)
    before = positive(N, D, seed=3)
    given = positive(N, D, seed=4) if pre else before
    active = positive(N, F, seed=5) + 0.25 * given @ widen.square().T
    added = positive(N, D, seed=6) + active @ narrow.square().T
    found = Together(before, given, active, added, widen, narrow, pre=pre)
    centred = normal(N, D, seed=7)
    centred = centred - centred.mean(1, keepdim=True)
    return found.normed(centred, positive(N, 1, seed=8), normal(D, seed=9))


def covariance(given: Together, word: int) -> Tensor:
    """Of the features of z, from the module's equations."""
    y, x, h, added = (one[word].diag() for one in (given.before, given.inputs, given.active, given.added))
    rest = h - 0.25 * (given.widen.square() @ x.diag()).diag()
    noise = added - (given.narrow.square() @ h.diag()).diag()
    through = 0.5 * given.narrow @ given.widen
    if given.pre:
        both = through @ (x * y).sqrt()
        of_t = y + through @ x @ through.T + both + both.T
    else:
        path = torch.eye(D) + through
        of_t = path @ y @ path.T
    of_t = of_t + given.narrow @ rest @ given.narrow.T + noise
    u = given.unit[word]
    slope = given.scale[word] * (torch.eye(D) - 1 / D - torch.outer(u, u) / D)
    slope = given.gain[:, None] * slope
    return slope @ of_t @ slope.T


@pytest.mark.parametrize("pre", [False, True], ids=["post-norm", "pre-norm"])
def test_words(pre: bool) -> None:
    moments, weight = made(pre=pre), normal(ROWS, D, seed=10)
    variance = moments.read(weight, torch.zeros(N, 1))
    for word in range(N):
        wanted = (weight @ covariance(moments, word) @ weight.T).diag()
        torch.testing.assert_close(variance[word], wanted, **NEAR)


@pytest.mark.parametrize("pre", [False, True], ids=["post-norm", "pre-norm"])
def test_means_over_words(pre: bool) -> None:
    """The total is shared out over the words as their variances are, and over directions as each word's are."""
    given, weight, total = made(pre=pre), normal(ROWS, D, seed=10), torch.tensor([2.0])
    variance, weights = positive(N, D, seed=11), positive(N, seed=12)
    found = given.pooled(weights, variance).read(weight, total)
    whole = sum(float(weights[a] * variance[a].sum()) for a in range(N))
    each = [(weight @ covariance(given, a) @ weight.T).diag() for a in range(N)]
    wanted = sum((2.0 * weights[a] * each[a] / whole for a in range(N)), torch.zeros(ROWS))
    torch.testing.assert_close(found, wanted, **NEAR)


def test_some_words_are_those_of_all() -> None:
    given, weight, at = made(pre=False), normal(ROWS, D, seed=10), torch.tensor([2, 0])
    none = torch.zeros(N, 1)
    torch.testing.assert_close(
        given.each(lambda one: one[at]).read(weight, none[:2]), given.read(weight, none)[at], **NEAR
    )


def test_nothing_is_known_before_a_norm_or_behind_a_second_one() -> None:
    given = made(pre=True)
    assert given.normed(given.unit, given.scale, given.gain) is None
    assert given.reads(F)
    assert not given.reads(F + 1)
    assert not Together(*(given.before,) * 4, given.widen, given.narrow, pre=True).reads(1)


def test_gradients() -> None:
    given, weight = made(pre=True), normal(ROWS, D, seed=10).requires_grad_()

    def read(weight: Tensor, before: Tensor, x: Tensor) -> Tensor:
        return replace(given, before=before, inputs=x).read(weight, before.sum(1, keepdim=True))

    assert torch.autograd.gradcheck(
        read, [weight, given.before.clone().requires_grad_(), given.inputs.clone().requires_grad_()]
    )
