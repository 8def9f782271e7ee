"""Where the words of a padded batch stand when only real words are computed.

Products with the model's matrices and everything along the sentence are done on *rows*, one a word, the sentences one
after the other; products between words on the *grid* ``[b, n]``. A neighbour is a shift by one row. Where there is much
padding the rows are the real words only (packed); otherwise, and where shapes must not depend on values (a compiled or
exported graph, a GPU), they are all positions of the grid, and what belongs to padding is masked where it matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

WORTH_PACKING = 0.05  # share of padding above which picking the real words out pays


@dataclass(frozen=True)
class Layout:
    """``mask [b, n]``: real words. ``index [w]``: grid position of every row, None where each position is a row."""

    mask: Bool[Tensor, "b n"]
    index: Int[Tensor, " w"] | None

    @classmethod
    def of(cls, mask: Bool[Tensor, "b n"], *, packed: bool | None = None) -> Layout:
        """The layout of a batch; ``packed`` None: by the device, the share of padding, and whether this is traced."""
        if packed is None:
            packed = (
                mask.device.type == "cpu"
                and not torch.compiler.is_compiling()
                and not isinstance(mask, torch._subclasses.FakeTensor)
                and float(mask.float().mean()) < 1.0 - WORTH_PACKING
            )
        return cls(mask, mask.flatten().nonzero()[:, 0] if packed else None)

    @property
    def position(self) -> Int[Tensor, " w"]:
        """Place of every row's word in its sentence."""
        b, n = self.mask.shape
        return self.rows(torch.arange(n, device=self.mask.device).expand(b, n))

    def rows(self, grid: Shaped[Tensor, "b n ..."]) -> Shaped[Tensor, "w ..."]:
        """From the grid to rows."""
        flat = grid.flatten(0, 1)
        return flat if self.index is None else flat.index_select(0, self.index)

    def grid(self, rows: Shaped[Tensor, "w ..."]) -> Shaped[Tensor, "b n ..."]:
        """From rows to the grid; positions without a row are zero."""
        if self.index is not None:
            empty = rows.new_zeros((self.mask.numel(), *rows.shape[1:]))
            rows = empty.index_copy(0, self.index, rows)
        return rows.reshape(*self.mask.shape, *rows.shape[1:])

    def to_channels(self, rows: Shaped[Tensor, "w c r"]) -> Shaped[Tensor, "b c n r"]:
        """From rows to the grid, channel by channel, as batched products want it."""
        b, n = self.mask.shape
        _, channels, rank = rows.shape
        if self.index is None:
            return rows.reshape(b, n, channels, rank).transpose(1, 2).contiguous()
        empty = rows.new_zeros(b * channels * n, rank)
        return empty.index_copy(0, self._by_channel(channels), rows.flatten(0, 1)).view(b, channels, n, rank)

    def from_channels(self, grid: Shaped[Tensor, "b c n r"]) -> Shaped[Tensor, "w c r"]:
        """The way back."""
        if self.index is None:
            return grid.transpose(1, 2).flatten(0, 1)
        _, channels, _, rank = grid.shape
        rows = grid.flatten(0, 2).index_select(0, self._by_channel(channels))
        return rows.reshape(self.index.shape[0], channels, rank)

    def _by_channel(self, channels: int) -> Int[Tensor, " w_c"]:
        """Where channel ``c`` of every row stands in the grid ``[b, c, n]``."""
        assert self.index is not None, "there is an index when rows are packed"
        n = self.mask.shape[1]
        sentence, position = self.index // n, self.index % n
        channel = torch.arange(channels, device=self.index.device)
        return ((sentence[:, None] * channels + channel) * n + position[:, None]).flatten()

    def near(self, distance: int) -> Bool[Tensor, "b n k"]:
        """Whether word ``i`` has a head at the distance ``x``, for every near bucket: ``x`` from -γ to γ without 0."""
        n = self.mask.shape[1]
        word = torch.arange(n, device=self.mask.device)
        head = word[:, None] - torch.tensor(offsets(distance), device=self.mask.device, dtype=word.dtype)
        inside = (head >= 0) & (head < n)
        there = self.mask[:, head.clamp(0, n - 1)]
        return there & inside & self.mask[:, :, None]


def offsets(distance: int) -> list[int]:
    """The distances ``x = i - j`` of the near buckets, in the order of Eq. 10."""
    return [x for x in range(-distance, distance + 1) if x != 0]
