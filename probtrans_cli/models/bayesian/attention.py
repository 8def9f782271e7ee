"""Attention of uncertain words, whose queries, keys and values come of uncertain weights; see ``moments.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models.bayesian.state import LEAST, State, check, growth, of_weights, products, with_weights

_AT_ONCE = 2**22  # numbers of what the words of some rows see, 16 MB
_ATTENTION_AT_ONCE = 2**16  # numbers of an attention [*b, h, n, n], 256 KB; a dozen of that size are needed at a time


def attention(
    state: State,
    weight: Float[Tensor, "r d"],
    of_weight: Tensor | None,
    bias: Float[Tensor, " r"] | None,
    heads: int,
    *,
    mask: Bool[Tensor, "*b n"] | None = None,
    distances: Distances | None = None,
    keeps_shared: bool = True,
) -> tuple[State, Float[Tensor, "*b h n n"]]:
    """What every word takes from the others, all heads side by side, and the expected attention.

    ``weight``: that of the queries of all heads, then of the keys, then of the values; ``mask``: the words that may be
    looked at; ``distances``: vectors of relative positions, see :class:`Distances`; ``keeps_shared``: whether what
    follows needs T. Of a head, with ``q, k, u`` the means and ``P = softmax(q kᵀ / √s)``; κ are the features' shares of
    the variance, ``κ^k_r = Σ_a v^k_ar / Σ_a Σ_r v^k_ar``:

        T^k = (Σ_r σ²_kr) (M Mᵀ + T) + resc(T; Σ_r vx^k_r, Σ v),  T^u alike;  v^q = vx^q + g σ²_q, see :func:`linear`
        δ_ac = [Σ_r (q² + v^q)_ar κ^k_r  c1_ac + Σ_r v^q_ar  c2_ac] / s,  variance of a logit against the mean logit
        c1_ac = T^k_cc - 2 (P T^k)_ac + (P T^k Pᵀ)_aa        c2_ac = ‖k̂_c‖² - 2 (P k̂ k̂ᵀ)_ac + ‖(P k̂)_a‖²,  k̂ = k √κ^q
        P̃ = softmax(logits + ½ δ / (1 + ¼ δ))               A = P̃ u,  the mean        Y = P̃ T^u P̃ᵀ
        S_a = (Σ_r (q² + v^q)_ar κ^k_r  T^k + Σ_r v^q_ar  k̂ k̂ᵀ) / s,  of which δ_a is the diagonal, centred
        χ_a = Σ_cc' Cov(p_ac, p_ac') (u uᵀ + T^u)_cc',  Cov(p_a) = D (I - 1 P_aᵀ) S_a (I - P_a 1ᵀ) D,  D = diag P_a
        B = P² ∘ δ       t1 = B u² - 2 A ∘ (B u) + A² ∘ (B 1),  over whose features χ is shared out
        v^A = t1 χ / Σ_r t1 + κ^u Y_aa
        T^A = Σ_h Y_h + resc(T^q; Σ_h χ, diag T^q),  T^q = (Σ σ²_q) (M Mᵀ + T) + T

    In the state `diagonal`:

        δ = ((q² + v^q) v^kᵀ + v^q (k²)ᵀ) / s, then δ (1 - 2 P) + Σ_c P²_ac δ_ac        v^A = t1 + (P̃² + B) v^u

    Some sentences at a time, so that memory is that of a few of them.
    """
    check(state, "attention", of_weight)

    def of_some(one: State, seen: Tensor | None) -> tuple[State, Tensor]:
        return _attention(one, weight, of_weight, bias, heads, seen, distances, keeps_shared)

    *sentences, n, _ = state.mean.shape
    at_once = max(1, _ATTENTION_AT_ONCE // max(1, heads * n * n))
    if len(sentences) != 1 or sentences[0] <= at_once:
        return of_some(state, mask)
    parts = [slice(first, first + at_once) for first in range(0, sentences[0], at_once)]
    found = [of_some(state.sentences(one), None if mask is None else mask[one]) for one in parts]
    return State.joined([one for one, _ in found]), torch.cat([one for _, one in found])


def _attention(
    state: State,
    weight: Tensor,
    of_weight: Tensor | None,
    bias: Tensor | None,
    heads: int,
    mask: Tensor | None,
    distances: Distances | None,
    keeps_shared: bool,
) -> tuple[State, Tensor]:
    projected = _projected(state, weight, of_weight, bias, heads)
    seen = _seen(projected, mask) if distances is None else _seen_by_distance(projected, distances, mask)
    of_u = projected.variance[..., 2, :, :, :]
    if projected.shared is None:
        spread = seen.from_logits + (seen.expected.square() + seen.b) @ of_u
        return State(_stacked(seen.mean), _stacked(spread)), seen.expected
    y = seen.expected @ projected.shared[1] @ seen.expected.mT
    assert seen.moved is not None, "there is a T"
    sums = seen.from_logits.sum(-1, keepdim=True)
    variance = (
        seen.from_logits * (seen.moved / sums.clamp_min(LEAST))
        + _shares(of_u, mask) * y.diagonal(dim1=-2, dim2=-1)[..., None]
    )
    shared = None
    if keeps_shared:
        assert state.shared is not None, "so have the projections"
        t_q = state.shared
        if of_weight is not None:
            t_q = t_q + of_weights(state, of_weight[: len(of_weight) // 3])
        of_heads = (seen.moved * (sums > LEAST)).squeeze(-1).sum(-2)
        shared = y.sum(-3) + t_q * growth(of_heads, t_q.diagonal(dim1=-2, dim2=-1))
    return State(_stacked(seen.mean), _stacked(variance), shared), seen.expected


@dataclass(frozen=True, slots=True)
class Distances:
    """Vectors ``[n, n, s]`` that are added for words a and c: to a's query, to c's key and value.

    They are certain, and their own product is left out (Shaw et al. 2018, see ``models/transformer.py``). With
    ``q_ac = q_a + a^Q_ac``, ``k_ac = k_c + a^K_ac``, ``u_ac = u_c + a^V_ac``, a row of logits and the values have

        S_a,cc' = [Σ_r κ^k_r (q_ac q_ac' + v^q_a)_r  T^k_cc' + Σ_r v^q_ar  Σ_r κ^q_r (k_ac k_ac')_r] / s
        Γ_a,cc' = Σ_r (u_ac u_ac')_r + T^u_cc'

    and the rest is as in :func:`attention`, with these in place of ``S_a`` and ``u uᵀ + T^u``. In the state `diagonal`,
    ``δ_ac = Σ_r [(q_ac² + v^q_a) v^k_c + v^q_a k_ac²]_r / s``.
    """

    query: Tensor | None
    key: Tensor | None
    value: Tensor | None

    def of_rows(self, rows: slice, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Those of some words a, ``[*h, a, n, s]``; 0 where there are none."""
        given = (self.query, self.key, self.value)
        none = like.new_zeros(1, 1, like.shape[-1])
        query, key, value = (none if one is None else one[..., rows, :, :].to(like.dtype) for one in given)
        return query, key, value


