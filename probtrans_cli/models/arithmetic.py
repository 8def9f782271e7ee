"""What the steps of a network compute with: tensors, or moments of what is uncertain.

The wiring of an encoder and of an output layer is written once, in terms of these steps. :data:`PLAIN` is the modules'
own calls; ``models/bayesian/propagation.py`` has the same steps for a :class:`State`, a mean and a variance of every
number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor, nn

Values = Any
"""Representations ``[b, n, d]`` or ``[m, d]``: a tensor, or a State."""
At = Bool[Tensor, "b n"] | Int[Tensor, " m"]
"""Some words of a padded batch, in row-major order: True where they stand, or their positions."""


def taken(values: Shaped[Tensor, "b n ..."], at: At) -> Shaped[Tensor, "m ..."]:
    """Those of some words. Where their positions are given, no computer waits for its GPU to count them."""
    return values[at] if at.dtype == torch.bool else values.flatten(0, 1).index_select(0, at)


class Arithmetic(ABC):
    """The steps."""

    @abstractmethod
    def linear(self, module: nn.Module, values: Values) -> Values:
        """A linear layer."""

    @abstractmethod
    def norm(self, module: nn.Module, values: Values) -> Values:
        """A layer norm."""

    @abstractmethod
    def activate(self, module: nn.Module, values: Values) -> Values:
        """A function of every number."""

    @abstractmethod
    def drop(self, module: nn.Module, values: Values) -> Values:
        """Dropout."""

    @abstractmethod
    def attend(
        self, layer: Any, values: Values, allowed: Tensor | None, arcs: bool, alone: bool
    ) -> tuple[Values, Tensor | None]:
        """What every word takes from the others, in a ``Layer``; attention if ``arcs``. ``alone``: how words vary
        together is not asked for."""

    @abstractmethod
    def add(self, values: Values, others: Values) -> Values:
        """The sum of two values, or of values and a certain tensor."""

    @abstractmethod
    def by_table(self, values: Values, table: Tensor, bias: Tensor) -> Values:
        """Scores of the entries of a certain table."""

    @abstractmethod
    def masked(self, values: Values, mask: Bool[Tensor, "b n"]) -> Values:
        """0 where there is no word."""

    @abstractmethod
    def take(self, values: Values, at: At) -> Values:
        """Those of some words ``[m, d]``."""

    @abstractmethod
    def put(self, values: Values, at: Bool[Tensor, "b n"]) -> Values:
        """Those of some words in their places ``[b, n, d]``, 0 in the others."""

    @abstractmethod
    def first(self, values: Values) -> Values:
        """Those of the first words ``[b, d]``."""

    @abstractmethod
    def fed(self, layer: Any, steps: tuple[Values, Values, Values, Values], values: Values) -> Values:
        """The sum behind the feed-forward layer of a ``Layer``, of which ``steps`` are what went into the layer, what
        the feed-forward layer read of it, what was behind its activation, and what it added."""


class Plain(Arithmetic):
    """The modules' own calls, of tensors."""

    def linear(self, module: nn.Module, values: Tensor) -> Tensor:
        return module(values)  # type: ignore[no-any-return]

    def norm(self, module: nn.Module, values: Tensor) -> Tensor:
        return module(values)  # type: ignore[no-any-return]

    def activate(self, module: nn.Module, values: Tensor) -> Tensor:
        return module(values)  # type: ignore[no-any-return]

    def drop(self, module: nn.Module, values: Tensor) -> Tensor:
        return module(values)  # type: ignore[no-any-return]

    def attend(
        self, layer: Any, values: Tensor, allowed: Tensor | None, arcs: bool, alone: bool
    ) -> tuple[Tensor, Tensor | None]:
        del alone
        found: tuple[Tensor, Tensor | None] = layer.attend(values, allowed, arcs)
        return found

    def add(self, values: Tensor, others: Tensor) -> Tensor:
        return values + others

    def by_table(self, values: Tensor, table: Tensor, bias: Tensor) -> Tensor:
        return nn.functional.linear(values, table, bias)

    def masked(self, values: Tensor, mask: Tensor) -> Tensor:
        return values * mask[:, :, None]

    def take(self, values: Tensor, at: At) -> Tensor:
        return taken(values, at)

    def put(self, values: Tensor, at: Tensor) -> Tensor:
        return values.new_zeros(*at.shape, values.shape[-1]).masked_scatter(at[:, :, None], values)

    def first(self, values: Tensor) -> Tensor:
        return values[:, 0]

    def fed(self, layer: Any, steps: tuple[Tensor, Tensor, Tensor, Tensor], values: Tensor) -> Tensor:
        del layer, steps
        return values


PLAIN = Plain()


def may_depend_on(values: Tensor) -> bool:
    """Whether shapes and checks may depend on these values."""
    return (
        values.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and not isinstance(values, torch._subclasses.FakeTensor)
    )
