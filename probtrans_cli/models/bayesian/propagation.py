"""The steps of a network for moments: which rule of ``moments.py`` a module has.

A module without a rule is refused by name: its part of the variance would be missing without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from probtrans_cli.errors import UsageError
from probtrans_cli.models.arithmetic import Arithmetic, Linear
from probtrans_cli.models.bayesian import moments
from probtrans_cli.models.bayesian.moments import Distances, State
from probtrans_cli.models.bayesian.state import Together
from probtrans_cli.models.bayesian.weights import posterior_of

Kind = Literal["kronecker", "diagonal"]
"""What is carried from step to step: with the words' shared covariances T, or without."""


def refusal(name: str) -> UsageError:
    """Return the error for something without a rule."""
    hint = "predict by draws of the weights: model.bayes.predict.kind=samples"
    return UsageError(f"{name}: there is no rule for moments through it", hint=hint)


def moments_of_words(words: Tensor, kind: Kind, table: nn.Module, ids: Tensor) -> State:
    """Return what goes into an encoder for ``words [b, n, d]``, the vectors of a ``table`` for the last words, ``ids``.

    If the table is uncertain, the same word has the same vector wherever it stands: T_ab = Σ_i σ_i² if w_a = w_b.
    """
    words = words if words.dtype == torch.float64 else words.float()
    of_table = variance_of(table)
    if of_table is None:
        return moments.certain(words, shared=kind == "kronecker")
    in_front = words.shape[1] - ids.shape[1]
    of_table = of_table[:, None] if of_table.ndim == 1 else of_table
    variance = pad(of_table[ids].expand(*ids.shape, words.shape[-1]), (0, 0, in_front, 0))
    if kind == "diagonal":
        return State(words, variance)
    same = pad(ids[:, :, None] == ids[:, None], (in_front, 0, in_front, 0))
    return State(words, variance, same * variance.sum(-1, keepdim=True))


def variance_of(module: nn.Module, name: str = "weight") -> Tensor | None:
    """Return σ² of a module's weights, ``[r]`` if there is one a row, else one a weight; None: they are certain."""
    posterior = posterior_of(module, name)
    if posterior is None:
        return None
    variance = posterior.deviation().square()
    mean: Tensor = getattr(module, name)
    if mean.ndim == 1:
        return variance.expand(mean.shape)
    return variance[:, 0] if variance.shape[1] == 1 and mean.shape[1] > 1 else variance


class Moments(Arithmetic):
    """The steps, for moments."""

    def __call__(self, module: nn.Module, values: State) -> State:
        """Apply the rule of a module, or the rule ``moments(state)`` that it brings itself."""
        if (rule := getattr(module, "moments", None)) is not None:
            state: State = rule(values)
            return state
        match module:
            case nn.Linear():
                linear = _expect_linear(module)
                return moments.linear(values, linear.weight, variance_of(linear), linear.bias)
            case nn.LayerNorm() if _computes(module, nn.LayerNorm):
                of_gain, of_shift = variance_of(module), variance_of(module, "bias")
                gain, shift, eps = module.weight, module.bias, module.eps
                return moments.layer_norm(values, gain, shift, eps=eps, of_gain=of_gain, of_shift=of_shift)
            case nn.ReLU():
                return moments.relu(values)
            case nn.GELU(approximate="none"):
                return moments.gelu(values)
            case nn.GELU() | nn.Tanh():
                return moments.by_points(values, module, type(module).__name__)
            case nn.Dropout(p=rate) if module.training and rate:
                raise refusal(f"dropout of {rate} in training")
            case nn.Dropout() | nn.Identity():
                return values
        raise refusal(type(module).__name__)

    def attend(
        self, layer: Any, values: State, allowed: Tensor | None, arcs: bool, alone: bool
    ) -> tuple[State, Tensor | None]:
        if layer.training and layer.attention_dropout:
            raise refusal(f"attention dropout of {layer.attention_dropout} in training")
        module = _expect_linear(layer.projections)
        mask = None if allowed is None else allowed[:, 0, 0]
        vectors = layer.vectors(values.mean.shape[-2])
        distances = Distances(*(vectors.get(name) for name in ("query", "key", "value"))) if vectors else None
        options: dict[str, Any] = {"mask": mask, "distances": distances, "keeps_shared": not alone}
        weight, of_weight = module.weight, variance_of(module)
        state, attention = moments.attention(values, weight, of_weight, module.bias, layer.heads, **options)
        return state, attention if arcs else None

    def add(self, values: State, term: State | Tensor) -> State:
        return moments.add(values, term)

    def after_feed_forward(self, layer: Any, steps: tuple[State, State, State, State], total: State) -> State:
        if not (_computes(layer.widen, Linear) and _computes(layer.narrow, Linear)):
            return total
        before, inputs, active, added = (step.variance for step in steps)
        together = Together(before, inputs, active, added, layer.widen.weight, layer.narrow.weight, pre=layer.pre)
        return State(total.mean, total.variance, total.shared, together)

    def by_table(self, values: State, table: Tensor, bias: Tensor) -> State:
        return moments.linear(values, table, None, bias)

    def masked(self, values: State, mask: Tensor) -> State:
        of_words = mask[:, :, None]
        shared = None if values.shared is None else values.shared * of_words * mask[:, None]
        return State(values.mean * of_words, values.variance * of_words, shared, values.together)

    def each(self, values: State, change: Callable[[Tensor], Tensor]) -> State:
        return values.each(change)

    def rest(self, values: State) -> State:
        rest = values.each(lambda part: part[:, 1:])
        shared = None if values.shared is None else values.shared[:, 1:, 1:]
        return State(rest.mean, rest.variance, shared, rest.together)

    def mean(self, values: State, mask: Tensor) -> State:
        number = mask.sum(1, keepdim=True).clamp(min=1)
        return moments.mean_over_words(values, mask / number.to(values.mean.dtype))


def _expect_linear(module: nn.Module) -> nn.Linear:
    if not (isinstance(module, nn.Linear) and type(module).forward in (nn.Linear.forward, Linear.forward)):
        raise refusal(type(module).__name__)
    if posterior_of(module, "bias") is not None:
        raise refusal(f"{type(module).__name__} with uncertain biases")
    return module


def _computes(module: nn.Module, kind: type[nn.Module]) -> bool:
    return isinstance(module, kind) and type(module).forward is kind.forward


MOMENTS = Moments()
