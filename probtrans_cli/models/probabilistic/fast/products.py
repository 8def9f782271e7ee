"""The products in which a training step spends its time, with gradients written by hand where that pays.

A projection serves every iteration twice, forward and back, so the gradient of its matrix is a sum of ``2 T`` products.
Left to autograd each of them is a new matrix, added to the others in a pass of its own; here they are accumulated by
the product itself (:class:`Matrix`). Products of the words of a sentence are many and small, and on a CPU the order in
which their factors lie in memory decides their speed (:func:`scores_of`, :func:`messages_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


def by_hand(tensor: Tensor) -> bool:
    """Whether to use gradients written by hand (here, in ``bands.py``): eagerly, on a CPU, in one precision."""
    return (
        tensor.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and type(tensor) in (Tensor, nn.Parameter)
        and not torch.is_autocast_enabled("cpu")
    )


# --- matrices ---------------------------------------------------------------------------------------------------------


class Matrix:
    """A matrix ``[o, d]`` that is multiplied with many times: ``times(x) = x Mᵀ`` and ``back(y) = y M``."""

    def __init__(self, matrix: Float[Tensor, "o d"], gradient: _Gradient | None = None) -> None:
        """``gradient``: where its products add up their gradients; None leaves them to autograd (see :meth:`of`)."""
        self.matrix, self.gradient = matrix, gradient

    @classmethod
    def of(cls, matrix: Float[Tensor, "o d"]) -> Matrix:
        """A matrix for one forward pass, with its gradient accumulated by hand where that pays."""
        if not (matrix.requires_grad and torch.is_grad_enabled() and by_hand(matrix)):
            return cls(matrix)
        total = _Total(matrix)
        return cls(_Accumulated.apply(matrix, total), _Gradient(total, slice(None)))  # type: ignore[no-untyped-call]

    def split(self, sizes: Sequence[int]) -> list[Matrix]:
        """The matrix cut into groups of rows. (Split, not sliced: a slice's gradient is zero-filled to the whole.)"""
        parts, start = [], 0
        for size, matrix in zip(sizes, torch.split(self.matrix, list(sizes)), strict=True):
            rows = slice(start, start + size)
            parts.append(Matrix(matrix, None if self.gradient is None else _Gradient(self.gradient.total, rows)))
            start += size
        return parts

    def times(self, rows: Float[Tensor, "w d"]) -> Float[Tensor, "w o"]:
        """From the narrow side to the wide one."""
        if self.gradient is None:
            return functional.linear(rows, self.matrix)
        result: Tensor = _Times.apply(rows, self.matrix, self.gradient)  # type: ignore[no-untyped-call]
        return result

    def back(self, rows: Float[Tensor, "w o"]) -> Float[Tensor, "w d"]:
        """From the wide side to the narrow one."""
        if self.gradient is None:
            return rows @ self.matrix
        result: Tensor = _Back.apply(rows, self.matrix, self.gradient)  # type: ignore[no-untyped-call]
        return result


class _Total:
    """The gradient of a matrix while its products add to it, in one backward pass."""

    def __init__(self, matrix: Tensor) -> None:
        self.like = matrix.detach()
        self.sum: Tensor | None = None
        self.task = -1

    def begun(self) -> Tensor:
        """The sum so far. What an earlier backward pass left behind, which did not ask for it, is forgotten."""
        task = torch._C._current_graph_task_id()
        if self.sum is None or self.task != task:
            self.sum, self.task = torch.zeros_like(self.like), task
        return self.sum

    def take(self) -> Tensor | None:
        """What was added in this backward pass."""
        result = self.sum if self.task == torch._C._current_graph_task_id() else None
        self.sum = None
        return result


class _Gradient(NamedTuple):
    """The gradient of some rows of a matrix."""

    total: _Total
    rows: slice

    def add(self, wide: Float[Tensor, "w o"], narrow: Float[Tensor, "w d"]) -> None:
        """Add ``wideᵀ narrow``."""
        self.total.begun()[self.rows].addmm_(wide.T, narrow)


class _Accumulated(torch.autograd.Function):
    """The matrix itself; its gradient is what all its products have added up."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, total: _Total) -> Tensor:
        ctx.total = total
        ctx.set_materialize_grads(False)
        return matrix.view_as(matrix)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        # The products pass no gradient on; they are connected to this only for it to come after all of them.
        assert gradients == (None,), "a matrix is used in products only"
        return ctx.total.take(), None


class _Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Tensor, gradient: _Gradient) -> Tensor:
        ctx.save_for_backward(rows, matrix)
        ctx.gradient = gradient
        return rows @ matrix.T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None]:
        rows, matrix = ctx.saved_tensors
        ctx.gradient.add(gradients[0], rows)
        return (gradients[0] @ matrix if ctx.needs_input_grad[0] else None), None, None


class _Back(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Tensor, gradient: _Gradient) -> Tensor:
        ctx.save_for_backward(rows, matrix)
        ctx.gradient = gradient
        return rows @ matrix

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None]:
        rows, matrix = ctx.saved_tensors
        ctx.gradient.add(rows, gradients[0])
        return (gradients[0] @ matrix.T if ctx.needs_input_grad[0] else None), None, None


# --- sides -----------------------------------------------------------------------------------------------------------


class Sums:
    """The gradients of a child and a head side, to which all that was computed of them adds, in one backward pass."""

    def __init__(self) -> None:
        self.child: Tensor | None = None
        self.head: Tensor | None = None
        self.task = -1

    def _begin(self) -> None:
        # What an earlier backward pass left behind, which did not ask for it, is forgotten.
        task = torch._C._current_graph_task_id()
        if self.task != task:
            self.child, self.head, self.task = None, None, task

    def add(self, child: Callable[[Tensor | None], Tensor], head: Callable[[Tensor | None], Tensor]) -> None:
        """Each function is given a sum so far (None: none) and returns it with its part."""
        self._begin()
        self.child, self.head = child(self.child), head(self.head)

    def add_both(self, sides: Callable[[tuple[Tensor | None, Tensor | None]], tuple[Tensor, Tensor]]) -> None:
        """:meth:`add` with one function for both."""
        self._begin()
        self.child, self.head = sides((self.child, self.head))

    def take(self) -> tuple[Tensor | None, Tensor | None]:
        """What was added in this backward pass."""
        self._begin()
        found = (self.child, self.head)
        self.child = self.head = None
        return found


def summed(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Sums]:
    """The sides, and where their gradients are to be added: no gradient may come to them by another way."""
    sums = Sums()
    u, v = _Summed.apply(u, v, sums)  # type: ignore[no-untyped-call]
    return u, v, sums


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, sums: Sums) -> tuple[Tensor, Tensor]:
        ctx.sums = sums
        ctx.set_materialize_grads(False)
        return u.view_as(u), v.view_as(v)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        assert gradients == (None, None), "sides are used in bands only"
        return *ctx.sums.take(), None


# --- products of pairs of words ---------------------------------------------------------------------------------------


def transposed(v: Float[Tensor, "*b n r"]) -> Float[Tensor, "*b r n"] | None:
    """``vᵀ``, for the products below; a constant. None where they do without.

    Small products with a transposed second factor run three times slower on a CPU than a copy and a plain product.
    """
    return v.detach().mT.contiguous() if by_hand(v) else None


def scores_of(u: Float[Tensor, "*b m r"], v: Float[Tensor, "*b n r"], v_t: Tensor | None) -> Float[Tensor, "*b m n"]:
    """``u vᵀ``, for many small matrices; ``v_t`` is :func:`transposed`."""
    if v_t is None:
        return u @ v.mT
    scores: Tensor = _Scores.apply(u, v, v_t)  # type: ignore[no-untyped-call]
    return scores


def messages_of(
    p: Float[Tensor, "*b m n"], u: Float[Tensor, "*b m r"], v: Float[Tensor, "*b n r"], v_t: Tensor | None
) -> tuple[Float[Tensor, "*b m r"], Float[Tensor, "*b n r"]]:
    """``p v`` and ``pᵀ u``, for many small matrices; ``v_t`` is :func:`transposed`."""
    if v_t is None:
        return p @ v, p.mT @ u
    messages: tuple[Tensor, Tensor] = _Messages.apply(p, u, v, v_t)  # type: ignore[no-untyped-call]
    return messages


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, v_t: Tensor) -> Tensor:
        ctx.save_for_backward(u, v)
        return u @ v_t

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        u, v = ctx.saved_tensors
        (gradient,) = gradients
        return gradient @ v, gradient.mT @ u, None


class _Messages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, u: Tensor, v: Tensor, v_t: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(p, u, v_t)
        return p @ v, p.mT @ u

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        p, u, v_t = ctx.saved_tensors
        to_child, to_head = gradients
        by_p = to_child @ v_t
        flat = by_p.flatten(0, -3)
        flat.baddbmm_(u.flatten(0, -3), to_head.mT.contiguous().flatten(0, -3))
        return by_p, p @ to_head, p.mT @ to_child, None
