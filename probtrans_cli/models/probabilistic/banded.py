"""The fast form of the messages: near words by shifts along the sentence, far words by one product a bucket.

Of a *near* bucket (|i-j| ≤ γ) only one diagonal of the n × n matrix is ever used: it is scored by a shift of the rows
and an elementwise product, O(n), instead of a product O(n²). The one or two *far* buckets are attention-sized products
of which a triangle counts. Columns of the candidates: the n words (far ones only), then the 2γ near buckets; one softmax
goes over all of them. No n × n × K tensor arises, and with rows of real words (``layout.py``) no work on padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from probtrans_cli.models.probabilistic.kernels import (
    band_messages,
    band_scores,
    messages_of,
    scores_of,
    shared_band_messages,
    shared_band_scores,
    transposed,
)
from probtrans_cli.models.probabilistic.layout import Layout, offsets
from probtrans_cli.models.probabilistic.messages import Messages, pairs
from probtrans_cli.models.probabilistic.potentials import Sides, Ternary


class Far(NamedTuple):
    """The sides of a far bucket on the grid: ``u [b, c, n, r]``, ``v [b, c|1, n, r]``, ``vᵀ`` where products want it."""

    child: Tensor
    head: Tensor
    head_t: Tensor | None


class BandedSides(NamedTuple):
    """Sides of the one or two far buckets, on rows and on the grid, and of the near ones (None without any)."""

    rows: list[Sides]
    far: list[Far]
    near: Sides | None


class BandedMessages(Messages):
    """Messages by bands; see the module."""

    def __init__(self, ternary: Ternary, layout: Layout, distance: int | None) -> None:
        self.layout = layout
        self.gamma = distance
        sizes = [1] if distance is None else [1, 2 * distance, 1] if distance else [1, 1]
        self.projection = ternary.projection(sizes)
        self.position = layout.position
        self.offsets = offsets(distance or 0)
        self.near = layout.near(distance or 0)
        n = layout.mask.shape[1]
        self.words = n
        self.pairs = far = pairs(layout.mask)
        if distance is not None:
            far = far & (self.is_far(0, n, n) != 0)
        self.candidates = torch.cat([far, self.near[:, None]], dim=-1) if self.offsets else far

    def is_far(self, start: int, stop: int, n: int) -> Tensor:
        """For the children ``start..stop``: -1 and 1 where the head is in the first and second far bucket, else 0."""
        word = torch.arange(n, device=self.layout.mask.device)
        x = word[start:stop, None] - word
        gamma = self.gamma or 0
        return (x > gamma).to(torch.int8) - (x < -gamma).to(torch.int8)

    # --- the two kinds of buckets ---------------------------------------------------------------------------------

    def sides(self, labels: Float[Tensor, "w d"]) -> BandedSides:
        groups = self.projection.sides(labels, self.position)
        rows = [groups[0], groups[-1]] if self.gamma is not None else [groups[0]]
        heads: list[tuple[Tensor, Tensor | None]] = []
        for one in rows:
            if heads and one.head is rows[0].head:
                heads.append(heads[0])
                continue
            head = self.layout.to_channels(one.head[:, 0])
            heads.append((head, transposed(head)))
        far = [Far(self.layout.to_channels(one.u[:, 0]), *head) for one, head in zip(rows, heads, strict=True)]
        return BandedSides(rows, far, groups[1] if self.offsets else None)

    def far_scores(self, far: Sequence[Far], start: int, stop: int) -> Float[Tensor, "b c m n"]:
        """``F`` of the children ``start..stop``, as if all heads were far."""
        scores = [_scores(one.child[:, :, start:stop], one) for one in far]
        if len(scores) == 1:
            return scores[0]
        return torch.where(self.is_far(start, stop, self.words) > 0, scores[1], scores[0])

    def far_messages(
        self, far: Sequence[Far], heads: Float[Tensor, "b c m n"], start: int, stop: int
    ) -> list[tuple[Tensor, Tensor]]:
        """For every far bucket: ``ū`` of the children ``start..stop``, and their share of ``v̄`` of all words."""
        heads = heads.to(far[0].child.dtype)
        shares = [heads]
        if len(far) == 2:
            gamma = self.gamma or 0
            shares = [heads.triu(start + gamma + 1), heads.tril(start - gamma - 1)]
        return [_messages(share, one, start, stop) for share, one in zip(shares, far, strict=True)]

    def near_scores(self, sides: Sides) -> Float[Tensor, "b c n k"]:
        """``F`` of the near buckets."""
        if _shared(sides):
            band = shared_band_scores(sides.child[:, 0], sides.head[:, 0], sides.weight, self.offsets)
        else:
            band = band_scores(sides.u, sides.head, self.offsets)
        return self.layout.grid(band).permute(0, 3, 1, 2)

    def near_messages(self, sides: Sides, heads: Float[Tensor, "b c n k"]) -> Sides:
        """Messages to the near buckets' sides."""
        band = self.layout.rows(heads.permute(0, 2, 3, 1))
        if _shared(sides):
            parts = shared_band_messages(band, sides.child[:, 0], sides.head[:, 0], sides.weight, self.offsets)
            return Sides(*(part[:, None] for part in parts))
        to_child, to_head = band_messages(band, sides.u, sides.head, self.offsets)
        return Sides(sides.back(to_child), to_head)

    def collect(
        self, rows: Sequence[Sides], far: Sequence[tuple[Tensor, Tensor]], near: Sides | None, wanted: Tensor | None
    ) -> Float[Tensor, "w d"]:
        """All messages to sides as one to the labels; of the rows ``wanted`` only, where given."""
        messages = []
        for sides, pair in zip(rows, far, strict=True):
            to_child, to_head = (self.layout.from_channels(part)[:, None] for part in pair)
            messages.append(Sides(sides.back(to_child), to_head))
        if near is not None:
            messages.insert(1, near)
        position = self.position
        if wanted is not None:
            messages = [Sides(*(part.index_select(0, wanted) for part in one[:2])) for one in messages]
            position = position.index_select(0, wanted)
        return self.projection.collect(messages, position)

    # --- all of them ------------------------------------------------------------------------------------------------

    def to_heads(self, sides: BandedSides) -> Float[Tensor, "b c n m"]:
        scores = self.far_scores(sides.far, 0, self.words)
        if sides.near is None:
            return scores
        return torch.cat([scores, self.near_scores(sides.near).to(scores.dtype)], dim=-1)

    def to_labels(
        self, sides: BandedSides, heads: Float[Tensor, "b c n m"], wanted: Int[Tensor, " w2"] | None = None
    ) -> Float[Tensor, "w2 d"]:
        far = self.far_messages(sides.far, heads[..., : self.words], 0, self.words)
        near = None if sides.near is None else self.near_messages(sides.near, heads[..., self.words :])
        return self.collect(sides.rows, far, near, wanted)

    def between_words(self, columns: Float[Tensor, "b c n m"]) -> Float[Tensor, "b c n n"]:
        if not self.offsets:
            return columns
        far, band = columns.tensor_split([self.words], dim=-1)
        _, near = self._near_pairs()
        spread = band.gather(-1, near.expand(*band.shape[:2], *near.shape))
        return torch.where(self.is_far(0, self.words, self.words) != 0, far, spread) * self.pairs

    def columns(self, pairs: Float[Tensor, "b c n n"]) -> Float[Tensor, "b c n m"]:
        if not self.offsets:
            return pairs
        head, _ = self._near_pairs()
        band = pairs.gather(-1, head.expand(*pairs.shape[:2], *head.shape))
        return torch.cat([pairs, band], dim=-1) * self.candidates

    def _near_pairs(self) -> tuple[Tensor, Tensor]:
        """The head [n, k] of each child in each near bucket, and the near bucket [n, n] of each pair (0 where far)."""
        gamma = self.gamma or 0
        word = torch.arange(self.words, device=self.position.device)
        x = word[:, None] - word
        head = word[:, None] - torch.tensor(self.offsets, device=word.device)
        bucket = torch.where(x < 0, x + gamma, x + gamma - 1).clamp(0, 2 * gamma - 1)
        return head.clamp(0, self.words - 1), bucket


def _shared(sides: Sides) -> bool:
    """Whether all buckets have the same sides, reweighted."""
    return sides.weight is not None and sides.child.shape[1] == 1


def _scores(child: Float[Tensor, "b c m r"], far: Far) -> Float[Tensor, "b c m n"]:
    if far.head.shape[1] == child.shape[1]:
        return scores_of(child, far.head, far.head_t)
    flat = scores_of(child.flatten(1, 2), far.head[:, 0], None if far.head_t is None else far.head_t[:, 0])
    return flat.unflatten(1, child.shape[1:3])


def _messages(heads: Float[Tensor, "b c m n"], far: Far, start: int, stop: int) -> tuple[Tensor, Tensor]:
    child = far.child[:, :, start:stop]
    if far.head.shape[1] == child.shape[1]:
        return messages_of(heads, child, far.head, far.head_t)
    head_t = None if far.head_t is None else far.head_t[:, 0]
    to_child, to_head = messages_of(heads.flatten(1, 2), child.flatten(1, 2), far.head[:, 0], head_t)
    return to_child.unflatten(1, heads.shape[1:3]), to_head[:, None]
