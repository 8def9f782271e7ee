"""How the features of a feed-forward layer's output vary together, for what is read off them by a linear layer.

A :class:`State` has one variance a feature, as if features were independent. For what goes into the next layer this is
nearly right, but an output layer has learned to read the very directions in which the feed-forward layer writes: with
independent features, the scores of a trained tagger have 0.56 of their variance. The covariance of the features of

    t = y + W_2 h + ν,   h = act(W_1 x + ...),   z = g ∘ LN(t),      x = y, or x = LN'(y) of a pre-norm layer

is not needed, only what a matrix W reads of it. With the slope of the activation at what it is expected to be, ½,
h = ½ W_1 x + ρ, where ρ has the rest of h's variance, and the norm to first order (u, s: see ``moments.layer_norm``),

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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

_SLOPE = 0.5
_LEAST = 1e-20
_OF_WORDS = ("before", "inputs", "active", "added", "unit", "scale")


@dataclass(frozen=True, slots=True)
class Together:
    """What a feed-forward layer did; see the module. ``pre``: x is a norm of y; the norm behind it is set later.

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
        return replace(self, weights=weights / sums.clamp_min(_LEAST))

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
            both = both.clamp_min(_LEAST).sqrt() * (both > 0)  # with a slope at 0
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
