"""Dropout that costs little on a CPU."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.dropout import Dropout


class DrawnDropout(Dropout):
    """Four decisions come out of one 64-bit random number, which is three times faster than one draw each; ``p`` is
    then a multiple of 2^-16."""

    def __call__(self, values: Tensor) -> Tensor:
        return values * self.factors(values) if self.p > 0.0 else values

    def factors(self, values: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """``1 / (1 - p)`` where a value on a CPU is kept, else 0. (Numbers, as operations on truth values are slow on a
        CPU.)"""
        bits = torch.empty(values.numel() // 4 + 1, dtype=torch.int64).random_(-(2**63), None)
        drawn = bits.view(torch.int16)[: values.numel()].view(values.shape)
        # All of 2^16 values may be kept: the largest kept one is compared with, as the number after it is no int16.
        largest = max(1, round((1.0 - self.p) * 2**16)) - 2**15 - 1
        kept = torch.le(drawn, largest, out=torch.empty_like(values, memory_format=torch.contiguous_format))
        return kept.div_(1.0 - self.p)
