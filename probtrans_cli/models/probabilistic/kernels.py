"""The operations in which a training step spends its time, with gradients written by hand where that pays.

Matrices used many times: a projection serves every iteration twice, forward and back, so its gradient is a sum of
``2 T`` products. Left to autograd each of them is a new matrix, added to the others in a pass of its own; here they are
accumulated by the product itself (:class:`Matrix`).

Bands: products of each word with the word ``x`` rows before it (:func:`band_scores`, :func:`band_messages`). Left to
autograd every shifted slice has a zero-filled gradient; here results are written where they belong. The loops over
the 2γ buckets of a band are over large operations: the numbers of one bucket fit a processor's cache, where one
operation on all buckets would go through memory again and again.

``traceable_*`` are the same bands in plain operations: the text to read, the oracle of the others, and what compiled
and exported graphs are made of, where shapes are symbols and a compiler fuses the passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional


def by_hand(tensor: Tensor) -> bool:
    """Whether the gradients written here are to be used: eagerly, on a CPU, in one precision."""
    return (
        tensor.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and type(tensor) in (Tensor, nn.Parameter)
        and not torch.is_autocast_enabled("cpu")
    )


# --- matrices ---------------------------------------------------------------------------------------------------------


class Matrix:
    """A matrix ``[o, d]`` that is multiplied with many times: ``times(x) = x Mᵀ`` and ``back(y) = y M``."""

    def __init__(self, matrix: Float[Tensor, "o d"]) -> None:
        fused = matrix.requires_grad and torch.is_grad_enabled() and by_hand(matrix)
        self.gradient = _Gradient(matrix) if fused else None
        self.matrix: Tensor = matrix if self.gradient is None else _Accumulated.apply(matrix, self.gradient)  # type: ignore[no-untyped-call]

    def split(self, sizes: Sequence[int]) -> list[Matrix]:
        """The matrix cut into groups of rows. (Split, not sliced: a slice's gradient is zero-filled to the whole.)"""
        parts, start = [], 0
        for size, matrix in zip(sizes, torch.split(self.matrix, list(sizes)), strict=True):
            part = Matrix.__new__(Matrix)
            part.matrix = matrix
            part.gradient = None if self.gradient is None else self.gradient.part(start, start + size)
            parts.append(part)
            start += size
        return parts

    def times(self, rows: Float[Tensor, "w d"]) -> Float[Tensor, "w o"]:
        """From the narrow side to the wide one."""
        if self.gradient is None:
            return functional.linear(rows, self.matrix)
        result: Tensor = _Times.apply(rows, self.matrix, self.gradient)  # type: ignore[no-untyped-call]
        return result

    def back(self, rows: Float[Tensor, "w o"]) -> Float[Tensor, "w d"]:
        """From the wide side to the narrow one."""
        if self.gradient is None:
            return rows @ self.matrix
        result: Tensor = _Back.apply(rows, self.matrix, self.gradient)  # type: ignore[no-untyped-call]
        return result


class _Gradient:
    """The gradient of a matrix while its products add to it, in one backward pass; or some rows of it."""

    def __init__(self, matrix: Tensor) -> None:
        self.like = matrix.detach()
        self.whole, self.rows = self, slice(None)
        self.total: Tensor | None = None
        self.task = -1

    def part(self, start: int, stop: int) -> _Gradient:
        """The rows ``start..stop``."""
        part = _Gradient.__new__(_Gradient)
        part.whole, part.rows = self.whole, slice(start, stop)
        return part

    def add(self, wide: Float[Tensor, "w o"], narrow: Float[Tensor, "w d"]) -> None:
        """Add ``wideᵀ narrow``. What an earlier backward pass left behind, which did not ask for it, is forgotten."""
        whole, task = self.whole, torch._C._current_graph_task_id()
        if whole.total is None or whole.task != task:
            whole.total, whole.task = torch.zeros_like(whole.like), task
        whole.total[self.rows].addmm_(wide.T, narrow)

    def take(self) -> Tensor | None:
        """What was added in this backward pass."""
        total = self.total if self.task == torch._C._current_graph_task_id() else None
        self.total = None
        return total


class _Accumulated(torch.autograd.Function):
    """The matrix itself; its gradient is what all its products have added up."""

    @staticmethod
    def forward(ctx: FunctionCtx, matrix: Tensor, gradient: _Gradient) -> Tensor:
        ctx.gradient = gradient  # type: ignore[attr-defined]
        ctx.set_materialize_grads(False)  # type: ignore[attr-defined]
        return matrix.view_as(matrix)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        # The products pass no gradient on; they are connected to this only for it to come after all of them.
        assert gradients == (None,), "a matrix is used in products only"
        return ctx.gradient.take(), None


class _Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, matrix: Tensor, gradient: _Gradient) -> Tensor:
        ctx.save_for_backward(rows, matrix)
        ctx.gradient = gradient  # type: ignore[attr-defined]
        return rows @ matrix.T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None]:
        rows, matrix = ctx.saved_tensors
        ctx.gradient.add(gradients[0], rows)
        return (gradients[0] @ matrix if ctx.needs_input_grad[0] else None), None, None


