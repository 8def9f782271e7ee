"""Products of each word with the word ``x`` rows before it, for the few shifts ``x`` of the near buckets.

Left to autograd every shifted slice has a zero-filled gradient of the whole; here results are written where they
belong, and the sides' gradients by their scores are added to those by their messages in place. The loops over the 2γ
buckets of a band are over large operations: the numbers of one bucket fit a processor's cache, where one operation on
all buckets would go through memory again and again.

:class:`TraceableBand` is the same in plain operations: the text to read, the oracle of the others, and what compiled
and exported graphs are made of, where shapes are symbols and a compiler fuses the passes.

symbol   variable   shape            meaning
u        u          [w, k, c, r]     child side of every word (``potentials.py``)
v        v          [w, k|1, c|1, r] head side; an axis of size 1 is the same for all buckets or channels
D W      weight     [k, c, r]        weight of the child side, where all buckets or all channels share both sides
Q_ic(j)  p          [w, k, c]        probability of the head of bucket k, the k-th of ``shifts``
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models.probabilistic.fast.derivatives import first_derivatives_only
from probtrans_cli.models.probabilistic.projections import Sides


class Band(ABC):
    """The near buckets of one iteration. A band owns their sides, and gives back messages to just these sides."""

    @abstractmethod
    def scores(self) -> Float[Tensor, "w k c"]:
        """``s[i,k,c] = u_i[k,c] · v_{i-x}[k,c]`` with ``x`` the k-th shift; 0 where there is no row ``i - x``."""

    @abstractmethod
    def messages(self, p: Float[Tensor, "w k c"]) -> Sides:
        """``ū_i[k,c] = p[i,k,c] v_{i-x}[k,c]`` and ``v̄_j[k,c] = p[j+x,k,c] u_{j+x}[k,c]``, as messages to the sides:
        summed over the buckets and channels that share one."""


def band(sides: Sides, shifts: Sequence[int], *, by_hand: bool) -> Band:
    """The band of some sides; ``shifts``: the distances of its buckets; ``by_hand``: whether gradients may be."""
    if sides.weight is not None and sides.child.shape[1] > 1:
        return ChannelBand(sides, shifts)
    channels_share = sides.weight is not None and sides.child.shape[2] < sides.weight.shape[1]
    if not by_hand or channels_share:
        return TraceableBand(sides, shifts)
    return _OwnBand(sides, shifts) if sides.weight is None else _SharedBand(sides, shifts)


class TraceableBand(Band):
    """In plain operations."""

    def __init__(self, sides: Sides, shifts: Sequence[int]) -> None:
        self.sides, self.shifts, self.u = sides, shifts, sides.u

    def scores(self) -> Float[Tensor, "w k c"]:
        heads = _by_bucket(self.sides.head, self.shifts)
        buckets = zip(self.u.unbind(1), heads, self.shifts, strict=True)
        return torch.stack([(child * _shifted(head, x)).sum(-1) for child, head, x in buckets], dim=1)

    def messages(self, p: Float[Tensor, "w k c"]) -> Sides:
        u, v = self.u, self.sides.head
        p = p.to(u.dtype)
        buckets = list(zip(p.unbind(1), u.unbind(1), _by_bucket(v, self.shifts), self.shifts, strict=True))
        to_child = torch.stack([one[..., None] * _shifted(head, x) for one, _, head, x in buckets], dim=1)
        to_head = torch.stack([_shifted(one[..., None] * child, -x) for one, child, _, x in buckets], dim=1)
        for axis in (1, 2):
            if v.shape[axis] == 1:
                to_head = to_head.sum(axis, keepdim=True)
        return Sides(self.sides.back(to_child), to_head)


class ChannelBand(Band):
    """The band of sides that all channels share, ``s[i,k,c] = Σ_l W[k,c,l] u_i[k,l] v_{i-x}[k,l]``: multiplied row
    by row, then a product with ``W``, without a tensor of all channels' sides. Messages are those to the shared
    sides, ``(Σ_c p[i,k,c] W[k,c]) v_{i-x}`` and ``(Σ_c p[j+x,k,c] W[k,c]) u_{j+x}``."""

    def __init__(self, sides: Sides, shifts: Sequence[int]) -> None:
        assert sides.weight is not None, "a weight tells the channels apart"
        self.weight, self.shifts = sides.weight, shifts
        self.children = sides.child[:, :, 0].transpose(0, 1)
        heads = sides.head[:, :, 0].unbind(1)
        self.heads = torch.stack([_shifted(head, x) for head, x in zip(heads, shifts, strict=True)])

    def scores(self) -> Float[Tensor, "w k c"]:
        return ((self.children * self.heads) @ self.weight.mT).transpose(0, 1)

    def messages(self, p: Float[Tensor, "w k c"]) -> Sides:
        mixed = p.to(self.children.dtype).transpose(0, 1) @ self.weight
        to_heads = [_shifted(one, -x) for one, x in zip((mixed * self.children).unbind(0), self.shifts, strict=True)]
        to_child = (mixed * self.heads).transpose(0, 1)
        return Sides(to_child[:, :, None], torch.stack(to_heads, dim=1)[:, :, None])


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
        self.head_shape = v.shape[:3]
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
        by_bucket = result.unbind(1)
        for k, i, j in self.pairs:
            pairs = [(u[k][i], v[k][j]) for u, v in sides]
            torch.sum(_products(pairs), dim=-1, out=by_bucket[k][i])
        return result

    def by_child(self, p: Tensor, v: Tensor, into: Tensor | None = None) -> Float[Tensor, "w k c r"]:
        """By ``u``: ``p v`` at every child; added to ``into``, if there is one."""
        if into is not None:
            parts, heads, weights = into.unbind(1), self._heads(v), p[..., None].unbind(1)
            for k, i, j in self.pairs:
                parts[k][i].addcmul_(weights[k][i], heads[k][j])
            return into
        result = self._empty_but(p, v.shape[-1], {k: i for k, i, _ in self.pairs})
        parts, heads, weights = result.unbind(1), self._heads(v), p[..., None].unbind(1)
        for k, i, j in self.pairs:
            torch.mul(weights[k][i], heads[k][j], out=parts[k][i])
        return result

    def by_head(self, p: Tensor, u: Tensor, into: Tensor | None = None) -> Float[Tensor, "w k2 c2 r"]:
        """By ``v``: ``p u`` at every head, summed over what shares a ``v``; added to ``into``, if there is one."""
        if self.one_channel:
            p = p.contiguous()  # or else each word's product is taken by itself
        children, weights = u.unbind(1), p[..., None].unbind(1)
        if into is None and not self.one_bucket and not self.one_channel:
            result = self._empty_but(p, u.shape[-1], {k: j for k, _, j in self.pairs})
            parts = result.unbind(1)
            for k, i, j in self.pairs:
                torch.mul(weights[k][i], children[k][i], out=parts[k][j])
            return result
        result = u.new_zeros(*self.head_shape, u.shape[-1]) if into is None else into
        sums = self._heads(result)
        for k, i, j in self.pairs:
            if self.one_channel:
                sums[k][j].add_(weights[k][i].mT @ children[k][i])
            else:
                sums[k][j].addcmul_(weights[k][i], children[k][i])
        return result

    def _empty_but(self, like: Tensor, rank: int, written: Mapping[int, slice[int, int, None]]) -> Tensor:
        """A tensor to be written at some rows of some buckets; zero everywhere else."""
        result = like.new_empty(*self.shape, rank)
        for k, part in enumerate(result.unbind(1)):
            if k not in written:
                part.zero_()
                continue
            part[: written[k].start].zero_()
            part[written[k].stop :].zero_()
        return result


def _products(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """``Σ u v``, elementwise, over one or two pairs."""
    (u, v), *others = pairs
    product = u * v
    for u, v in others:
        product.addcmul_(u, v)
    return product


class _OwnBand(Band):
    """By hand; every bucket has sides of its own. Scores hand the sides on to the messages, see ``products.py``."""

    def __init__(self, sides: Sides, shifts: Sequence[int]) -> None:
        self.u, self.v = sides.child, sides.head
        self.bands = _Bands(self.u, self.v, shifts)

    def scores(self) -> Float[Tensor, "w k c"]:
        scores: Tensor
        scores, self.u, self.v = _BandScores.apply(self.bands, self.u, self.v)  # type: ignore[no-untyped-call]
        return scores

    def messages(self, p: Float[Tensor, "w k c"]) -> Sides:
        return Sides(*_BandMessages.apply(self.bands, p, self.u, self.v))  # type: ignore[no-untyped-call]


class _BandScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bands: _Bands, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(u, v)
        ctx.bands = bands
        ctx.set_materialize_grads(False)
        return bands.scores((u, v)), u.view_as(u), v.view_as(v)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        u, v = ctx.saved_tensors
        p, by_child, by_head = gradients
        if p is None:
            return None, by_child, by_head
        return None, ctx.bands.by_child(p, v, by_child), ctx.bands.by_head(p, u, by_head)


class _BandMessages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bands: _Bands, p: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(p, u, v)
        ctx.bands = bands
        return bands.by_child(p, v), bands.by_head(p, u)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        # The expected score is linear in each of p, u and v: the derivatives of its derivatives are of the same kind.
        p, u, v = ctx.saved_tensors
        of_child, of_head = gradients
        by_p = ctx.bands.scores((of_child, v), (u, of_head))
        return None, by_p, ctx.bands.by_child(p, of_head), ctx.bands.by_head(p, of_child)


# --- bands of sides that all buckets share ----------------------------------------------------------------------------

CHUNK = 2**18  # numbers of one side that are worked on at a time: a megabyte, which a processor's cache holds


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

    def scores(self, weight: Tensor, u: Tensor, v: Tensor) -> Float[Tensor, "w k c"]:
        """By ``p``: ``u_i · D v_{i-x}``."""
        result = u.new_zeros(self.shape)
        for k, i, j in self.pairs:
            torch.sum((u[i] * v[j]).mul_(weight[k]), dim=-1, out=result[i, k])
        return result

    def by_weight(self, p: Tensor, u: Tensor, v: Tensor) -> Float[Tensor, "k c r"]:
        """By ``D``: ``Σ_i p u_i v_{i-x}``."""
        result = p.new_zeros(*self.shape[1:], u.shape[-1])
        for k, i, j in self.pairs:
            result[k] += (u[i] * v[j]).mul_(p[i, k, :, None]).sum(0)
        return result

    def scores_by_weight(
        self, p: Tensor, weight: Tensor, *terms: tuple[Tensor, Tensor]
    ) -> tuple[Float[Tensor, "w k c"], Float[Tensor, "k c r"]]:
        """:meth:`scores` and :meth:`by_weight`, both summed over pairs ``(u, v)``."""
        scores, by_weight = p.new_zeros(self.shape), torch.zeros_like(weight)
        for k, i, j in self.pairs:
            products = _products([(u[i], v[j]) for u, v in terms])
            torch.sum(products * weight[k], dim=-1, out=scores[i, k])
            by_weight[k] += products.mul_(p[i, k, :, None]).sum(0)
        return scores, by_weight

    def by_sides(
        self, p: Tensor, u: Tensor, v: Tensor, weight: Tensor, into: Sequence[Tensor | None] = (None, None)
    ) -> tuple[Tensor, Tensor]:
        """By ``u`` and by ``v``: ``p D v`` at every child, ``p D u`` at every head; added to ``into``, if given."""
        to_child, to_head = (
            torch.zeros_like(one) if sum is None else sum for one, sum in zip((u, v), into, strict=True)
        )
        for k, i, j in self.pairs:
            scaled = p[i, k, :, None] * weight[k]
            to_child[i].addcmul_(scaled, v[j])
            to_head[j].addcmul_(scaled, u[i])
        return to_child, to_head


class _SharedBand(Band):
    """By hand; all buckets share the sides. Scores hand the sides on to the messages, see ``products.py``."""

    def __init__(self, sides: Sides, shifts: Sequence[int]) -> None:
        assert sides.weight is not None, "a weight tells the buckets apart"
        self.u, self.v, self.weight = sides.child[:, 0], sides.head[:, 0], sides.weight
        self.bands = _SharedBands(self.u, shifts)

    def scores(self) -> Float[Tensor, "w k c"]:
        scores: Tensor
        sides = (self.u, self.v, self.weight)
        scores, self.u, self.v = _SharedScores.apply(self.bands, *sides)  # type: ignore[no-untyped-call]
        return scores

    def messages(self, p: Float[Tensor, "w k c"]) -> Sides:
        sides = (self.u, self.v, self.weight)
        to_child, to_head = _SharedMessages.apply(self.bands, p, *sides)  # type: ignore[no-untyped-call]
        return Sides(to_child[:, None], to_head[:, None])


class _SharedScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bands: _SharedBands, u: Tensor, v: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(u, v, weight)
        ctx.bands = bands
        ctx.set_materialize_grads(False)
        return bands.scores(weight, u, v), u.view_as(u), v.view_as(v)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        u, v, weight = ctx.saved_tensors
        p, by_child, by_head = gradients
        if p is None:
            return None, by_child, by_head, None
        by_sides = ctx.bands.by_sides(p, u, v, weight, (by_child, by_head))
        return None, *by_sides, ctx.bands.by_weight(p, u, v)


class _SharedMessages(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, bands: _SharedBands, p: Tensor, u: Tensor, v: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(p, u, v, weight)
        ctx.bands = bands
        to_child, to_head = bands.by_sides(p, u, v, weight)
        return to_child, to_head

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        p, u, v, weight = ctx.saved_tensors
        of_child, of_head = gradients
        by_p, by_weight = ctx.bands.scores_by_weight(p, weight, (of_child, v), (u, of_head))
        return None, by_p, *ctx.bands.by_sides(p, of_child, of_head, weight), by_weight