class _Seen(NamedTuple):
    """What the words a take from the others: P̃, A, t1, B, and χ ``[*b, h, a, 1]`` where there is a T."""

    expected: Tensor
    mean: Tensor
    from_logits: Tensor
    b: Tensor
    moved: Tensor | None


def _seen(projected: _Projected, mask: Tensor | None) -> _Seen:
    q, k, u = projected.mean.unbind(-4)
    of_q, of_k, _ = projected.variance.unbind(-4)
    size = q.shape[-1]
    logits = _where(mask, q @ k.mT * size**-0.5)
    p = logits.softmax(-1)
    moved = None
    if projected.shared is None:
        spread = (q.square() + of_q) @ of_k.mT + of_q @ k.square().mT
        spread = _centred(p, spread / size)
    else:
        t_k, t_u = projected.shared
        share = _shares(of_k, mask)
        keys = k * _shares(of_q, mask).sqrt()
        alpha = ((q.square() + of_q) * share).sum(-1, keepdim=True) / size
        beta = of_q.sum(-1, keepdim=True) / size
        spread, moved = _by_logits(p, (alpha, t_k), (beta, keys @ keys.mT), u @ u.mT + t_u)
    expected, b = _expected(logits, p, spread, mask)
    mean = expected @ u
    from_logits = (b @ u.square() - 2 * mean * (b @ u) + mean.square() * b.sum(-1, keepdim=True)).clamp_min(0)
    return _Seen(expected, mean, from_logits, b, moved)


