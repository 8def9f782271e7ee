"""Spherical latents: their means, entropies, energy, and options."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from exact import gap
from oracle import on_the_sphere
from scipy.special import ive
from small_models import encoder, infer, name, sentences
from torch.nn import functional

from probtrans_cli.models import InconsistentError, build
from probtrans_cli.models.base import Words
from probtrans_cli.models.probabilistic import inference
from probtrans_cli.models.probabilistic.inference import LATENT, State, spherical_entropy, spherical_mean

SPHERICAL = {"latent": "spherical"}


# --- the mean ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "tolerance"), [(1, 7e-4), (2, 4e-4), (5, 1e-4), (16, 2e-5), (64, 1e-6), (384, 1e-6)])
def test_the_mean_is_a_ratio_of_bessel_functions(d: int, tolerance: float) -> None:
    """Those of scipy, for concentrations from next to nothing to where a direction is certain."""
    kappa = np.logspace(-3, 3.5, 500)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = ive(d / 2, kappa) / ive(d / 2 - 1, kappa)
    there = (ive(d / 2, kappa) > 1e-250) & (ive(d / 2 - 1, kappa) > 1e-250)
    assert there.sum() > 200
    scores = torch.zeros(len(kappa), d, dtype=torch.float64)
    scores[:, -1] = torch.from_numpy(kappa / math.sqrt(d))  # |M| of a concentration
    found = spherical_mean(scores)[:, -1].numpy() / math.sqrt(d)
    assert np.max(np.abs(found / ratio - 1.0)[there]) < tolerance


@pytest.mark.parametrize("d", [2, 3, 7])
def test_the_mean_is_that_of_points_on_the_sphere(d: int) -> None:
    """Drawn at random and weighted by ``exp(M · z)``, which knows of no integral."""
    generator = torch.Generator().manual_seed(d)
    points = torch.randn(400_000, d, generator=generator, dtype=torch.float64)
    points *= math.sqrt(d) / points.norm(dim=1, keepdim=True)
    scores = torch.randn(d, generator=generator, dtype=torch.float64)
    shares = (points @ scores).softmax(0)
    torch.testing.assert_close(spherical_mean(scores), shares @ points, rtol=0, atol=0.02)
    torch.testing.assert_close(
        spherical_mean(scores), torch.tensor(on_the_sphere(scores.tolist())).double(), rtol=1e-3, atol=0
    )


def test_weak_scores_are_their_own_mean_and_strong_ones_a_direction() -> None:
    """Nothing stands for no score, and the gradient there is that of the scores themselves."""
    scores = torch.randn(3, 8, dtype=torch.float64)
    torch.testing.assert_close(spherical_mean(1e-4 * scores), 1e-4 * scores, rtol=1e-6, atol=0)
    direction = math.sqrt(8) * functional.normalize(scores, dim=-1)
    torch.testing.assert_close(spherical_mean(1e6 * scores), direction, rtol=1e-5, atol=0)
    assert bool((spherical_mean(scores * 50).norm(dim=-1) < math.sqrt(8)).all())
    nothing = torch.zeros(1, 8, dtype=torch.float64, requires_grad=True)
    assert not spherical_mean(nothing).any()
    slope = torch.autograd.functional.jacobian(spherical_mean, nothing)
    torch.testing.assert_close(slope.reshape(8, 8), torch.eye(8, dtype=torch.float64))
    assert torch.autograd.gradcheck(spherical_mean, scores.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    """Sums of squares of loud scores are beyond what float16 holds; an encoder in such numbers stays in them."""
    scores = torch.full((1, 128), 200.0, dtype=dtype)
    torch.testing.assert_close(spherical_mean(scores), torch.ones(1, 128, dtype=dtype), rtol=0.01, atol=0)
    model = encoder(**SPHERICAL, root={"labels": 3}, message_weight={"labels": 0.5})
    unary, mask = sentences([4, 2])
    expected = model(Words(unary, mask)).states
    found = model.to(dtype)(Words(unary.to(dtype), mask)).states
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=0.1, atol=0.3)


# --- entropy and energy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 6])
def test_the_entropy_is_that_of_an_integral(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative to the uniform distribution, whose entropy is 0; that of a direction nearly certain is far below."""
    monkeypatch.setattr(inference, "_STEPS", 60)
    node, weight = np.polynomial.legendre.leggauss(400)
    angle = (node + 1.0) * math.pi / 2.0
    uniform = weight * np.sin(angle) ** (d - 2)
    uniform /= uniform.sum()
    for kappa in (0.01, 30.0):
        cosine = np.cos(angle)
        partition = (uniform * np.exp(kappa * cosine)).sum()
        mean = (uniform * np.exp(kappa * cosine) * cosine).sum() / partition
        vector = torch.zeros(1, d, dtype=torch.float64)
        vector[0, 0] = math.sqrt(d) * mean
        assert float(spherical_entropy(vector)) == pytest.approx(math.log(partition) - kappa * mean, abs=1e-7)
    assert float(spherical_entropy(torch.zeros(1, d))) == pytest.approx(0.0, abs=1e-7)


