"""A device without values, for what must not wait for a GPU.

Tensors on torch's device `meta` have a shape and no numbers. An update that runs on it asks for no value of what the
device computes: `.item()`, ``nonzero``, an index by a mask, a copy back, all end in an error with the line that asked.
What an error cannot tell is a copy *to* the device for which the program waits: :class:`Copies` counts these.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim import Adam, AdamW, Optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from probtrans_cli.training import optim
from probtrans_cli.training.loop import Trainer

META = torch.device("meta")
VALUED = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "_unique", "is_nonzero", "equal", "allclose")
"""Operators whose result or shape depends on values; of ``repeat_interleave`` that of a tensor."""


def _here() -> str:
    frames = [one for one in traceback.extract_stack() if "/probtrans_cli/" in one.filename]
    last = frames[-1] if frames else traceback.extract_stack()[0]
    return f"{last.filename.rpartition('/probtrans_cli/')[2]}:{last.lineno} {last.line}"


def _on_device(*values: Any) -> bool:
    return any(isinstance(one, torch.Tensor) and one.device == META for one in values)


class Waits(TorchDispatchMode):
    """Notes every operation for which a program would wait for the device; ``found``: what, and where."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if self._waits(name, func, args, kwargs):
            self.found.append(f"{func}: {_here()}")
        return func(*args, **kwargs)

    @staticmethod
    def _waits(name: str, func: Any, args: Any, kwargs: Any) -> bool:
        if name in VALUED or (name == "repeat_interleave" and "Tensor" in str(func)):
            return _on_device(*args)
        if name == "_to_copy":
            to, given = kwargs.get("device") or args[0].device, args[0].device
            return (given == META) != (to == META) and not kwargs.get("non_blocking")
        if name == "copy_":
            across = (args[0].device == META) != (args[1].device == META)
            return across and not (kwargs.get("non_blocking") or (len(args) > 2 and args[2]))
        if name in ("index", "index_put", "index_put_", "_index_put_impl_") and _on_device(args[0]):
            indices = [one for one in args[1] if one is not None]
            return any(one.device != META or one.dtype in (torch.bool, torch.uint8) for one in indices)
        return False


class Copies(TorchFunctionMode):
    """Notes tensors that are made of Python numbers on the device: they are copied there, and the program waits."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor, torch.asarray) and kwargs.get("device") is not None:
            given = args[0] if args else kwargs.get("data")
            if torch.device(kwargs["device"]) == META and not _on_device(given):
                self.found.append(f"{func.__name__}: {_here()}")
        return func(*args, **kwargs)


@contextmanager
def waits() -> Iterator[list[str]]:
    """Within: what would wait for the device is noted in the list."""
    copies, operations = Copies(), Waits()
    with copies, operations:
        yield operations.found
    operations.found.extend(copies.found)


def _as_of_cpu(asked: Any) -> Any:
    return lambda kind, *given, **more: asked("cpu" if kind == META.type else kind, *given, **more)


def without_values(trainer: Trainer, monkeypatch: Any) -> Trainer:
    """The same training with its network, average and optimizer on the device without values."""
    for module in (sys.modules[kind.__module__] for kind in (Adam, AdamW, Optimizer)):
        if hasattr(module, "_device_dtype_check_for_fused"):
            monkeypatch.setattr(module, "_device_dtype_check_for_fused", lambda *given: None)
    for name in ("autocast", "get_autocast_dtype", "is_autocast_enabled"):  # which do not know the device
        monkeypatch.setattr(torch, name, _as_of_cpu(getattr(torch, name)))
    recipe, network = trainer.recipe, trainer.network
    network.to(META)
    if trainer.average is not None:
        trainer.average.module.to(META)
    trainer.model.machine.device = META
    trainer.optimizer = optim.Optimizers(
        recipe.optim, network, recipe.model.facts.variational, units=trainer.divergence.units,
        stages=network.stages(features=False),
    )  # fmt: skip
    trainer.bad = trainer.bad.to(META)
    return trainer
