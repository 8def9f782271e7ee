"""Moments through a transformer block with Gaussian weights, with full covariances: the reference, for tiny sizes.

Equation numbers are those of the derivation "Bayesian Transformers"; its letters are kept. ``X`` is ``[I, J]``,
features by words; a matrix of weights has independent rows with one variance each. Covariances have four indices,

    C[i, a, k, b] = Cov(X[i, a], X[k, b]),

so that vec and its re-indexing (4.3.3, 4.4) are never needed: a transpose is ``permute(1, 0, 3, 2)``.

Three sets of rules. ``corrected`` is exact where a closed form exists and of second order elsewhere. ``seed`` is what
the derivation says literally, and ``seed_deviation`` the same with a layer norm that divides by the standard deviation,
as real networks do, where the derivation divides by the variance. The derivation's slips that have no meaning as they
stand (the blocks of 4.4, the variances of 5) are corrected in all three.

Everything is float64 and quadratic in I · J: a model uses ``moments.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jacrev
from torch.nn import functional

Rules = Literal["corrected", "seed", "seed_deviation"]
Divisor = Literal["deviation", "variance"]
Form = Literal["expected", "predictive", "seed"]
Parameters = Mapping[str, Tensor]
"""Weights of a block by name: ``Q0 K0 V0 Q1 ... O F1 F2`` are matrices, ``g1 b1 g2 b2`` gains and shifts ``[I]``."""


# --- the block itself -------------------------------------------------------------------------------------------------


def forward(
    parameters: Parameters, x: Float[Tensor, "i j"], heads: int, *, divisor: Divisor = "deviation"
) -> Float[Tensor, "i j"]:
    """The block with certain weights: attention, residual, layer norm, feed-forward, residual, layer norm (1.2, 4)."""
    outputs = parameters["O"] @ _heads(parameters, x, heads)
    z = _normed(outputs + x, parameters["g1"], parameters["b1"], divisor)
    inner = functional.relu(parameters["F1"] @ z)
    return _normed(parameters["F2"] @ inner + z, parameters["g2"], parameters["b2"], divisor)


def _logits(parameters: Parameters, x: Tensor, head: int) -> Float[Tensor, "j j"]:
    """Q_hᵀ K_h / √K: a row a word that attends."""
    q, k = parameters[f"Q{head}"] @ x, parameters[f"K{head}"] @ x
    return q.mT @ k / math.sqrt(q.shape[-2])


def _heads(parameters: Parameters, x: Tensor, heads: int) -> Float[Tensor, "dh j"]:
    """The heads A_h = V_h W_hᵀ, stacked."""
    weights = [_logits(parameters, x, head).softmax(-1) for head in range(heads)]
    return torch.cat([parameters[f"V{head}"] @ x @ weights[head].mT for head in range(heads)], dim=-2)


def _normed(x: Tensor, gain: Tensor, shift: Tensor, divisor: Divisor) -> Tensor:
    centred = x - x.mean(-2, keepdim=True)
    variance = centred.square().mean(-2, keepdim=True)
    return gain[:, None] * centred / (variance.sqrt() if divisor == "deviation" else variance) + shift[:, None]


# --- products ---------------------------------------------------------------------------------------------------------


def product(
    mean_a: Float[Tensor, "p n"],
    cov_a: Float[Tensor, "p n p n"],
    mean_b: Float[Tensor, "p q"],
    cov_b: Float[Tensor, "p q p q"],
    *,
    rules: Rules = "corrected",
) -> tuple[Float[Tensor, "n q"], Float[Tensor, "n q n q"]]:
    """Moments of AᵀB of independent A and B, by Propositions 1 (8) and 2 (9).

    In (9) the trace is that of (Σ^A_kl)ᵀ Σ^B_mo; the derivation lacks the transpose.
    """
    _require_variances("product", cov_a, cov_b)
    traces = "ikjl,imjo->kmlo" if rules == "corrected" else "ikjl,jmio->kmlo"
    cov = torch.einsum(traces, cov_a, cov_b)
    cov = cov + torch.einsum("ik,imjo,jl->kmlo", mean_a, cov_b, mean_a)
    cov = cov + torch.einsum("im,ikjl,jo->kmlo", mean_b, cov_a, mean_b)
    return mean_a.mT @ mean_b, cov


def linear(
    mean_w: Float[Tensor, "r i"],
    row_variance: Float[Tensor, " r"],
    mean_x: Float[Tensor, "i j"],
    cov_x: Float[Tensor, "i j i j"],
) -> tuple[Float[Tensor, "r j"], Float[Tensor, "r j r j"]]:
    """Moments of W X, exact: (8) and (9) with W's covariance δ_uv δ_ik σ_u²; the transpose in (9) changes nothing."""
    _require_variances("linear", row_variance, cov_x)
    of_input = torch.einsum("ui,iakb,vk->uavb", mean_w, cov_x, mean_w)
    return mean_w @ mean_x, of_input + weight_part(row_variance, mean_x, cov_x)


