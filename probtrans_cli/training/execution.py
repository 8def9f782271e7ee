"""How the network of a training is executed: as copies in several processes, through torch.compile, with its shapes
reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from probtrans_cli import console
from probtrans_cli.models.base import Encoded, Encoder, Iterations, Words
from probtrans_cli.models.network import Network

_DDP = signature(DistributedDataParallel).parameters
_BUFFERS = next(name for name in ("forward_sync_buffers", "broadcast_buffers") if name in _DDP)  # new, and old


def replicated(network: Network) -> DistributedDataParallel:
    """Return a network whose gradients are summed over all processes while the last microbatch goes backward.

    Nothing is divided: the loss does that. Between the microbatches of an update use ``no_sync()``.
    """
    # Which parameters a batch reads depends on the batch. Buffers are the same from the start, and never change.
    unsynchronised: dict[str, Any] = {_BUFFERS: False}
    copy = DistributedDataParallel(network, find_unused_parameters=True, **unsynchronised)

    def summed(_, bucket):  # type: ignore[no-untyped-def]
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        assert work is not None, "it is asynchronous"
        return work.get_future().then(lambda done: done.value()[0])

    copy.register_comm_hook(None, summed)
    return copy


def compile_encoder(encoder: Encoder) -> None:
    """Let an encoder run through torch.compile where a training needs it in every step.

    Arcs and moments are computed as before: a compiler to which whole numbers are symbols cannot tell which iterations
    are wanted.
    """
    plain = encoder.forward
    encoder.forward = states_by(torch.compile(plain, dynamic=True), plain)  # type: ignore[method-assign]


def states_by(graph: Callable[..., Encoded], plain: Callable[..., Encoded]) -> Callable[..., Encoded]:
    """Return an encoder's ``forward`` that computes states by a graph, and arcs and moments by the ``plain`` one."""

    def forward(words: Words, arcs: Iterations = False, at: Tensor | None = None) -> Encoded:
        if arcs or not isinstance(words.unary, Tensor):
            return plain(words, arcs, at)
        return graph(words, at=at)

    return forward


@contextmanager
def shapes_reported(network: nn.Module) -> Iterator[None]:
    """Within, with ``--verbose``: every module prints the shapes of its arguments and results in its first call.

    Modules whose weights others read, and which are never called, print nothing.
    """
    reported: set[str] = set()

    def report(name: str, module: nn.Module, arguments: Any, keywords: Any, outputs: object) -> None:
        if name not in reported:
            reported.add(name)
            into, out = (" ".join(_shapes(value)) or "-" for value in ((arguments, keywords), outputs))
            console.detail(f"{name} ({type(module).__name__}): {into} -> {out}")

    hooks = []
    if console.STATE.level >= console.VERBOSE:
        for name, module in network.named_modules():
            hook = partial(report, name or "network")
            hooks.append(module.register_forward_hook(hook, with_kwargs=True))
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()


def _shapes(value: object) -> Iterator[str]:
    """Yield the shapes of the tensors in a value, in order."""
    if isinstance(value, Tensor):
        yield str(list(value.shape))
        return
    if is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for item in value:
            yield from _shapes(item)
