"""Random moments of words for the tests of their rules: states, weights and vectors of distances."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from probtrans_cli.models.bayesian import moments
from probtrans_cli.models.bayesian.moments import State

N, D, HEADS = 4, 6, 2
NEAR: dict[str, Any] = {"rtol": 0.0, "atol": 1e-9}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def positive(*shape: int, seed: int = 0) -> Tensor:
    return normal(*shape, seed=seed).square() + 0.1


def state(*, shared: bool = True, seed: int = 0) -> State:
    """Words ``[N, D]`` with random moments; T is that of a correlation matrix."""
    root = normal(N, N, seed=seed + 2)
    cov = root @ root.T + torch.eye(N)
    variance = positive(N, D, seed=seed + 1)
    scale = (variance.sum(1) / cov.diag()).sqrt()
    return State(normal(N, D, seed=seed), variance, cov * scale[:, None] * scale if shared else None)


def assert_shared_has_the_variances(found: State) -> None:
    torch.testing.assert_close(found.shared.diagonal(dim1=-2, dim2=-1), found.variance.sum(-1), **NEAR)


def distances(*names: str) -> moments.Distances:
    terms = {name: normal(N, N, 2, seed=20 + i) for i, name in enumerate(("query", "key", "value")) if name in names}
    return moments.Distances(*(terms.get(name) for name in ("query", "key", "value")))
