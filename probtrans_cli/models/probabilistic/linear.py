"""Head variables without a matrix of all pairs: memory grows with the length of a sentence, not with its square.

The children are taken in blocks. The rows of a block are computed with all their iterations when they are needed,
forward and backward (``F`` depends on the labels alone), and give their share of the messages at once:

    for each block:   M, Q_H of its rows  →  ū of its rows, its share of v̄ of all words  →  forgotten

The words left of a block are far on one side, those right of it far on the other, and each side's product is taken
over its own words only: half the work of two full products. Columns of a block: the words up to its last far one on
the left (head bucket ``x > γ``), the words from its first far one on the right (``x < -γ``), the near buckets, the
extra candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from probtrans_cli.models.probabilistic.banded import BandedMessages, BandedSides
from probtrans_cli.models.probabilistic.head_variables import HeadVariables, over
from probtrans_cli.models.probabilistic.inference import Inference

BLOCK = 2**20  # numbers in a block of rows of head scores


class RecomputedHeads(HeadVariables):
    """Nothing of the size of all pairs is kept."""

    messages: BandedMessages

    def __init__(
        self,
        messages: BandedMessages,
        extra: Bool[Tensor, "b 1 n e"],
        inference: Inference,
        dropout: Callable[[Tensor], Tensor],
        dtype: torch.dtype,
    ) -> None:
        """``extra``: where the candidates that are no words may be chosen; ``history``: sides and short columns of the
        iterations that are still needed."""
        super().__init__(messages, inference, dropout, dtype)
        self.history: list[tuple[BandedSides, Tensor]] = []
        self.short_allowed = torch.cat([messages.near[:, None], extra], dim=-1)

    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "b c n e"], wanted: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "b c n e"]]:
        messages = self.messages
        sides = messages.sides(labels)
        short = extra if sides.near is None else torch.cat([messages.near_scores(sides.near), extra], dim=-1)
        self.history.append((sides, short))
        used = self.history if self.inference.asynchronous else self.history[:-1]
        if self.how.forgets:
            used = used[-1:]
            del self.history[:-1]
        far = len(sides.far)
        blocks = _Blocks(self.inference, self.dropout, messages.layout.mask, self.short_allowed, len(used))
        tensors = [one.child for one in sides.far]
        tensors += [one for theirs, columns in used for one in (columns, *(part.child for part in theirs.far))]
        blocks.rows = len(tensors)
        tensors += [one.head for one in sides.far]
        tensors += [part.head for theirs, _ in used for part in theirs.far]
        used_short, *parts = _InBlocks.apply(blocks, *tensors)  # type: ignore[no-untyped-call]
        near, extra = used_short.tensor_split([len(messages.offsets)], dim=-1)
        near_messages = None if sides.near is None else messages.near_messages(sides.near, near)
        pairs = list(zip(parts[:far], parts[far:], strict=True))
        return messages.collect(sides.rows, pairs, near_messages, wanted), extra


@dataclass
class _Blocks:
    """What is computed of a block. Holds nothing that has a gradient: the graph holds this.

    ``short_allowed [b, 1, n, s]``: which near buckets and extra candidates there are; ``iterations``: how many lead to
    the distributions; ``rows``: how many of the tensors are cut into blocks, the others are whole.
    """

    inference: Inference
    dropout: Callable[[Tensor], Tensor]
    mask: Bool[Tensor, "b n"]
    short_allowed: Bool[Tensor, "b 1 n s"]
    iterations: int
    rows: int = 0

    @property
    def far(self) -> int:
        """Number of far buckets."""
        return 1 if self.inference.distance is None else 2

    def bounds(self, n: int, batch: int) -> list[tuple[int, int]]:
        """First and last child of every block."""
        step = max(16, BLOCK // max(1, batch * self.inference.channels * n))
        return [(start, min(start + step, n)) for start in range(0, n, step)]

    def columns(self, start: int, stop: int, n: int) -> list[slice]:
        """The words that may be far heads of a block's children, by far bucket."""
        if self.far == 1:
            return [slice(0, n)]
        gamma = self.inference.distance or 0
        return [slice(min(start + gamma + 1, n), n), slice(0, max(stop - gamma - 1, 0))]

    def allowed(self, start: int, stop: int, columns: Sequence[slice]) -> Bool[Tensor, "b 1 m k"]:
        """The candidates of the block's children."""
        mask, gamma = self.mask, self.inference.distance
        word = torch.arange(mask.shape[1], device=mask.device)
        x = word[start:stop, None] - word
        far = [x != 0] if gamma is None else [x < -gamma, x > gamma]
        parts = [
            (here[:, one] & mask[:, None, one] & mask[:, start:stop, None])[:, None]
            for here, one in zip(far, columns, strict=True)
        ]
        return torch.cat([*parts, self.short_allowed[:, :, start:stop]], dim=-1)

    def compute(self, start: int, stop: int, rows: Sequence[Tensor], whole: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Distributions over the short columns, ``ū`` of the block's children, and ``v̄`` of their far heads.

        ``rows``: child sides now, then short scores and child sides of every iteration; ``whole``: the head sides now
        and of every iteration, of the block's columns.
        """
        how = self.inference.heads
        columns = self.columns(start, stop, self.mask.shape[1])
        allowed = self.allowed(start, stop, columns)
        message: Tensor | None = None
        probabilities: Tensor | None = None
        for t in range(self.iterations):
            short, *children = rows[self.far + t * (self.far + 1) :][: self.far + 1]
            heads = whole[self.far * (t + 1) :][: self.far]
            far = [child @ head.mT for child, head in zip(children, heads, strict=True)]
            message = how.message(torch.cat([*far, short], dim=-1), message)
            new = over(message, allowed)
            if how.step != 1.0 and probabilities is None:
                probabilities = over(torch.zeros_like(message), allowed)
            probabilities = new if probabilities is None else how.distribution(new, probabilities)
        if probabilities is None:
            shape = (allowed.shape[0], self.inference.channels, *allowed.shape[2:])
            probabilities = over(torch.zeros(shape, device=allowed.device, dtype=rows[0].dtype), allowed)
        used = self.dropout(probabilities)
        sizes = [one.stop - one.start for one in columns]
        *far, short = torch.split(used, [*sizes, self.short_allowed.shape[-1]], dim=-1)
        to_child = [p.to(v.dtype) @ v for p, v in zip(far, whole, strict=False)]
        to_head = [p.to(u.dtype).mT @ u for p, u in zip(far, rows, strict=False)]
        return (short, *to_child, *(_like(part, v) for part, v in zip(to_head, whole, strict=False)))

    def cut(self, tensors: Sequence[Tensor], start: int, stop: int) -> tuple[list[Tensor], list[Tensor], list[slice]]:
        """The rows and the columns of a block, and which columns."""
        n = tensors[0].shape[2]
        columns = self.columns(start, stop, n) * (self.iterations + 1)
        rows = [tensor[:, :, start:stop] for tensor in tensors[: self.rows]]
        return rows, [t[:, :, one] for t, one in zip(tensors[self.rows :], columns, strict=True)], columns


def _like(message: Tensor, side: Tensor) -> Tensor:
    """A message summed over channels where the side has but one."""
    return message if side.shape[1] == message.shape[1] else message.sum(1, keepdim=True)


class _InBlocks(torch.autograd.Function):
    """All blocks, one after the other; what is between the inputs and the outputs of a block is computed again for
    its gradient, with the same random numbers."""

    @staticmethod
    def forward(ctx: Any, blocks: _Blocks, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*tensors)
        ctx.blocks, ctx.random = blocks, []
        kind = tensors[0].device.type
        ctx.precision = torch.autocast(
            kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind)
        )
        batch, channels, n, _ = tensors[0].shape
        far = blocks.far
        used = tensors[0].new_empty(batch, channels, n, blocks.short_allowed.shape[-1])
        to_child = [torch.empty_like(one) for one in tensors[:far]]
        to_head = [torch.zeros_like(one) for one in tensors[blocks.rows : blocks.rows + far]]
        for start, stop in blocks.bounds(n, batch):
            ctx.random.append(_random_state(tensors[0]))
            rows, whole, columns = blocks.cut(tensors, start, stop)
            short, *parts = blocks.compute(start, stop, rows, whole)
            used[:, :, start:stop] = short
            for k in range(far):
                to_child[k][:, :, start:stop] = parts[k]
                to_head[k][:, :, columns[k]] += parts[far + k]
        return (used, *to_child, *to_head)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tensors, blocks = ctx.saved_tensors, ctx.blocks
        far, n = blocks.far, tensors[0].shape[2]
        results = [torch.zeros_like(tensor) for tensor in tensors]
        now = _random_state(tensors[0])
        for (start, stop), state in zip(blocks.bounds(n, len(tensors[0])), ctx.random, strict=True):
            _set_random_state(state)
            rows, whole, columns = blocks.cut(tensors, start, stop)
            inputs = [one.detach().requires_grad_() for one in (*rows, *whole)]
            with torch.enable_grad(), ctx.precision:
                outputs = blocks.compute(start, stop, inputs[: blocks.rows], inputs[blocks.rows :])
            given = [one[:, :, start:stop] for one in gradients[: far + 1]]
            given += [one[:, :, part] for one, part in zip(gradients[far + 1 :], columns, strict=False)]
            pairs = [(one, gradient) for one, gradient in zip(outputs, given, strict=True) if one.requires_grad]
            results_of, by = zip(*pairs, strict=True)
            found = torch.autograd.grad(results_of, inputs, by, allow_unused=True)
            for k, gradient in enumerate(found):
                if gradient is not None:
                    part = slice(start, stop) if k < blocks.rows else columns[k - blocks.rows]
                    results[k][:, :, part] += gradient
        _set_random_state(now)
        return None, *results


def _random_state(like: Tensor) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(like.device) if like.is_cuda else None


def _set_random_state(state: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])
