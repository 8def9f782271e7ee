"""How label distributions become the two sides of the ternary scores, and messages to the sides one to the labels.

Every ternary factor is a bilinear form in the label distributions of a word and of its head (Wu & Tu 2023, Eq. 3, 9),

    F_ic(j) = Σ_ab Q_i(a) Q_j(b) T[k,c,a,b] = Σ_l u_i[k,c,l] v_j[k,c,l],     k = f(i-j)

with the child side ``u`` and the head side ``v``. A :class:`Projection` maps labels to sides, and messages back. The
messages see nothing else of ``T``. An axis of size 1 of a side stands for "the same for all", and a message to that
side is summed over it.

symbol  variable   shape               meaning
Q       labels     [w, d]              label distributions, one row a word
u v     Sides      [w, K|1, h|1, r]    the two sides of every word, for one group of buckets
M       Matrix     [K·h·r, d]          a factor of ``T`` (``potentials.py``) between labels and one side
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional


class Matrix:
    """A matrix ``[o, d]`` that is multiplied with many times."""

    def __init__(self, matrix: Float[Tensor, "o d"]) -> None:
        self.matrix = matrix

    def split(self, sizes: Sequence[int]) -> list[Matrix]:
        """The matrix cut into groups of rows."""
        return [Matrix(part) for part in torch.split(self.matrix, list(sizes))]

    def times(self, narrow: Float[Tensor, "w d"]) -> Float[Tensor, "w o"]:
        """``x Mᵀ``: from the narrow side to the wide one."""
        return functional.linear(narrow, self.matrix)

    def back(self, wide: Float[Tensor, "w o"]) -> Float[Tensor, "w d"]:
        """``y M``: from the wide side to the narrow one."""
        return wide @ self.matrix


MatrixOf = Callable[[Tensor], Matrix]
"""How a matrix is multiplied with in one forward pass: as :class:`Matrix`, or with gradients by hand."""


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
        """A message to ``u`` as one to ``child``."""
        if self.weight is None:
            return message
        message = message * self.weight
        for axis in (1, 2):
            if self.child.shape[axis] == 1:
                message = message.sum(axis, keepdim=True)
        return message


class Projection(ABC):
    """From labels to sides and back, for groups of neighbouring buckets."""

    @abstractmethod
    def sides(self, labels: Float[Tensor, "w d"], position: Int[Tensor, " w"]) -> list[Sides]:
        """The sides of every word, group by group; ``position`` is the word's place in its sentence."""

    @abstractmethod
    def collect(self, messages: Sequence[Sides], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        """Messages to the sides as one message to the labels: the transposed map."""


class SideMatrix:
    """A factor of ``T``, ``[k, c|1, r, d]``, as the matrix between labels and one side."""

    def __init__(self, matrix: Matrix, shape: tuple[int, int, int]) -> None:
        """``matrix [k · c · r, d]``; ``shape``: those three sizes."""
        self.matrix, self.shape = matrix, shape

    @classmethod
    def of(cls, factor: Float[Tensor, "k c r d"], matrix: MatrixOf) -> SideMatrix:
        """A factor for one forward pass."""
        buckets, channels, rank, _ = factor.shape
        return cls(matrix(factor.flatten(0, 2)), (buckets, channels, rank))

    def split(self, sizes: Sequence[int]) -> list[SideMatrix]:
        """The factor cut into groups of buckets."""
        _, channels, rank = self.shape
        matrices = self.matrix.split([size * channels * rank for size in sizes])
        return [SideMatrix(matrix, (size, channels, rank)) for size, matrix in zip(sizes, matrices, strict=True)]

    def side(self, labels: Float[Tensor, "w d"]) -> Float[Tensor, "w k c r"]:
        """The side of every word."""
        return self.matrix.times(labels).reshape(labels.shape[0], *self.shape)

    def back(self, message: Float[Tensor, "w k c r"]) -> Float[Tensor, "w d"]:
        """A message to the side as one to the labels."""
        return self.matrix.back(message.flatten(1))


class GroupMatrices(NamedTuple):
    """Of a group: ``child``, ``head`` (None: the labels themselves), ``weight [k, c, r]`` of the child side."""

    child: SideMatrix
    head: SideMatrix | None
    weight: Tensor | None = None


class Grouped(Projection):
    """Each group has factors of its own: `none`, `uv` and `uvw`."""

    def __init__(self, groups: Sequence[GroupMatrices]) -> None:
        self.groups = groups

    def sides(self, labels: Float[Tensor, "w d"], position: Int[Tensor, " w"]) -> list[Sides]:
        del position
        return [
            Sides(
                group.child.side(labels),
                labels[:, None, None] if group.head is None else group.head.side(labels),
                group.weight,
            )
            for group in self.groups
        ]

    def collect(self, messages: Sequence[Sides], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        del position
        to_labels: list[Tensor] = []
        for group, (child, head, _) in zip(self.groups, messages, strict=True):
            to_labels += group.child.back(child), head[:, 0, 0] if group.head is None else group.head.back(head)
        return _sum(to_labels)


class SharedSides(Projection):
    """One pair of factors for all groups, reweighted by bucket and channel: `shared`."""

    def __init__(self, U: SideMatrix, V: SideMatrix, weights: Sequence[Tensor]) -> None:
        self.U, self.V, self.weights = U, V, weights

    def sides(self, labels: Float[Tensor, "w d"], position: Int[Tensor, " w"]) -> list[Sides]:
        del position
        child, head = self.U.side(labels), self.V.side(labels)
        return [Sides(child, head, weight) for weight in self.weights]

    def collect(self, messages: Sequence[Sides], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        del position
        return self.U.back(_sum([one.child for one in messages])) + self.V.back(_sum([one.head for one in messages]))


class Rotated(Projection):
    """Sides turned by the word's position, so that their product depends on the distance: `rotary`; one group."""

    def __init__(self, U: SideMatrix, V: SideMatrix, frequency: Tensor) -> None:
        self.U, self.V, self.frequency = U, V, frequency
        self.known: tuple[Tensor, _Turn] | None = None

    def sides(self, labels: Float[Tensor, "w d"], position: Int[Tensor, " w"]) -> list[Sides]:
        child, head = self.U.side(labels), self.V.side(labels)
        turn = self._turn(position, child)
        return [Sides(turn.back(child), turn.back(head))]

    def collect(self, messages: Sequence[Sides], position: Int[Tensor, " w"]) -> Float[Tensor, "w d"]:
        (message,) = messages
        turn = self._turn(position, message.child)
        return self.U.back(turn.forth(message.child)) + self.V.back(turn.forth(message.head))

    def _turn(self, position: Int[Tensor, " w"], side: Float[Tensor, "w 1 c r"]) -> _Turn:
        """The turns of a side of these words, made anew only for another ``position`` (another tensor) or precision."""
        if self.known is None or self.known[0] is not position or self.known[1].cos.dtype != side.dtype:
            self.known = position, _Turn.of(side, position[:, None] * self.frequency)
        return self.known[1]


def _sum(messages: Sequence[Tensor]) -> Tensor:
    return sum(messages[1:], messages[0])


class _Turn(NamedTuple):
    """A turn of every plane (l, l + r/2) of every word by the word's own angle: ``cos``, and ``-sin`` for the first and
    ``sin`` for the second number of a plane, ``[w, 1, 1, r]``; or of the shape of what is turned."""

    cos: Tensor
    sin: Tensor

    @classmethod
    def of(cls, side: Float[Tensor, "w 1 c r"], angle: Float[Tensor, "w r2"]) -> _Turn:
        """The turns of a side by some angles."""
        cos, sin = (part[:, None, None].to(side.dtype) for part in (angle.cos(), angle.sin()))
        turn = cls(torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1))
        if side.device.type != "cpu":
            return turn
        # A CPU multiplies one long row faster than many short ones.
        return cls(*(part.expand(side.shape).contiguous() for part in turn))

    def forth(self, side: Float[Tensor, "w 1 c r"]) -> Float[Tensor, "w 1 c r"]:
        """A side turned by the angle."""
        return torch.addcmul(side * self.cos, _swapped(side), self.sin)

    def back(self, side: Float[Tensor, "w 1 c r"]) -> Float[Tensor, "w 1 c r"]:
        """A side turned by the angle, the other way round."""
        return torch.addcmul(side * self.cos, _swapped(side), self.sin, value=-1.0)


def _swapped(side: Float[Tensor, "w 1 c r"]) -> Float[Tensor, "w 1 c r"]:
    """The other number of each plane; the gradient is such a copy, too."""
    return side.roll(side.shape[-1] // 2, -1)
