"""Optimizers that do not load torch's compiler.

torch wraps the methods of its optimizers so that a compiler passes over them. The wrappers load the compiler, which
takes two seconds of every training, and here no optimizer is ever compiled.
"""

from __future__ import annotations

from inspect import unwrap
from typing import Any, TypeVar

import torch
from torch.optim import Optimizer

Kind = TypeVar("Kind", bound=Optimizer)
METHODS = ("add_param_group", "state_dict", "load_state_dict")


def uncompiled(kind: type[Kind]) -> type[Kind]:
    """The same optimizer with the methods inside the wrappers, without gradients in ``step``."""
    inside: dict[str, Any] = {name: unwrap(getattr(kind, name)) for name in METHODS}
    inside["step"] = torch.no_grad()(unwrap(kind.step))
    return type(kind.__name__, (kind,), inside)