class _Back(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, matrix: Tensor, gradient: _Gradient) -> Tensor:
        ctx.save_for_backward(rows, matrix)
        ctx.gradient = gradient  # type: ignore[attr-defined]
        return rows @ matrix

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None]:
        rows, matrix = ctx.saved_tensors
        ctx.gradient.add(rows, gradients[0])
        return (gradients[0] @ matrix.T if ctx.needs_input_grad[0] else None), None, None


# --- bands ------------------------------------------------------------------------------------------------------------


def band_scores(
    u: Float[Tensor, "w k c r"], v: Float[Tensor, "w k2 c2 r"], shifts: Sequence[int]
) -> Float[Tensor, "w k c"]:
    """``s[i,k,c] = u_i[k,c] · v_{i-x}[k,c]`` with ``x`` the k-th of ``shifts``; 0 where there is no row ``i - x``."""
    if not by_hand(u):
        return traceable_band_scores(u, v, shifts)
    scores: Tensor = _BandScores.apply(u, v, tuple(shifts))  # type: ignore[no-untyped-call]
    return scores


def band_messages(
    p: Float[Tensor, "w k c"], u: Float[Tensor, "w k c r"], v: Float[Tensor, "w k2 c2 r"], shifts: Sequence[int]
) -> tuple[Float[Tensor, "w k c r"], Float[Tensor, "w k2 c2 r"]]:
    """``ū_i[k,c] = p[i,k,c] v_{i-x}[k,c]`` and ``v̄_j[k,c] = p[j+x,k,c] u_{j+x}[k,c]``, summed where ``v`` is shared."""
    if not by_hand(u):
        return traceable_band_messages(p, u, v, shifts)
    messages: tuple[Tensor, Tensor] = _BandMessages.apply(p, u, v, tuple(shifts))  # type: ignore[no-untyped-call]
    return messages


def traceable_band_scores(u: Tensor, v: Tensor, shifts: Sequence[int]) -> Float[Tensor, "w k c"]:
    """:func:`band_scores` in plain operations."""
    buckets = zip(u.unbind(1), _by_bucket(v, shifts), shifts, strict=True)
    return torch.stack([(child * _shifted(head, x)).sum(-1) for child, head, x in buckets], dim=1)


