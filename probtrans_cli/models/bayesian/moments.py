"""Means and variances through a transformer whose weights are Gaussian, in one pass: a rule for every step.

What is uncertain of a sentence, its :class:`State`, is a mean and a variance for every feature of every word, and for
every two words what all features together share:

    T_ab = Σ_i Cov(x_ai, x_bi)      so that T_aa = Σ_i v_ai;      R_ab = T_ab / √(T_aa T_bb)

It stands for Cov(x_ai, x_bj) = δ_ij √(v_ai v_bi) R_ab: features do not vary together, and one matrix says how words do.
This is the state `kronecker`. Without T, which is `diagonal`, words do not vary together either: as good for the
scores of words, but the variance of a mean over words is then several times too small.

``tests/full_covariances.py``, which keeps whole covariances, checks the rules: some are exact (a linear layer's, for
such states; mean and variance of ReLU), others of second order. ``resc(T; new, old)_ab = T_ab √(new_a new_b / (old_a
old_b))`` is T where the sums of variances of the words have become others. The state and linear layers are in
``state.py``, attention in ``attention.py``; what an output layer reads, whose features do vary together, is in
``state.Together``.

symbol   code            shape           meaning
M        mean            [*b, n, d]      of the features of the words
v        variance        [*b, n, d]
T        shared          [*b, n, n]      None in the state `diagonal`
W        weight          [r, d]          mean of the weights of a linear layer
σ²       of_weight       [r], [r, d]     their variance, one a row or one a weight; None = they are certain
q k u    q k u           [*b, h, n, s]   means of queries, keys and values, s: size of a head
P        p               [*b, h, n, n]   softmax of the logits' means
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from probtrans_cli.models.bayesian.attention import Distances, attention
from probtrans_cli.models.bayesian.state import LEAST, State, check, growth, linear

__all__ = [
    "Distances", "State", "attention", "by_points", "gelu", "layer_norm", "linear", "mean_over_words",
    "relu",
]  # fmt: skip

_AT_ONCE = 2**14  # numbers, 64 KB


# --- functions of every feature ---------------------------------------------------------------------------------------


def layer_norm(
    state: State,
    gain: Float[Tensor, " d"],
    shift: Float[Tensor, " d"],
    *,
    eps: float,
    of_gain: Float[Tensor, " d"] | None = None,
    of_shift: Float[Tensor, " d"] | None = None,
) -> State:
    """Return the layer norm of every word; ``of_gain, of_shift``: variances σ_g², σ_b² of gains g and shifts b.

    Of first order, ``Σ_j (∂u_i/∂x_j)² v_j``, with the expected variance of the word's features for their own.

    a = M - mean M       s = 1 / (mean a² + (1 - 1/d) mean v + eps)       u = a √s       w = mean (u² v)
    v^u = s ((1 - 2/d) v + mean(v) / d + u² (w - 2 v) / d)                m = g ∘ u + b
    v' = v^u (g² + σ_g²) + σ_g² u² + σ_b²
    T' = resc(T; Σ v^u (g² + σ_g²), Σ v) + (u ∘ σ_g²) uᵀ + Σ σ_b²
    """
    check(state, "layer_norm", of_gain, of_shift)
    v, d = state.variance, state.mean.shape[-1]
    a = state.mean - state.mean.mean(-1, keepdim=True)
    mean_v = v.mean(-1, keepdim=True)
    s = 1 / (a.square().mean(-1, keepdim=True) + (1 - 1 / d) * mean_v + eps)
    u = a * s.sqrt()
    with_u = u * v
    w = (with_u * u).mean(-1, keepdim=True)
    slope = u * w + 2 * (with_u.mean(-1, keepdim=True) - with_u)
    of_u = (s * (v + (mean_v - 2 * v + u * slope) / d)).clamp_min(0)
    variance = of_u * (gain.square() if of_gain is None else gain.square() + of_gain)
    shared = None if state.shared is None else state.shared * growth(variance.sum(-1), v.sum(-1))
    if of_gain is not None:
        variance = variance + of_gain * u.square()
        shared = None if shared is None else shared + (u * of_gain) @ u.mT
    if of_shift is not None:
        variance = variance + of_shift
        shared = None if shared is None else shared + of_shift.sum()
    together = None if state.together is None else state.together.normed(u, s.sqrt(), gain)
    return State(torch.addcmul(shift, gain, u), variance, shared, together)


def relu(state: State) -> State:
    """Return ``max(0, x)``, with ``s = √v``, ``t = M / s``: mean and variance exact, T by two terms of the series in R.

    m = M Φ + s φ        v' = v Φ + m (M - m)
    T'_ab = R_ab Σ_i y_ai y_bi + ½ R²_ab Σ_i z_ai z_bi,   y = s Φ,  z = s φ;   T'_aa = Σ_i v'_ai
    """

    def rule(m: Tensor, v: Tensor) -> Activated:
        s = v.clamp_min(LEAST).sqrt()
        t = m / s
        below, bent = _normal(t), s * _density(t)
        mean = torch.addcmul(bent, m, below)
        return mean, torch.addcmul(v * below, mean, m - mean).clamp_min(0), s * below, bent

    return _activated(state, "relu", rule)


def gelu(state: State) -> State:
    """Return ``x Φ(x)``: the mean exact, the variance by three terms of the series in v, T by two.

    t = √(1 + v),  a = M / t;     m = M Φ(a) + (v / t) φ(a)     v' = Σ_n d_n² vⁿ / n!     T': y = √v d_1,  z = v d_2
    d_1 = Φ(a) + M φ(a) / t³   d_2 = φ(a) (1/t + 1/t³ - M² / t⁵)   d_3 = -M φ(a) (1/t³ + 3/t⁵ - M² / t⁷)
    """

    def rule(m: Tensor, v: Tensor) -> Activated:
        inverse = (1 + v).rsqrt()
        a = m * inverse
        below, density = _normal(a), _density(a) * inverse
        square, of_a = inverse.square(), a.square()
        first = below + m * density * square
        second = density * (1 + square - of_a * square)
        third = -m * density * square * (1 + 3 * square - of_a * square)
        mean = m * below + v * density
        variance = v * (first.square() + v * (second.square() / 2 + v * third.square() / 6))
        return mean, variance, v.clamp_min(LEAST).sqrt() * first, v * second

    return _activated(state, "gelu", rule)


def by_points(state: State, function: Callable[[Tensor], Tensor], name: str) -> State:
    """Return any function of every feature, by 16 points of Gauss and Hermite; T by two terms of the series in R.

    m = E f(M + s x)     v' = Var f     y = E x f,  z = E (x² - 1) f;     x ~ N(0, 1)
    """
    points, weights = np.polynomial.hermite_e.hermegauss(16)
    weights = weights / weights.sum()

    def rule(m: Tensor, v: Tensor) -> Activated:
        s = v.clamp_min(LEAST).sqrt()
        values = [function(torch.add(m, s, alpha=float(x))) for x in points]

        def sum_of(factors: np.ndarray, terms: list[Tensor]) -> Tensor:
            return sum((float(w) * term for w, term in zip(factors, terms, strict=True)), torch.zeros_like(m))

        mean = sum_of(weights, values)
        variance = sum_of(weights, [(value - mean).square() for value in values]) * (v > 0)
        return mean, variance, sum_of(weights * points, values), sum_of(weights * (points**2 - 1), values)

    return _activated(state, name, rule)


Activated = tuple[Tensor, Tensor, Tensor, Tensor]
"""Mean and variance of a function of every feature, and y and z, see :func:`relu`."""


def _activated(state: State, name: str, rule: Callable[[Tensor, Tensor], Activated]) -> State:
    """Return the moments of a function of every feature, and T.

    Without gradients, a few numbers at a time, whose intermediate results stay in the cache: half of the time.
    """
    check(state, name)
    mean, variance = state.mean, state.variance
    learns = torch.is_grad_enabled() and (mean.requires_grad or variance.requires_grad)
    if learns or mean.device.type != "cpu" or torch.compiler.is_compiling() or mean.numel() <= _AT_ONCE:
        mean, variance, y, z = rule(mean, variance)
    else:
        blocks = zip(*(torch.split(values.flatten(), _AT_ONCE) for values in (mean, variance)), strict=True)
        results = [torch.empty(mean.numel(), dtype=mean.dtype) for _ in range(4)]
        for number, block in enumerate(blocks):
            for result, part in zip(results, rule(*block), strict=True):
                result[number * _AT_ONCE : (number + 1) * _AT_ONCE] = part
        mean, variance, y, z = (result.view(mean.shape) for result in results)
    if state.shared is None:
        return State(mean, variance)
    r = state.shared * growth(torch.ones_like(variance[..., 0]), state.variance.sum(-1))
    shared = r * (y @ y.mT) + r.square() / 2 * (z @ z.mT)
    return State(mean, variance, torch.diagonal_scatter(shared, variance.sum(-1), dim1=-2, dim2=-1))


# --- of a sentence ----------------------------------------------------------------------------------------------------


def mean_over_words(state: State, weights: Float[Tensor, "*b n"]) -> State:
    """Return ``Σ_a w_a x_a``, a vector a sentence: mean and variance ``[*b, d]``.

    The variance is ``wᵀ T w``, shared out over the features as ``Σ_a w_a v_ai``; in the state `diagonal` it is
    ``Σ_a w_a² v_ai``.
    """
    check(state, "mean_over_words")
    mean = (weights[..., None] * state.mean).sum(-2)
    together = None if state.together is None else state.together.pooled(weights, state.variance)
    if state.shared is None:
        return State(mean, (weights.square()[..., None] * state.variance).sum(-2), None, together)
    total = (weights[..., None, :] @ state.shared @ weights[..., None])[..., 0].clamp_min(0)
    of_features = (weights[..., None] * state.variance).sum(-2)
    variance = total * of_features / of_features.sum(-1, keepdim=True).clamp_min(LEAST)
    return State(mean, variance, None, together)


# --- small parts ------------------------------------------------------------------------------------------------------


def _normal(t: Tensor) -> Tensor:
    """Φ."""
    return 0.5 + 0.5 * torch.erf(t * math.sqrt(0.5))


def _density(t: Tensor) -> Tensor:
    """φ, and what is less than 1e-26 as that: numbers below the least normal one take fifteen times as long."""
    return torch.exp(-(t.square() * 0.5).clamp_max(60.0)) * (1 / math.sqrt(2 * math.pi))
