"""What is uncertain of the words of a sentence, and how it goes through linear layers; see ``moments.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models import arithmetic
from probtrans_cli.models.arithmetic import may_depend_on

LEAST = 1e-20  # what is least is certain


@dataclass(frozen=True, slots=True)
class State:
    """Moments of the words of padded sentences; see the module. What they are on padding changes nothing elsewhere.

    Without T, of any vectors ``[*b, d]``. ``together``: what is known of how features vary together.
    """

    mean: Float[Tensor, "*b d"]
    variance: Float[Tensor, "*b d"]
    shared: Float[Tensor, "*c n n"] | None = None
    together: Together | None = None

    def __add__(self, term: State | Tensor) -> State:
        """Return the sum with another state, independent of this one, or with a certain tensor."""
        if isinstance(term, Tensor):
            return State(self.mean + term, self.variance, self.shared)
        shared = None if self.shared is None or term.shared is None else self.shared + term.shared
        return State(self.mean + term.mean, self.variance + term.variance, shared)


def linear(
    state: State,
    weight: Float[Tensor, "r d"],
    of_weight: Tensor | None = None,
    bias: Float[Tensor, " r"] | None = None,
) -> State:
    """Return ``y = W x + β``, its weights independent; ``of_weight``: their variance, ``[r]`` or ``[r, d]``.

        m = M Wᵀ + β        v' = v (W∘W)ᵀ + g σ²ᵀ,  g_a = ‖M_a‖² + Σ_i v_ai
        T' = resc(T; Σ v (W∘W)ᵀ, Σ v) + (Σ_r σ_r²) (M Mᵀ + T)

    and with one variance a weight, ``s_i = Σ_r σ_ri²``:

        v' = v (W∘W)ᵀ + (M² + v) σ²ᵀ        T' = resc(T; Σ v (W∘W)ᵀ, Σ v) + (M∘s) Mᵀ + resc(T; Σ v s, Σ v)
    """
    check(state, "linear", of_weight)
    mean, before = state.mean, state.variance
    if state.together is not None and state.together.reads(len(weight)):
        variance = state.together.read(weight, before.sum(-1, keepdim=True))
    else:
        variance = arithmetic.linear(before, weight.square())
    shared = None
    if state.shared is not None:
        shared = state.shared * growth(variance.sum(-1), before.sum(-1))
    if of_weight is not None:
        variance = with_weights(state, of_weight, variance)
        shared = None if shared is None else shared + of_weights(state, of_weight)
    return State(arithmetic.linear(mean, weight, bias), variance, shared)


def with_weights(state: State, of_weight: Tensor, variance: Float[Tensor, "*b r"]) -> Float[Tensor, "*b r"]:
    """Return ``v (W∘W)ᵀ`` (``variance``) and what the weights' variance adds to it."""
    mean, before = state.mean, state.variance
    if of_weight.ndim == 1:
        return torch.addcmul(variance, (mean.square().sum(-1) + before.sum(-1))[..., None], of_weight)
    return variance + arithmetic.linear(mean.square() + before, of_weight)


def of_weights(state: State, of_weight: Tensor) -> Float[Tensor, "*b n n"]:
    """Return what the weights' variance adds to T."""
    if of_weight.ndim == 1:
        return of_weight.sum() * products(state)
    mean, of_column, shared = state.mean, of_weight.sum(0), state.shared
    assert shared is not None, "asked where there is one"
    return (mean * of_column) @ mean.mT + shared * growth(state.variance @ of_column, state.variance.sum(-1))


def products(state: State) -> Float[Tensor, "*b n n"]:
    """Return ``E[x_a · x_b] = M Mᵀ + T``."""
    assert state.shared is not None, "asked where there is one"
    return state.mean @ state.mean.mT + state.shared


def check(state: State, rule: str, *variances: Tensor | None) -> None:
    """Refuse negative variances, where the check does not wait for a GPU."""
    for variance in (state.variance, *variances):
        if variance is not None and variance.numel() and may_depend_on(variance) and bool(variance.amin() < 0):
            raise ValueError(f"{rule}: a variance is negative")


def growth(new: Float[Tensor, "*#b n"], old: Float[Tensor, "*#b n"]) -> Float[Tensor, "*b n n"]:
    """Return ``√(new_a new_b / (old_a old_b))``, 0 where something was certain."""
    certain = old <= LEAST
    root = (new / old.masked_fill(certain, 1.0)).clamp_min(LEAST).sqrt().masked_fill(certain, 0.0)
    return root[..., :, None] * root[..., None, :]


# --- what a feed-forward layer writes together ------------------------------------------------------------------------

_SLOPE = 0.5
_OF_WORDS = ("before", "inputs", "active", "added", "unit", "scale")