def test_the_entropy_of_a_certain_direction_is_finite() -> None:
    """Means of float32 may have the whole length of the sphere; nothing as large as the concentration is made."""
    loud = spherical_mean(1e8 * torch.randn(4, 16))
    found = spherical_entropy(loud)
    assert bool(found.isfinite().all())
    assert bool((found < spherical_entropy(spherical_mean(torch.full((4, 16), 100.0)))).all())


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"root": {"labels": 2}}, {"message_weight": {"labels": 0.4, "heads": 1.5}}, {"gains": True}],
    ids=name,
)
def test_sequential_updates_never_raise_the_energy(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One word or root at a time goes to the mean of minus the gradient of the energy's first part."""
    monkeypatch.setattr(inference, "_STEPS", 60)
    model = encoder(**SPHERICAL, **options, labels=3).requires_grad_(False)
    unary, mask = sentences([4, 2], labels=3)
    state = infer(model, unary, mask)[-1]
    before = first = model.energy(unary, mask, state)
    weight = model.inference.labels.weight
    for i in [*range(4), -1, *range(4)]:
        field = "root" if i < 0 else "labels"
        if getattr(state, field) is None:
            continue
        given = getattr(state, field).clone().requires_grad_()
        model.field(unary, mask).expected_score(state._replace(**{field: given})).sum().backward()
        new = given.detach().clone()
        rows = slice(None) if i < 0 else (slice(None), i)
        new[rows] = spherical_mean(given.grad[rows] / weight)
        if i >= 0:
            new[~mask] = 0.0
        state = state._replace(**{field: new})
        after = model.energy(unary, mask, state)
        assert bool((after <= before + 1e-8).all()), (field, i)
        before = after
    assert bool((before < first - 1e-4).all())
    assert isinstance(state, State)


# --- options ----------------------------------------------------------------------------------------------------------


def test_a_spherical_latent_has_no_labels() -> None:
    """The section says so, the encoder refuses, and probabilities are no representation of it."""
    made = build({"kind": "probabilistic", **SPHERICAL, "labels": 16, "channels": 2})
    assert not made.section.facts.has_latent_labels
    assert made.inference.heads.weight == 4.0  # the square root of d
    with pytest.raises(TypeError, match="no latent labels"):
        made.latent_labels(torch.zeros(1, 2, 16))
    with pytest.raises(ValueError, match="spherical latents are not"):
        gap(made, torch.zeros(2, 16))
    with pytest.raises(InconsistentError, match="no probabilities"):
        build({"kind": "probabilistic", **SPHERICAL, "output": "probabilities"})
    assert set(LATENT) == {"categorical", "spherical"}


def test_a_loud_start_is_that_of_the_key() -> None:
    """`ternary_std` is the deviation of the factors, or of the scores where there are none; `D` keeps its own."""
    for kind in ("uv", "shared", "rotary", "none"):
        torch.manual_seed(0)
        rank = {} if kind == "none" else {"rank": 16}
        section = {"kind": "probabilistic", "labels": 64, "channels": 4, "decomposition": {"kind": kind, **rank}}
        ternary = build({**section, "ternary_std": 0.03}).ternary
        for part, values in ternary.named_parameters():
            assert float(values.detach().std()) == pytest.approx(1.0 if part == "D" else 0.03, rel=0.1), (kind, part)
        root = build({**section, "ternary_std": 0.03, "root": {"labels": 32}}).root
        assert float(root.T.detach().std()) == pytest.approx(0.03, rel=0.1)
