"""What is uncertain of the words of a sentence, and how it goes through linear layers; see ``moments.py``."""

from __future__ import annotations

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

    def sentences(self, some: slice) -> State:
        """Some sentences of a batch; how features vary together is left out."""
        return State(self.mean[some], self.variance[some], None if self.shared is None else self.shared[some])

    @classmethod
    def joined(cls, parts: list[State]) -> State:
        """A batch of such parts."""
        shared = [one.shared for one in parts if one.shared is not None]
        mean, variance = torch.cat([one.mean for one in parts]), torch.cat([one.variance for one in parts])
        return cls(mean, variance, torch.cat(shared) if shared else None)


def certain(mean: Float[Tensor, "*b n d"], *, shared: bool) -> State:
    """What is known: no variance; ``shared``: with a T."""
    n = mean.shape[-2]
    return State(mean, torch.zeros_like(mean), mean.new_zeros(*mean.shape[:-1], n) if shared else None)


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
    """``v (W∘W)ᵀ``, and what the weights' variance adds to it."""
    mean, before = state.mean, state.variance
    if of_weight.ndim == 1:
        return torch.addcmul(variance, (mean.square().sum(-1) + before.sum(-1))[..., None], of_weight)
    return variance + functional.linear(mean.square() + before, of_weight)


def of_weights(state: State, of_weight: Tensor) -> Float[Tensor, "*b n n"]:
    """What the weights' variance adds to T."""
    if of_weight.ndim == 1:
        return of_weight.sum() * products(state)
    mean, of_column, shared = state.mean, of_weight.sum(0), state.shared
    assert shared is not None, "asked where there is one"
    return (mean * of_column) @ mean.mT + shared * growth(state.variance @ of_column, state.variance.sum(-1))


def products(state: State) -> Float[Tensor, "*b n n"]:
    """``E[x_a · x_b] = M Mᵀ + T``."""
    assert state.shared is not None, "asked where there is one"
    return state.mean @ state.mean.mT + state.shared


def add(one: State, other: State | Tensor) -> State:
    """The sum of what is independent, or of a state and what is certain."""
    if isinstance(other, Tensor):
        return State(one.mean + other, one.variance, one.shared)
    shared = None if one.shared is None or other.shared is None else one.shared + other.shared
    return State(one.mean + other.mean, one.variance + other.variance, shared)


def check(state: State, rule: str, *others: Tensor | None) -> None:
    """Refuse negative variances, where the check does not wait for a GPU."""
    for given in (state.variance, *others):
        if given is not None and given.numel() and may_depend_on(given) and bool(given.amin() < 0):
            raise ValueError(f"{rule}: a variance is negative")


def growth(new: Float[Tensor, "*#b n"], old: Float[Tensor, "*#b n"]) -> Float[Tensor, "*b n n"]:
    """``√(new_a new_b / (old_a old_b))``, 0 where something was certain."""
    known = old <= LEAST
    root = (new / old.masked_fill(known, 1.0)).clamp_min(LEAST).sqrt().masked_fill(known, 0.0)
    return root[..., :, None] * root[..., None, :]
