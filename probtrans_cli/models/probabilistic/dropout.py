"""Dropout that costs little on a CPU."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.models.probabilistic.fast.products import by_hand


class Dropout(nn.Module):
    """Inverted dropout with probability ``p``. On a CPU four decisions come out of one 64-bit random number, which is
    three times faster than one draw each; ``p`` is then a multiple of 2^-16."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    @property
    def active(self) -> bool:
        """Whether anything is dropped."""
        return self.training and self.p > 0.0

    def frozen(self) -> Dropout:
        """The same for good, whatever becomes of this one: for what is computed again in a backward pass."""
        return Dropout(self.p if self.active else 0.0).train()

    def forward(self, values: Tensor) -> Tensor:
        """``values`` with each of them zero with probability ``p``, the others divided by ``1 - p``; in training."""
        if not self.active:
            return values
        if not by_hand(values):
            return functional.dropout(values, self.p)
        return values * self.factors(values)

    def factors(self, values: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """``1 / (1 - p)`` where a value on a CPU is kept, else 0. (Numbers, as operations on truth values are slow on a
        CPU.)"""
        bits = torch.empty(values.numel() // 4 + 1, dtype=torch.int64).random_(-(2**63), None)
        drawn = bits.view(torch.int16)[: values.numel()].view(values.shape)
        # All of 2^16 values may be kept: the largest kept one is compared with, as the number after it is no int16.
        largest = max(1, round((1.0 - self.p) * 2**16)) - 2**15 - 1
        kept = torch.le(drawn, largest, out=torch.empty_like(values, memory_format=torch.contiguous_format))
        return kept.div_(1.0 - self.p)
