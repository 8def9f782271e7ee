"""Where the words of a padded batch stand.

Products with the model's matrices and everything along the sentence are done on *rows*, one a word, the sentences one
after the other; products between words on *lines* ``[l, m]``, a grid in which a line holds one sentence or several
short ones. A neighbour is a shift by one row. In the layout of the equations, :meth:`Layout.of`, rows are all positions
of the padded batch, which are the lines as well, and what belongs to padding is masked where it matters. Where there is
much padding, rows are better the real words only, and lines as few as it takes (:func:`shared_lines`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from probtrans_cli.models.arithmetic import may_depend_on, sent

WORTH_PACKING = 0.05  # share of padding above which picking the real words out pays


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
        """Make each position of a padded batch a row, and each sentence a line."""
        number = torch.arange(mask.shape[0], device=mask.device)[:, None]
        return cls(mask, None, None, torch.where(mask, number, -1))

    def rows(self, grid: Shaped[Tensor, "b n ..."]) -> Shaped[Tensor, "w ..."]:
        """Go from the padded batch to rows."""
        flat = grid.flatten(0, 1)
        return flat if self.index is None else flat.index_select(0, self.index)

    def grid(self, rows: Shaped[Tensor, "w ..."]) -> Shaped[Tensor, "b n ..."]:
        """Go from rows to the padded batch; positions without a row are zero."""
        if self.index is not None:
            empty = rows.new_zeros((self.mask.numel(), *rows.shape[1:]))
            rows = empty.index_copy(0, self.index, rows)
        return rows.reshape(*self.mask.shape, *rows.shape[1:])

    def to_channels(self, rows: Shaped[Tensor, "w c r"]) -> Shaped[Tensor, "l c m r"]:
        """Go from rows to lines, channel by channel, as batched products want it; places without a word are zero."""
        lines, m = self.sentence.shape
        _, channels, rank = rows.shape
        if self.place is None:
            return rows.reshape(lines, m, channels, rank).transpose(1, 2).contiguous()
        empty = rows.new_zeros(lines * channels * m, rank)
        return empty.index_copy(0, self._by_channel(channels), rows.flatten(0, 1)).view(lines, channels, m, rank)

    def from_channels(self, grid: Shaped[Tensor, "l c m r"]) -> Shaped[Tensor, "w c r"]:
        """Go back to rows."""
        if self.place is None:
            return grid.transpose(1, 2).flatten(0, 1)
        _, channels, _, rank = grid.shape
        rows = grid.flatten(0, 2).index_select(0, self._by_channel(channels))
        return rows.reshape(self.place.shape[0], channels, rank)

    def _by_channel(self, channels: int) -> Int[Tensor, " w_c"]:
        """Return where channel ``c`` of every row stands in ``[l, c, m]``."""
        assert self.place is not None, "there are places when rows are packed"
        places = self._by_channels.get(channels)
        if places is None:
            m = self.sentence.shape[1]
            line, position = self.place // m, self.place % m
            channel = torch.arange(channels, device=self.place.device)
            places = ((line[:, None] * channels + channel) * m + position[:, None]).flatten()
            self._by_channels[channels] = places
        return places

    def near(self, distance: int) -> Bool[Tensor, "l m k"]:
        """Return whether word ``i`` has a head at the distance ``x``, from -γ to γ without 0."""
        m = self.sentence.shape[1]
        word = torch.arange(m, device=self.sentence.device)
        head = word[:, None] - offset_tensor(distance, word.device)
        inside = (head >= 0) & (head < m)
        same = self.sentence[:, head.clamp(0, m - 1)] == self.sentence[:, :, None]
        return same & inside & (self.sentence >= 0)[:, :, None]


def layout_of(
    mask: Bool[Tensor, "b n"], lines: Callable[[Tensor], Layout], lengths: Sequence[int] | None = None
) -> Layout:
    """Return the layout of a batch; ``lines``: how words are packed, where that pays.

    ``lengths``: of the sentences, where a GPU has the mask: then the host packs the words, and nobody waits.
    """
    if lengths is None:
        return lines(mask) if worth_packing(mask) else Layout.of(mask)
    of_host = torch.arange(mask.shape[1]) < torch.tensor(lengths, dtype=torch.int64)[:, None]
    if not worth_packing(of_host):
        return Layout.of(mask)
    layout = lines(of_host)
    parts: Any = (layout.index, layout.place, layout.sentence)
    index, place, sentence = (sent(part, mask.device) for part in parts)
    return Layout(mask, index, place, sentence)


def worth_packing(mask: Bool[Tensor, "b n"]) -> bool:
    """Return whether rows are to be the real words only.

    Not for a mask on a GPU nor in a graph, whose shapes must not depend on values; nor where padding stands between the
    words of a sentence, as the next row must be the next word.
    """
    if not may_depend_on(mask) or not mask.numel() or float(mask.float().mean()) >= 1.0 - WORTH_PACKING:
        return False
    begins = mask[:, 1:] & ~mask[:, :-1]
    return not bool((begins.sum(1) + mask[:, 0] > 1).any())


def packed(mask: Bool[Tensor, "b n"]) -> Layout:
    """Make real words rows; every sentence has a line to itself."""
    index = mask.flatten().nonzero()[:, 0]
    return Layout(mask, index, index, Layout.of(mask).sentence)


def shared_lines(mask: Bool[Tensor, "b n"]) -> Layout:
    """Make real words rows, in the lines' order; sentences share lines of the length of the longest."""
    index = mask.flatten().nonzero()[:, 0]
    lengths = mask.sum(1)
    m = max(int(lengths.max()), 1)
    lines = _first_fit(lengths.tolist(), m)
    order = torch.tensor([sentence for line in lines for sentence in line], dtype=torch.int64)
    sizes = lengths[order]
    line = torch.tensor([number for number, line in enumerate(lines) for _ in line], dtype=torch.int64)
    before = sizes.cumsum(0) - sizes  # rows before each sentence
    first = torch.tensor([len(line) for line in lines]).cumsum(0)
    first = torch.cat([first.new_zeros(1), first[:-1]])  # the first sentence of each line
    start = line * m + before - before[first][line]
    within = torch.arange(len(index)) - before.repeat_interleave(sizes)
    place = start.repeat_interleave(sizes) + within
    index = index[(lengths.cumsum(0) - lengths)[order].repeat_interleave(sizes) + within]
    sentence = torch.full((len(lines) * m,), -1).index_copy(0, place, order.repeat_interleave(sizes))
    return Layout(mask, index, place, sentence.view(len(lines), m))


def _first_fit(lengths: list[int], room: int) -> list[list[int]]:
    """Return the sentences of every line, the longest first, each in the first line that has room for it."""
    lines: list[list[int]] = []
    free: list[int] = []
    for sentence in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        line = next((number for number, left in enumerate(free) if left >= lengths[sentence]), len(lines))
        if line == len(lines):
            lines.append([])
            free.append(room)
        lines[line].append(sentence)
        free[line] -= lengths[sentence]
    return lines


def offset_tensor(distance: int, device: torch.device) -> Int[Tensor, " k"]:
    """Return the distances ``x = i - j`` of the near buckets, in the order of Eq. 10.

    They are made on the device: to copy them to a GPU is to wait for it.
    """
    k = torch.arange(2 * distance, device=device)
    return k - distance + (k >= distance)
