"""The latent variable of a word: one of d labels, or a point of a sphere (the latter is not in the paper).

Every potential of the field is linear in each of its labels and heads, written as vectors ``z`` of d numbers. So all
that mean field passes on of a variable with the scores ``M``, whose distribution is ``exp(M · z)``, is its mean:

    categorical   z is one of the d unit vectors            E[z] = softmax(M), the label distribution    (Eq. 5)
    spherical     z has length √d, and every direction is   E[z] = d ρ(κ) M        ρ(κ) = A(κ) / κ       κ = √d |M|
                  alike before anything is known            A(κ) = I_{d/2}(κ) / I_{d/2-1}(κ)         (von Mises-Fisher)

Of weak scores the mean of a spherical variable is ``M`` itself; of strong ones it is the direction of ``M``, at length
√d: a transformer's normalisation, of which the mean of squares is 1. Neighbouring ratios ``I_{ν+1}(κ) / (κ I_ν(κ)) =
ρ_ν`` are known from each other, ``ρ_ν = 1 / (2ν + 2 + κ² ρ_{ν+1})``.

symbol   variable    shape     meaning
M        scores      [*, d]    scores of a variable, divided by its weight λ
E[z]     mean        [*, d]    what messages are computed with, ``Q`` of a categorical one
κ        –           [*, 1]    concentration of the von Mises-Fisher distribution
H        entropy     [*]       in nats; of a spherical variable 0 where it is uniform, and otherwise less
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from probtrans_cli.recipe.model.probabilistic import LatentKind

_STEPS = 2  # of the ratios' recurrence, below an approximation that is the better the higher the order
_HALVINGS = 80  # of an interval of float64
_POINTS = 200  # of an integral


class Latent(NamedTuple):
    """A row of the kinds: ``mean`` of the scores; ``entropy`` of the mean, ``[*]``; ``start``: scores before any
    message, from the unary scores and the weight λ_Z."""

    mean: Callable[[Float[Tensor, "*n d"]], Float[Tensor, "*n d"]]
    entropy: Callable[[Float[Tensor, "*n d"]], Float[Tensor, " *n"]]
    start: Callable[[Float[Tensor, "*n d"], float], Float[Tensor, "*n d"]]


def spherical_mean(scores: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
    """``E[z]`` of a spherical variable, computed in float32 or better; the relative error of its formula is below 1e-6
    from d = 64 on, below 1e-4 from 5, and 4e-4 for two numbers and 7e-4 for one."""
    exact = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    d = exact.shape[-1]
    mean: Tensor = d * _ratio(d * exact.square().sum(-1, keepdim=True), d) * exact
    return mean.to(scores.dtype)


def _ratio(squares: Float[Tensor, "*n"], d: int) -> Float[Tensor, "*n"]:
    """``ρ(κ)`` for the ``squares`` κ²."""
    ratio = _approximate_ratio(squares, d + 2 * _STEPS)
    for size in range(d + 2 * _STEPS - 2, d - 1, -2):
        ratio = 1.0 / (size + squares * ratio)
    return ratio


def _approximate_ratio(squares: Float[Tensor, "*n"], d: int) -> Float[Tensor, "*n"]:
    """``ρ`` by the differential equation ``A' = 1 - A² - (d-1) A / κ``, with the slope ``A'`` of a lower bound of ``A``
    (Amos 1974), ``κ / (a + √(b² + κ²))``, ``a = (d-1)/2``, ``b = (d+1)/2``; for d above 1."""
    a, b = (d - 1) / 2, (d + 1) / 2
    root = (b * b + squares).sqrt()
    rest = 1.0 - (a + b * b / root) / (a + root).square()
    ratio: Tensor = rest / (a + (a * a + squares * rest).sqrt())
    return ratio


def categorical_entropy(mean: Float[Tensor, "*n d"]) -> Float[Tensor, " *n"]:
    """The entropy of a label."""
    terms: Tensor = torch.special.entr(mean)
    return terms.sum(-1)


def spherical_entropy(mean: Float[Tensor, "*n d"]) -> Float[Tensor, " *n"]:
    """``log Z(κ) - κ A(κ) = κ (1 - A(κ)) - ∫ (1 - A(x)) dx``, the integral from 0 to the concentration κ of that mean;
    ``Z`` is the mean of ``exp(κ cos)`` over all directions. A read-out: κ is found by halving an interval, and the
    integral is taken by points of Gauss and Legendre over ``log(1 + x)``."""
    d = mean.shape[-1]
    length = (mean.double().norm(dim=-1) / math.sqrt(d)).clamp(max=1.0 - 1e-9)
    low, high = torch.zeros_like(length), d * length / (1.0 - length.square()) + 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = _cosine(middle, d) < length
        low, high = torch.where(short, middle, low), torch.where(short, high, middle)
    node, weight = (torch.as_tensor(part, device=mean.device) for part in np.polynomial.legendre.leggauss(_POINTS))
    end = high.log1p()[..., None] / 2.0
    x = (end * (node + 1.0)).expm1()
    rest = (end * weight * (1.0 - _cosine(x, d)) * (x + 1.0)).sum(-1)
    entropy: Tensor = high * (1.0 - _cosine(high, d)) - rest
    return entropy.to(mean.dtype)


def _cosine(kappa: Float[Tensor, "*n"], d: int) -> Float[Tensor, "*n"]:
    """``A(κ)``, the mean cosine of the angle to the direction of the scores."""
    return kappa * _ratio(kappa.square(), d)


LATENT: dict[LatentKind, Latent] = {
    "categorical": Latent(lambda scores: scores.softmax(-1), categorical_entropy, lambda unary, _: unary),
    "spherical": Latent(spherical_mean, spherical_entropy, lambda unary, weight: unary / weight),
}
"""The kinds of `model.latent`. The paper's categorical labels start with ``exp(S)``, whatever λ_Z is (Eq. 7)."""

RECTIFIED = Latent(torch.relu, lambda degree: degree.square().sum(-1) / -2.0, lambda unary, _: unary)
"""What global features of `kind: rectified` are: numbers ``f ≥ 0`` with the potential ``exp(f F - f²/2)`` for their
score ``F``. In place of their mean stands the most probable value, ``max(0, F)``, which is the mean in the limit of a
small temperature; so no λ changes it. In place of an entropy stands what a degree costs by itself, ``-f²/2``."""
