"""Products of each word with the word ``x`` rows before it, for the few shifts ``x`` of the near buckets.

Left to autograd every shifted slice has a zero-filled gradient of the whole, and every product is kept: a step with
`shared` takes half as long again. Here results are written where they belong. The loops over the 2γ buckets of a band
are over large operations: the numbers of one bucket fit a processor's cache, where one operation on all buckets would
go through memory again and again.

:class:`TraceableBand` is the same in plain operations: the text to read, the oracle of the others, and what compiled
and exported graphs are made of, where shapes are symbols and a compiler fuses the passes.

symbol   variable   shape            meaning
u        u          [w, k|1, c, r]   child side of every word (``potentials.py``)
v        v          [w, k|1, c|1, r] head side; an axis of size 1 is the same for all buckets or channels
D W      weight     [k, c, r]        weight of the child side, where all buckets or all channels share both sides
Q_ic(j)  p          [w, k, c]        probability of the head of bucket k, the k-th of ``shifts``
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models.arithmetic import may_depend_on
from probtrans_cli.models.probabilistic.projections import Sides

CHUNK = 2**18  # numbers of one side that are worked on at a time: a megabyte, which a processor's cache holds


class Products(NamedTuple):
    """The products of which all results of a band, and all their derivatives, are: those of a CPU here, :func:`_by_p`
    and :func:`_by_sides`; those of a GPU in ``triton_bands.py``."""

    by_p: Callable[..., tuple[Tensor, Tensor | None]]
    by_sides: Callable[..., tuple[Tensor, Tensor]]


def band(sides: Sides, shifts: Sequence[int]) -> Band:
    """Return the band of some sides; ``shifts``: the distances of its buckets."""
    if sides.weight is not None and sides.child.shape[1] > 1:
        return ChannelBand(sides, shifts)
    channels_share = sides.weight is not None and sides.child.shape[2] < sides.weight.shape[1]
    eager = may_depend_on(sides.child) and type(sides.child) is Tensor and not torch.is_autocast_enabled("cpu")
    return ByHandBand(sides, shifts, PRODUCTS) if eager and not channels_share else TraceableBand(sides, shifts)


class TraceableBand:
    """In plain operations."""

    def __init__(self, sides: Sides, shifts: Sequence[int]) -> None:
        self.sides, self.shifts, self.u = sides, shifts, sides.u

    def scores(self) -> Float[Tensor, "w k c"]:
        """Return ``s[i,k,c] = u_i[k,c] · v_{i-x}[k,c]``, ``x`` the k-th shift; 0 where there is no row ``i - x``."""
        heads = _buckets(self.sides.head, self.shifts)
        buckets = zip(self.u.unbind(1), heads, self.shifts, strict=True)
        return torch.stack([(child * _shifted(head, x)).sum(-1) for child, head, x in buckets], dim=1)

    def messages(self, p: Float[Tensor, "w k c"]) -> Sides:
        """Return ``ū_i[k,c] = p[i,k,c] v_{i-x}[k,c]`` and ``v̄_j[k,c] = p[j+x,k,c] u_{j+x}[k,c]``.

        They are messages to the sides: summed over the buckets and channels that share one.
        """
        u, v = self.u, self.sides.head
        p = p.to(u.dtype)
        buckets = list(zip(p[..., None].unbind(1), u.unbind(1), _buckets(v, self.shifts), self.shifts, strict=True))
        to_child = torch.stack([weight * _shifted(head, x) for weight, _, head, x in buckets], dim=1)
        to_head = torch.stack([_shifted(weight * child, -x) for weight, child, _, x in buckets], dim=1)
        for axis in (1, 2):
            if v.shape[axis] == 1:
                to_head = to_head.sum(axis, keepdim=True)
        return Sides(self.sides.back(to_child), to_head)


class ChannelBand:
    """The band of sides that all channels share, ``s[i,k,c] = Σ_l W[k,c,l] u_i[k,l] v_{i-x}[k,l]``.

    No tensor of all channels' sides arises: messages are those to the shared sides, ``(Σ_c p[i,k,c] W[k,c]) v_{i-x}``
    and ``(Σ_c p[j+x,k,c] W[k,c]) u_{j+x}``.
    """

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
        to_heads = [_shifted(part, -x) for part, x in zip((mixed * self.children).unbind(0), self.shifts, strict=True)]
        to_child = (mixed * self.heads).transpose(0, 1)
        return Sides(to_child[:, :, None], torch.stack(to_heads, dim=1)[:, :, None])


def _shifted(rows: Float[Tensor, "w ..."], x: int) -> Float[Tensor, "w ..."]:
    """Row ``i`` is what was row ``i - x``; zero where there was none."""
    ends = (x, 0) if x > 0 else (0, -x)
    padded = functional.pad(rows, (0, 0) * (rows.dim() - 1) + ends)
    return padded[: rows.shape[0]] if x > 0 else padded[-x:]


@dataclass
class ByHandBand:
    """With gradients written by hand.

    The expected score ``Σ p[i,k,c] u_i[k,c] · D[k,c] v_{i-x}[k,c]`` is linear in each of p, u, v and D: its
    derivatives, which are scores and messages, have derivatives of the same kind.
    """

    sides: Sides
    shifts: Sequence[int]
    products: Products

    def scores(self) -> Float[Tensor, "w k c"]:
        scores: Tensor = _Scores.apply(self.products, self.shifts, *self.sides)  # type: ignore[no-untyped-call]
        return scores

    def messages(self, p: Float[Tensor, "w k c"]) -> Sides:
        return Sides(*_Messages.apply(self.products, self.shifts, p, *self.sides))  # type: ignore[no-untyped-call]


Band = TraceableBand | ChannelBand | ByHandBand
"""The near buckets of one iteration. A band owns their sides, and gives back messages to just these sides."""


def first_derivatives_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Let a ``backward`` of a :class:`torch.autograd.Function` refuse to be part of a graph.

    (That of torch, ``once_differentiable``, lets :func:`torch.autograd.grad` go on without this part: a wrong result.)

    Raises:
        RuntimeError: with ``create_graph=True``.
    """

    @wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("gradients are written by hand here, and have no derivatives: without create_graph=True")
        return backward(ctx, *gradients)

    return checked


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, products: Products, shifts: Sequence[int], u: Tensor, v: Tensor, weight: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(u, v, weight)
        ctx.products, ctx.shifts = products, shifts
        return products.by_p(shifts, weight, (u, v))[0]

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        u, v, weight = ctx.saved_tensors
        (p,) = gradients
        by_weight = None if weight is None else ctx.products.by_p(ctx.shifts, weight, (u, v), p=p)[1]
        return None, None, *ctx.products.by_sides(ctx.shifts, p, u, v, weight), by_weight