def traceable_band_messages(p: Tensor, u: Tensor, v: Tensor, shifts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """:func:`band_messages` in plain operations."""
    p = p.to(u.dtype)
    buckets = list(zip(p.unbind(1), u.unbind(1), _by_bucket(v, shifts), shifts, strict=True))
    to_child = [one[..., None] * _shifted(head, x) for one, _, head, x in buckets]
    to_head = [_shifted(one[..., None] * child, -x) for one, child, _, x in buckets]
    summed = torch.stack(to_head, dim=1)
    for axis in (1, 2):
        if v.shape[axis] == 1:
            summed = summed.sum(axis, keepdim=True)
    return torch.stack(to_child, dim=1), summed


def _by_bucket(v: Tensor, shifts: Sequence[int]) -> Sequence[Tensor]:
    return v.unbind(1) if v.shape[1] > 1 else [v[:, 0]] * len(shifts)


def _shifted(rows: Float[Tensor, "w ..."], x: int) -> Float[Tensor, "w ..."]:
    """Row ``i`` is what was row ``i - x``; zero where there was none."""
    ends = (x, 0) if x > 0 else (0, -x)
    padded = functional.pad(rows, (0, 0) * (rows.dim() - 1) + ends)
    return padded[: rows.shape[0]] if x > 0 else padded[-x:]


class _Bands:
    """The three derivatives of ``Σ p[i,k,c] u_i[k,c] · v_{i-x}[k,c]``; ``v`` may be shared by buckets or channels."""

    def __init__(self, u: Tensor, v: Tensor, shifts: Sequence[int]) -> None:
        rows, buckets, channels, _ = u.shape
        self.shape = (rows, buckets, channels)
        self.one_bucket, self.one_channel = v.shape[1] < buckets, v.shape[2] < channels
        # Bucket, children, heads; none where the shift is longer than the sentences.
        self.pairs = [
            (k, slice(max(x, 0), rows + min(x, 0)), slice(max(-x, 0), rows + min(-x, 0)))
            for k, x in enumerate(shifts)
            if abs(x) < rows
        ]

    def _heads(self, v: Tensor) -> Sequence[Tensor]:
        return [v[:, 0]] * self.shape[1] if self.one_bucket else v.unbind(1)

    def scores(self, *terms: tuple[Tensor, Tensor]) -> Float[Tensor, "w k c"]:
        """By ``p``: ``u_i · v_{i-x}``, summed over pairs ``(u, v)``."""
        result = terms[0][0].new_zeros(self.shape)
        sides = [(u.unbind(1), self._heads(v)) for u, v in terms]
        for (k, i, j), scores in zip(self.pairs, (result.unbind(1)[k] for k, _, _ in self.pairs), strict=True):
            if self.one_channel:  # a product with each word's matrix
                scores[i] = _total([u[k][i] @ v[k][j].mT for u, v in sides])[..., 0]
                continue
            product = sides[0][0][k][i] * sides[0][1][k][j]
            for u, v in sides[1:]:
                product.addcmul_(u[k][i], v[k][j])
            torch.sum(product, dim=-1, out=scores[i])
        return result

    def by_child(self, p: Tensor, v: Tensor) -> Float[Tensor, "w k c r"]:
        """By ``u``: ``p v`` at every child."""
        result = self._empty_but(p, v.shape[-1], 1)
        parts, heads = result.unbind(1), self._heads(v)
        for (k, i, j), weight in zip(self.pairs, self._weights(p), strict=True):
            torch.mul(weight, heads[k][j], out=parts[k][i])
        return result

    def by_head(self, p: Tensor, u: Tensor) -> Float[Tensor, "w k2 c2 r"]:
        """By ``v``: ``p u`` at every head, summed over what shares a ``v``."""
        children = u.unbind(1)
        if not self.one_bucket and not self.one_channel:
            result = self._empty_but(p, u.shape[-1], 2)
            parts = result.unbind(1)
            for (k, i, j), weight in zip(self.pairs, self._weights(p), strict=True):
                torch.mul(weight, children[k][i], out=parts[k][j])
            return result
        rows, buckets, channels = self.shape
        result = u.new_zeros(rows, 1 if self.one_bucket else buckets, 1 if self.one_channel else channels, u.shape[-1])
        parts = self._heads(result)
        for (k, i, j), weight in zip(self.pairs, self._weights(p), strict=True):
            if self.one_channel:
                parts[k][j].add_(weight.mT @ children[k][i])
            else:
                parts[k][j].addcmul_(weight, children[k][i])
        return result

    def _weights(self, p: Tensor) -> list[Tensor]:
        """``p [m, c, 1]`` of every pair."""
        buckets = p[..., None].unbind(1)
        return [buckets[k][i] for k, i, _ in self.pairs]

    def _empty_but(self, like: Tensor, rank: int, side: int) -> Tensor:
        """A tensor to be written at the pairs' children (side 1) or heads (2); zero where no pair writes."""
        result = like.new_empty(*self.shape, rank)
        parts = result.unbind(1)
        for k in set(range(self.shape[1])) - {pair[0] for pair in self.pairs}:
            parts[k].zero_()
        for pair in self.pairs:
            part, rows = parts[pair[0]], pair[side]
            part[: rows.start].zero_()
            part[rows.stop :].zero_()
        return result


def _total(terms: Sequence[Tensor]) -> Tensor:
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]


class _BandScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, u: Tensor, v: Tensor, shifts: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(u, v)
        ctx.bands = bands = _Bands(u, v, shifts)  # type: ignore[attr-defined]
        return bands.scores((u, v))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        u, v = ctx.saved_tensors
        return ctx.bands.by_child(gradients[0], v), ctx.bands.by_head(gradients[0], u), None


