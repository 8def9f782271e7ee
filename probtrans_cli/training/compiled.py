"""The encoder of a training through torch.compile.

What a training does in every step is compiled. The rest, arcs and moments, is computed as it was: a compiler to which
whole numbers are symbols does not know which iterations are among those that were asked for.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from probtrans_cli.models.base import Encoded, Encoder, Iterations
from probtrans_cli.models.bayesian.moments import State
from probtrans_cli.recipe.training import Runtime


def compiled(encoder: Encoder, section: Runtime) -> None:
    """Let an encoder run as the recipe's ``runtime`` says."""
    if section.compile:
        plain = encoder.forward
        encoder.forward = states_by(torch.compile(plain, dynamic=True), plain)  # type: ignore[method-assign]


def states_by(graph: Callable[..., Encoded], plain: Callable[..., Encoded]) -> Callable[..., Encoded]:
    """Return an encoder's ``forward`` that computes states by a graph, and arcs and moments by the ``plain`` one."""

    def forward(
        unary: Tensor | State, mask: Tensor, arcs: Iterations = False, at: Tensor | None = None, **of_words: Tensor
    ) -> Encoded:
        if arcs or not isinstance(unary, Tensor):
            return plain(unary, mask, arcs, at, **of_words)
        return graph(unary, mask, at=at, **of_words)

    return forward
