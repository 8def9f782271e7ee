"""Attention of uncertain words, whose queries, keys and values come of uncertain weights; see ``moments.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

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
    """Return what every word takes from all words, all heads side by side, and the expected attention.

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
    *sentences, n, _ = state.mean.shape
    at_once = max(1, _ATTENTION_AT_ONCE // max(1, heads * n * n))
    if len(sentences) == 1 and sentences[0] > at_once:
        parts = []
        for first in range(0, sentences[0], at_once):
            some = slice(first, first + at_once)
            shared = None if state.shared is None else state.shared[some]
            of_some = State(state.mean[some], state.variance[some], shared)
            options: dict[str, Any] = {"mask": None if mask is None else mask[some], "distances": distances}
            parts.append(attention(of_some, weight, of_weight, bias, heads, keeps_shared=keeps_shared, **options))
        states, expected = zip(*parts, strict=True)
        mean, variance = torch.cat([part.mean for part in states]), torch.cat([part.variance for part in states])
        of_pairs = [part.shared for part in states if part.shared is not None]
        return State(mean, variance, torch.cat(of_pairs) if of_pairs else None), torch.cat(expected)
    check(state, "attention", of_weight)
    projected = _project(state, weight, of_weight, bias, heads)
    attended = _attend(projected, mask) if distances is None else _attend_by_distance(projected, distances, mask)
    of_u = projected.variance[..., 2, :, :, :]
    shared = None
    if projected.shared is None:
        variance = attended.from_logits + (attended.expected.square() + attended.b) @ of_u
    else:
        y = attended.expected @ projected.shared[1] @ attended.expected.mT
        assert attended.chi is not None, "there is a T"
        sums = attended.from_logits.sum(-1, keepdim=True)
        variance = (
            attended.from_logits * (attended.chi / sums.clamp_min(LEAST))
            + _shares(of_u, mask) * y.diagonal(dim1=-2, dim2=-1)[..., None]
        )
        if keeps_shared:
            assert state.shared is not None, "so have the projections"
            t_q = state.shared
            if of_weight is not None:
                t_q = t_q + of_weights(state, of_weight[: len(of_weight) // 3])
            of_heads = (attended.chi * (sums > LEAST)).squeeze(-1).sum(-2)
            shared = y.sum(-3) + t_q * growth(of_heads, t_q.diagonal(dim1=-2, dim2=-1))
    # From [*b, h, n, s] to all heads side by side.
    mean, variance = (values.transpose(-2, -3).flatten(-2) for values in (attended.mean, variance))
    return State(mean, variance, shared), attended.expected


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


class _Projected(NamedTuple):
    """Means and variances ``[*b, 3, h, n, s]`` of queries, keys and values; T of keys and values, head by head."""

    mean: Tensor
    variance: Tensor
    shared: tuple[Tensor, Tensor] | None


class _Attended(NamedTuple):
    """What the words a take from all words: P̃, A, t1, B, and χ ``[*b, h, a, 1]`` where there is a T."""

    expected: Tensor
    mean: Tensor
    from_logits: Tensor
    b: Tensor
    chi: Tensor | None


def _project(state: State, weight: Tensor, of_weight: Tensor | None, bias: Tensor | None, heads: int) -> _Projected:
    def split(values: Tensor) -> Tensor:
        return values.view(*values.shape[:-1], 3, heads, -1).movedim(-4, -2)

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


def _attend(projected: _Projected, mask: Tensor | None) -> _Attended:
    q, k, u = projected.mean.unbind(-4)
    of_q, of_k, _ = projected.variance.unbind(-4)
    size = q.shape[-1]
    logits = _allowed(mask, q @ k.mT * size**-0.5)
    p = logits.softmax(-1)
    chi = None
    if projected.shared is None:
        delta = (q.square() + of_q) @ of_k.mT + of_q @ k.square().mT
        delta = _centred(p, delta / size)
    else:
        t_k, t_u = projected.shared
        share = _shares(of_k, mask)
        keys = k * _shares(of_q, mask).sqrt()
        alpha = ((q.square() + of_q) * share).sum(-1, keepdim=True) / size
        beta = of_q.sum(-1, keepdim=True) / size
        delta, chi = _by_logits(p, alpha, t_k, beta, keys @ keys.mT, u @ u.mT + t_u)
    expected, b = _expected(logits, p, delta, mask)
    mean = expected @ u
    from_logits = (b @ u.square() - 2 * mean * (b @ u) + mean.square() * b.sum(-1, keepdim=True)).clamp_min(0)
    return _Attended(expected, mean, from_logits, b, chi)


def _by_logits(
    p: Float[Tensor, "*b h n n"], alpha: Tensor, t_k: Tensor, beta: Tensor, kk: Tensor, gamma: Tensor
) -> tuple[Float[Tensor, "*b h n n"], Float[Tensor, "*b h n 1"]]:
    """Return δ and χ, see :func:`attention`, where a row of logits has the covariance ``S_a = α_a T^k + β_a k̂ k̂ᵀ``.

    ``alpha, beta [*b, h, n, 1]``; ``gamma``: Γ.

    χ_a = Σ_cc' Cov(p_c, p_c') Γ_cc' = (P (S_a∘Γ) Pᵀ)_aa - 2 Σ_c P_ac (P S_a)_ac (P Γ)_ac + (P S_a Pᵀ)_aa (P Γ Pᵀ)_aa
    """
    ps = torch.addcmul(alpha * (p @ t_k), beta, p @ kk)
    s = torch.addcmul(
        alpha * t_k.diagonal(dim1=-2, dim2=-1)[..., None, :], beta, kk.diagonal(dim1=-2, dim2=-1)[..., None, :]
    )
    psp = (ps * p).sum(-1, keepdim=True)
    delta = s - 2 * ps + psp
    pg = p @ gamma
    both = torch.addcmul(alpha * (p @ (t_k * gamma)), beta, p @ (kk * gamma))
    chi = (p * torch.addcmul(both, ps, pg, value=-2)).sum(-1, keepdim=True)
    return delta, (chi + psp * (p * pg).sum(-1, keepdim=True)).clamp_min(0)


def _attend_by_distance(projected: _Projected, distances: Distances, mask: Tensor | None) -> _Attended:
    """Some words a at a time: each has a matrix ``S_a`` of its own."""
    *_, heads, n, size = projected.mean.shape
    at_once = max(1, _AT_ONCE // (projected.mean[..., 0, 0, 0, 0].numel() * heads * n * max(n, size)))
    rows = (slice(first, first + at_once) for first in range(0, n, at_once))
    parts = [_attend_from(projected, distances, some, mask) for some in rows]
    expected, mean, from_logits, b = (torch.cat(list(part), -2) for part in list(zip(*parts, strict=True))[:4])
    chi = [part.chi for part in parts if part.chi is not None]
    return _Attended(expected, mean, from_logits, b, torch.cat(chi, -2) if chi else None)


def _attend_from(projected: _Projected, distances: Distances, rows: slice, mask: Tensor | None) -> _Attended:
    q, k, u = projected.mean.unbind(-4)
    of_q, of_k, _ = projected.variance.unbind(-4)
    size = q.shape[-1]
    nothing = q.new_zeros(1, 1, size)
    vectors = (distances.query, distances.key, distances.value)
    a_q, a_k, a_v = (nothing if a is None else a[..., rows, :, :].to(q.dtype) for a in vectors)  # [*h, a, c, s]
    queries, keys = q[..., rows, None, :] + a_q, k[..., None, :, :] + a_k  # q_ac and k_ac, [*b, h, a, c, s]
    values = u[..., None, :, :] + a_v
    of_q = of_q[..., rows, :]
    logits = _allowed(mask, (queries * keys - a_q * a_k).sum(-1) * size**-0.5)
    p = logits.softmax(-1)
    chi = None
    if projected.shared is None:
        noise = of_q[..., None, :]
        delta = ((queries.square() + noise) * of_k[..., None, :, :] + noise * keys.square()).sum(-1)
        delta = _centred(p, delta / size)
    else:
        t_k, t_u = projected.shared
        of_keys, of_queries = _shares(of_k, mask), _shares(projected.variance[..., 0, :, :, :], mask)
        queries, keys = queries * of_keys.sqrt()[..., None, :], keys * of_queries.sqrt()[..., None, :]
        alpha = queries @ queries.mT + (of_q * of_keys).sum(-1)[..., None, None]
        s = alpha * t_k[..., None, :, :] + of_q.sum(-1)[..., None, None] * (keys @ keys.mT)
        s = s / size
        sp = (s @ p[..., None]).squeeze(-1)
        psp = (p * sp).sum(-1, keepdim=True)
        delta = s.diagonal(dim1=-2, dim2=-1) - 2 * sp + psp
        centred = s - sp[..., None] - sp[..., None, :] + psp[..., None]
        gamma = values @ values.mT + t_u[..., None, :, :]
        chi = ((centred * gamma) @ p[..., None]).squeeze(-1)
        chi = (p * chi).sum(-1, keepdim=True).clamp_min(0)
    expected, b = _expected(logits, p, delta, mask)
    mean = (expected[..., None, :] @ values).squeeze(-2)
    from_logits = (b[..., None, :] @ (values - mean[..., None, :]).square()).squeeze(-2)
    return _Attended(expected, mean, from_logits, b, chi)


def _allowed(mask: Tensor | None, logits: Tensor) -> Tensor:
    """Very low logits where there is no word."""
    return logits if mask is None else logits.masked_fill(~mask[..., None, None, :], torch.finfo(logits.dtype).min)


def _centred(p: Tensor, delta: Tensor) -> Tensor:
    """δ of independent logits of the variances ``delta``."""
    return delta - 2 * p * delta + (p.square() * delta).sum(-1, keepdim=True)


def _expected(logits: Tensor, p: Tensor, delta: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """P̃ and B."""
    delta = delta.clamp_min(0)
    return _allowed(mask, logits + delta / 2 / (1 + delta / 4)).softmax(-1), p.square() * delta


def _shares(variance: Float[Tensor, "*b h n s"], mask: Tensor | None) -> Float[Tensor, "*b h 1 s"]:
    """κ, the shares of the features in the variance of all words."""
    if mask is not None:
        variance = variance * mask[..., None, :, None]
    sums = variance.sum(-2, keepdim=True)
    return sums / sums.sum(-1, keepdim=True).clamp_min(LEAST)
