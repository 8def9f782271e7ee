"""Means and variances through a transformer whose weights are Gaussian, in one pass: a rule for every step.

What is uncertain of a sentence, its :class:`State`, is a mean and a variance for every feature of every word, and for
every two words what all features together share:

    T_ab = Σ_i Cov(x_ai, x_bi)      so that T_aa = Σ_i v_ai;      R_ab = T_ab / √(T_aa T_bb)

It stands for Cov(x_ai, x_bj) = δ_ij √(v_ai v_bi) R_ab: features do not vary together, and one matrix says how words do.
This is the state `kronecker`. Without T, which is `diagonal`, words do not vary together either: as good for the
scores of words, but the variance of a mean over words is then several times too small.

The rules are checked by ``full.py``, which keeps whole covariances: some are exact (a linear layer's, for such states;
mean and variance of ReLU), others of second order. ``resc(T; new, old)_ab = T_ab √(new_a new_b / (old_a old_b))`` is T
where the sums of variances of the words have become others.

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
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

_LEAST = 1e-20  # what is least is certain


@dataclass(frozen=True, slots=True)
class State:
    """Moments of the words of padded sentences; see the module. What they are on padding changes nothing elsewhere.

    Without T, of any vectors ``[*b, d]``.
    """

    mean: Float[Tensor, "*b d"]
    variance: Float[Tensor, "*b d"]
    shared: Float[Tensor, "*c n n"] | None = None


def certain(mean: Float[Tensor, "*b n d"], *, shared: bool) -> State:
    """What is known: no variance; ``shared``: with a T."""
    n = mean.shape[-2]
    return State(mean, torch.zeros_like(mean), mean.new_zeros(*mean.shape[:-1], n) if shared else None)


# --- linear layers ----------------------------------------------------------------------------------------------------


def linear(
    state: State,
    weight: Float[Tensor, "r d"],
    of_weight: Tensor | None = None,
    bias: Float[Tensor, " r"] | None = None,
) -> State:
    """``y = W x + β``, its weights independent; ``of_weight``: their variance, ``[r]`` or ``[r, d]``.

        m = M Wᵀ + β        v' = v (W∘W)ᵀ + g σ²ᵀ,  g_a = ‖M_a‖² + Σ_i v_ai
        T' = resc(T; Σ v (W∘W)ᵀ, Σ v) + (Σ_r σ_r²) (M Mᵀ + T)

    and with one variance a weight, ``s_i = Σ_r σ_ri²``:

        v' = v (W∘W)ᵀ + (M² + v) σ²ᵀ        T' = resc(T; Σ v (W∘W)ᵀ, Σ v) + (M∘s) Mᵀ + resc(T; Σ v s, Σ v)
    """
    _check(state, "linear", of_weight)
    mean, before = state.mean, state.variance
    variance = functional.linear(before, weight.square())
    shared = None
    if state.shared is not None:
        shared = state.shared * _growth(variance.sum(-1), before.sum(-1))
    if of_weight is not None:
        if of_weight.ndim == 1:
            variance = variance + (mean.square() + before).sum(-1, keepdim=True) * of_weight
        else:
            variance = variance + functional.linear(mean.square() + before, of_weight)
        shared = None if shared is None else shared + _of_weights(state, of_weight)
    return State(functional.linear(mean, weight, bias), variance, shared)


def _of_weights(state: State, of_weight: Tensor) -> Float[Tensor, "*b n n"]:
    """What the weights' variance adds to T."""
    mean, shared = state.mean, state.shared
    assert shared is not None, "asked where there is one"
    if of_weight.ndim == 1:
        return of_weight.sum() * (mean @ mean.mT + shared)
    of_column = of_weight.sum(0)
    return (mean * of_column) @ mean.mT + shared * _growth(state.variance @ of_column, state.variance.sum(-1))


