"""The head variables of all words through the iterations: from messages to distributions to messages.

    M_H^(t) = (1 - β_H) F^(t) / λ_H + β_H M_H^(t-1)          damped messages, M_H^(0) = 0       (12, B.2)
    Q_H^(t) = α_H softmax(M_H^(t)) + (1 - α_H) Q_H^(t-1)     over the candidates                (6, B.1)

:class:`StoredHeads` keeps them in one piece. :class:`BlockedHeads` goes through blocks of children: a block fits a
processor's cache, and where the distributions of all pairs of words would be too many, each block is computed again for
its gradient instead of being kept. Both order the candidates of a word as *columns*: far words, the 2γ near buckets,
then the *extra* candidates: the root and all-dep global features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models.arithmetic import may_depend_on
from probtrans_cli.models.probabilistic.factors import ArcsFactor, Pairs, RelationsFactor
from probtrans_cli.models.probabilistic.fast.bands import first_derivatives_only
from probtrans_cli.models.probabilistic.fast.layout import offset_tensor
from probtrans_cli.models.probabilistic.fast.messages import TernaryMessages, TernarySides
from probtrans_cli.models.probabilistic.inference import Inference, labels_allowed, over
from probtrans_cli.models.probabilistic.matrix_tree import head_marginals

BLOCK = 2**19  # head scores in a block
SMALLEST = 16  # children of a block, at least


def drop(values: Float[Tensor, "*s"], p: float, *, labelled: bool = False) -> Float[Tensor, "*s"]:
    """Set each value to zero with probability ``p``, and divide the others by ``1 - p``.

    ``labelled``: of heads ``[l, c, n, m]``, an arc with all of its labels. On a CPU four decisions come out of one
    64-bit random number, which is three times faster than one draw each; ``p`` is then a multiple of 2^-16.
    """
    if p == 0.0:
        return values
    if labelled:
        return values * drop(torch.ones_like(values[:, :1]), p)
    if not may_depend_on(values):
        return functional.dropout(values, p)
    bits = torch.empty(values.numel() // 4 + 1, dtype=torch.int64).random_(-(2**63), None)
    drawn = bits.view(torch.int16)[: values.numel()].view(values.shape)
    # All of 2^16 values may be kept: the largest kept one is compared with, as the number after it is no int16.
    largest = max(1, round((1.0 - p) * 2**16)) - 2**15 - 1
    # Numbers, as operations on truth values are slow on a CPU.
    kept = torch.le(drawn, largest, out=torch.empty_like(values, memory_format=torch.contiguous_format))
    return values * kept.div_(1.0 - p)


def times(rows: Float[Tensor, "l c m k"], side: Float[Tensor, "l c2 k r"]) -> Float[Tensor, "l c m r"]:
    """Return ``rows @ side``; a side that all channels share is multiplied with the rows of all of them at once.

    (Not in an exported graph, to which merging channels and words would add a condition on the length.)
    """
    if side.shape[1] == rows.shape[1] or torch.compiler.is_exporting():
        return rows @ side
    return (rows.flatten(1, 2) @ side[:, 0]).reshape(*rows.shape[:3], side.shape[-1])


def gathered(
    heads: Float[Tensor, "l c m k"], child: Float[Tensor, "l c m r"], channels: int
) -> Float[Tensor, "l c2 k r"]:
    """Return ``headsᵀ @ child``, summed over channels where ``channels``, those of the result, is 1."""
    if channels == heads.shape[1] or torch.compiler.is_exporting():
        message = heads.mT @ child
        return message if channels == heads.shape[1] else message.sum(1, keepdim=True)
    return (heads.flatten(1, 2).mT @ child.flatten(1, 2))[:, None]


class HeadVariables(ABC):
    """The head variables of a batch.

    ``messages`` may be replaced by those of other scores before a later iteration.
    """

    def __init__(
        self, messages: TernaryMessages, extra: int, inference: Inference, dropout: float, dtype: torch.dtype
    ) -> None:
        """``extra``: the number of candidates that are no words; ``dtype``: of the heads."""
        self.messages, self.inference, self.dropout, self.dtype = messages, inference, dropout, dtype
        self.layout, self.distance, self.extra = messages.layout, messages.distance, extra
        real = (self.layout.sentence >= 0)[:, None, :, None]
        near = self.layout.near(self.distance or 0)[:, None]
        self.short_allowed = torch.cat([near, real.expand(*real.shape[:3], extra)], dim=-1)
        if inference.root_label:
            self.short_allowed = labels_allowed(self.short_allowed, near.shape[-1], inference.channels)

    def _sides(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"]
    ) -> tuple[TernarySides, list[Tensor], Float[Tensor, "l c n s"]]:
        """Return the sides, ``u`` and then ``v`` of every far bucket as products take them, and the short scores."""
        sides, kind = self.messages.sides(labels), labels.device.type
        far = [*(bucket.child for bucket in sides.far), *(bucket.head for bucket in sides.far)]
        if torch.is_autocast_enabled(kind):
            precision = torch.get_autocast_dtype(kind)
            far = [side.to(precision) if side.dtype == torch.float32 else side for side in far]
        return sides, far, self.messages.short(sides, extra)

    @abstractmethod
    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"], rows: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "w c e"]]:
        """Run one iteration, from label distributions and the scores of the extra candidates.

        Returns:
            The messages to the labels (of some ``rows`` only, where given), and the distributions of the extra
            candidates that made them.
        """


class Sums(NamedTuple):
    """Sums of the distributions over words as heads; the last two are None where no factor reads them.

    ``arcs``: over channels; ``of_words``, of each word: over its heads; ``of_heads``, of each head: over its words.
    """

    arcs: Float[Tensor, "l n n"]
    of_words: Float[Tensor, "l c n"] | Any
    of_heads: Float[Tensor, "l c n"] | Any


class StoredHeads(HeadVariables):
    """Distributions over all pairs are kept."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        sentence = self.layout.sentence
        word = torch.arange(sentence.shape[1], device=sentence.device)
        x = word[:, None] - word
        same = (sentence[:, :, None] == sentence[:, None, :]) & (sentence >= 0)[:, None, :]
        self.pairs: Bool[Tensor, "l 1 n n"] = (same & (x != 0))[:, None]
        self.far_right, self.far_left = x < -(self.distance or 0), x > (self.distance or 0)
        far = self.pairs if self.distance is None else self.pairs & (self.far_left | self.far_right)
        if self.inference.root_label:
            far = labels_allowed(far, -1, self.inference.channels)
        self.allowed: Bool[Tensor, "l c n m"] = torch.cat([far, self.short_allowed], dim=-1)
        self.bias: Tensor | None = None
        self.further: Sequence[tuple[ArcsFactor, Pairs]] = ()
        self.of_relations: Sequence[RelationsFactor] = ()
        self.message: Tensor | None = None
        self._probabilities: Tensor | None = None

    @property
    def probabilities(self) -> Float[Tensor, "l c n m"]:
        """The distributions; uniform over the candidates (or trees) before the first iteration."""
        if self._probabilities is None:
            batch, _, n, m = self.allowed.shape
            zeros = torch.zeros(batch, self.inference.channels, n, m, device=self.allowed.device, dtype=self.dtype)
            self._probabilities = self._distribution(zeros)
        return self._probabilities

    def lean(self, words: Float[Tensor, "l c n n"], root: Float[Tensor, "l c n"]) -> None:
        """Add scores of pairs of words, and of the root, to those of every iteration; of one channel or of all."""
        extra = root.new_zeros(*words.shape[:3], self.extra)
        if self.inference.root:
            extra[..., 0] = root
        self.bias = torch.cat([self._columns(words), extra], dim=-1)

    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"], rows: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "w c e"]]:
        sides, used = self.update(labels, extra)
        used = drop(used, self.dropout, labelled=self.inference.labelled)
        far, short = used.tensor_split([self.pairs.shape[-1]], dim=-1)
        far = far.to(sides.far[0].child.dtype)
        parts = [far] if self.distance is None else [far.triu(self.distance + 1), far.tril(-self.distance - 1)]
        to_child = [times(heads, side.head) for heads, side in zip(parts, sides.far, strict=True)]
        to_head = [
            gathered(heads, side.child, side.head.shape[1]) for heads, side in zip(parts, sides.far, strict=True)
        ]
        message, extra = self.messages.to_labels(sides, to_child, to_head, short, rows)
        if self.further or self.of_relations:
            words, at_extra = self._between_words(used)
            sums = Sums(words.sum(1), words.sum(3), words.sum(2))
            message = self._with_further(message, self.layout.grid(labels), sums, at_extra, rows)
        return message, extra

    def _scores_of_relations(
        self, labels: Float[Tensor, "... d"]
    ) -> Iterator[tuple[Float[Tensor, "l c n n"], Float[Tensor, "l c n e"]]]:
        """Yield scores of words as heads, and of the extra candidates, that depend on the heads before."""
        for factor in self.of_relations:
            words, extra = self._before()
            at_root = extra[..., : int(self.inference.root)].sum(-1)  # 0 without a root
            of_words, of_root = factor.to_heads(labels, words, at_root)
            to_extra = torch.zeros_like(extra)
            if self.inference.root:
                to_extra = torch.cat([of_root[..., None], to_extra[..., 1:]], dim=-1)
            yield of_words, to_extra

    def _before(self) -> tuple[Float[Tensor, "l c n n"], Float[Tensor, "l c n e"]]:
        """Return the latest distributions, over words and over the extra candidates."""
        return self._between_words(self.probabilities)

    def _with_further(
        self, message: Tensor, labels: Tensor, sums: Sums, at_extra: Tensor, rows: Tensor | None
    ) -> Tensor:
        """Add the messages of the further factors."""
        at_root = at_extra[..., : int(self.inference.root)].sum(-1)  # 0 without a root
        messages = [factor.messages(labels, sums.arcs, at_root.sum(1), pairs) for factor, pairs in self.further]
        messages += [factor.to_labels(sums.of_words + at_root, sums.of_heads) for factor in self.of_relations]
        for of_factor in map(self.layout.rows, messages):
            message = message + (of_factor if rows is None else of_factor.index_select(0, rows))
        return message

    def update(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"]
    ) -> tuple[TernarySides, Float[Tensor, "l c n m"]]:
        """Run the first half of an iteration.

        Returns:
            The sides of the messages, and the distributions that messages to the labels are computed with.
        """
        sides = self.messages.sides(labels)
        far = [times(side.child, side.head.mT) for side in sides.far]
        scores = far[0] if len(far) == 1 else torch.where(self.far_left, far[1], far[0])
        short = self.messages.short(sides, extra)
        if short.shape[-1]:
            scores = torch.cat([scores, short.to(scores.dtype)], dim=-1)
        if self.bias is not None:
            scores = scores + self.bias
        grid = self.layout.grid(labels) if self.further or self.of_relations else labels
        words = scores.shape[-1] - self.extra
        for factor, pairs in self.further:
            of_labels, of_distances, of_root = factor.scores(grid, pairs)
            for part in (of_labels, of_distances):
                scores[..., :words] += self._columns(part)
            if of_root is not None:
                scores[..., words : words + 1] += of_root[:, None, :, None]  # a number of words is no index of a graph
        for of_words, to_extra in self._scores_of_relations(grid):
            scores = scores + torch.cat([self._columns(of_words), to_extra], dim=-1)
        heads = self.inference.heads
        self.message = heads.message(scores, self.message)
        new = self._distribution(self.message)
        if self.inference.asynchronous and heads.step == 1.0:  # then the distributions before are not needed
            self._probabilities = new
            return sides, new
        before = self.probabilities
        self._probabilities = heads.distribution(new, before)
        return sides, self._probabilities if self.inference.asynchronous else before

    def _distribution(self, scores: Float[Tensor, "l c n m"]) -> Float[Tensor, "l c n m"]:
        labelled = self.inference.labelled
        if not self.inference.tree:
            return over(scores, self.allowed, labelled=labelled)
        words, root = self._of_candidates(scores) if labelled else self._between_words(scores)
        if not self.inference.root:
            return self._columns(head_marginals(words, self.layout.mask, labelled=labelled))
        marginals = head_marginals(torch.cat([words, root], dim=-1), self.layout.mask, labelled=labelled)
        return torch.cat([self._columns(marginals[..., :-1]), marginals[..., -1:]], dim=-1)

    def arcs(self) -> Float[Tensor, "l c n m"]:
        """Return the distributions with the words in their order, then the extra candidates."""
        return torch.cat(self._before(), dim=-1)

    def scores(self) -> Float[Tensor, "l c n m"]:
        """Return the damped messages in the same order, very low where there is no candidate."""
        message = self.probabilities * 0.0 if self.message is None else self.message
        return torch.cat(self._of_candidates(message), dim=-1)

    def _of_candidates(
        self, columns: Float[Tensor, "l c n m"]
    ) -> tuple[Float[Tensor, "l c n n"], Float[Tensor, "l c n e"]]:
        lowest = torch.finfo(columns.dtype).min
        words, extra = self._between_words(columns)
        pairs = labels_allowed(self.pairs, -1, self.inference.channels) if self.inference.root_label else self.pairs
        extra_allowed = self.short_allowed[..., self.short_allowed.shape[-1] - extra.shape[-1] :]
        return words.masked_fill(~pairs, lowest), extra.masked_fill(~extra_allowed, lowest)

    def _between_words(
        self, columns: Float[Tensor, "l c n m"]
    ) -> tuple[Float[Tensor, "l c n n"], Float[Tensor, "l c n e"]]:
        """Return one entry a pair of words, and the extra columns."""
        n, near = self.pairs.shape[-1], 2 * (self.distance or 0)
        far, band, extra = columns.tensor_split([n, n + near], dim=-1)
        if not near:
            return far, extra
        word = torch.arange(n, device=far.device)
        x, gamma = word[:, None] - word, near // 2
        bucket = torch.where(x < 0, x + gamma, x + gamma - 1).clamp(0, near - 1)
        spread = band.gather(-1, bucket.expand(*band.shape[:2], *bucket.shape))
        return torch.where(self.far_right | self.far_left, far, spread) * self.pairs, extra

    def _columns(self, pairs: Float[Tensor, "l c n n"]) -> Float[Tensor, "l c n m"]:
        """Return the columns, but for the extra ones, from one entry a pair of words."""
        if not self.distance:
            return pairs
        n = pairs.shape[-1]
        head = torch.arange(n, device=pairs.device)[:, None] - offset_tensor(self.distance, pairs.device)
        head = head.clamp(0, n - 1)
        band = pairs.gather(-1, head.expand(*pairs.shape[:2], *head.shape))
        return torch.cat([pairs, band], dim=-1) * self.allowed[..., : n + 2 * self.distance]