class _BandMessages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, p: Tensor, u: Tensor, v: Tensor, shifts: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(p, u, v)
        ctx.bands = bands = _Bands(u, v, shifts)  # type: ignore[attr-defined]
        return bands.by_child(p, v), bands.by_head(p, u)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        # The expected score is linear in each of p, u and v: the derivatives of its derivatives are of the same kind.
        p, u, v = ctx.saved_tensors
        of_child, of_head = gradients
        by_p = ctx.bands.scores((of_child, v), (u, of_head))
        return by_p, ctx.bands.by_child(p, of_head), ctx.bands.by_head(p, of_child), None


# --- bands of sides that all buckets share ----------------------------------------------------------------------------

CHUNK = 2**18  # numbers of one side that are worked on at a time: a megabyte, which a processor's cache holds


def shared_band_scores(
    u: Float[Tensor, "w c r"], v: Float[Tensor, "w c r"], weight: Float[Tensor, "k c r"], shifts: Sequence[int]
) -> Float[Tensor, "w k c"]:
    """``s[i,k,c] = Σ_l u_i[c,l] D[k,c,l] v_{i-x}[c,l]``: :func:`band_scores` without a tensor of all buckets' sides."""
    if not by_hand(u):
        return traceable_band_scores(u[:, None] * weight, v[:, None], shifts)
    scores: Tensor = _SharedScores.apply(u, v, weight, tuple(shifts))  # type: ignore[no-untyped-call]
    return scores


def shared_band_messages(
    p: Float[Tensor, "w k c"],
    u: Float[Tensor, "w c r"],
    v: Float[Tensor, "w c r"],
    weight: Float[Tensor, "k c r"],
    shifts: Sequence[int],
) -> tuple[Float[Tensor, "w c r"], Float[Tensor, "w c r"]]:
    """``ū_i = Σ_k p[i,k] D[k] v_{i-x}`` and ``v̄_j = Σ_k p[j+x,k] D[k] u_{j+x}``, channel by channel."""
    if not by_hand(u):
        to_child, to_head = traceable_band_messages(p, u[:, None] * weight, v[:, None], shifts)
        return (to_child * weight).sum(1), to_head[:, 0]
    messages: tuple[Tensor, Tensor] = _SharedMessages.apply(p, u, v, weight, tuple(shifts))  # type: ignore[no-untyped-call]
    return messages


