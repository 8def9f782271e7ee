"""The fast form of the messages: near words by shifts along the sentence, far words by one product a bucket.

Of a *near* bucket (|i-j| ≤ γ) only one diagonal of the n × n matrix is ever used: it is scored by a shift of the rows
and an elementwise product, O(n), instead of a product O(n²). The one or two *far* buckets are attention-sized products
of which a triangle counts. Columns of the candidates: the n words (far ones only), then the 2γ near buckets; one
softmax goes over all of them. No n × n × K tensor arises, and with rows of real words (``layout.py``) no work on
padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from probtrans_cli.models.probabilistic.bands import (
    band_messages,
    band_scores,
    shared_band_messages,
    shared_band_scores,
)
from probtrans_cli.models.probabilistic.layout import Layout, offsets
from probtrans_cli.models.probabilistic.messages import Messages, pairs
from probtrans_cli.models.probabilistic.potentials import Sides, Ternary
from probtrans_cli.models.probabilistic.products import messages_of, scores_of, transposed


class Far(NamedTuple):
    """The sides of a far bucket on the grid: ``u [b, c, n, r]``, ``v [b, c|1, n, r]``; ``vᵀ`` if products want it."""

    child: Tensor
    head: Tensor
    head_t: Tensor | None


class BandedSides(NamedTuple):
    """Sides of the one or two far buckets, on rows and on the grid, and of the near ones (None without any)."""

    rows: list[Sides]
    far: list[Far]
    near: Sides | None


class BandedMessages(Messages[BandedSides]):
    """Messages by bands; see the module."""

    def __init__(self, ternary: Ternary, layout: Layout, distance: int | None) -> None:
        self.layout = layout
        self.gamma = distance
        sizes = [1] if distance is None else [1, 2 * distance, 1] if distance else [1, 1]
        self.projection = ternary.projection(sizes)
        self.position = layout.position
        self.offsets = offsets(distance or 0)
        self.near = layout.near(distance or 0)
        self.words = layout.mask.shape[1]

    # Of the size of all pairs, and so made only when it is asked for; a cached_property cannot be compiled.
    _pairs: Tensor | None = None
    _far_side: Tensor | None = None

    @property
    def pairs(self) -> Bool[Tensor, "b 1 n n"]:
        """Which word may be whose head."""
        if self._pairs is None:
            self._pairs = pairs(self.layout.mask)
        return self._pairs

    @property
    def far_side(self) -> Int[Tensor, "n n"]:
        """-1 and 1 where a pair is in the first and in the second far bucket, else 0."""
        if self._far_side is None:
            word = torch.arange(self.words, device=self.layout.mask.device)
            x, gamma = word[:, None] - word, self.gamma or 0
            self._far_side = (x > gamma).to(torch.int8) - (x < -gamma).to(torch.int8)
        return self._far_side

    @property
    def candidates(self) -> Bool[Tensor, "b 1 n m"]:
        far = self.pairs if self.gamma is None else self.pairs & (self.far_side != 0)
        return torch.cat([far, self.near[:, None]], dim=-1) if self.offsets else far

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

    def far_scores(self, far: Sequence[Far]) -> Float[Tensor, "b c n n"]:
        """``F``, as if all heads were far."""
        scores = [_scores(one) for one in far]
        return scores[0] if len(scores) == 1 else torch.where(self.far_side > 0, scores[1], scores[0])

    def far_messages(self, far: Sequence[Far], heads: Float[Tensor, "b c n n"]) -> list[tuple[Tensor, Tensor]]:
        """``ū`` and ``v̄`` of every far bucket."""
        heads = heads.to(far[0].child.dtype)
        if len(far) == 1:
            return [_messages(heads, far[0])]
        gamma = self.gamma or 0
        return [_messages(heads.triu(gamma + 1), far[0]), _messages(heads.tril(-gamma - 1), far[1])]

    def near_scores(self, sides: Sides) -> Float[Tensor, "b c n k"]:
        """``F`` of the near buckets."""
        weight = _shared_weight(sides)
        if weight is None:
            band = band_scores(sides.u, sides.head, self.offsets)
        else:
            band = shared_band_scores(sides.child[:, 0], sides.head[:, 0], weight, self.offsets)
        return self.layout.grid(band).permute(0, 3, 1, 2)

    def near_messages(self, sides: Sides, heads: Float[Tensor, "b c n k"]) -> Sides:
        """Messages to the near buckets' sides."""
        band = self.layout.rows(heads.permute(0, 2, 3, 1))
        weight = _shared_weight(sides)
        if weight is None:
            to_child, to_head = band_messages(band, sides.u, sides.head, self.offsets)
            return Sides(sides.back(to_child), to_head)
        to_child, to_head = shared_band_messages(band, sides.child[:, 0], sides.head[:, 0], weight, self.offsets)
        return Sides(to_child[:, None], to_head[:, None])

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
        scores = self.far_scores(sides.far)
        if sides.near is None:
            return scores
        return torch.cat([scores, self.near_scores(sides.near).to(scores.dtype)], dim=-1)

    def to_labels(
        self, sides: BandedSides, heads: Float[Tensor, "b c n m"], wanted: Int[Tensor, " w2"] | None = None
    ) -> Float[Tensor, "w2 d"]:
        far = self.far_messages(sides.far, heads[..., : self.words])
        near = None if sides.near is None else self.near_messages(sides.near, heads[..., self.words :])
        return self.collect(sides.rows, far, near, wanted)

    def between_words(self, columns: Float[Tensor, "b c n m"]) -> Float[Tensor, "b c n n"]:
        if not self.offsets:
            return columns
        far, band = columns.tensor_split([self.words], dim=-1)
        _, near = self._near_pairs()
        spread = band.gather(-1, near.expand(*band.shape[:2], *near.shape))
        return torch.where(self.far_side != 0, far, spread) * self.pairs

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


def _shared_weight(sides: Sides) -> Tensor | None:
    """The weight of every bucket, where it is all that tells their sides apart."""
    return sides.weight if sides.child.shape[1] == 1 else None


def _channel_by_channel(child: Tensor, head: Tensor) -> bool:
    """Whether products are taken for every channel, though all share a head side: where each has its own, and in an
    exported graph, to which merging channels and words would add a condition on the length."""
    return head.shape[1] == child.shape[1] or torch.compiler.is_exporting()


def _scores(far: Far) -> Float[Tensor, "b c n n"]:
    child, head, head_t = far
    if _channel_by_channel(child, head):
        return scores_of(child, head, head_t)
    flat = scores_of(child.flatten(1, 2), head[:, 0], None if head_t is None else head_t[:, 0])
    return flat.reshape(*child.shape[:3], flat.shape[-1])


def _messages(heads: Float[Tensor, "b c n n"], far: Far) -> tuple[Tensor, Tensor]:
    child, head, head_t = far
    if _channel_by_channel(child, head):
        to_child, to_head = messages_of(heads, child, head, head_t)
        return to_child, to_head if head.shape[1] == child.shape[1] else to_head.sum(1, keepdim=True)
    flat_t = None if head_t is None else head_t[:, 0]
    to_child, to_head = messages_of(heads.flatten(1, 2), child.flatten(1, 2), head[:, 0], flat_t)
    return to_child.reshape(child.shape), to_head[:, None]