class _Messages(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, products: Products, shifts: Sequence[int], p: Tensor, u: Tensor, v: Tensor, weight: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(p, u, v, weight)
        ctx.products, ctx.shifts = products, shifts
        return products.by_sides(shifts, p, u, v, weight)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        p, u, v, weight = ctx.saved_tensors
        by_child, by_head = gradients
        by_p, by_weight = ctx.products.by_p(ctx.shifts, weight, (by_child, v), (u, by_head), p=p)
        by_u, by_v = ctx.products.by_sides(ctx.shifts, p, by_child, by_head, weight)
        return None, None, by_p, by_u, by_v, by_weight


def _buckets(side: Tensor, shifts: Sequence[int]) -> Sequence[Tensor]:
    return side.unbind(1) if side.shape[1] > 1 else [side[:, 0]] * len(shifts)


def _unwritten(like: Tensor, shifts: Sequence[int]) -> Tensor:
    """Return a tensor that is zero where there is no row ``i - x``; all of it, where the buckets share a side."""
    if like.shape[1] == 1:
        return torch.zeros_like(like)
    result = torch.empty_like(like)
    for part, x in zip(result.unbind(1), shifts, strict=True):
        part[: max(x, 0)].zero_()
        part[max(len(part) + min(x, 0), 0) :].zero_()
    return result


def _parts(u: Tensor, shifts: Sequence[int]) -> Iterator[tuple[int, slice[int, int, None], slice[int, int, None]]]:
    """Yield a bucket, some children, and their heads; chunk by chunk of children, where the buckets share sides."""
    rows = u.shape[0]
    size = max(1, CHUNK // u[0].numel() if rows and u.shape[1] == 1 else rows)
    for start in range(0, rows, size):
        for k, x in enumerate(shifts):
            first, last = max(start, x), min(start + size, rows, rows + x)
            if first < last:
                yield k, slice(first, last), slice(first - x, last - x)


def _by_p(
    shifts: Sequence[int], weight: Tensor | None, *terms: tuple[Tensor, Tensor], p: Tensor | None = None
) -> tuple[Float[Tensor, "w k c"], Float[Tensor, "k c r"] | None]:
    """Return the derivatives by ``p``, ``u_i · D v_{i-x}``, and, for a ``p``, by ``D``, ``Σ_i p u_i v_{i-x}``.

    Both are sums over the ``terms`` (u, v).
    """
    u = terms[0][0]
    scores = u.new_zeros(u.shape[0], len(shifts), u.shape[2])
    by_weight = None if weight is None or p is None else torch.zeros_like(weight)
    sides = [(_buckets(u, shifts), _buckets(v, shifts)) for u, v in terms]
    for k, i, j in _parts(u, shifts):
        product = sides[0][0][k][i] * sides[0][1][k][j]
        for children, heads in sides[1:]:
            product.addcmul_(children[k][i], heads[k][j])
        torch.sum(product if weight is None else product * weight[k], dim=-1, out=scores[i, k])
        if p is not None and by_weight is not None:
            by_weight[k] += product.mul_(p[i, k, :, None]).sum(0)
    return scores, by_weight


def _by_sides(
    shifts: Sequence[int], p: Tensor, u: Tensor, v: Tensor, weight: Tensor | None
) -> tuple[Float[Tensor, "w k2 c r"], Float[Tensor, "w k3 c3 r"]]:
    """Return the derivatives by ``u``, ``p D v`` at every child, and by ``v``, ``p D u`` at every head."""
    by_u, by_v = _unwritten(u, shifts), _unwritten(v, [-x for x in shifts])
    to_child, to_head, children, heads = (_buckets(side, shifts) for side in (by_u, by_v, u, v))
    p = p.contiguous()
    for k, i, j in _parts(u, shifts):
        scaled = p[i, k, :, None] if weight is None else p[i, k, :, None] * weight[k]
        if u.shape[1] > 1:
            torch.mul(scaled, heads[k][j], out=to_child[k][i])
        else:
            to_child[k][i].addcmul_(scaled, heads[k][j])
        if v.shape[1] > 1:
            torch.mul(scaled, children[k][i], out=to_head[k][j])
        elif v.shape[2] < u.shape[2]:  # all channels share a head side
            to_head[k][j].add_(scaled.mT @ children[k][i])
        else:
            to_head[k][j].addcmul_(scaled, children[k][i])
    return by_u, by_v


PRODUCTS = Products(_by_p, _by_sides)
