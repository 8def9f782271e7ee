"""Head variables in blocks, by hand: scores, softmax, dropout and messages in one operation.

The usual case: an iteration forgets the ones before (no damping, steps of 1), rows are softmaxes, a CPU. With the
sides ``u``, ``v`` of the scores and ``u'``, ``v'`` of the messages (the same ones if asynchronous) and the factors
``D`` of dropout (0 or ``1 / (1 - p)``), for each block of children (``blocks.py``) and far bucket:

    F = u vᵀ / λ         P = softmax(F)       Q = D ∘ P       ū = Q v'        v̄ = Qᵀ u'
    dQ = dū v'ᵀ + u' dv̄ᵀ                      dF = Q ∘ dQ - P (Q·dQ)
    du = dF v / λ        dv = dFᵀ u / λ       du' = Q dv̄      dv' = Qᵀ dū

``P`` and ``Q`` of a block are small enough for a processor's cache. They are kept for the gradient, or, for long
sentences, computed again (``keep``), so that nothing of the size of all pairs of words is ever there. In an autocast,
the factors of products are of its precision; softmaxes, and sums over blocks, are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.banded import BandedMessages, BandedSides
from probtrans_cli.models.probabilistic.fast.blocks import Blocks, random_state, set_random_state
from probtrans_cli.models.probabilistic.fast.derivatives import first_derivatives_only
from probtrans_cli.models.probabilistic.fast.drawn_dropout import DrawnDropout
from probtrans_cli.models.probabilistic.fast.head_variables import HeadVariables
from probtrans_cli.models.probabilistic.fast.products import precision
from probtrans_cli.models.probabilistic.inference import Inference

BLOCK = 2**19  # head scores in a block


class FusedHeads(HeadVariables):
    """Distributions by blocks of children; see the module."""

    messages: BandedMessages

    def __init__(
        self,
        messages: BandedMessages,
        extra: int,
        inference: Inference,
        dropout: DrawnDropout,
        dtype: torch.dtype,
        *,
        keep: bool = True,
    ) -> None:
        """``keep``: whether distributions are kept for the gradient, or computed again."""
        super().__init__(messages, extra, inference, dropout, dtype)
        blocks = Blocks.of(messages, self.extra_allowed, inference.channels, BLOCK)
        kept = [_Block.of(blocks, *bounds, dtype) for bounds in blocks.bounds] if keep else None
        self.plan = _Plan(blocks, self.how.weight, dropout, dtype, kept)
        self.before: tuple[BandedSides, Tensor] | None = None

    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"], only: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "w c e"]]:
        sides = self.messages.sides(labels)
        short = self.messages.short(sides, extra)
        used = (sides, short) if self.inference.asynchronous else self.before
        self.before = (sides, short)
        now = _tensors(sides)
        if used is None:  # uniform
            tensors = [*now, torch.zeros_like(short), *(torch.zeros_like(one) for one in now)]
        else:
            tensors = [*now, used[1], *(_tensors(used[0]) if used[0] is not sides else [])]
        used_short, *parts = _Fused.apply(self.plan, len(now), *tensors)  # type: ignore[no-untyped-call]
        far = len(sides.far)
        return self.messages.from_short(sides, used_short, (parts[:far], parts[far:]), only)


def _tensors(sides: BandedSides) -> list[Tensor]:
    """Child sides of the far buckets, then head sides: one where all share it; in the precision of products."""
    heads = [one.head for one in sides.far]
    tensors = [one.child for one in sides.far] + [one for k, one in enumerate(heads) if k == 0 or one is not heads[0]]
    return [one.to(precision(one)) for one in tensors]


class _FarSides(NamedTuple):
    """Sides of the far buckets: children's of each, and heads' of each, or one that all share."""

    children: Sequence[Float[Tensor, "l c n r"]]
    heads: Sequence[Float[Tensor, "l c2 n r"]]

    def head(self, bucket: int) -> Float[Tensor, "l c2 n r"]:
        """A bucket's head side."""
        return self.heads[bucket if len(self.heads) > 1 else 0]

    def turned(self) -> _FarSides:
        """With head sides transposed ``[l, c2, r, n]``: small products in float32 with a transposed second factor run
        three times slower on a CPU than a copy and a plain product; those in half precision do not."""
        half = self.heads[0].element_size() == 2
        return _FarSides(self.children, [one.mT if half else one.mT.contiguous() for one in self.heads])


