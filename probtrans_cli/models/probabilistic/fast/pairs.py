"""Products of the pairs of words of a sentence, many and small, with gradients written by hand.

On a CPU the order in which their factors lie in memory decides their speed: small products with a transposed second
factor run slower than a copy and a plain product.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.derivatives import first_derivatives_only


def scores_of(u: Float[Tensor, "*b m r"], v: Float[Tensor, "*b n r"], v_t: Tensor) -> Float[Tensor, "*b m n"]:
    """``u vᵀ``; ``v_t`` is ``vᵀ``, a constant."""
    scores: Tensor = _Scores.apply(u, v, v_t)  # type: ignore[no-untyped-call]
    return scores


def messages_of(
    p: Float[Tensor, "*b m n"], u: Float[Tensor, "*b m r"], v: Float[Tensor, "*b n r"], v_t: Tensor
) -> tuple[Float[Tensor, "*b m r"], Float[Tensor, "*b n r"]]:
    """``p v`` and ``pᵀ u``; ``v_t`` is ``vᵀ``, a constant."""
    messages: tuple[Tensor, Tensor] = _Messages.apply(p, u, v, v_t)  # type: ignore[no-untyped-call]
    return messages


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, v_t: Tensor) -> Tensor:
        ctx.save_for_backward(u, v)
        return u @ v_t

    @staticmethod
    @first_derivatives_only
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
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        p, u, v_t = ctx.saved_tensors
        to_child, to_head = gradients
        by_p = to_child @ v_t
        flat = by_p.flatten(0, -3)
        flat.baddbmm_(u.flatten(0, -3), to_head.mT.contiguous().flatten(0, -3))
        return by_p, p @ to_head, p.mT @ to_child, None
