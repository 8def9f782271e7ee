"""The steps of a network, for tensors and for moments: which rule of ``moments.py`` a module has.

The wiring of an encoder and of an output layer is written once, in terms of these steps. Their values are a tensor, or
a :class:`State`, a mean and a variance of every number. A module without a rule is refused by name: its part of the
variance would be missing without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from probtrans_cli.errors import UsageError
from probtrans_cli.models.arithmetic import Linear, Values, linear
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
        shared = words.new_zeros(*words.shape[:2], words.shape[1]) if kind == "kronecker" else None
        return State(words, torch.zeros_like(words), shared)
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


def apply(module: nn.Module, values: Values) -> Values:
    """Apply a module; to a state, its rule, or the rule ``moments(state)`` that the module brings itself."""
    if isinstance(values, Tensor):
        return module(values)
    if (rule := getattr(module, "moments", None)) is not None:
        return rule(values)
    match module:
        case nn.Linear():
            layer = _expect_linear(module)
            return moments.linear(values, layer.weight, variance_of(layer), layer.bias)
        case nn.LayerNorm() if type(module).forward is nn.LayerNorm.forward:
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


def by_table(values: Values, table: Tensor, bias: Tensor) -> Values:
    """Return scores of the entries of a certain table."""
    if isinstance(values, Tensor):
        return linear(values, table, bias)
    return moments.linear(values, table, None, bias)


def masked(values: Values, mask: Bool[Tensor, "b n"]) -> Values:
    """Return 0 where there is no word."""
    of_words = mask[:, :, None]
    if isinstance(values, Tensor):
        return values * of_words
    shared = None if values.shared is None else values.shared * of_words * mask[:, None]
    return State(values.mean * of_words, values.variance * of_words, shared, values.together)


def each(values: Values, change: Callable[[Tensor], Tensor]) -> Values:
    """Return a choice of the words, which ``change`` makes of a tensor. How these vary together is left out."""
    if isinstance(values, Tensor):
        return change(values)
    together = None if values.together is None else values.together.each(change)
    return State(change(values.mean), change(values.variance), None, together)


def selected(values: Values, at: Bool[Tensor, "b n"] | Int[Tensor, " m"]) -> Values:
    """Return some words of a padded batch in row-major order, ``[m, ...]``.

    ``at``: True where they stand, or their positions; then no computer waits for its GPU to count them.
    """
    if at.dtype == torch.bool:
        return each(values, lambda part: part[at])
    return each(values, lambda part: part.flatten(0, 1).index_select(0, at))


def put(values: Values, at: Bool[Tensor, "b n"]) -> Values:
    """Return ``[b, n, d]`` with the values of some words in their places, 0 elsewhere."""
    place = at[:, :, None]
    return each(values, lambda part: part.new_zeros(*at.shape, part.shape[-1]).masked_scatter(place, part))


def first(values: Values) -> Values:
    """Return the first word of every sentence, ``[b, d]``."""
    return each(values, lambda part: part[:, 0])


def mean(values: Values, mask: Bool[Tensor, "b n"]) -> Values:
    """Return the mean over the words ``[b, d]``; 0 for a sentence of none."""
    number = mask.sum(1, keepdim=True).clamp(min=1)
    if isinstance(values, Tensor):
        return masked(values, mask).sum(1) / number.to(values.dtype)
    return moments.mean_over_words(values, mask / number.to(values.mean.dtype))


# --- parts of a layer of a transformer --------------------------------------------------------------------------------


def attend(layer: Any, values: State, allowed: Tensor | None, arcs: bool, alone: bool) -> tuple[State, Tensor | None]:
    """Return the moments of what every word takes from the words in a ``Layer``; its attention if ``arcs``.

    ``alone``: nothing that follows needs how words vary together.
    """
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


def after_feed_forward(layer: Any, steps: tuple[Values, Values, Values, Values], total: Values) -> Values:
    """Return the sum ``total`` behind the feed-forward part of a ``Layer``; of moments with how features vary together.

    ``steps``: what went into the layer, what the feed-forward part read of it, its activation, what it added.
    """
    if isinstance(total, Tensor):
        return total
    if not all(
        isinstance(part, Linear) and type(part).forward is Linear.forward for part in (layer.widen, layer.narrow)
    ):
        return total
    before, inputs, active, added = (step.variance for step in steps)
    together = Together(before, inputs, active, added, layer.widen.weight, layer.narrow.weight, pre=layer.pre)
    return State(total.mean, total.variance, total.shared, together)


def _expect_linear(module: nn.Module) -> nn.Linear:
    if not (isinstance(module, nn.Linear) and type(module).forward in (nn.Linear.forward, Linear.forward)):
        raise refusal(type(module).__name__)
    if posterior_of(module, "bias") is not None:
        raise refusal(f"{type(module).__name__} with uncertain biases")
    return module
