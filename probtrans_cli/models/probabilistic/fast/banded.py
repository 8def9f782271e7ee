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

from probtrans_cli.models.probabilistic.fast.bands import Band, band
from probtrans_cli.models.probabilistic.fast.layout import Layout, offset_tensor, offsets
from probtrans_cli.models.probabilistic.fast.messages import Messages, pairs
from probtrans_cli.models.probabilistic.fast.pairs import messages_of, scores_of
from probtrans_cli.models.probabilistic.potentials import Ternary
from probtrans_cli.models.probabilistic.projections import Matrix, MatrixOf, Sides


class Far(NamedTuple):
    """The sides of a far bucket on the lines: ``u [l, c, n, r]``, ``v [l, c|1, n, r]``."""

    child: Tensor
    head: Tensor


# ``ū`` of the far buckets, and ``v̄``: one, where they share a head side and its messages are summed already.
FarMessages = tuple[Sequence[Tensor], Sequence[Tensor]]


class BandedSides(NamedTuple):
    """Sides of the one or two far buckets, on rows and on lines, and the band of the near ones (None without any)."""

    rows: list[Sides]
    far: list[Far]
    near: Band | None


class BandedMessages(Messages[BandedSides]):
    """Messages by bands; see the module."""

    def __init__(
        self,
        ternary: Ternary,
        layout: Layout,
        distance: int | None,
        *,
        matrix: MatrixOf = Matrix,
        by_hand: bool = False,
    ) -> None:
        """``matrix``: how the factors of the ternary scores are multiplied with; ``by_hand``: whether gradients of the
        bands and of the far products are written by hand."""
        self.layout, self.by_hand = layout, by_hand
        self.gamma = distance
        sizes = [1] if distance is None else [1, 2 * distance, 1] if distance else [1, 1]
        self.projection = ternary.projection(sizes, matrix)
        self.position = layout.position
        self.offsets = offsets(distance or 0)
        self.near = layout.near(distance or 0)
        self.words = layout.sentence.shape[1]

    # Of the size of all pairs, and so made only when it is asked for; a cached_property cannot be compiled.
    _pairs: Tensor | None = None
    _far_side: Tensor | None = None

    @property
    def pairs(self) -> Bool[Tensor, "l 1 n n"]:
        """Which word may be whose head."""
        if self._pairs is None:
            self._pairs = pairs(self.layout.sentence)
        return self._pairs

    @property
    def far_side(self) -> Int[Tensor, "n n"]:
        """-1 and 1 where a pair is in the first and in the second far bucket, else 0."""
        if self._far_side is None:
            word = torch.arange(self.words, device=self.position.device)
            x, gamma = word[:, None] - word, self.gamma or 0
            self._far_side = (x > gamma).to(torch.int8) - (x < -gamma).to(torch.int8)
        return self._far_side

    @property
    def candidates(self) -> Bool[Tensor, "l 1 n m"]:
        far = self.pairs if self.gamma is None else self.pairs & (self.far_side != 0)
        return torch.cat([far, self.near[:, None]], dim=-1) if self.offsets else far

    # --- the two kinds of buckets ---------------------------------------------------------------------------------

    def sides(self, labels: Float[Tensor, "w d"]) -> BandedSides:
        groups = self.projection.sides(labels, self.position)
        rows = [groups[0], groups[-1]] if self.gamma is not None else [groups[0]]
        child = self._once([one.child for one in rows])
        head = self._once([one.head for one in rows])
        weighted = [c if one.weight is None else c * one.weight[0, :, None] for c, one in zip(child, rows, strict=True)]
        far = [Far(*one) for one in zip(weighted, head, strict=True)]
        near = band(groups[1], self.offsets, by_hand=self.by_hand) if self.offsets else None
        return BandedSides(rows, far, near)

    def _once(self, sides: Sequence[Float[Tensor, "w 1 c r"]]) -> list[Float[Tensor, "l c n r"]]:
        """Sides on the lines; those that the far buckets share are put there once."""
        first = self.layout.to_channels(sides[0][:, 0])
        return [first, *(first if one is sides[0] else self.layout.to_channels(one[:, 0]) for one in sides[1:])]

    def far_scores(self, far: Sequence[Far]) -> Float[Tensor, "l c n n"]:
        """``F``, as if all heads were far."""
        scores = [_scores(one, by_hand=self.by_hand) for one in far]
        return scores[0] if len(scores) == 1 else torch.where(self.far_side > 0, scores[1], scores[0])

    def far_messages(self, far: Sequence[Far], heads: Float[Tensor, "l c n n"]) -> FarMessages:
        """``ū`` and ``v̄`` of every far bucket."""
        heads = heads.to(far[0].child.dtype)
        gamma = self.gamma or 0
        apart = [heads] if len(far) == 1 else [heads.triu(gamma + 1), heads.tril(-gamma - 1)]
        messages = [_messages(*one, by_hand=self.by_hand) for one in zip(apart, far, strict=True)]
        return [child for child, _ in messages], [head for _, head in messages]

    def near_scores(self, near: Band) -> Float[Tensor, "w c k"]:
        """``F`` of the near buckets."""
        return near.scores().transpose(1, 2)

    def near_messages(self, near: Band, heads: Float[Tensor, "w c k"]) -> Sides:
        """Messages to the near buckets' sides."""
        return near.messages(heads.transpose(1, 2))

    def collect(
        self, rows: Sequence[Sides], far: FarMessages, near: Sides | None, only: Tensor | None
    ) -> Float[Tensor, "w d"]:
        """All messages to sides as one to the labels; of the rows ``only`` only, where given."""
        to_child = [_back(*one) for one in zip(rows, far[0], strict=True)]
        to_head = far[1]
        if rows[0].child is rows[-1].child and rows[0].head is rows[-1].head:
            to_child, to_head = [sum(to_child[1:], to_child[0])], [sum(to_head[1:], to_head[0])]
        to_lines = zip(to_child, to_head, strict=True)
        messages = [Sides(*(self.layout.from_channels(part)[:, None] for part in pair)) for pair in to_lines]
        if near is not None:
            messages.insert(1, near)
        position = self.position
        if only is not None:
            messages = [Sides(*(part.index_select(0, only) for part in one[:2])) for one in messages]
            position = position.index_select(0, only)
        return self.projection.collect(messages, position)

    def short(self, sides: BandedSides, extra: Float[Tensor, "w c e"]) -> Float[Tensor, "l c n s"]:
        """Scores of the near buckets and, after them, of the ``extra`` candidates."""
        scores = extra if sides.near is None else torch.cat([self.near_scores(sides.near), extra], dim=-1)
        return self.layout.to_channels(scores)

    def from_short(
        self,
        sides: BandedSides,
        short: Float[Tensor, "l c n s"],
        far: FarMessages,
        only: Tensor | None,
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "w c e"]]:
        """The message to the labels, with ``ū`` and ``v̄`` of the ``far`` buckets, and the distributions of the extra
        candidates, from the distributions over the short columns."""
        near, extra = self.layout.from_channels(short).tensor_split([len(self.offsets)], dim=-1)
        near_messages = None if sides.near is None else self.near_messages(sides.near, near)
        return self.collect(sides.rows, far, near_messages, only), extra

    # --- all of them ------------------------------------------------------------------------------------------------

    def to_heads(self, sides: BandedSides) -> Float[Tensor, "l c n m"]:
        scores = self.far_scores(sides.far)
        if sides.near is None:
            return scores
        near = self.layout.to_channels(self.near_scores(sides.near))
        return torch.cat([scores, near.to(scores.dtype)], dim=-1)

    def to_labels(
        self, sides: BandedSides, heads: Float[Tensor, "l c n m"], only: Int[Tensor, " w2"] | None = None
    ) -> Float[Tensor, "w2 d"]:
        far = self.far_messages(sides.far, heads[..., : self.words])
        near = None
        if sides.near is not None:
            near = self.near_messages(sides.near, self.layout.from_channels(heads[..., self.words :]))
        return self.collect(sides.rows, far, near, only)

    def between_words(self, columns: Float[Tensor, "l c n m"]) -> Float[Tensor, "l c n n"]:
        if not self.offsets:
            return columns
        far, band = columns.tensor_split([self.words], dim=-1)
        _, near = self._near_pairs()
        spread = band.gather(-1, near.expand(*band.shape[:2], *near.shape))
        return torch.where(self.far_side != 0, far, spread) * self.pairs

    def columns(self, pairs: Float[Tensor, "l c n n"]) -> Float[Tensor, "l c n m"]:
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
        head = word[:, None] - offset_tensor(gamma, word.device)
        bucket = torch.where(x < 0, x + gamma, x + gamma - 1).clamp(0, 2 * gamma - 1)
        return head.clamp(0, self.words - 1), bucket


