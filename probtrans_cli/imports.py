"""The import of torch in less time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from types import ModuleType

_META_KERNELS = "torch._meta_registrations"


class _BeforeCompilers(MetaPathFinder):
    """Imports the kernels that were left out when something imports torch's compiler after all."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "torch._dynamo":
            sys.meta_path.remove(self)
            import_module(_META_KERNELS)


@contextmanager
def quickly(*, compiles: bool) -> Iterator[None]:
    """Import modules that import torch, without looking for garbage: torch makes hundreds of thousands of objects, and
    keeps them.

    ``compiles``: whether this process may compile or trace a network, or works on tensors without storage (the device
    `meta`). If not, torch is imported without its Python kernels for such tensors, which take a quarter of the time.
    """
    collects, leaves_out = gc.isenabled(), not compiles and "torch" not in sys.modules
    gc.disable()
    if leaves_out:
        sys.modules[_META_KERNELS] = ModuleType(_META_KERNELS)
    try:
        yield
    finally:
        if leaves_out:
            del sys.modules[_META_KERNELS]
            sys.meta_path.insert(0, _BeforeCompilers())
            # From torch 2.13 on, what is left out gives `torch.Generator` its metaclass, without which there are none.
            torch = sys.modules.get("torch")
            if torch is not None and hasattr(torch._C, "_set_generator_metaclass"):
                torch._C._set_generator_metaclass(import_module("torch._opaque_base").OpaqueBaseMeta)
        if collects:
            gc.enable()