class _SharedBands:
    """Derivatives of ``Σ p[i,k,c] u_i[c] · D[k,c] v_{i-x}[c]``, chunk by chunk of children."""

    def __init__(self, u: Tensor, shifts: Sequence[int]) -> None:
        self.shape = (len(u), len(shifts), u.shape[1])
        size = max(1, CHUNK // max(1, u[0].numel())) if len(u) else 1
        self.pairs = []
        for start in range(0, len(u), size):
            for k, x in enumerate(shifts):
                first, last = max(start, x), min(start + size, len(u), len(u) + x)
                if first < last:
                    self.pairs.append((k, slice(first, last), slice(first - x, last - x)))

    def scores(self, weight: Tensor, *terms: tuple[Tensor, Tensor]) -> Float[Tensor, "w k c"]:
        """By ``p``: ``u_i · D v_{i-x}``, summed over pairs ``(u, v)``."""
        result = terms[0][0].new_zeros(self.shape)
        for k, i, j in self.pairs:
            torch.sum(self._products(i, j, *terms).mul_(weight[k]), dim=-1, out=result[i, k])
        return result

    def by_weight(self, p: Tensor, *terms: tuple[Tensor, Tensor]) -> Float[Tensor, "k c r"]:
        """By ``D``: ``Σ_i p u_i v_{i-x}``, summed over pairs ``(u, v)``."""
        result = p.new_zeros(*self.shape[1:], terms[0][0].shape[-1])
        for k, i, j in self.pairs:
            result[k] += self._products(i, j, *terms).mul_(p[i, k, :, None]).sum(0)
        return result

    def by_sides(self, p: Tensor, u: Tensor, v: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """By ``u`` and by ``v``: ``p D v`` at every child, ``p D u`` at every head."""
        to_child, to_head = torch.zeros_like(u), torch.zeros_like(v)
        for k, i, j in self.pairs:
            scaled = p[i, k, :, None] * weight[k]
            to_child[i].addcmul_(scaled, v[j])
            to_head[j].addcmul_(scaled, u[i])
        return to_child, to_head

    @staticmethod
    def _products(i: slice, j: slice, *terms: tuple[Tensor, Tensor]) -> Tensor:
        (u, v), *others = terms
        product = u[i] * v[j]
        for u, v in others:
            product.addcmul_(u[i], v[j])
        return product


class _SharedScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, u: Tensor, v: Tensor, weight: Tensor, shifts: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(u, v, weight)
        ctx.bands = bands = _SharedBands(u, shifts)  # type: ignore[attr-defined]
        return bands.scores(weight, (u, v))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        u, v, weight = ctx.saved_tensors
        (p,) = gradients
        return *ctx.bands.by_sides(p, u, v, weight), ctx.bands.by_weight(p, (u, v)), None


class _SharedMessages(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, p: Tensor, u: Tensor, v: Tensor, weight: Tensor, shifts: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(p, u, v, weight)
        ctx.bands = bands = _SharedBands(u, shifts)  # type: ignore[attr-defined]
        return bands.by_sides(p, u, v, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        p, u, v, weight = ctx.saved_tensors
        of_child, of_head = gradients
        terms = ((of_child, v), (u, of_head))
        by_child, by_head = ctx.bands.by_sides(p, of_child, of_head, weight)
        return ctx.bands.scores(weight, *terms), by_child, by_head, ctx.bands.by_weight(p, *terms), None


# --- products of pairs of words ---------------------------------------------------------------------------------------


def transposed(v: Float[Tensor, "*b n r"]) -> Float[Tensor, "*b r n"] | None:
    """``vᵀ``, for the products below; a constant. None where they do without.

    Small products with a transposed second factor run three times slower on a CPU than a copy and a plain product.
    """
    return v.detach().mT.contiguous() if by_hand(v) else None


def scores_of(u: Float[Tensor, "*b m r"], v: Float[Tensor, "*b n r"], v_t: Tensor | None) -> Float[Tensor, "*b m n"]:
    """``u vᵀ``, for many small matrices; ``v_t`` is :func:`transposed`."""
    if v_t is None:
        return u @ v.mT
    scores: Tensor = _Scores.apply(u, v, v_t)  # type: ignore[no-untyped-call]
    return scores


def messages_of(
    p: Float[Tensor, "*b m n"], u: Float[Tensor, "*b m r"], v: Float[Tensor, "*b n r"], v_t: Tensor | None
) -> tuple[Float[Tensor, "*b m r"], Float[Tensor, "*b n r"]]:
    """``p v`` and ``pᵀ u``, for many small matrices; ``v_t`` is :func:`transposed`."""
    if v_t is None:
        return p @ v, p.mT @ u
    messages: tuple[Tensor, Tensor] = _Messages.apply(p, u, v, v_t)  # type: ignore[no-untyped-call]
    return messages


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, u: Tensor, v: Tensor, v_t: Tensor) -> Tensor:
        ctx.save_for_backward(u, v)
        return u @ v_t

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        u, v = ctx.saved_tensors
        (gradient,) = gradients
        return gradient @ v, gradient.mT @ u, None


class _Messages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, p: Tensor, u: Tensor, v: Tensor, v_t: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(p, u, v_t)
        return p @ v, p.mT @ u

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        p, u, v_t = ctx.saved_tensors
        to_child, to_head = gradients
        by_p = to_child @ v_t
        flat = by_p.flatten(0, -3)
        flat.baddbmm_(u.flatten(0, -3), to_head.mT.contiguous().flatten(0, -3))
        return by_p, p @ to_head, p.mT @ to_child, None


# --- dropout ----------------------------------------------------------------------------------------------------------


class Dropout(nn.Module):
    """Inverted dropout with probability ``p``. On a CPU four decisions come out of one 64-bit random number, which is
    three times faster than one draw each; ``p`` is then a multiple of 2^-16."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, values: Tensor) -> Tensor:
        """``values`` with each of them zero with probability ``p``, the others divided by ``1 - p``; in training."""
        if not self.training or self.p == 0.0:
            return values
        if not by_hand(values):
            return functional.dropout(values, self.p)
        bits = torch.empty(values.numel() // 4 + 1, dtype=torch.int64).random_(-(2**63), None)
        drawn = bits.view(torch.int16)[: values.numel()].view(values.shape)
        kept = drawn < round((1.0 - self.p) * 2**16) - 2**15
        return values * kept.to(values.dtype).div_(1.0 - self.p)