class LabelledHeads(StoredHeads):
    """Those of the usual case where heads have labels, with gradients written by hand: one bucket, no damping and steps
    of 1, asynchronous, not trees.

    With the sides ``u``, ``v`` and what is added to their product, ``s`` of all channels and ``p`` of each, both very
    low where there is no candidate, and the factors ``D`` of dropout:

        F = u vᵀ / λ + s + p      P = softmax(F)      Q = D ∘ P       ū = Q v         v̄ = Qᵀ u
        dQ = dū vᵀ + u dv̄ᵀ + dA   dF = Q ∘ dQ - P (Q·dQ)              A = Σ_c Q
        du = dF v / λ + Q dv̄      dv = dFᵀ u / λ + Qᵀ dū

    Where relations need the sums of ``Q`` over heads and over words, too, their gradients join those of ``A``. Sums
    over channels come before those over candidates: they are along whole rows of memory.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.chooses = self.pairs.any(-1, keepdim=True) | self.short_allowed.any(-1, keepdim=True).any(1, keepdim=True)
        self.latest: tuple[Tensor, ...] = ()

    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"], rows: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "w c e"]]:
        n, weight, lowest = self.pairs.shape[-1], self.inference.heads.weight, torch.finfo(labels.dtype).min / 8
        sides, grid = self.messages.sides(labels), self.layout.grid(labels)
        common, by_channel = labels.new_zeros(1, 1, 1, 1), labels.new_zeros(1, self.inference.channels, 1, 1)
        short = self.messages.short(sides, extra)
        for of_labels, of_distances, of_root in [factor.scores(grid, pairs) for factor, pairs in self.further]:
            common, by_channel = common + of_labels, by_channel + of_distances
            if of_root is not None:
                short = short + functional.pad(of_root[:, None, :, None], (0, self.extra - 1))
        for of_words, to_extra in self._scores_of_relations(grid):
            common, short = common + of_words, short + to_extra
        if self.bias is not None:
            common, short = common + self.bias[..., :n], short + self.bias[..., n:]
        common, by_channel, short = common / weight, by_channel / weight, short / weight
        common = common.masked_fill(~self.pairs, lowest)
        if self.inference.root_label:
            short = short.masked_fill(~self.short_allowed, lowest)
            first = torch.arange(self.inference.channels, device=labels.device) == 0
            by_channel = by_channel.masked_fill(first[:, None, None], lowest)
        kept = None
        if self.dropout:
            kept = drop(labels.new_ones(len(grid), 1, n, n + self.extra), self.dropout)
        (far,) = sides.far
        computed: tuple[Tensor, ...] = _Labelled.apply(  # type: ignore[no-untyped-call]
            1.0 / weight, self.chooses, kept, bool(self.of_relations), far.child, far.head, common, by_channel, short
        )
        to_child, to_head, arcs, R, A, used = computed[:6]
        self.latest = (*computed[6:], short)
        message, extra = self.messages.to_labels(sides, [to_child], [to_head], used, rows)
        return self._with_further(message, grid, Sums(arcs, R, A), used, rows), extra

    def update(self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"]) -> Any:
        return self.exchange(labels, extra, None)  # distributions and messages are one function

    def _before(self) -> tuple[Float[Tensor, "l c n n"], Float[Tensor, "l c n e"]]:
        words, extra = self.latest[:2] if self.latest else super()._before()
        return words, extra

    def scores(self) -> Float[Tensor, "l c n m"]:
        if not self.latest:
            return super().scores()
        return torch.cat([part.transpose(1, 2) for part in self.latest[2:]], dim=-1).transpose(1, 2)


class _Labelled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scale: float,
        chooses: Bool[Tensor, "l 1 n 1"],
        kept: Float[Tensor, "l 1 n m"] | None,
        sums: bool,
        u: Float[Tensor, "l c n r"],
        v: Float[Tensor, "l c2 n r"],
        common: Float[Tensor, "l c3 n n"],
        by_channel: Float[Tensor, "1 c n2 n2"],
        short: Float[Tensor, "l c n e"],
    ) -> tuple[Tensor | None, ...]:
        """Return ``ū``, ``v̄``, ``A``, with ``sums`` those of ``Q`` over heads and over words, the short ``Q``, both
        parts of ``P``, and ``F`` without the short part."""
        F = times(u * scale, v.mT).add_(common).add_(by_channel)
        top = torch.cat([part.amax(1, keepdim=True) for part in (F, short)], dim=-1).amax(-1, keepdim=True)
        P, p = (F - top).exp_(), (short - top).exp_()
        share = chooses / sum(part.sum(1, keepdim=True).sum(-1, keepdim=True) for part in (P, p))
        P, p = P.mul_(share), p.mul_(share)
        Q, q = (P, p) if kept is None else (P * kept[..., : P.shape[-1]], p * kept[..., P.shape[-1] :])
        ctx.save_for_backward(kept, u, v, P, p)
        ctx.scale, ctx.shapes = scale, (common.shape, by_channel.shape)
        ctx.set_materialize_grads(False)
        over_heads, over_words = (Q.sum(3), Q.sum(2)) if sums else (None, None)
        return times(Q, v), gathered(Q, u, v.shape[1]), Q.sum(1), over_heads, over_words, q, P, p, F

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        kept, u, v, P, p = ctx.saved_tensors
        by_child, by_head, by_arcs, by_heads, by_words, by_q, by_P, by_p, by_F = gradients
        n, channels = P.shape[-1], v.shape[1]
        # What has no gradient is zero; of dP one row is enough.
        dP, dp = torch.zeros_like(P[:1, :1]), torch.zeros_like(p)
        du, dv = torch.zeros_like(u), torch.zeros_like(v)
        Q = P if kept is None else P * kept[..., :n]
        if by_child is not None:
            dP, dv = times(by_child, v.mT), gathered(Q, by_child, channels)
        if by_head is not None:
            dP, du = dP + times(u, by_head.mT), times(Q, by_head)
        if by_arcs is not None:
            dP = dP + by_arcs[:, None]
        if by_heads is not None:
            dP = dP + by_heads[..., None]
        if by_words is not None:
            dP = dP + by_words[:, :, None]
        if by_q is not None:
            dp = by_q
        if kept is not None:  # so far, of Q
            dP, dp = dP * kept[..., :n], dp * kept[..., n:]
        if by_P is not None:
            dP = dP + by_P
        if by_p is not None:
            dp = dp + by_p
        # Through the softmax.
        dF, short = dP * P, dp * p
        mean = sum(part.sum(1, keepdim=True).sum(-1, keepdim=True) for part in (dF, short))
        dF, short = dF.addcmul_(P, mean, value=-1.0), short.addcmul_(p, mean, value=-1.0)
        if by_F is not None:
            dF = dF.add_(by_F)
        du, dv = du + ctx.scale * times(dF, v), dv + ctx.scale * gathered(dF, u, channels)
        of_common, of_channels = (dF.sum_to_size(shape) for shape in ctx.shapes)
        return None, None, None, None, du, dv, of_common, of_channels, short


class Block(NamedTuple):
    """Some children, and for each far bucket the words that may be their heads."""

    start: int
    stop: int
    columns: list[slice]


class BlockedHeads(HeadVariables):
    """Distributions by blocks of children, with gradients written by hand.

    Autograd takes up to 1.7 times as long with long sentences, and 1.6 times the memory.

    The usual case: an iteration depends on the ones before through the labels alone (no damping, steps of 1), and rows
    are softmaxes. With the sides ``u``, ``v`` of the scores and ``u'``, ``v'`` of the messages (the same ones if
    asynchronous) and the factors ``D`` of dropout, for each block and far bucket:

        F = u vᵀ / λ         P = softmax(F)       Q = D ∘ P       ū = Q v'        v̄ = Qᵀ u'
        dQ = dū v'ᵀ + u' dv̄ᵀ                      dF = Q ∘ dQ - P (Q·dQ)
        du = dF v / λ        dv = dFᵀ u / λ       du' = Q dv̄      dv' = Qᵀ dū

    In an autocast, products have its precision; softmaxes, and sums over blocks, have not.
    """

    def __init__(self, *arguments: Any, keep: bool, reads: bool = False) -> None:
        """``keep``: whether ``P`` and ``Q`` are kept for the gradient, or computed again; ``reads``: whether ``P`` of
        the latest iteration is kept for :meth:`arcs`."""
        super().__init__(*arguments)
        lines, n = self.layout.sentence.shape
        step = max(SMALLEST, BLOCK // max(1, lines * self.inference.channels * n))
        step = -(-n // max(1, -(-n // step)))  # as many blocks, of one size
        self.keep = keep
        self.blocks: list[Block] = []
        for start in range(0, n, max(1, step)):
            stop, columns = min(start + step, n), [slice(0, n)]
            if self.distance is not None:
                columns = [slice(min(start + self.distance + 1, n), n), slice(0, max(stop - self.distance - 1, 0))]
            self.blocks.append(Block(start, stop, columns))
        self.candidates = [self._candidates(block) for block in self.blocks] if keep or reads else []
        self.latest: list[Tensor] | None = [] if reads else None
        self.before: tuple[Tensor, list[Tensor]] | None = None

    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"], rows: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "w c e"]]:
        sides, now, short = self._sides(labels, extra)
        scored, tensors = short, now
        if not self.inference.asynchronous:
            uniform = torch.zeros_like(short), [torch.zeros_like(side) for side in now]
            scored, scored_sides = self.before or uniform
            tensors, self.before = [*now, *scored_sides], (short, now)
        # Autograd keeps its first argument as long as the results: if it held them, neither would ever be freed.
        heads = copy(self)
        heads.before = None
        used, *parts = _Blocks.apply(heads, scored, *tensors)  # type: ignore[no-untyped-call]
        far = len(sides.far)
        return self.messages.to_labels(sides, parts[:far], parts[far:], used, rows)

    def update(self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"]) -> None:
        """Run the first half of an iteration, up to the distributions."""
        assert self.latest is not None, "arcs are read"
        sides, now, short = self._sides(labels, extra)
        far = len(sides.far)
        heads_t = [_turned(side) for side in now[far:]]
        for number in range(len(self.blocks)):
            self.distribution(number, now[:far], heads_t, short)

    def arcs(self) -> Float[Tensor, "l c n m"]:
        """Return the distributions as those that are stored do."""
        assert self.latest, "an iteration has been run"
        n, offsets = self.layout.sentence.shape[1], self.messages.offsets
        arcs = self.latest[0].new_zeros(*self.latest[0].shape[:2], n, n + self.extra)
        for (start, stop, columns), P in zip(self.blocks, self.latest, strict=True):
            *far, short = _split(P, columns, self.short_allowed)
            for part, of_bucket in zip(columns, far, strict=True):  # where they overlap, one of them is 0
                arcs[:, :, start:stop, part] += of_bucket
            arcs[:, :, start:stop, n:] = short[..., len(offsets) :]
            for k, x in enumerate(offsets):
                child = torch.arange(max(start, x), max(start, x, min(stop, n + x)))
                arcs[:, :, child, child - x] = short[:, :, child - start, k]
        return arcs

    def _candidates(self, block: Block) -> tuple[Float[Tensor, "l 1 m k"], Float[Tensor, "l 1 m 1"] | None]:
        """Return very low numbers where a column is no candidate, else 0; and 1 for children that have some, else 0.

        None instead where all have some. Numbers, as operations on truth values are slow on a CPU.
        """
        sentence, gamma, (start, stop, columns) = self.layout.sentence, self.distance, block
        word = torch.arange(sentence.shape[1], device=sentence.device)
        x, children = word[start:stop, None] - word, sentence[:, start:stop, None]
        far = [x != 0] if gamma is None else [x < -gamma, x > gamma]
        parts = [
            (near[:, part] & (sentence[:, None, part] == children) & (children >= 0))[:, None]
            for near, part in zip(far, columns, strict=True)
        ]
        if self.inference.root_label:
            parts = [labels_allowed(part, -1, self.inference.channels) for part in parts]
        allowed = torch.cat([*parts, self.short_allowed[:, :, start:stop]], dim=-1)
        lowest = torch.finfo(self.dtype).min / 2
        bias = torch.zeros(allowed.shape, dtype=self.dtype, device=allowed.device).masked_fill_(~allowed, lowest)
        present = allowed.any(-1, keepdim=True)
        if self.inference.labelled:
            present = present.any(1, keepdim=True)
        return bias, None if may_depend_on(present) and bool(present.all()) else present.to(self.dtype)

    def distribution(
        self, number: int, children: Sequence[Tensor], heads_t: Sequence[Tensor], short: Float[Tensor, "l c n s"]
    ) -> tuple[Float[Tensor, "l c m k"], Float[Tensor, "l c m k"]]:
        """Return ``P`` and ``Q`` of a block; ``heads_t``: transposed head sides."""
        if self.latest is not None and number == 0:  # an iteration begins
            self.latest.clear()
        start, stop, columns = self.blocks[number]
        sides = zip(children, heads_t, columns, strict=True)
        scores = [times(u[:, :, start:stop], v[..., part]) for u, v, part in sides]
        F = _joined([*scores, short[:, :, start:stop]]).to(self.dtype)
        bias, present = self.candidates[number] if self.candidates else self._candidates(self.blocks[number])
        M = torch.add(bias, F, alpha=1.0 / self.inference.heads.weight, out=F)
        labelled = self.inference.labelled
        if labelled and M.shape[-1]:  # a lone word without a root has no candidates
            P = M.sub_(M.amax((1, 3), keepdim=True)).exp_()
            P = P.div_(P.sum((1, 3), keepdim=True))
        else:
            P = M.softmax(-1)
        P = P if present is None else P.mul_(present)
        if self.latest is not None:
            self.latest.append(P)
        kind = children[0].dtype
        return P.to(kind), drop(P, self.dropout, labelled=labelled).to(kind)


class _Blocks(torch.autograd.Function):
    """From short scores and sides to the distributions over the short columns, ``ū`` and ``v̄`` of the far buckets.

    The sides are ``u'`` of every far bucket, then ``v'``; then ``u`` and ``v``, unless they are the same.
    """

    @staticmethod
    def forward(ctx: Any, heads: BlockedHeads, short: Tensor, *sides: Tensor) -> tuple[Tensor, ...]:
        far = 1 if heads.distance is None else 2
        children, words = sides[:far], sides[far : 2 * far]
        scored_t = [_turned(side) for side in sides[-far:]]
        used = torch.empty_like(short)
        to_child = [torch.empty_like(side) for side in children]
        to_head = [torch.zeros_like(side, dtype=heads.dtype) for side in words]
        ctx.heads, ctx.random, kept = heads, [], []
        for number, (start, stop, columns) in enumerate(heads.blocks):
            if not heads.keep:
                of_gpu = torch.cuda.get_rng_state(short.device) if short.is_cuda else None
                ctx.random.append((torch.get_rng_state(), of_gpu))
            P, Q = heads.distribution(number, sides[-2 * far : -far], scored_t, short)
            kept += [P, Q] if heads.keep else []
            *parts, used[:, :, start:stop] = _split(Q, columns, short)
            for k, (q, part) in enumerate(zip(parts, columns, strict=True)):
                to_child[k][:, :, start:stop] = times(q, words[k][:, :, part])
                to_head[k][:, :, part] += gathered(q, children[k][:, :, start:stop], words[k].shape[1])
        ctx.inputs = 1 + len(sides)
        ctx.save_for_backward(short, *sides, *kept)
        return (used, *to_child, *(total.to(side.dtype) for total, side in zip(to_head, words, strict=True)))

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, by_used: Tensor, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        heads, far = ctx.heads, 1 if ctx.heads.distance is None else 2
        short, *sides = ctx.saved_tensors[: ctx.inputs]
        kept = ctx.saved_tensors[ctx.inputs :]
        children, words = sides[:far], sides[far : 2 * far]
        scored_children, scored_words = sides[-2 * far : -far], sides[-far:]
        by_child, by_head = gradients[:far], gradients[far:]
        words_t, by_head_t = [_turned(side) for side in words], [_turned(side) for side in by_head]
        scored_t = words_t if scored_words[0] is words[0] else [_turned(side) for side in scored_words]
        of_short, of_sides = torch.empty_like(short), [torch.zeros_like(side, dtype=heads.dtype) for side in sides]
        of_children, of_words = of_sides[:far], of_sides[far : 2 * far]
        of_scored_children, of_scored_words = of_sides[-2 * far : -far], of_sides[-far:]
        for number, (start, stop, columns) in enumerate(heads.blocks):
            if heads.keep:
                P, Q = kept[2 * number : 2 * number + 2]
            else:  # with the random numbers that were drawn forwards
                with torch.random.fork_rng([short.device] if short.is_cuda else []):
                    torch.set_rng_state(ctx.random[number][0])
                    if short.is_cuda:
                        torch.cuda.set_rng_state(ctx.random[number][1], short.device)
                    P, Q = heads.distribution(number, scored_children, scored_t, short)
            by_Q = [
                times(by_child[k][:, :, start:stop], words_t[k][..., part]).add_(
                    times(children[k][:, :, start:stop], by_head_t[k][..., part])
                )
                for k, part in enumerate(columns)
            ]
            by_F = _joined([*by_Q, by_used[:, :, start:stop]]).to(heads.dtype).mul_(Q)
            of_softmax = (1, 3) if heads.inference.labelled else 3
            by_F.addcmul_(P, by_F.sum(of_softmax, keepdim=True), value=-1.0).mul_(1.0 / heads.inference.heads.weight)
            *of_F, of_short[:, :, start:stop] = _split(by_F.to(P.dtype), columns, short)
            for k, (f, q, part) in enumerate(zip(of_F, _split(Q, columns, short), columns, strict=False)):
                rows, channels = slice(start, stop), words[k].shape[1]
                of_children[k][:, :, rows] += times(q, by_head[k][:, :, part])
                of_words[k][:, :, part] += gathered(q, by_child[k][:, :, rows], channels)
                of_scored_children[k][:, :, rows] += times(f, scored_words[k][:, :, part])
                of_scored_words[k][:, :, part] += gathered(f, scored_children[k][:, :, rows], channels)
        return None, of_short, *(total.to(side.dtype) for total, side in zip(of_sides, sides, strict=True))


def _turned(side: Float[Tensor, "l c n r"]) -> Float[Tensor, "l c r n"]:
    """Return a transposed side, copied in float32.

    Small products with a transposed second factor run three times slower there on a CPU than a copy and a product.
    """
    return side.mT if side.element_size() == 2 else side.mT.contiguous()


def _joined(parts: Sequence[Tensor]) -> Float[Tensor, "l c m k"]:
    """Return the columns of a block: those of the far buckets, then the short ones."""
    return parts[0] if len(parts) == 2 and parts[1].shape[-1] == 0 else torch.cat(list(parts), dim=-1)


def _split(values: Float[Tensor, "l c m k"], columns: Sequence[slice], short: Tensor) -> tuple[Tensor, ...]:
    """Return the values of a block by far bucket, and those of the short columns."""
    return torch.split(values, [*(part.stop - part.start for part in columns), short.shape[-1]], dim=-1)
