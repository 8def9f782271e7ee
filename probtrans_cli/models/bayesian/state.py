"""What is uncertain of the words of a sentence, and how it goes through linear layers; see ``moments.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models.arithmetic import may_depend_on
from probtrans_cli.models.bayesian.together import Together

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

    def each(self, change: Callable[[Tensor], Tensor]) -> State:
        """Return the moments of a choice of the words. How these vary together is left out."""
        together = None if self.together is None else self.together.each(change)
        return State(change(self.mean), change(self.variance), None, together)

    def sentences(self, some: slice) -> State:
        """Return some sentences of a batch. How features vary together is left out."""
        return State(self.mean[some], self.variance[some], None if self.shared is None else self.shared[some])

    @classmethod
    def joined(cls, parts: list[State]) -> State:
        """Return the batch of such parts."""
        shared = [part.shared for part in parts if part.shared is not None]
        mean, variance = torch.cat([part.mean for part in parts]), torch.cat([part.variance for part in parts])
        return cls(mean, variance, torch.cat(shared) if shared else None)


def certain(mean: Float[Tensor, "*b n d"], *, shared: bool) -> State:
    """Return a state without variance; ``shared``: with a T."""
    n = mean.shape[-2]
    return State(mean, torch.zeros_like(mean), mean.new_zeros(*mean.shape[:-1], n) if shared else None)


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
        variance = functional.linear(before, weight.square())
    shared = None
    if state.shared is not None:
        shared = state.shared * growth(variance.sum(-1), before.sum(-1))
    if of_weight is not None:
        variance = with_weights(state, of_weight, variance)
        shared = None if shared is None else shared + of_weights(state, of_weight)
    return State(functional.linear(mean, weight, bias), variance, shared)


def with_weights(state: State, of_weight: Tensor, variance: Float[Tensor, "*b r"]) -> Float[Tensor, "*b r"]:
    """Return ``v (W∘W)ᵀ`` (``variance``) and what the weights' variance adds to it."""
    mean, before = state.mean, state.variance
    if of_weight.ndim == 1:
        return torch.addcmul(variance, (mean.square().sum(-1) + before.sum(-1))[..., None], of_weight)
    return variance + functional.linear(mean.square() + before, of_weight)


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


def add(x: State, y: State | Tensor) -> State:
    """Return the sum of two independent states, or of a state and a certain tensor."""
    if isinstance(y, Tensor):
        return State(x.mean + y, x.variance, x.shared)
    shared = None if x.shared is None or y.shared is None else x.shared + y.shared
    return State(x.mean + y.mean, x.variance + y.variance, shared)


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