def _back(sides: Sides, to_child: Float[Tensor, "l c n r"]) -> Float[Tensor, "l c2 n r"]:
    """The message to a far bucket's child side as the projection takes it, still on the lines: :meth:`Sides.back`."""
    if sides.weight is not None:
        to_child = to_child * sides.weight[0, :, None]
        if sides.child.shape[2] == 1:
            to_child = to_child.sum(1, keepdim=True)
    return to_child


def _channel_by_channel(child: Tensor, head: Tensor) -> bool:
    """Whether products are taken for every channel, though all share a head side: where each has its own, and in an
    exported graph, to which merging channels and words would add a condition on the length."""
    return head.shape[1] == child.shape[1] or torch.compiler.is_exporting()


def _scores(far: Far, *, by_hand: bool) -> Float[Tensor, "l c n n"]:
    child, head = far
    if _channel_by_channel(child, head):
        return _scores_of(child, head, by_hand)
    return _scores_of(child.flatten(1, 2), head[:, 0], by_hand).reshape(*child.shape[:3], head.shape[2])


def _scores_of(u: Tensor, v: Tensor, by_hand: bool) -> Tensor:
    return scores_of(u, v, v.detach().mT.contiguous()) if by_hand else u @ v.mT


def _messages(heads: Float[Tensor, "l c n n"], far: Far, *, by_hand: bool) -> tuple[Tensor, Tensor]:
    child, head = far
    if _channel_by_channel(child, head):
        to_child, to_head = _messages_of(heads, child, head, by_hand)
        return to_child, to_head if head.shape[1] == child.shape[1] else to_head.sum(1, keepdim=True)
    to_child, to_head = _messages_of(heads.flatten(1, 2), child.flatten(1, 2), head[:, 0], by_hand)
    return to_child.reshape(child.shape), to_head[:, None]


def _messages_of(p: Tensor, u: Tensor, v: Tensor, by_hand: bool) -> tuple[Tensor, Tensor]:
    return messages_of(p, u, v, v.detach().mT.contiguous()) if by_hand else (p @ v, p.mT @ u)