def _seen_by_distance(projected: _Projected, distances: Distances, mask: Tensor | None) -> _Seen:
    """Some words a at a time: each has a matrix ``S_a`` of its own."""
    *_, heads, n, size = projected.mean.shape
    at_once = max(1, _AT_ONCE // (projected.mean[..., 0, 0, 0, 0].numel() * heads * n * max(n, size)))
    found = [_seen_by_rows(projected, distances, slice(first, first + at_once), mask) for first in range(0, n, at_once)]
    expected, mean, from_logits, b = (torch.cat(list(one), -2) for one in list(zip(*found, strict=True))[:4])
    moved = [one.moved for one in found if one.moved is not None]
    return _Seen(expected, mean, from_logits, b, torch.cat(moved, -2) if moved else None)


def _seen_by_rows(projected: _Projected, distances: Distances, rows: slice, mask: Tensor | None) -> _Seen:
    q, k, u = projected.mean.unbind(-4)
    of_q, of_k, _ = projected.variance.unbind(-4)
    size = q.shape[-1]
    of_query, of_key, of_value = distances.of_rows(rows, q)
    queries, keys = q[..., rows, None, :] + of_query, k[..., None, :, :] + of_key  # q_ac and k_ac, [*b, h, a, c, s]
    values = u[..., None, :, :] + of_value
    of_q = of_q[..., rows, :]
    logits = _where(mask, (queries * keys - of_query * of_key).sum(-1) * size**-0.5)
    p = logits.softmax(-1)
    moved = None
    if projected.shared is None:
        noise = of_q[..., None, :]
        spread = ((queries.square() + noise) * of_k[..., None, :, :] + noise * keys.square()).sum(-1)
        spread = _centred(p, spread / size)
    else:
        t_k, t_u = projected.shared
        share, of_share = _shares(of_k, mask), _shares(projected.variance[..., 0, :, :, :], mask)
        queries, keys = queries * share.sqrt()[..., None, :], keys * of_share.sqrt()[..., None, :]
        alpha = queries @ queries.mT + (of_q * share).sum(-1)[..., None, None]
        of_logits = alpha * t_k[..., None, :, :] + of_q.sum(-1)[..., None, None] * (keys @ keys.mT)
        of_logits = of_logits / size
        seen = (of_logits @ p[..., None]).squeeze(-1)
        of_mean = (p * seen).sum(-1, keepdim=True)
        spread = of_logits.diagonal(dim1=-2, dim2=-1) - 2 * seen + of_mean
        centred = of_logits - seen[..., None] - seen[..., None, :] + of_mean[..., None]
        of_values = values @ values.mT + t_u[..., None, :, :]
        moved = ((centred * of_values) @ p[..., None]).squeeze(-1)
        moved = (p * moved).sum(-1, keepdim=True).clamp_min(0)
    expected, b = _expected(logits, p, spread, mask)
    mean = (expected[..., None, :] @ values).squeeze(-2)
    from_logits = (b[..., None, :] @ (values - mean[..., None, :]).square()).squeeze(-2)
    return _Seen(expected, mean, from_logits, b, moved)


def _where(mask: Tensor | None, logits: Tensor) -> Tensor:
    """Very low logits where there is no word."""
    return logits if mask is None else logits.masked_fill(~mask[..., None, None, :], torch.finfo(logits.dtype).min)


def _centred(p: Tensor, spread: Tensor) -> Tensor:
    """δ of independent logits of the variances ``spread``."""
    return spread - 2 * p * spread + (p.square() * spread).sum(-1, keepdim=True)


def _expected(logits: Tensor, p: Tensor, spread: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """P̃ and B."""
    spread = spread.clamp_min(0)
    return _where(mask, logits + spread / 2 / (1 + spread / 4)).softmax(-1), p.square() * spread


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