@dataclass(frozen=True, slots=True)
class Together:
    """How the features of a feed-forward layer's output vary together, for what is read off them by a linear layer.

    A :class:`State` has one variance a feature, as if features were independent. For what goes into the next layer this
    is nearly right, but an output layer has learned to read the very directions in which the feed-forward layer writes:
    with independent features, the scores of a trained tagger have 0.56 of their variance. The covariance of the
    features of

        t = y + W_2 h + ν,   h = act(W_1 x + ...),   z = g ∘ LN(t),      x = y, or x = LN'(y) of a pre-norm layer

    is not needed, only what a matrix W reads of it. With the slope of the activation at what it is expected to be, ½,
    h = ½ W_1 x + ρ, where ρ has the rest of h's variance, and the norm to first order (u, s: see
    ``moments.layer_norm``),

        W z = √s [L - c_a u_aᵀ] t,   L = W diag(g) (I - 1 1ᵀ/d),  c_a = W diag(g) u_a / d
            = √s [(L - c_a u_aᵀ) y + ½ (L W_2 - c_a u_aᵀ W_2) W_1 x + (L W_2 - c_a u_aᵀ W_2) ρ + (L - c_a u_aᵀ) ν]

    with y, ρ and ν independent, and so are their features; a norm x of y varies with y feature by feature.

    symbol   code       shape          meaning
    y        before     [*b, d]        variance of what goes into the layer
    x        inputs     [*b, d]        variance of what the feed-forward layer reads, itself y or its norm
    h        active     [*b, f]        variance behind the activation
    W_2 h+ν  added      [*b, d]        variance of what is added
    W_1 W_2  widen      [f, d] [d, f]  means of the weights
    u √s     unit scale [*b, d] [*b, 1]

    ``pre``: x is a norm of y; the norm behind it is set later.

    ``weights [*b, n]``: of words, if it is their mean that is read.
    """

    before: Tensor
    inputs: Tensor
    active: Tensor
    added: Tensor
    widen: Float[Tensor, "f d"]
    narrow: Float[Tensor, "d f"]
    pre: bool
    unit: Tensor | None = None
    scale: Tensor | None = None
    gain: Tensor | None = None
    weights: Tensor | None = None

    def normed(self, unit: Tensor, scale: Tensor, gain: Tensor) -> Together | None:
        """Return it behind a layer norm; None behind a second one."""
        return replace(self, unit=unit, scale=scale, gain=gain) if self.unit is None else None

    def each(self, change: Callable[[Tensor], Tensor]) -> Together:
        """Return it of a choice of the words."""
        of_words: dict[str, Any] = {name: getattr(self, name) for name in _OF_WORDS}
        changed: dict[str, Any] = {name: change(values) for name, values in of_words.items() if values is not None}
        return replace(self, **changed)

    def reads(self, rows: int) -> bool:
        """Return True if so many rows are read with their covariances: a row costs as much as d words."""
        return self.unit is not None and rows <= len(self.widen)

    def pooled(self, weights: Float[Tensor, "*b n"], variance: Float[Tensor, "*b n d"]) -> Together:
        """Return it of a mean over words, whose summed variance is shared out over words as ``variance`` says."""
        sums = (weights * variance.sum(-1)).sum(-1, keepdim=True)
        return replace(self, weights=weights / sums.clamp_min(LEAST))

    def read(self, weight: Float[Tensor, "r d"], summed: Tensor) -> Float[Tensor, "*b r"]:
        """Return the variance of ``W z``; ``summed [*b, 1]``: the summed variance, which a mean over words needs."""
        assert self.unit is not None and self.scale is not None and self.gain is not None, "behind a norm"  # noqa: PT018
        u, d = self.unit, self.unit.shape[-1]
        scaled = weight * self.gain
        c = functional.linear(u, scaled) / d
        of_t = scaled - scaled.mean(-1, keepdim=True)
        of_h, u_h = of_t @ self.narrow, u @ self.narrow
        of_x, u_x = _SLOPE * of_h @ self.widen, _SLOPE * u_h @ self.widen
        rest = self.active - _SLOPE**2 * functional.linear(self.inputs, self.widen.square())
        noise = self.added - functional.linear(self.active, self.narrow.square())
        total = _square(of_h, u_h, c, rest.clamp_min(0)) + _square(of_t, u, c, noise.clamp_min(0))
        if not self.pre:
            total = total + _square(of_t + of_x, u + u_x, c, self.before)
        else:
            both = self.before * self.inputs
            both = both.clamp_min(LEAST).sqrt() * (both > 0)  # with a slope at 0
            total = total + _square(of_t, u, c, self.before) + _square(of_x, u_x, c, self.inputs)
            # 2 Σ_i (L_ri - c_ar ℓ_ai) (L'_ri - c_ar ℓ'_ai) v_ai
            product = functional.linear(both, of_t * of_x) + c.square() * (both * u * u_x).sum(-1, keepdim=True)
            product = product - c * (functional.linear(both * u, of_x) + functional.linear(both * u_x, of_t))
            total = total + 2 * product
        variance = self.scale.square() * total.clamp_min(0)
        return variance if self.weights is None else summed * (self.weights[..., None] * variance).sum(-2)


def _square(rows: Tensor, unit: Tensor, c: Tensor, variance: Tensor) -> Tensor:
    """``Σ_i (L_ri - c_ar ℓ_ai)² v_ai``."""
    with_unit = variance * unit
    total = functional.linear(variance, rows.square()) - 2 * c * functional.linear(with_unit, rows)
    return total + c.square() * (with_unit * unit).sum(-1, keepdim=True)
