"""Regression through the reference: (13), the derivation's own objective, in three forms, on a toy."""

from __future__ import annotations

import math
from typing import NamedTuple

import full_covariances as full
import pytest
import torch
from reference_block import matrices_of
from torch import Tensor

from probtrans_cli.models.bayesian.weights import kl

FEATURES, WORDS, HEADS, KEY, VALUE, INNER = 4, 3, 2, 2, 2, 8
SEQUENCES, TEST, STEPS, NOISE = 10, 30, 24, 0.2

pytestmark = pytest.mark.usefixtures("double")


def weights(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    found = matrices_of(normal, FEATURES, HEADS, KEY, VALUE, INNER)
    return found | {name: (name[0] == "g") + 0.1 * normal(FEATURES) for name in ("g1", "b1", "g2", "b2")}


class Fitted(NamedTuple):
    """The objective at every step, and on test the negative log likelihood a number, and the squared error."""

    objective: list[float]
    nll: float
    error: float


def fitted(form: full.Form, rules: full.Rules) -> Fitted:
    """Fit a block to what another one says of a few sequences, by (13)."""
    generator = torch.Generator().manual_seed(5)
    xs = torch.randn(SEQUENCES + TEST, FEATURES, WORDS, generator=generator)
    ys = torch.stack([full.forward(weights(1), x, HEADS) for x in xs])
    ys = ys + NOISE * torch.randn(ys.shape, generator=generator)
    means = {name: value.requires_grad_() for name, value in weights(2).items()}
    log_sds = {
        name: torch.full(
            (len(mean),), math.log(0.03 / (mean.shape[1] ** 0.5 if mean.ndim == 2 else 1))
        ).requires_grad_()
        for name, mean in means.items()
    }
    log_noise = torch.zeros(()).requires_grad_()
    optimizer = torch.optim.Adam([*means.values(), *log_sds.values(), log_noise], lr=0.04)

    def moments(x: Tensor) -> tuple[Tensor, Tensor]:
        variances = {name: (2 * value).exp() for name, value in log_sds.items()}
        return full.block(means, variances, x, x.new_zeros(*x.shape, *x.shape), HEADS, rules=rules, eps=1e-6)

    objective = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        bound = sum(
            full.log_likelihood(y, *moments(x), log_noise.exp(), form=form)
            for x, y in zip(xs[:SEQUENCES], ys[:SEQUENCES], strict=True)
        )
        for name, mean in means.items():
            log_sd = log_sds[name][:, None] if mean.ndim == 2 else log_sds[name]
            bound = bound - kl(mean, log_sd, float(name[0] == "g"), 1.0)
        (-bound).backward()
        optimizer.step()
        objective.append(float(bound.detach()))
    nll = error = 0.0
    with torch.no_grad():
        for x, y in zip(xs[SEQUENCES:], ys[SEQUENCES:], strict=True):
            mean, cov = moments(x)
            reading: full.Form = "seed" if form == "seed" else "predictive"
            nll -= float(full.log_likelihood(y, mean, cov, log_noise.exp(), form=reading)) / y.numel() / TEST
            error += float((y - mean).square().mean()) / TEST
    return Fitted(objective, nll, error)


@pytest.mark.exhaustive
def test_the_objective_rises_and_noise_belongs_into_it() -> None:
    """The variance of Y is 1.03. Measured: expected 0.43 (squared error 0.19), predictive 0.47; without noise, which
    (13) lacks, 118 by the corrected rules and 4.7 by the literal ones."""
    found = {
        (form, rules): fitted(form, rules)
        for form, rules in (
            ("expected", "corrected"), ("predictive", "corrected"), ("seed", "corrected"), ("seed", "seed"),
        )
    }  # fmt: skip
    for name, fit in found.items():
        rises = sum(later > earlier for earlier, later in zip(fit.objective, fit.objective[1:], strict=False))
        assert rises >= 0.9 * (STEPS - 1), name
    for form in ("expected", "predictive"):
        assert found[form, "corrected"].nll <= 1.2
        assert found[form, "corrected"].error < 0.4
        for rules in ("corrected", "seed"):
            assert found["seed", rules].nll >= found[form, "corrected"].nll + 1