class _ByBlock:
    """Sides of the far buckets that blocks give one after the other: children's, and what each adds to the heads'."""

    def __init__(self, like: _FarSides, dtype: torch.dtype) -> None:
        """``like``: sides of the same sizes; ``dtype`` of sums."""
        self.like, self.dtype = like, dtype
        self.children: list[list[Tensor]] = [[] for _ in like.children]
        self.heads: list[Tensor | None] = [None for _ in like.heads]

    def add(
        self, bucket: int, child: Float[Tensor, "l c m r"], head: Float[Tensor, "l c2 k r"], columns: slice
    ) -> None:
        """What a block has for its children, and for the words that may be their heads, those of ``columns``."""
        self.children[bucket].append(child)
        which = bucket if len(self.heads) > 1 else 0
        total, like = self.heads[which], self.like.heads[which]
        if total is None and head.shape == like.shape:
            self.heads[which] = head
            return
        total = torch.zeros_like(like, dtype=self.dtype) if total is None else total.to(self.dtype)
        total[:, :, columns] += head
        self.heads[which] = total

    def sides(self) -> _FarSides:
        """All of them."""
        if not all(self.children):  # there are no words
            return _FarSides(*([torch.empty_like(one) for one in kind] for kind in self.like))
        children = [one[0] if len(one) == 1 else torch.cat(one, dim=2) for one in self.children]
        totals = [total for total in self.heads if total is not None]
        return _FarSides(children, [total.to(one.dtype) for total, one in zip(totals, self.like.heads, strict=True)])


@dataclass
class _Block:
    """A block of children: its far heads by bucket, very low numbers where there is no candidate, and 1 for children
    that have some, else 0 (None: all have). Numbers, as operations on truth values are slow on a CPU."""

    children: slice
    heads: list[slice]
    bias: Float[Tensor, "l 1 m k"]
    present: Float[Tensor, "l 1 m 1"] | None

    @classmethod
    def of(cls, blocks: Blocks, start: int, stop: int, dtype: torch.dtype) -> _Block:
        allowed = blocks.allowed(start, stop)
        present = allowed.any(-1, keepdim=True)
        bias = torch.zeros(allowed.shape, dtype=dtype).masked_fill_(~allowed, torch.finfo(dtype).min / 2)
        heads = blocks.columns(start, stop)
        return cls(slice(start, stop), heads, bias, None if bool(present.all()) else present.to(dtype))


@dataclass
class _Plan:
    """All that a batch's iterations share. Holds nothing that has a gradient: the graph holds this."""

    geometry: Blocks
    weight: float
    dropout: DrawnDropout
    dtype: torch.dtype
    kept: list[_Block] | None

    @property
    def keep(self) -> bool:
        """Whether what is of the size of all pairs of words is kept."""
        return self.kept is not None

    def blocks(self) -> Iterator[_Block]:
        """All blocks, one after the other."""
        if self.kept is not None:
            yield from self.kept
        else:
            for start, stop in self.geometry.bounds:
                yield _Block.of(self.geometry, start, stop, self.dtype)

    def distribution(self, block: _Block, turned: _FarSides, short: Tensor) -> tuple[Tensor, Tensor]:
        """``P`` and ``Q`` of a block, in the precision of products, from sides of the scores, the heads' transposed."""
        rows = block.children
        far = [
            _product(child[:, :, rows], turned.head(k)[..., columns])
            for k, (child, columns) in enumerate(zip(turned.children, block.heads, strict=True))
        ]
        scores = self.joined([*far, short[:, :, rows]])
        P = torch.add(block.bias, scores, alpha=1.0 / self.weight, out=scores).softmax(-1)
        if block.present is not None:
            P.mul_(block.present)
        exact, P = P, P.to(far[0].dtype)
        return P, self.dropout.factors(exact).mul_(exact).to(P.dtype) if self.dropout.p > 0.0 else P

    def joined(self, parts: Sequence[Tensor]) -> Float[Tensor, "l c m k"]:
        """All columns of a block, of far buckets and then the short ones, in the precision of softmaxes."""
        alone = len(parts) == 2 and parts[1].shape[-1] == 0
        return (parts[0] if alone else torch.cat(list(parts), dim=-1)).to(self.dtype)


