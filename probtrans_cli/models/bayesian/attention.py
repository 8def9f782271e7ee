"""Attention of uncertain words, whose queries, keys and values come of uncertain weights; see ``moments.py``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models.bayesian.state import LEAST, State, check, growth, of_weights, products, with_weights


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
    check(state, "attention", of_weight)
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
        alpha = ((q.square() + of_q) * share).sum(-1, keepdim=True) / size
        beta = of_q.sum(-1, keepdim=True) / size
        spread, moved = _by_logits(p, (alpha, t_k), (beta, keys @ keys.mT), u @ u.mT + t_u)
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
        from_logits * (moved / sums.clamp_min(LEAST)) + _shares(of_u, mask) * y.diagonal(dim1=-2, dim2=-1)[..., None]
    )
    shared = None
    if keeps_shared:
        assert state.shared is not None, "so have the projections"
        t_q = state.shared
        if of_weight is not None:
            t_q = t_q + of_weights(state, of_weight[: len(of_weight) // 3])
        of_heads = (moved * (sums > LEAST)).squeeze(-1).sum(-2)
        shared = y.sum(-3) + t_q * growth(of_heads, t_q.diagonal(dim1=-2, dim2=-1))
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

    through = functional.linear(state.variance, weight.square())
    variance = through if of_weight is None else with_weights(state, of_weight, through)
    mean = split(functional.linear(state.mean, weight, bias))
    if state.shared is None:
        return _Projected(mean, split(variance), None)
    sums = split(through)[..., 1:, :, :, :].sum(-1)  # Σ_r vx of keys and values, [*b, 2, h, n]
    before = state.variance.sum(-1)[..., None, None, :]
    shared = state.shared[..., None, None, :, :] * growth(sums, before)
    if of_weight is not None:
        of_heads = of_weight.view(3, heads, -1, *of_weight.shape[1:])[1:]
        if of_weight.ndim == 1:
            shared = torch.addcmul(shared, of_heads.sum(-1)[:, :, None, None], products(state)[..., None, None, :, :])
        else:
            each = [of_weights(state, of_head) for of_head in of_heads.flatten(0, 1)]
            shared = shared + torch.stack(each, -3).view(shared.shape)
    of_keys, of_values = shared.unbind(-4)
    return _Projected(mean, split(variance), (of_keys, of_values))


def _by_logits(
    p: Float[Tensor, "*b h n n"], of_keys: tuple[Tensor, Tensor], of_queries: tuple[Tensor, Tensor], of_values: Tensor
) -> tuple[Float[Tensor, "*b h n n"], Float[Tensor, "*b h n 1"]]:
    """δ and χ, see :func:`attention`; a row of logits has the covariance S_a, the sum of two products of a factor
    ``[*b, h, n, 1]`` of the row and a matrix; ``of_values``: Γ.

    χ_a = Σ_cc' Cov(p_c, p_c') Γ_cc' = (P (S_a∘Γ) Pᵀ)_aa - 2 Σ_c P_ac (P S_a)_ac (P Γ)_ac + (P S_a Pᵀ)_aa (P Γ Pᵀ)_aa
    """
    (alpha, one), (beta, other) = of_keys, of_queries
    seen = torch.addcmul(alpha * (p @ one), beta, p @ other)
    own = alpha * one.diagonal(dim1=-2, dim2=-1)[..., None, :]
    own = torch.addcmul(own, beta, other.diagonal(dim1=-2, dim2=-1)[..., None, :])
    of_mean = (seen * p).sum(-1, keepdim=True)
    spread = own - 2 * seen + of_mean
    values_seen = p @ of_values
    both = torch.addcmul(alpha * (p @ (one * of_values)), beta, p @ (other * of_values))
    chi = (p * torch.addcmul(both, seen, values_seen, value=-2)).sum(-1, keepdim=True)
    return spread, (chi + of_mean * (p * values_seen).sum(-1, keepdim=True)).clamp_min(0)


def _shares(variance: Float[Tensor, "*b h n s"], mask: Tensor | None) -> Float[Tensor, "*b h 1 s"]:
    """κ, the shares of the features in the variance of all words."""
    if mask is not None:
        variance = variance * mask[..., None, :, None]
    sums = variance.sum(-2, keepdim=True)
    return sums / sums.sum(-1, keepdim=True).clamp_min(LEAST)


def _stacked(heads: Float[Tensor, "*b h n s"]) -> Float[Tensor, "*b n r"]:
    return heads.transpose(-2, -3).flatten(-2)
