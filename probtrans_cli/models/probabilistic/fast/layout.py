"""Where the words of a padded batch stand.

Products with the model's matrices and everything along the sentence are done on *rows*, one a word, the sentences one
after the other; products between words on *lines* ``[l, m]``, a grid in which a line holds one sentence or several
short ones. A neighbour is a shift by one row. In the layout of the equations, :meth:`Layout.of`, rows are all positions
of the padded batch, which are the lines as well, and what belongs to padding is masked where it matters. Where there is
much padding, rows are better the real words only, and lines as few as it takes (``fast/lines.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Rows and lines of a padded batch.

    ``mask [b, n]``: real words. ``index [w]``, ``place [w]``: position of every row in the padded batch and in the
    lines, None where each position is a row. ``sentence [l, m]``: whose word stands there, -1 where none does.
    """

    mask: Bool[Tensor, "b n"]
    index: Int[Tensor, " w"] | None
    place: Int[Tensor, " w"] | None
    sentence: Int[Tensor, "l m"]
    _by_channels: dict[int, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, mask: Bool[Tensor, "b n"]) -> Layout:
        """All positions of a padded batch: each is a row, and each sentence a line."""
        number = torch.arange(mask.shape[0], device=mask.device)[:, None]
        return cls(mask, None, None, torch.where(mask, number, -1))

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

    def to_channels(self, rows: Shaped[Tensor, "w c r"]) -> Shaped[Tensor, "l c m r"]:
        """From rows to lines, channel by channel, as batched products want it; places without a word are zero."""
        lines, m = self.sentence.shape
        _, channels, rank = rows.shape
        if self.place is None:
            return rows.reshape(lines, m, channels, rank).transpose(1, 2).contiguous()
        empty = rows.new_zeros(lines * channels * m, rank)
        return empty.index_copy(0, self._by_channel(channels), rows.flatten(0, 1)).view(lines, channels, m, rank)

    def from_channels(self, grid: Shaped[Tensor, "l c m r"]) -> Shaped[Tensor, "w c r"]:
        """The way back."""
        if self.place is None:
            return grid.transpose(1, 2).flatten(0, 1)
        _, channels, _, rank = grid.shape
        rows = grid.flatten(0, 2).index_select(0, self._by_channel(channels))
        return rows.reshape(self.place.shape[0], channels, rank)

    def _by_channel(self, channels: int) -> Int[Tensor, " w_c"]:
        """Where channel ``c`` of every row stands in the grid ``[l, c, m]``."""
        assert self.place is not None, "there are places when rows are packed"
        known = self._by_channels.get(channels)
        if known is None:
            m = self.sentence.shape[1]
            line, position = self.place // m, self.place % m
            channel = torch.arange(channels, device=self.place.device)
            known = ((line[:, None] * channels + channel) * m + position[:, None]).flatten()
            self._by_channels[channels] = known
        return known

    def near(self, distance: int) -> Bool[Tensor, "l m k"]:
        """Whether word ``i`` has a head at the distance ``x``, for every near bucket: ``x`` from -γ to γ without 0."""
        m = self.sentence.shape[1]
        word = torch.arange(m, device=self.sentence.device)
        head = word[:, None] - offset_tensor(distance, word.device)
        inside = (head >= 0) & (head < m)
        same = self.sentence[:, head.clamp(0, m - 1)] == self.sentence[:, :, None]
        return same & inside & (self.sentence >= 0)[:, :, None]


def offsets(distance: int) -> list[int]:
    """The distances ``x = i - j`` of the near buckets, in the order of Eq. 10."""
    return [x for x in range(-distance, distance + 1) if x != 0]


def offset_tensor(distance: int, device: torch.device) -> Int[Tensor, " k"]:
    """The same, made where they are wanted: to copy them to a GPU is to wait for it."""
    k = torch.arange(2 * distance, device=device)
    return k - distance + (k >= distance)