class _Fused(torch.autograd.Function):
    """Sides of the messages, children then heads of the far buckets; short scores; sides of the scores, if others →
    distributions over the short columns, ``ū`` and ``v̄`` of the far buckets. Buckets may share a head side."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, of_messages: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        """``of_messages``: how many tensors are sides of the messages."""
        sides, short, scored = _inputs(tensors, plan.geometry.far, of_messages)
        turned = scored.turned()
        ctx.plan, ctx.of_messages, ctx.inputs, ctx.random = plan, of_messages, len(tensors), []
        kept: list[Tensor] = []
        used = torch.empty_like(short)
        messages = _ByBlock(sides, plan.dtype)
        for block in plan.blocks():
            ctx.random.append(None if plan.keep else random_state(short))
            P, Q = plan.distribution(block, turned, short)
            if plan.keep:
                kept += P, Q
            rows = block.children
            *parts, used[:, :, rows] = _parts(Q, block.heads, short.shape[-1])
            for k, (q, columns) in enumerate(zip(parts, block.heads, strict=True)):
                to_child = _product(q, sides.head(k)[:, :, columns])
                messages.add(k, to_child, _product_t(q, sides.children[k][:, :, rows], sides.head(k)), columns)
        ctx.save_for_backward(*tensors, *turned.heads, *kept)
        children, heads = messages.sides()
        return (used, *children, *heads)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        plan, far = ctx.plan, ctx.plan.geometry.far
        tensors, others = ctx.saved_tensors[: ctx.inputs], ctx.saved_tensors[ctx.inputs :]
        sides, short, scored = _inputs(tensors, far, ctx.of_messages)
        turned, kept = _FarSides(scored.children, others[: len(scored.heads)]), others[len(scored.heads) :]
        one_kind = scored is sides
        sides_turned = turned if one_kind else sides.turned()
        by_used, *by_messages = (one.contiguous() for one in gradients)
        by_sides = _FarSides(by_messages[:far], by_messages[far:])
        by_turned = by_sides.turned()
        of_short, by_block = torch.empty_like(short), _ByBlock(sides, plan.dtype)
        of_scored = _ByBlock(scored, plan.dtype)
        now = random_state(short)
        for number, block in enumerate(plan.blocks()):
            if plan.keep:
                P, Q = kept[2 * number : 2 * number + 2]
            else:
                set_random_state(ctx.random[number])
                P, Q = plan.distribution(block, turned, short)
            rows = block.children
            by_Q = []
            for k, columns in enumerate(block.heads):
                part = _product(by_sides.children[k][:, :, rows], sides_turned.head(k)[..., columns])
                by_Q.append(_product(sides.children[k][:, :, rows], by_turned.head(k)[..., columns], part))
            by_F = plan.joined([*by_Q, by_used[:, :, rows]]).mul_(Q)
            by_F.addcmul_(P, by_F.sum(-1, keepdim=True), value=-1.0)
            *of_F, of_short[:, :, rows] = _parts(by_F.to(P.dtype), block.heads, short.shape[-1])
            *of_Q, _ = _parts(Q, block.heads, short.shape[-1])
            for k, (q, f, columns) in enumerate(zip(of_Q, of_F, block.heads, strict=True)):
                child = _product(q, by_sides.head(k)[:, :, columns])
                head = _product_t(q, by_sides.children[k][:, :, rows], sides.head(k))
                at_child, at_head = scored.children[k][:, :, rows], scored.head(k)
                if one_kind:
                    _product(f, at_head[:, :, columns], into=child, factor=1.0 / plan.weight)
                    _product_t(f, at_child, at_head, into=head, factor=1.0 / plan.weight)
                else:
                    of_scored.add(k, _product(f, at_head[:, :, columns]), _product_t(f, at_child, at_head), columns)
                by_block.add(k, child, head, columns)
        if not plan.keep:
            set_random_state(now)
        children, heads = by_block.sides()
        results = [*children, *heads, of_short.div_(plan.weight)]
        if not one_kind:
            children, heads = of_scored.sides()
            results += [one.div_(plan.weight) for one in (*children, *heads)]
        return None, None, *results


def _inputs(tensors: Sequence[Tensor], far: int, short: int) -> tuple[_FarSides, Tensor, _FarSides]:
    """Sides of the messages, short scores, sides of the scores: the same ones where there are no others."""
    sides, others = _FarSides(tensors[:far], tensors[far:short]), tensors[short + 1 :]
    return sides, tensors[short], _FarSides(others[:far], others[far:]) if others else sides


def _parts(values: Float[Tensor, "l c m k"], heads: Sequence[slice], short: int) -> Sequence[Tensor]:
    """Values of a block by far bucket, and those of the short columns."""
    return torch.split(values, [*(one.stop - one.start for one in heads), short], dim=-1)


def _product(
    rows: Float[Tensor, "l c m k"],
    side: Float[Tensor, "l c2 k r"],
    into: Float[Tensor, "l c m r"] | None = None,
    factor: float = 1.0,
) -> Float[Tensor, "l c m r"]:
    """``rows @ side``, times a factor added to ``into``; a side that all channels share is multiplied with the rows of
    all of them at once."""
    own = side.shape[1] == rows.shape[1]
    factors = (rows.flatten(0, 1), side.flatten(0, 1)) if own else (rows.flatten(1, 2), side[:, 0])
    return _bmm(*factors, (*rows.shape[:3], side.shape[-1]), into, factor)


def _product_t(
    rows: Float[Tensor, "l c m k"],
    side: Float[Tensor, "l c m r"],
    like: Float[Tensor, "l c2 n r"],
    into: Float[Tensor, "l c2 k r"] | None = None,
    factor: float = 1.0,
) -> Float[Tensor, "l c2 k r"]:
    """``rowsᵀ @ side``, times a factor added to ``into``; summed over channels where ``like`` has but one."""
    flat = 0 if like.shape[1] == rows.shape[1] else 1
    shape = (rows.shape[0], like.shape[1], rows.shape[-1], side.shape[-1])
    return _bmm(rows.flatten(flat, flat + 1).mT, side.flatten(flat, flat + 1), shape, into, factor)


def _bmm(left: Tensor, right: Tensor, shape: tuple[int, ...], into: Tensor | None, factor: float) -> Tensor:
    if into is None:
        return torch.bmm(left, right).view(shape)
    into.view(left.shape[0], left.shape[1], right.shape[2]).baddbmm_(left, right, alpha=factor)
    return into