def weight_part(
    row_variance: Float[Tensor, " r"], mean_x: Float[Tensor, "i j"], cov_x: Float[Tensor, "i j i j"]
) -> Float[Tensor, "r j r j"]:
    """What the weights' variance adds to the covariance of W X: δ_uv σ_u² E[x_a · x_b]."""
    expected = mean_x.mT @ mean_x + torch.einsum("iaib->ab", cov_x)
    return torch.einsum("uv,ab->uavb", row_variance.diag(), expected)


# --- functions of random numbers --------------------------------------------------------------------------------------


def softmax_rows(
    mean: Float[Tensor, "a c"], cov: Float[Tensor, "a c a c"], *, rules: Rules = "corrected"
) -> tuple[Float[Tensor, "a c"], Float[Tensor, "a c a c"]]:
    """Moments of the softmax of every row.

    Seed: (10) and Proposition 3 (11), of first order at the mean. Corrected: the mean is a softmax whose logits have
    grown by half their variance d_k against the row's mean logit, damped; and (11) at that mean.
    """
    _require_variances("softmax_rows", cov)
    expected = mean.softmax(-1)
    if rules == "corrected":
        of_rows = torch.einsum("acae->ace", cov)
        against = torch.eye(mean.shape[1], dtype=mean.dtype) - expected[:, None]  # e_k - p, for every row a and k
        spread = torch.einsum("akc,ace,ake->ak", against, of_rows, against)
        expected = (mean + spread / 2 / (1 + spread / 4)).softmax(-1)
    slope = torch.diag_embed(expected) - expected[:, :, None] * expected[:, None]
    return expected, torch.einsum("aic,acbe,bke->aibk", slope, cov, slope)


def relu(
    mean: Float[Tensor, "i j"], cov: Float[Tensor, "i j i j"], *, rules: Rules = "corrected"
) -> tuple[Float[Tensor, "i j"], Float[Tensor, "i j i j"]]:
    """Moments of max(0, x). Seed: by first order, (11) of one number. Corrected: mean and variance exact, covariances
    by the first four terms of the series in the correlation (Hermite)."""
    _require_variances("relu", cov)
    if rules != "corrected":
        return functional.relu(mean), _outer(mean > 0) * cov
    deviation = _deviations(cov)
    certain, t = deviation == 0, _in_deviations(mean, deviation)
    below, density = _normal(t), _density(t)
    expected = mean * below + deviation * density
    variance = (mean.square() + deviation.square()) * below + mean * deviation * density - expected.square()
    t = t.masked_fill(certain, 0.0)
    terms = [deviation * one for one in (below, density, -t * density, (t.square() - 1) * density)]
    correlation = cov / _outer(deviation.masked_fill(certain, 1.0))
    return expected, _with_variance(_series(terms, correlation), variance.clamp(min=0))


def gelu(
    mean: Float[Tensor, "i j"], cov: Float[Tensor, "i j i j"]
) -> tuple[Float[Tensor, "i j"], Float[Tensor, "i j i j"]]:
    """Moments of x Φ(x): the mean exact, covariances by the first three terms of the series in the covariance."""
    _require_variances("gelu", cov)
    variance = _deviations(cov).square()
    t = (1 + variance).sqrt()
    a = mean / t
    below, density = _normal(a), _density(a)
    terms = [
        below + mean * density / t**3,
        density * (1 / t + 1 / t**3 - mean.square() / t**5),
        -mean * density * (1 / t**3 + 3 / t**5 - mean.square() / t**7),
    ]
    return mean * below + variance / t * density, _series(terms, cov)


