"""Blocks of children, whose far heads are computed together.

The words left of a block are far on one side, those right of it far on the other, and each side's product is taken
over its own words only: half the work of two full products. Columns of a block: the words from its first far one on
the right (head bucket ``x < -γ``), the words up to its last far one on the left (``x > γ``), and the *short* columns:
near buckets and extra candidates. Without distance: all words, and the extra candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.banded import BandedMessages

SMALLEST = 16  # children of a block, at least


@dataclass
class Blocks:
    """The blocks of a batch.

    ``sentence [l, n]``: the lines of the layout; ``short_allowed [l, 1, n, s]``: which short columns there are;
    ``bounds``: first and last child of every block.
    """

    distance: int | None
    sentence: Int[Tensor, "l n"]
    short_allowed: Bool[Tensor, "l 1 n s"]
    bounds: list[tuple[int, int]]

    @classmethod
    def of(cls, messages: BandedMessages, extra: Bool[Tensor, "l 1 n e"], channels: int, size: int) -> Blocks:
        """The blocks of a batch, of about ``size`` head scores each; ``extra``: which extra candidates there are."""
        sentence = messages.layout.sentence
        lines, n = sentence.shape
        step = max(SMALLEST, size // max(1, lines * channels * n))
        step = -(-n // max(1, -(-n // step)))  # as many blocks, of one size
        bounds = [(start, min(start + step, n)) for start in range(0, n, max(1, step))]
        return cls(messages.gamma, sentence, torch.cat([messages.near[:, None], extra], dim=-1), bounds)

    @property
    def far(self) -> int:
        """Number of far buckets."""
        return 1 if self.distance is None else 2

    @property
    def short(self) -> int:
        """Number of short columns."""
        return self.short_allowed.shape[-1]

    def columns(self, start: int, stop: int) -> list[slice]:
        """The words that may be far heads of a block's children, by far bucket."""
        n = self.sentence.shape[1]
        if self.distance is None:
            return [slice(0, n)]
        return [slice(min(start + self.distance + 1, n), n), slice(0, max(stop - self.distance - 1, 0))]

    def allowed(self, start: int, stop: int) -> Bool[Tensor, "l 1 m k"]:
        """The candidates of the block's children."""
        word = torch.arange(self.sentence.shape[1], device=self.sentence.device)
        x = word[start:stop, None] - word
        far = [x != 0] if self.distance is None else [x < -self.distance, x > self.distance]
        children = self.sentence[:, start:stop, None]
        parts = [
            (here[:, one] & (self.sentence[:, None, one] == children) & (children >= 0))[:, None]
            for here, one in zip(far, self.columns(start, stop), strict=True)
        ]
        return torch.cat([*parts, self.short_allowed[:, :, start:stop]], dim=-1)


def random_state(like: Tensor) -> tuple[Tensor, Tensor | None]:
    """The state of the random numbers of a device, to draw the same ones again."""
    return torch.get_rng_state(), torch.cuda.get_rng_state(like.device) if like.is_cuda else None


def set_random_state(state: tuple[Tensor, Tensor | None]) -> None:
    """Go back to a state."""
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])
