"""Gradients that are written by hand have no derivatives themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def first_derivatives_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A ``backward`` of a :class:`torch.autograd.Function` that refuses to be part of a graph. (That of torch,
    ``once_differentiable``, lets :func:`torch.autograd.grad` go on without this part, to a wrong result.)

    Raises:
        RuntimeError: with ``create_graph=True``.
    """

    @wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("gradients are written by hand here, and have no derivatives: without create_graph=True")
        return backward(ctx, *gradients)

    return checked
