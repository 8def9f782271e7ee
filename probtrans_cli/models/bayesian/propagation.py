"""The steps of a network for moments: which rule of ``moments.py`` a module has.

A module without a rule is refused by name: its part of the variance would be missing without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from probtrans_cli.errors import UsageError
from probtrans_cli.models.arithmetic import Arithmetic, At, taken
from probtrans_cli.models.bayesian import moments
from probtrans_cli.models.bayesian.moments import Distances, State
from probtrans_cli.models.bayesian.together import Together
from probtrans_cli.models.bayesian.weights import posterior_of

Kind = Literal["kronecker", "diagonal"]
"""What is carried from step to step: with the words' shared covariances T, or without."""
HINT = "predict by draws of the weights: model.bayes.predict.kind=samples"


def refusal(name: str) -> UsageError:
    """What is said of something without a rule."""
    return UsageError(f"{name}: there is no rule for moments through it", hint=HINT)


def moments_of_words(words: Tensor, kind: Kind, table: nn.Module, ids: Tensor) -> State:
    """What goes into an encoder for ``words [b, n, d]``, the vectors of a ``table`` for the last words, ``ids``.

    If the table is uncertain, the same word has the same vector wherever it stands: T_ab = Σ_i σ_i² if w_a = w_b.
    """
    words = words if words.dtype == torch.float64 else words.float()
    state = moments.certain(words, shared=kind == "kronecker")
    of_table = variance_of(table)
    if of_table is None:
        return state
    in_front = words.shape[1] - ids.shape[1]
    of_table = of_table[:, None] if of_table.ndim == 1 else of_table
    variance = nn.functional.pad(of_table[ids].expand(*ids.shape, words.shape[-1]), (0, 0, in_front, 0))
    if kind == "diagonal":
        return State(words, variance)
    same = nn.functional.pad(ids[:, :, None] == ids[:, None], (in_front, 0, in_front, 0))
    return State(words, variance, same * variance.sum(-1, keepdim=True))


def variance_of(module: nn.Module, name: str = "weight") -> Tensor | None:
    """σ² of a module's weights, ``[r]`` if there is one a row, else one a weight; None = they are certain."""
    posterior = posterior_of(module, name)
    if posterior is None:
        return None
    variance = posterior.deviation().square()
    mean: Tensor = getattr(module, name)
    if mean.ndim == 1:
        return variance.expand(mean.shape)
    return variance[:, 0] if variance.shape[1] == 1 and mean.shape[1] > 1 else variance


class Moments(Arithmetic):
    """The rules."""

    def linear(self, module: nn.Module, values: State) -> State:
        """A module that brings its own rule has ``moments(state)``."""
        own = getattr(module, "moments", None)
        if own is not None:
            found: State = own(values)
            return found
        known = _expect(module, nn.Linear)
        return moments.linear(values, known.weight, variance_of(module), known.bias)

    def norm(self, module: nn.Module, values: State) -> State:
        known = _expect(module, nn.LayerNorm)
        gain, shift = variance_of(module), variance_of(module, "bias")
        return moments.layer_norm(values, known.weight, known.bias, eps=known.eps, of_gain=gain, of_shift=shift)

    def activate(self, module: nn.Module, values: State) -> State:
        if isinstance(module, nn.ReLU):
            return moments.relu(values)
        if isinstance(module, nn.GELU) and module.approximate == "none":
            return moments.gelu(values)
        if isinstance(module, nn.GELU | nn.Tanh):
            return moments.by_points(values, module, type(module).__name__)
        raise refusal(type(module).__name__)

    def drop(self, module: nn.Module, values: State) -> State:
        rate = getattr(module, "p", 0.0)
        if module.training and rate:
            raise refusal(f"dropout of {rate} in training")
        return values

    def attend(
        self, layer: Any, values: State, allowed: Tensor | None, arcs: bool, alone: bool
    ) -> tuple[State, Tensor | None]:
        if layer.training and layer.attention_dropout:
            raise refusal(f"attention dropout of {layer.attention_dropout} in training")
        module = _expect(layer.projections, nn.Linear)
        mask = None if allowed is None else allowed[:, 0, 0]
        vectors = layer.vectors(values.mean.shape[-2])
        distances = Distances(*(vectors.get(name) for name in ("query", "key", "value"))) if vectors else None
        state, attention = moments.attention(
            values,
            module.weight,
            variance_of(module),
            module.bias,
            layer.heads,
            mask=mask,
            distances=distances,
            keeps_shared=not alone,
        )
        return state, attention if arcs else None

    def add(self, values: State, others: State | Tensor) -> State:
        return moments.add(values, others)

    def by_table(self, values: State, table: Tensor, bias: Tensor) -> State:
        return moments.linear(values, table, None, bias)

    def masked(self, values: State, mask: Tensor) -> State:
        of_words = mask[:, :, None]
        shared = None if values.shared is None else values.shared * of_words * mask[:, None]
        return State(values.mean * of_words, values.variance * of_words, shared, values.together)

    def take(self, values: State, at: At) -> State:
        return _each(values, lambda one: taken(one, at))

    def put(self, values: State, at: Tensor) -> State:
        return _each(values, lambda one: one.new_zeros(*at.shape, one.shape[-1]).masked_scatter(at[:, :, None], one))

    def first(self, values: State) -> State:
        return _each(values, lambda one: one[:, 0])

    def fed(self, layer: Any, steps: tuple[State, State, State, State], values: State) -> State:
        before, given, active, added = (one.variance for one in steps)
        if not (_is(layer.widen, nn.Linear) and _is(layer.narrow, nn.Linear)):
            return values
        together = Together(before, given, active, added, layer.widen.weight, layer.narrow.weight, pre=layer.pre)
        return State(values.mean, values.variance, values.shared, together)


def _each(state: State, change: Callable[[Tensor], Tensor]) -> State:
    """Of other words; how these vary together is not known."""
    together = None if state.together is None else state.together.each(change)
    return State(change(state.mean), change(state.variance), None, together)


def _expect(module: nn.Module, kind: type[nn.Module]) -> Any:
    """The module, if it is what its rule is for; biases of a linear layer must be certain."""
    if not _is(module, kind):
        raise refusal(type(module).__name__)
    if kind is nn.Linear and posterior_of(module, "bias") is not None:
        raise refusal(f"{type(module).__name__} with uncertain biases")
    return module


def _is(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module computes what its kind does."""
    return isinstance(module, kind) and type(module).forward is kind.forward


MOMENTS = Moments()
