"""Products with the model's matrices, whose gradients are added up by the products themselves.

A projection serves every iteration twice, forward and back, so the gradient of its matrix ``M`` is a sum of ``2 T``
products. Left to autograd each of them is a new matrix, added to the others in a pass of its own. Here every product
hands the matrix on to the next one, as a second result: the gradient of that result is the sum of what the later
products gave, and a product adds its own part to it in place,

    y = x Mᵀ, M' = M:        dM = dM' + dyᵀ x        dx = dy M
    x = y M,  M' = M:        dM = dM' + yᵀ dx        dy = dx Mᵀ

The sum so far travels along the graph, so nothing is left behind by a backward pass that ends early or does not ask
for the matrix. In an autocast, factors are rounded to its precision, the matrix once for all products that add up
a gradient; what is handed on, and the sum, are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.derivatives import first_derivatives_only
from probtrans_cli.models.probabilistic.projections import Matrix


class MatrixByHand(Matrix):
    """A matrix, or some of its rows, whose gradient its products add up."""

    def __init__(self, handed_on: _HandedOn, rows: slice) -> None:
        """``handed_on``: the whole matrix, of which these are ``rows``."""
        super().__init__(handed_on.matrix[rows])
        self.handed_on, self.rows = handed_on, rows

    @classmethod
    def of(cls, matrix: Float[Tensor, "o d"]) -> Matrix:
        """A matrix for one forward pass; without a gradient, there is nothing to add up."""
        if not (matrix.requires_grad and torch.is_grad_enabled()):
            return Matrix(matrix)
        return cls(_HandedOn(matrix, matrix.detach().to(precision(matrix))), slice(0, matrix.shape[0]))

    def split(self, sizes: Sequence[int]) -> list[Matrix]:
        parts: list[Matrix] = []
        start = self.rows.start
        for size in sizes:
            parts.append(MatrixByHand(self.handed_on, slice(start, start + size)))
            start += size
        return parts

    def times(self, narrow: Float[Tensor, "w d"]) -> Float[Tensor, "w o"]:
        result: Tensor
        handed_on = self.handed_on
        result, handed_on.matrix = _Times.apply(narrow, handed_on.matrix, handed_on.rounded[self.rows], self.rows)  # type: ignore[no-untyped-call]
        return result

    def back(self, wide: Float[Tensor, "w o"]) -> Float[Tensor, "w d"]:
        result: Tensor
        handed_on = self.handed_on
        result, handed_on.matrix = _Back.apply(wide, handed_on.matrix, handed_on.rounded[self.rows], self.rows)  # type: ignore[no-untyped-call]
        return result


def precision(like: Tensor) -> torch.dtype:
    """What products on a CPU are computed in: an autocast's precision, or else that of their factors."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else like.dtype


class _HandedOn:
    """The matrix as the last product handed it on, and rounded to the precision of products."""

    def __init__(self, matrix: Tensor, rounded: Tensor) -> None:
        self.matrix, self.rounded = matrix, rounded


class _Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, narrow: Tensor, matrix: Tensor, rounded: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        narrow = narrow if rounded.dtype == matrix.dtype else narrow.to(rounded.dtype)
        ctx.save_for_backward(narrow, matrix, rounded)
        ctx.part = part
        ctx.set_materialize_grads(False)
        return narrow @ rounded.T, matrix.view_as(matrix)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None, None, None]:
        narrow, matrix, rounded = ctx.saved_tensors
        wide, total = gradients
        if wide is None:
            return None, total, None, None
        total = _added(total, matrix, ctx.part, wide, narrow)
        return (wide @ rounded if ctx.needs_input_grad[0] else None), total, None, None


class _Back(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, wide: Tensor, matrix: Tensor, rounded: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        wide = wide if rounded.dtype == matrix.dtype else wide.to(rounded.dtype)
        ctx.save_for_backward(wide, matrix, rounded)
        ctx.part = part
        ctx.set_materialize_grads(False)
        return wide @ rounded, matrix.view_as(matrix)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None, None, None]:
        wide, matrix, rounded = ctx.saved_tensors
        narrow, total = gradients
        if narrow is None:
            return None, total, None, None
        total = _added(total, matrix, ctx.part, wide, narrow)
        return (narrow @ rounded.T if ctx.needs_input_grad[0] else None), total, None, None


def _added(total: Tensor | None, matrix: Tensor, part: slice, wide: Tensor, narrow: Tensor) -> Tensor:
    """The sum so far (None: nothing yet) with ``wideᵀ narrow`` added to some rows."""
    total = torch.zeros_like(matrix) if total is None else total
    if wide.dtype == total.dtype:
        total[part].addmm_(wide.T, narrow)
    else:
        total[part] += wide.T @ narrow
    return total