def add(one: State, other: State | Tensor) -> State:
    """The sum of what is independent, or of a state and what is certain."""
    if isinstance(other, Tensor):
        return State(one.mean + other, one.variance, one.shared)
    shared = None if one.shared is None or other.shared is None else one.shared + other.shared
    return State(one.mean + other.mean, one.variance + other.variance, shared)


# --- attention --------------------------------------------------------------------------------------------------------


def attention(
    state: State,
    weight: Float[Tensor, "r d"],
    of_weight: Tensor | None,
    bias: Float[Tensor, " r"] | None,
    heads: int,
    *,
    mask: Bool[Tensor, "*b n"] | None = None,
    keeps_shared: bool = True,
) -> tuple[State, Float[Tensor, "*b h n n"]]:
    """What every word takes from the others, all heads side by side, and the expected attention.

    ``weight``: that of the queries of all heads, then of the keys, then of the values; ``mask``: the words that may be
    looked at; ``keeps_shared``: whether what follows needs T. Of a head, with ``q, k, u`` the means and
    ``P = softmax(q kᵀ / √s)``; κ are the features' shares of the variance, ``κ^k_r = Σ_a v^k_ar / Σ_a Σ_r v^k_ar``:

        T^k = (Σ_r σ²_kr) (M Mᵀ + T) + resc(T; Σ_r vx^k_r, Σ v),  T^u alike;  v^q = vx^q + g σ²_q, see :func:`linear`
        δ_ac = [Σ_r (q² + v^q)_ar κ^k_r  c1_ac + Σ_r v^q_ar  c2_ac] / s,  variance of a logit against the mean logit
        c1_ac = T^k_cc - 2 (P T^k)_ac + (P T^k Pᵀ)_aa        c2_ac = ‖k̂_c‖² - 2 (P k̂ k̂ᵀ)_ac + ‖(P k̂)_a‖²,  k̂ = k √κ^k
        P̃ = softmax(logits + ½ δ / (1 + ¼ δ))               A = P̃ u,  the mean        Y = P̃ T^u P̃ᵀ
        S_a = (Σ_r (q² + v^q)_ar κ^k_r  T^k + Σ_r v^q_ar  k̂ k̂ᵀ) / s,  of which δ_a is the diagonal, centred
        χ_a = Σ_cc' Cov(p_ac, p_ac') (u uᵀ + T^u)_cc',  Cov(p_a) = D (I - 1 P_aᵀ) S_a (I - P_a 1ᵀ) D,  D = diag P_a
        B = P² ∘ δ       t1 = B u² - 2 A ∘ (B u) + A² ∘ (B 1),  over whose features χ is shared out
        v^A = t1 χ / Σ_r t1 + κ^u Y_aa
        T^A = Σ_h Y_h + resc(T^q; Σ_h χ, diag T^q),  T^q = (Σ σ²_q) (M Mᵀ + T) + T

    In the state `diagonal`:

        δ = ((q² + v^q) v^kᵀ + v^q (k²)ᵀ) / s, then δ (1 - 2 P) + Σ_c P²_ac δ_ac        v^A = t1 + (P̃² + B) v^u
    """
    _check(state, "attention", of_weight)
    projected = _projected(state, weight, of_weight, bias, heads)
    q, k, u = projected.mean.unbind(-4)
    of_q, of_k, of_u = projected.variance.unbind(-4)
    size = q.shape[-1]
    logits = q @ k.mT * size**-0.5
    if mask is not None:
        never = ~mask[..., None, None, :]
        logits = logits.masked_fill(never, torch.finfo(logits.dtype).min)
    p = logits.softmax(-1)
    if projected.shared is None:
        spread = (q.square() + of_q) @ of_k.mT + of_q @ k.square().mT
        spread = (spread - 2 * p * spread + (p.square() * spread).sum(-1, keepdim=True)) / size
    else:
        t_k, t_u = projected.shared
        share = _shares(of_k, mask)
        keys = k * share.sqrt()
        of_values = u @ u.mT + t_u
        values_seen = p @ of_values
        by_k, from_k = _by_logits(p, t_k, of_values, values_seen)
        by_q, from_q = _by_logits(p, keys @ keys.mT, of_values, values_seen)
        alpha = ((q.square() + of_q) * share).sum(-1, keepdim=True) / size
        beta = of_q.sum(-1, keepdim=True) / size
        spread, moved = alpha * by_k + beta * by_q, (alpha * from_k + beta * from_q).clamp_min(0)
    spread = spread.clamp_min(0)
    logits = logits + spread / 2 / (1 + spread / 4)
    if mask is not None:
        logits = logits.masked_fill(never, torch.finfo(logits.dtype).min)
    expected = logits.softmax(-1)
    mean = expected @ u
    b = p.square() * spread
    from_logits = (b @ u.square() - 2 * mean * (b @ u) + mean.square() * b.sum(-1, keepdim=True)).clamp_min(0)
    if projected.shared is None:
        return State(_stacked(mean), _stacked(from_logits + (expected.square() + b) @ of_u)), expected
    y = expected @ t_u @ expected.mT
    sums = from_logits.sum(-1, keepdim=True)
    variance = (
        from_logits * (moved / sums.clamp_min(_LEAST)) + _shares(of_u, mask) * y.diagonal(dim1=-2, dim2=-1)[..., None]
    )
    shared = None
    if keeps_shared:
        assert state.shared is not None, "so have the projections"
        t_q = state.shared
        if of_weight is not None:
            t_q = t_q + _of_weights(state, of_weight[: len(of_weight) // 3])
        of_heads = (moved * (sums > _LEAST)).squeeze(-1).sum(-2)
        shared = y.sum(-3) + t_q * _growth(of_heads, t_q.diagonal(dim1=-2, dim2=-1))
    return State(_stacked(mean), _stacked(variance), shared), expected


@dataclass(frozen=True, slots=True)
class _Projected:
    """Means and variances ``[*b, 3, h, n, s]`` of queries, keys and values; T of keys and values, head by head."""

    mean: Tensor
    variance: Tensor
    shared: tuple[Tensor, Tensor] | None


def _projected(state: State, weight: Tensor, of_weight: Tensor | None, bias: Tensor | None, heads: int) -> _Projected:
    def split(given: Tensor) -> Tensor:
        return given.view(*given.shape[:-1], 3, heads, -1).movedim(-4, -2)

    alone = State(state.mean, state.variance)
    found = linear(alone, weight, of_weight, bias)
    mean, variance = split(found.mean), split(found.variance)
    if state.shared is None:
        return _Projected(mean, variance, None)
    through = split(functional.linear(state.variance, weight.square())).sum(-1)  # Σ_r vx, [*b, 3, h, n]
    before = state.variance.sum(-1)[..., None, :]
    shared = []
    for part in (1, 2):
        t = state.shared[..., None, :, :] * _growth(through.select(-3, part), before)
        if of_weight is not None:
            of_heads = of_weight.view(3, heads, -1, *of_weight.shape[1:])[part]
            t = t + torch.stack([_of_weights(state, of_head) for of_head in of_heads], -3)
        shared.append(t)
    return _Projected(mean, variance, (shared[0], shared[1]))


def _by_logits(
    p: Tensor, cov: Float[Tensor, "*b h n n"], of_values: Tensor, values_seen: Tensor
) -> tuple[Float[Tensor, "*b h n n"], Float[Tensor, "*b h n 1"]]:
    """Of logits with the covariance S: their variances against their mean logit, and χ, see :func:`attention`.

    Σ_cc' Cov(p_c, p_c') Γ_cc' = [P (S∘Γ) Pᵀ]_aa - 2 Σ_c P_ac (P S)_ac (P Γ)_ac + (P S Pᵀ)_aa (P Γ Pᵀ)_aa
    """
    seen = p @ cov
    of_mean = (seen * p).sum(-1, keepdim=True)
    spread = cov.diagonal(dim1=-2, dim2=-1)[..., None, :] - 2 * seen + of_mean
    chi = (p * (p @ (cov * of_values) - 2 * seen * values_seen)).sum(-1, keepdim=True)
    return spread, chi + of_mean * (p * values_seen).sum(-1, keepdim=True)


def _shares(variance: Float[Tensor, "*b h n s"], mask: Tensor | None) -> Float[Tensor, "*b h 1 s"]:
    """κ, the shares of the features in the variance of all words."""
    if mask is not None:
        variance = variance * mask[..., None, :, None]
    sums = variance.sum(-2, keepdim=True)
    return sums / sums.sum(-1, keepdim=True).clamp_min(_LEAST)


def _stacked(heads: Float[Tensor, "*b h n s"]) -> Float[Tensor, "*b n r"]:
    return heads.transpose(-2, -3).flatten(-2)


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
    """The layer norm of every word; ``of_gain, of_shift``: variances σ_g², σ_b² of gains g and shifts b.

    Of first order, ``Σ_j (∂u_i/∂x_j)² v_j``, with the expected variance of the word's features for their own.

    a = M - mean M       s = 1 / (mean a² + (1 - 1/d) mean v + eps)       u = a √s       w = mean (u² v)
    v^u = s ((1 - 2/d) v + mean(v) / d + u² (w - 2 v) / d)                m = g ∘ u + b
    v' = v^u (g² + σ_g²) + σ_g² u² + σ_b²
    T' = resc(T; Σ v^u (g² + σ_g²), Σ v) + (u ∘ σ_g²) uᵀ + Σ σ_b²
    """
    _check(state, "layer_norm", of_gain, of_shift)
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
    shared = None if state.shared is None else state.shared * _growth(variance.sum(-1), v.sum(-1))
    if of_gain is not None:
        variance = variance + of_gain * u.square()
        shared = None if shared is None else shared + (u * of_gain) @ u.mT
    if of_shift is not None:
        variance = variance + of_shift
        shared = None if shared is None else shared + of_shift.sum()
    return State(torch.addcmul(shift, gain, u), variance, shared)


def relu(state: State) -> State:
    """``max(0, x)``, ``s = √v``, ``t = M / s``: mean and variance exact, T by two terms of the series in R.

    m = s (t Φ + φ)      v' = v (Φ + t² Φ (1 - Φ) + t φ (1 - 2 Φ) - φ²)
    T'_ab = R_ab Σ_i y_ai y_bi + ½ R²_ab Σ_i z_ai z_bi,   y = s Φ,  z = s φ;   T'_aa = Σ_i v'_ai
    """
    _check(state, "relu")
    deviation = state.variance.clamp_min(_LEAST).sqrt()
    t = state.mean / deviation
    below, density = _normal(t), _density(t)
    with_slope, bent = deviation * below, deviation * density
    mean = state.mean * below + bent
    above = 1 - below
    share = below + t.square() * below * above + t * density * (above - below) - density.square()
    return State(mean, *_activated(state, state.variance * share.clamp_min(0), with_slope, bent))


def gelu(state: State) -> State:
    """``x Φ(x)``: the mean exact, the variance by three terms of the series in v, T by two.

    t = √(1 + v),  a = M / t;     m = M Φ(a) + (v / t) φ(a)     v' = Σ_n d_n² vⁿ / n!     T': y = √v d_1,  z = v d_2
    d_1 = Φ(a) + M φ(a) / t³   d_2 = φ(a) (1/t + 1/t³ - M² / t⁵)   d_3 = -M φ(a) (1/t³ + 3/t⁵ - M² / t⁷)
    """
    _check(state, "gelu")
    m, v = state.mean, state.variance
    inverse = (1 + v).rsqrt()
    a = m * inverse
    below, density = _normal(a), _density(a) * inverse
    square, of_a = inverse.square(), a.square()
    first = below + m * density * square
    second = density * (1 + square - of_a * square)
    third = -m * density * square * (1 + 3 * square - of_a * square)
    mean = m * below + v * density
    variance = v * (first.square() + v * (second.square() / 2 + v * third.square() / 6))
    return State(mean, *_activated(state, variance, v.clamp_min(_LEAST).sqrt() * first, v * second))


def by_points(state: State, function: Callable[[Tensor], Tensor], name: str) -> State:
    """Any function of every feature, by 16 points of Gauss and Hermite; T by two terms of the series in R.

    m = E f(M + s x)     v' = Var f     y = E x f,  z = E (x² - 1) f;     x ~ N(0, 1)
    """
    _check(state, name)
    deviation = state.variance.clamp_min(_LEAST).sqrt()
    points, weights = np.polynomial.hermite_e.hermegauss(16)
    weights = weights / weights.sum()
    values = [function(torch.add(state.mean, deviation, alpha=float(x))) for x in points]

    def sum_of(factors: np.ndarray, terms: list[Tensor]) -> Tensor:
        return sum((float(w) * one for w, one in zip(factors, terms, strict=True)), torch.zeros_like(deviation))

    mean = sum_of(weights, values)
    variance = sum_of(weights, [(one - mean).square() for one in values]) * (state.variance > 0)
    terms = [sum_of(weights * points, values), sum_of(weights * (points**2 - 1), values)]
    return State(mean, *_activated(state, variance, *terms))


def _activated(state: State, variance: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor | None]:
    """Variance and T of a function of every feature."""
    if state.shared is None:
        return variance, None
    r = state.shared * _growth(torch.ones_like(variance[..., 0]), state.variance.sum(-1))
    shared = r * (y @ y.mT) + r.square() / 2 * (z @ z.mT)
    return variance, torch.diagonal_scatter(shared, variance.sum(-1), dim1=-2, dim2=-1)


# --- of a sentence ----------------------------------------------------------------------------------------------------


def mean_over_words(state: State, weights: Float[Tensor, "*b n"]) -> State:
    """``Σ_a w_a x_a``, a vector a sentence: mean and variance ``[*b, d]``.

    The variance is ``wᵀ T w``, shared out over the features as ``Σ_a w_a v_ai``; in the state `diagonal` it is
    ``Σ_a w_a² v_ai``.
    """
    _check(state, "mean_over_words")
    mean = (weights[..., None] * state.mean).sum(-2)
    if state.shared is None:
        return State(mean, (weights.square()[..., None] * state.variance).sum(-2))
    total = (weights[..., None, :] @ state.shared @ weights[..., None])[..., 0].clamp_min(0)
    of_features = (weights[..., None] * state.variance).sum(-2)
    return State(mean, total * of_features / of_features.sum(-1, keepdim=True).clamp_min(_LEAST))


# --- small parts ------------------------------------------------------------------------------------------------------


def _check(state: State, rule: str, *others: Tensor | None) -> None:
    for given in (state.variance, *others):
        if given is not None and given.numel() and bool(given.amin() < 0):
            raise ValueError(f"{rule}: a variance is negative")


def _growth(new: Float[Tensor, "*#b n"], old: Float[Tensor, "*#b n"]) -> Float[Tensor, "*b n n"]:
    """``√(new_a new_b / (old_a old_b))``, 0 where something was certain."""
    known = old <= _LEAST
    root = (new / old.masked_fill(known, 1.0)).clamp_min(_LEAST).sqrt().masked_fill(known, 0.0)
    return root[..., :, None] * root[..., None, :]


def _normal(t: Tensor) -> Tensor:
    """Φ."""
    below: Tensor = torch.special.ndtr(t)
    return below


def _density(t: Tensor) -> Tensor:
    """φ."""
    return torch.exp(t.square() * -0.5) * (1 / math.sqrt(2 * math.pi))
