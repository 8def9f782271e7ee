"""What `-v train --dry-run` tells of a network: the shapes that go into and come out of each of its modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from probtrans_cli import console


@contextmanager
def shapes_told(network: nn.Module) -> Iterator[None]:
    """Within this, every module that is called for the first time tells the shapes of its arguments and results, where
    details are told at all. Modules whose weights others read, and which are never called, tell nothing."""
    seen: set[str] = set()
    modules = network.named_modules() if console.STATE.level >= console.VERBOSE else []
    hooks = [
        module.register_forward_hook(partial(_tell, name or "network", seen), with_kwargs=True)
        for name, module in modules
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _tell(
    name: str, seen: set[str], module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], found: object
) -> None:
    if name not in seen:
        seen.add(name)
        into, out = (" ".join(_shapes(value)) or "-" for value in ((given, named), found))
        console.detail(f"{name} ({type(module).__name__}): {into} -> {out}")


def _shapes(value: object) -> Iterator[str]:
    """The shapes of the tensors in a value, in order."""
    if isinstance(value, Tensor):
        yield str(list(value.shape))
        return
    if is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for one in value:
            yield from _shapes(one)
