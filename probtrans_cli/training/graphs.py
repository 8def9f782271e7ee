"""The encoder of a training as a graph: compiled, and, where the recipe wants it, recorded and replayed.

A CUDA graph is a recording of all kernels of a pass, for one shape: replayed, it needs no time of the CPU for each
kernel. Shapes are few if sentences are padded to a few lengths, and batches with empty sentences to a few numbers. So
an encoder is given more than there is, and what it says of that is cut off again: padding changes no word.

What a training does in every step is compiled. The rest, arcs and moments, is computed as it was: a compiler to which
whole numbers are symbols does not know which iterations are among those that were asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models.base import Encoded, Encoder, Iterations
from probtrans_cli.models.bayesian.moments import State
from probtrans_cli.recipe.training import Runtime

LEAST = 8
"""The smallest size that is padded to."""


def compiled(encoder: Encoder, section: Runtime) -> None:
    """Let an encoder run as the recipe's ``runtime`` says."""
    if not section.compile:
        return
    plain = encoder.forward
    if section.graphs:
        graph = in_few_shapes(torch.compile(plain, dynamic=True, mode="reduce-overhead"), encoder.longest)
    else:
        graph = torch.compile(plain, dynamic=True)
    encoder.forward = states_by(graph, plain)  # type: ignore[method-assign]


def states_by(graph: Callable[..., Encoded], plain: Callable[..., Encoded]) -> Callable[..., Encoded]:
    """An encoder's ``forward`` that computes states by a graph, and arcs and moments by the ``plain`` one."""

    def forward(
        unary: Tensor | State, mask: Tensor, arcs: Iterations = False, at: Tensor | None = None, **of_words: Tensor
    ) -> Encoded:
        if arcs or not isinstance(unary, Tensor):
            return plain(unary, mask, arcs, at, **of_words)
        return graph(unary, mask, at=at, **of_words)

    return forward


def padded_size(size: int, limit: int | None = None) -> int:
    """The next of the sizes 8, 12, 16, 24, 32, 48, ..., each a power of two or one and a half; at most ``limit``."""
    found = LEAST
    while found < size:
        found = found * 3 // 2 if found & (found - 1) == 0 else found * 4 // 3
    return found if limit is None else max(min(found, limit), size)


def in_few_shapes(graph: Callable[..., Encoded], longest: int | None) -> Callable[..., Encoded]:
    """A graph that is only asked for few shapes, and so for all states, whatever is wanted of them; ``longest``: the
    longest sentence that the encoder can read."""

    def forward(unary: Tensor, mask: Tensor, at: Tensor | None = None, **of_words: Tensor) -> Encoded:  # noqa: ARG001
        (b, n), words = mask.shape, of_words.get("first")
        more = padded_size(b) - b, padded_size(n, longest) - n
        given = {name: _padded(one, more, 0) for name, one in of_words.items() if name != "first"}
        if words is not None:
            behind = n + more[1]  # where no word begins
            further = more[0], padded_size(words.shape[1], longest) - words.shape[1]
            given["first"] = _padded(words.masked_fill(words >= n, behind), further, behind)
        if mask.is_cuda:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        found = graph(_padded(unary, more, 0), _padded(mask, more, value=False), **given)
        # Copies: the graph writes over what it said when it is replayed.
        sentence = None if found.sentence is None else found.sentence[:b].clone()
        return replace(found, states=found.states[:b, :n].clone(), sentence=sentence)

    return forward


def _padded(values: Tensor, more: tuple[int, int], value: float) -> Tensor:
    """``[b, n]`` or ``[b, n, d]`` with so many sentences and words more."""
    sentences, words = more
    return functional.pad(values, [0, 0] * (values.ndim - 2) + [0, words, 0, sentences], value=value)
