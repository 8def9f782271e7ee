"""How label distributions become the two sides of the ternary scores, and messages to the sides one to the labels.

Every ternary factor is a bilinear form in the label distributions of a word and of its head (Wu & Tu 2023, Eq. 3, 9),

    F_ic(j) = Σ_ab Q_i(a) Q_j(b) T[k,c,a,b] = Σ_l u_i[k,c,l] v_j[k,c,l],     k = f(i-j)

with the child side ``u`` and the head side ``v``. A :class:`Projection` maps labels to sides, and messages back. The
messages see nothing else of ``T``. An axis of size 1 of a side stands for "the same for all", and a message to that
side is summed over it.

symbol  variable   shape               meaning
Q       labels     [w, d]              label distributions, one row a word
u v     Sides      [w, K|1, h|1, r]    the two sides of every word, for one group of buckets
M        factor     [k, c|1, r, d]      a factor of ``T`` (``potentials.py``)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from probtrans_cli.models.arithmetic import linear


class Sides(NamedTuple):
    """Child side and head side ``[w, k|1, c|1, r]`` of every word, for one group of buckets, or messages to them.

    ``weight [k, c, r]``: of the child side, where there is one: ``u = child · weight``.
    """

    child: Tensor
    head: Tensor
    weight: Tensor | None = None

    @property
    def u(self) -> Float[Tensor, "w k c r"]:
        """The child side with its weight."""
        return self.child if self.weight is None else self.child * self.weight

    def back(self, message: Float[Tensor, "w k c r"]) -> Tensor:
        """Return a message to ``u`` as one to ``child``."""
        if self.weight is None:
            return message
        message = message * self.weight
        for axis in (1, 2):
            if self.child.shape[axis] == 1:
                message = message.sum(axis, keepdim=True)
        return message


class Projection(ABC):
    """From labels to sides and back, for groups of neighbouring buckets."""

    turns: ClassVar[bool] = False  # whether sides depend on the position

    @abstractmethod
    def sides(self, labels: Float[Tensor, "w d"], position: Int[Tensor, " w"]) -> list[Sides]:
        """Return the sides of every word, group by group; ``position`` is the word's place in its sentence."""

    def from_child(self, messages: Sequence[Tensor], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        """Return messages to the child sides alone, group by group, as one to the labels; see :meth:`Sides.back`."""
        return self.collect([Sides(message, torch.zeros_like(message)) for message in messages], position)

    @abstractmethod
    def collect(self, messages: Sequence[Sides], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        """Return messages to the sides as one message to the labels: the transposed map."""


def side(labels: Float[Tensor, "w d"], factor: Float[Tensor, "k c r d"]) -> Float[Tensor, "w k c r"]:
    """Return the side of every word that a factor of ``T`` makes of its labels."""
    return linear(labels, factor.flatten(0, 2)).reshape(labels.shape[0], *factor.shape[:3])


def to_labels(message: Float[Tensor, "w k c r"], factor: Float[Tensor, "k c r d"]) -> Float[Tensor, "w d"]:
    """Return a message to a side as one to the labels."""
    return linear(message.flatten(1), factor.flatten(0, 2).T)


class Group(NamedTuple):
    """Factors of a group of buckets; ``head`` None: the labels themselves are the head side."""

    child: Float[Tensor, "k c1 r d"]
    head: Float[Tensor, "k c1 r d"] | None
    weight: Float[Tensor, "k c r"] | None = None


@dataclass
class Grouped(Projection):
    """Each group has factors of its own: `none`, `uv` and `uvw`."""

    groups: Sequence[Group]

    def sides(self, labels: Float[Tensor, "w d"], position: Int[Tensor, " w"]) -> list[Sides]:
        del position
        return [
            Sides(side(labels, child), labels[:, None, None] if head is None else side(labels, head), weight)
            for child, head, weight in self.groups
        ]

    def from_child(self, messages: Sequence[Tensor], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        del position
        parts = [to_labels(child, group.child) for group, child in zip(self.groups, messages, strict=True)]
        return reduce(add, parts)

    def collect(self, messages: Sequence[Sides], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        del position
        parts: list[Tensor] = []
        for group, (child, head, _) in zip(self.groups, messages, strict=True):
            parts += to_labels(child, group.child), head[:, 0, 0] if group.head is None else to_labels(head, group.head)
        return reduce(add, parts)


@dataclass
class SharedSides(Projection):
    """One pair of factors for all groups, reweighted by bucket and channel: `shared`."""

    U: Float[Tensor, "1 c r d"]
    V: Float[Tensor, "1 c r d"]
    weights: Sequence[Tensor]

    def sides(self, labels: Float[Tensor, "w d"], position: Int[Tensor, " w"]) -> list[Sides]:
        del position
        child, head = side(labels, self.U), side(labels, self.V)
        return [Sides(child, head, weight) for weight in self.weights]

    def from_child(self, messages: Sequence[Tensor], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        del position
        return to_labels(reduce(add, messages), self.U)

    def collect(self, messages: Sequence[Sides], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        of_child = self.from_child([message.child for message in messages], position)
        return of_child + to_labels(reduce(add, [message.head for message in messages]), self.V)


@dataclass
class Rotated(Projection):
    """Sides turned by the word's position, so that their product depends on the distance: `rotary`; one group.

    Every plane (l, l + r/2) of a word is turned by an angle of its own.
    """

    turns = True

    U: Float[Tensor, "1 c r d"]
    V: Float[Tensor, "1 c r d"]
    frequency: Float[Tensor, " r2"]
    turn: tuple[Tensor, Tensor] | None = None  # the cosines and sines of the positions that were read last
    position: Tensor | None = None

    def sides(self, labels: Float[Tensor, "w d"], position: Int[Tensor, " w"]) -> list[Sides]:
        child, head = side(labels, self.U), side(labels, self.V)
        return [Sides(self._turned(child, position, -1.0), self._turned(head, position, -1.0))]

    def from_child(self, messages: Sequence[Tensor], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        return to_labels(self._turned(messages[0], position, 1.0), self.U)

    def collect(self, messages: Sequence[Sides], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        ((child, head, _),) = messages
        return self.from_child([child], position) + to_labels(self._turned(head, position, 1.0), self.V)

    def _turned(
        self, side: Float[Tensor, "w 1 c r"], position: Int[Tensor, " w"], direction: float
    ) -> Float[Tensor, "w 1 c r"]:
        """Return a side turned by its words' angles (1), or the other way round (-1)."""
        if self.turn is None or self.position is not position or self.turn[0].dtype != side.dtype:
            angle = position[:, None] * self.frequency
            cos, sin = (part[:, None, None].to(side.dtype) for part in (angle.cos(), angle.sin()))
            turn = torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)
            if side.device.type == "cpu":  # which multiplies one long row faster than many short ones
                turn = turn[0].expand(side.shape).contiguous(), turn[1].expand(side.shape).contiguous()
            self.turn, self.position = turn, position
        cos, sin = self.turn
        swapped = side.roll(side.shape[-1] // 2, -1)  # the other number of each plane
        return torch.addcmul(side * cos, swapped, sin, value=direction)