def layer_norm(
    mean: Float[Tensor, "i j"],
    cov: Float[Tensor, "i j i j"],
    gain: Float[Tensor, " i"],
    gain_variance: Float[Tensor, " i"],
    shift: Float[Tensor, " i"],
    shift_variance: Float[Tensor, " i"],
    *,
    eps: float = 0.0,
    rules: Rules = "corrected",
) -> tuple[Float[Tensor, "i j"], Float[Tensor, "i j i j"]]:
    """Moments of the layer norm of every column.

    Seed: 4.5 and Proposition 4, which hold the column's mean and its variance constant. Corrected: with the derivative
    of both, and the mean to second order.
    """
    _require_variances("layer_norm", cov, gain_variance, shift_variance)
    features = len(mean)
    centre = torch.eye(features, dtype=mean.dtype) - 1 / features
    a = centre @ mean
    if rules == "corrected":
        own = torch.einsum("uk,kjlj,vl->juv", centre, cov, centre)  # S_j
        v = a.square().mean(0) + torch.einsum("juu->j", own) / features + eps
        u = a / v.sqrt()
        slope = (centre - torch.einsum("ij,kj->jik", u, u) / features) / v.sqrt()[:, None, None]
        cov = torch.einsum("aik,kalb,bml->iamb", slope, cov, slope)
        bent = torch.einsum("juv,vj->uj", own, a)
        squares = 2 * own.square().sum((1, 2)) + 4 * (a * bent).sum(0)
        u = u - bent / features / v**1.5 + 3 / 8 * a / v**2.5 * squares / features**2
    else:
        v = a.square().mean(0) + eps
        divisor = v if rules == "seed" else v.sqrt()
        u = a / divisor
        cov = cov / torch.einsum("a,b->ab", divisor, divisor)[:, None]
    of_gain = gain_variance.diag()
    expected = gain[:, None] * u + shift[:, None]
    cov = (of_gain + torch.outer(gain, gain))[:, None, :, None] * cov
    cov = cov + torch.einsum("ik,ia,kb->iakb", of_gain, u, u)
    return expected, cov + shift_variance.diag()[:, None, :, None]


# --- a block ----------------------------------------------------------------------------------------------------------


def block(
    parameters: Parameters,
    variances: Parameters,
    mean: Float[Tensor, "i j"],
    cov: Float[Tensor, "i j i j"],
    heads: int,
    *,
    rules: Rules = "corrected",
    eps: float = 0.0,
) -> tuple[Float[Tensor, "i j"], Float[Tensor, "i j i j"]]:
    """Moments of the output of a block, given those of its input.

    ``parameters``: the means of the weights; ``variances``: by the same names, of matrices one a row.
    """
    attended = _attention if rules == "corrected" else _independent_attention
    mean, cov = attended(parameters, variances, mean, cov, heads)
    z, of_z = layer_norm(mean, cov, *_norm(parameters, variances, 1), eps=eps, rules=rules)
    inner, of_inner = linear(parameters["F1"], variances["F1"], z, of_z)
    active, of_active = relu(inner, of_inner, rules=rules)
    out, of_out = linear(parameters["F2"], variances["F2"], active, of_active)
    of_out = of_out + of_z
    if rules == "corrected":  # Ỹ and Z go together: by the derivative of the expected ReLU, Φ(t)
        open_ = _normal(_in_deviations(inner, _deviations(of_inner)))
        back = torch.einsum("uf,fa,fi,iakb->uakb", parameters["F2"], open_, parameters["F1"], of_z)
        of_out = of_out + back + _swapped(back)
    return layer_norm(out + z, of_out, *_norm(parameters, variances, 2), eps=eps, rules=rules)


def _attention(
    parameters: Parameters, variances: Parameters, mean: Tensor, cov: Tensor, heads: int
) -> tuple[Tensor, Tensor]:
    """Attention and the residual, corrected: what comes from the weights by (9), head by head; what comes from the
    input by the derivative of all heads at once, so that queries, keys, values, heads and residual vary together."""
    parts = []
    for head in range(heads):
        q, k, v = (parameters[f"{name}{head}"] for name in "QKV")
        of_q, of_k, of_v = (weight_part(variances[f"{name}{head}"], mean, cov) for name in "QKV")
        logits, of_weights = product(q @ mean, of_q, k @ mean, of_k)
        logits = logits + torch.einsum("ui,uk,iakb->ab", q, k, cov)
        size = len(q)
        logits, of_weights = logits / math.sqrt(size), of_weights / size
        slope = jacrev(partial(_logits, parameters, head=head))(mean)  # [u, a, i, k]
        of_input = torch.einsum("acik,ikjl,bdjl->acbd", slope, cov, slope)
        attention, _ = softmax_rows(logits, of_weights + of_input)
        _, of_attention = softmax_rows(logits, of_weights)
        parts.append(product((v @ mean).mT, _transposed(of_v), attention.mT, _transposed(of_attention)))
    stacked, of_stacked = _stacked(parts)
    slope = jacrev(partial(_heads, parameters, heads=heads))(mean)
    with_input = torch.einsum("uaik,ikjl->uajl", slope, cov)
    of_stacked = of_stacked + torch.einsum("uajl,vbjl->uavb", with_input, slope)
    out, of_out = linear(parameters["O"], variances["O"], stacked, of_stacked)
    across = torch.einsum("wu,uajl->wajl", parameters["O"], with_input)
    return out + mean, of_out + cov + across + _swapped(across)


