"""Whether what is computed may depend on the values of a tensor.

On a CPU it may, and saves work: padding is left out, and rows that nobody wants are not computed. In a graph it must
not, and on a GPU it would have to wait for what was asked of it before, to learn how much to ask of it next.
"""

from __future__ import annotations

import torch
from torch import Tensor


def may_depend_on(values: Tensor) -> bool:
    """Whether shapes and checks may depend on these values."""
    return (
        values.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and not isinstance(values, torch._subclasses.FakeTensor)
    )
