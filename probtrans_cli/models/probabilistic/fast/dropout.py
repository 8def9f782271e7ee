"""Dropout of one batch."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, eq=False)  # no hash of its own: torch.compile of torch 2.11 asks for it before p is set
class Dropout:
    """Inverted dropout with probability ``p``: each value is zero with probability ``p``, the others are divided by
    ``1 - p``. ``p`` is 0 outside of training; what is computed again in a backward pass drops as it did at first."""

    p: float

    def __call__(self, values: Tensor) -> Tensor:
        """The values that are left."""
        return functional.dropout(values, self.p) if self.p > 0.0 else values
