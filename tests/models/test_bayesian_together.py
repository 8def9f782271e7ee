"""What is read off a feed-forward layer, beside whole covariances of its features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from probtrans_cli.models.bayesian.state import Together

N, D, F, ROWS = 3, 5, 8, 4
NEAR: dict[str, Any] = {"rtol": 0.0, "atol": 1e-9}


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def positive(*shape: int, seed: int) -> Tensor:
    return normal(*shape, seed=seed).square() + 0.1


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
    behind = found.normed(centred, positive(N, 1, seed=8), normal(D, seed=9))
    assert behind is not None
    return behind


def covariance(given: Together, word: int) -> Tensor:
    """Of the features of z, from the module's equations."""
    assert given.unit is not None
    assert given.scale is not None
    assert given.gain is not None
    y, x, h, added = (one[word].diag() for one in (given.before, given.inputs, given.active, given.added))
    rest = h - 0.25 * (given.widen.square() @ x.diag()).diag()
    noise = added - (given.narrow.square() @ h.diag()).diag()
    through = 0.5 * given.narrow @ given.widen
    if given.pre:
        both = through @ (x * y).sqrt()
        of_t = y + through @ x @ through.T + both + both.T
    else:
        path = torch.eye(D).double() + through
        of_t = path @ y @ path.T
    of_t = of_t + given.narrow @ rest @ given.narrow.T + noise
    u = given.unit[word]
    slope = given.scale[word] * (torch.eye(D).double() - 1 / D - torch.outer(u, u) / D)
    slope = given.gain[:, None] * slope
    return slope @ of_t @ slope.T


@pytest.mark.parametrize("pre", [False, True], ids=["post-norm", "pre-norm"])
def test_words(pre: bool) -> None:
    given, weight = made(pre=pre), normal(ROWS, D, seed=10)
    found = given.read(weight, torch.zeros(N, 1).double())
    for word in range(N):
        wanted = (weight @ covariance(given, word) @ weight.T).diag()
        torch.testing.assert_close(found[word], wanted, **NEAR)


@pytest.mark.parametrize("pre", [False, True], ids=["post-norm", "pre-norm"])
def test_means_over_words(pre: bool) -> None:
    """The total is shared out over the words as their variances are, and over directions as each word's are."""
    given, weight, total = made(pre=pre), normal(ROWS, D, seed=10), torch.tensor([2.0], dtype=torch.float64)
    variance, weights = positive(N, D, seed=11), positive(N, seed=12)
    found = given.pooled(weights, variance).read(weight, total)
    whole = sum(float(weights[a] * variance[a].sum()) for a in range(N))
    each = [(weight @ covariance(given, a) @ weight.T).diag() for a in range(N)]
    wanted = sum((2.0 * weights[a] * each[a] / whole for a in range(N)), torch.zeros(ROWS).double())
    torch.testing.assert_close(found, wanted, **NEAR)


def test_some_words_are_those_of_all() -> None:
    given, weight, at = made(pre=False), normal(ROWS, D, seed=10), torch.tensor([2, 0])
    none = torch.zeros(N, 1).double()
    torch.testing.assert_close(
        given.each(lambda one: one[at]).read(weight, none[:2]), given.read(weight, none)[at], **NEAR
    )


def test_nothing_is_known_before_a_norm_or_behind_a_second_one() -> None:
    given = made(pre=True)
    assert given.unit is not None
    assert given.scale is not None
    assert given.gain is not None
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