def _independent_attention(
    parameters: Parameters, variances: Parameters, mean: Tensor, cov: Tensor, heads: int
) -> tuple[Tensor, Tensor]:
    """Attention and the residual as the derivation has them (4.2 to 4.5): queries, keys and values independent, heads
    independent, and the residual, too."""
    parts = []
    for head in range(heads):
        q, k, v = (linear(parameters[f"{n}{head}"], variances[f"{n}{head}"], mean, cov) for n in "QKV")
        logits, of_logits = product(*q, *k, rules="seed")
        size = len(q[0])
        attention, of_attention = softmax_rows(logits / math.sqrt(size), of_logits / size, rules="seed")
        parts.append(product(v[0].mT, _transposed(v[1]), attention.mT, _transposed(of_attention), rules="seed"))
    out, of_out = linear(parameters["O"], variances["O"], *_stacked(parts))
    return out + mean, of_out + cov


# --- the objective ----------------------------------------------------------------------------------------------------


def log_likelihood(
    y: Float[Tensor, "i j"],
    mean: Float[Tensor, "i j"],
    cov: Float[Tensor, "i j i j"],
    noise: Float[Tensor, ""],
    *,
    form: Form = "expected",
) -> Float[Tensor, ""]:
    """The first part of (13) for one output ``y``, given the moments of the model's and the variance of its noise.

    ``expected``: E_q log p(y | X, ω), which belongs to the bound. ``predictive``: log N(y; M, Σ + s² I), which is at
    least as large and no bound. ``seed``: (13) literally, without noise, which has no value where Σ is singular.
    """
    residual, number = (y - mean).flatten(), y.numel()
    if form == "expected":
        squares: Tensor = residual @ residual + torch.einsum("iaia->", cov)
        return -(number * (2 * math.pi * noise).log() + squares / noise) / 2
    total = cov.reshape(number, number)
    if form == "predictive":
        total = total + noise * torch.eye(number, dtype=y.dtype)
    explained: Tensor = residual @ torch.linalg.solve(total, residual)
    log_determinant: Tensor = torch.linalg.slogdet(total).logabsdet
    return -(number * math.log(2 * math.pi) + log_determinant + explained) / 2


# --- small parts ------------------------------------------------------------------------------------------------------


def _norm(parameters: Parameters, variances: Parameters, number: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    gain, shift = f"g{number}", f"b{number}"
    return parameters[gain], variances[gain], parameters[shift], variances[shift]


def _stacked(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Independent matrices below each other (4.4)."""
    means = torch.cat([mean for mean, _ in parts])
    cov = means.new_zeros(*means.shape, *means.shape)
    start = 0
    for mean, of_part in parts:
        end = start + len(mean)
        cov[start:end, :, start:end] = of_part
        start = end
    return means, cov


def _transposed(cov: Tensor) -> Tensor:
    return cov.permute(1, 0, 3, 2)


def _swapped(cross: Tensor) -> Tensor:
    """Cov(y, x) from Cov(x, y)."""
    return cross.permute(2, 3, 0, 1)


def _outer(values: Tensor) -> Tensor:
    return values[:, :, None, None] * values


def _require_variances(rule: str, *given: Tensor) -> None:
    """Refuse negative variances, as ``moments.py`` does; those that rounding makes count as 0."""
    for one in given:
        variances = one if one.ndim == 1 else torch.einsum("iaia->ia", one)
        if bool((variances < -1e-9 * one.abs().amax()).any()):
            raise ValueError(f"{rule}: a variance is negative")


def _deviations(cov: Tensor) -> Tensor:
    return torch.einsum("iaia->ia", cov).clamp(min=0).sqrt()


def _in_deviations(mean: Tensor, deviation: Tensor) -> Tensor:
    """t = m / s; of what is certain ∞ above 0, else -∞."""
    certain = deviation == 0
    return torch.where(certain, torch.where(mean > 0, math.inf, -math.inf), mean / deviation.masked_fill(certain, 1.0))


def _with_variance(cov: Tensor, variance: Tensor) -> Tensor:
    size = variance.numel()
    flat = cov.reshape(size, size)
    return (flat - flat.diag().diag() + variance.flatten().diag()).reshape(cov.shape)


def _series(terms: list[Tensor], between: Tensor) -> Tensor:
    """Σ_n c_n c'_n rⁿ / n!."""
    total, power = torch.zeros_like(between), torch.ones_like(between)
    for n, term in enumerate(terms, start=1):
        power = power * between / n
        total = total + _outer(term) * power
    return total


def _normal(t: Tensor) -> Tensor:
    """Φ."""
    return 0.5 * torch.erfc(-t / math.sqrt(2))


def _density(t: Tensor) -> Tensor:
    """φ."""
    return torch.exp(-t.square() / 2) / math.sqrt(2 * math.pi)
