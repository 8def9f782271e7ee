"""Head variables without a matrix of all pairs: memory grows with the length of a sentence, not with its square.

The rows of a block (``blocks.py``) are computed with all their iterations when they are needed, forward and backward
(``F`` depends on the labels alone), and give their share of the messages at once:

    for each block:   M, Q_H of its rows  →  ū of its rows, its share of v̄ of all words  →  forgotten

This is the form for every option and device; where an iteration forgets the ones before, on a CPU, ``fused.py`` does
the same by hand. It is ``torch.utils.checkpoint`` for blocks; that would give every block a gradient of the whole sides
and takes up to a quarter more time (``python -m tests.bench.parts recompute``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.banded import BandedMessages, BandedSides
from probtrans_cli.models.probabilistic.fast.blocks import Blocks, random_state, set_random_state
from probtrans_cli.models.probabilistic.fast.derivatives import first_derivatives_only
from probtrans_cli.models.probabilistic.fast.dropout import Dropout
from probtrans_cli.models.probabilistic.fast.head_variables import HeadVariables, over
from probtrans_cli.models.probabilistic.inference import Inference

BLOCK = 2**20  # numbers in a block of rows of head scores


class RecomputedHeads(HeadVariables):
    """Nothing of the size of all pairs is kept."""

    messages: BandedMessages

    def __init__(
        self, messages: BandedMessages, extra: int, inference: Inference, dropout: Dropout, dtype: torch.dtype
    ) -> None:
        super().__init__(messages, extra, inference, dropout, dtype)
        # Sides and short scores of the iterations that are still needed.
        self.history: list[tuple[BandedSides, Tensor]] = []
        self.blocks = Blocks.of(messages, self.extra_allowed, inference.channels, BLOCK)

    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"], only: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "w c e"]]:
        sides = self.messages.sides(labels)
        short = self.messages.short(sides, extra)
        self.history.append((sides, short))
        used = self.history if self.inference.asynchronous else self.history[:-1]
        if self.how.forgets:
            used = used[-1:]
            del self.history[:-1]
        far = len(sides.far)
        block = _Rows(self.blocks, self.inference, self.dropout, len(used))
        tensors = [one.child for one in sides.far]
        tensors += [one for theirs, columns in used for one in (columns, *(part.child for part in theirs.far))]
        block.rows = len(tensors)
        tensors += [one.head for one in sides.far]
        tensors += [part.head for theirs, _ in used for part in theirs.far]
        used_short, *parts = _InBlocks.apply(block, *tensors)  # type: ignore[no-untyped-call]
        return self.messages.from_short(sides, used_short, (parts[:far], parts[far:]), only)


@dataclass
class _Rows:
    """What is computed of a block. Holds nothing that has a gradient: the graph holds this.

    ``iterations``: how many lead to the distributions; ``rows``: how many of the tensors are cut into blocks, the
    others are whole.
    """

    blocks: Blocks
    inference: Inference
    dropout: Dropout
    iterations: int
    rows: int = 0

    def compute(self, start: int, stop: int, rows: Sequence[Tensor], whole: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Distributions over the short columns, ``ū`` of the block's children, and ``v̄`` of their far heads.

        ``rows``: child sides now, then short scores and child sides of every iteration; ``whole``: the head sides now
        and of every iteration, of the block's columns.
        """
        how, far_buckets = self.inference.heads, self.blocks.far
        columns = self.blocks.columns(start, stop)
        allowed = self.blocks.allowed(start, stop)
        message: Tensor | None = None
        probabilities: Tensor | None = None
        for t in range(self.iterations):
            short, *children = rows[far_buckets + t * (far_buckets + 1) :][: far_buckets + 1]
            heads = whole[far_buckets * (t + 1) :][:far_buckets]
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
        *far, short = torch.split(used, [*sizes, self.blocks.short], dim=-1)
        to_child = [p.to(v.dtype) @ v for p, v in zip(far, whole, strict=False)]
        to_head = [p.to(u.dtype).mT @ u for p, u in zip(far, rows, strict=False)]
        return (short, *to_child, *(_like(part, v) for part, v in zip(to_head, whole, strict=False)))

    def cut(self, tensors: Sequence[Tensor], start: int, stop: int) -> tuple[list[Tensor], list[Tensor], list[slice]]:
        """The rows and the columns of a block, and which columns."""
        columns = self.blocks.columns(start, stop) * (self.iterations + 1)
        rows = [tensor[:, :, start:stop] for tensor in tensors[: self.rows]]
        return rows, [t[:, :, one] for t, one in zip(tensors[self.rows :], columns, strict=True)], columns


def _like(message: Tensor, side: Tensor) -> Tensor:
    """A message summed over channels where the side has but one."""
    return message if side.shape[1] == message.shape[1] else message.sum(1, keepdim=True)


class _InBlocks(torch.autograd.Function):
    """All blocks, one after the other; what is between the inputs and the outputs of a block is computed again for
    its gradient, with the same random numbers."""

    @staticmethod
    def forward(ctx: Any, block: _Rows, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*tensors)
        ctx.block, ctx.random = block, []
        kind = tensors[0].device.type
        ctx.precision = torch.autocast(
            kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind)
        )
        batch, channels, n, _ = tensors[0].shape
        far = block.blocks.far
        used = tensors[0].new_empty(batch, channels, n, block.blocks.short)
        to_child = [torch.empty_like(one) for one in tensors[:far]]
        to_head = [torch.zeros_like(one) for one in tensors[block.rows : block.rows + far]]
        for start, stop in block.blocks.bounds:
            ctx.random.append(random_state(tensors[0]))
            rows, whole, columns = block.cut(tensors, start, stop)
            short, *parts = block.compute(start, stop, rows, whole)
            used[:, :, start:stop] = short
            for k in range(far):
                to_child[k][:, :, start:stop] = parts[k]
                to_head[k][:, :, columns[k]] += parts[far + k]
        return (used, *to_child, *to_head)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tensors, block = ctx.saved_tensors, ctx.block
        far = block.blocks.far
        results = [torch.zeros_like(tensor) for tensor in tensors]
        now = random_state(tensors[0])
        for (start, stop), state in zip(block.blocks.bounds, ctx.random, strict=True):
            set_random_state(state)
            rows, whole, columns = block.cut(tensors, start, stop)
            inputs = [one.detach().requires_grad_() for one in (*rows, *whole)]
            with torch.enable_grad(), ctx.precision:
                outputs = block.compute(start, stop, inputs[: block.rows], inputs[block.rows :])
            given = [one[:, :, start:stop] for one in gradients[: far + 1]]
            given += [one[:, :, part] for one, part in zip(gradients[far + 1 :], columns, strict=False)]
            pairs = [(one, gradient) for one, gradient in zip(outputs, given, strict=True) if one.requires_grad]
            results_of, by = zip(*pairs, strict=True)
            parts = torch.autograd.grad(results_of, inputs, by, allow_unused=True)
            for k, gradient in enumerate(parts):
                if gradient is not None:
                    part = slice(start, stop) if k < block.rows else columns[k - block.rows]
                    results[k][:, :, part] += gradient
        set_random_state(now)
        return None, *results
