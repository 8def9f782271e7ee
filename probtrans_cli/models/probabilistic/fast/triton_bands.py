"""The products of a band (``bands.py``) on a GPU: one kernel for all near buckets, whatever axes of sides they share.

With the ``k``-th shift ``x`` of a child ``i`` and its head ``j = i - x``, and ``D`` 1 where there is no weight:

    _by_p        s[i,k,c]  = Σ_l D[k,c,l] u_i[k,c,l] v_j[k,c,l]                  scores, and derivatives by p
    _by_side     ū_i[k,c]  = p[i,k,c] D[k,c] v_j[k,c]      v̄_j[k,c] = p[i,k,c] D[k,c] u_i[k,c]
    _by_weight   dD[k,c]   = Σ_i p[i,k,c] u_i[k,c] v_j[k,c]

Messages to a side that buckets or channels share are sums over them. No program adds to the numbers of another: results
are the same every time. Numbers are float32 in the kernels, and so are scores; messages have the type of their side.
``messages.py`` lets this module be imported for tensors on a GPU alone, as ``triton_heads.py`` is.
"""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.bands import Products

TILE, NUMBERS = 64, 2048  # rows of a tile, and numbers of its sides, at most
PARTS = 64  # sums over rows that are made side by side, at most

# --- kernels ----------------------------------------------------------------------------------------------------------


@triton.jit
def _shift(k, distance):
    """Return the ``k``-th of the distances from -γ to γ without 0."""
    x = k - distance
    return tl.where(x >= 0, x + 1, x)


@triton.jit
def _side(side, row, k, c, there, of_row, of_bucket, of_channel, rank: tl.constexpr, RANK: tl.constexpr):
    """Load some rows of a side; ``of_...``: what is between rows, buckets and channels, 0 where they share it."""
    component = tl.arange(0, RANK)
    place = row[:, None] * of_row + (k * of_bucket + c * of_channel + component)[None, :]
    return tl.load(side + place, mask=there[:, None] & (component < rank)[None, :], other=0.0).to(tl.float32)


@triton.jit
def _weighted(product, weight, k, c, channels, rank: tl.constexpr, RANK: tl.constexpr, WEIGHTED: tl.constexpr):
    """Return ``D`` times what it weighs."""
    if WEIGHTED:
        component = tl.arange(0, RANK)
        D = tl.load(weight + (k * channels + c) * rank + component, mask=component < rank, other=0.0)
        product *= D.to(tl.float32)[None, :]
    return product


@triton.jit
def _pairs(u, v, more_u, more_v, i, k, c, n, distance, u_row, u_bucket, u_channel, v_row, v_bucket, v_channel,
           rank: tl.constexpr, RANK: tl.constexpr, TWICE: tl.constexpr):  # fmt: skip
    """Return ``u_i ∘ v_j``, of two pairs of sides their sum; 0 where there is no row ``j``."""
    j = i - _shift(k, distance)
    there = (i < n) & (j >= 0) & (j < n)
    child = _side(u, i, k, c, there, u_row, u_bucket, u_channel, rank, RANK)
    product = child * _side(v, j, k, c, there, v_row, v_bucket, v_channel, rank, RANK)
    if TWICE:
        child = _side(more_u, i, k, c, there, u_row, u_bucket, u_channel, rank, RANK)
        product += child * _side(more_v, j, k, c, there, v_row, v_bucket, v_channel, rank, RANK)
    return product


@triton.jit(do_not_specialize=["n", "distance", "channels"])
def _by_p(u, v, more_u, more_v, weight, scores, n, distance, channels,
          u_row, u_bucket, u_channel, v_row, v_bucket, v_channel,
          rank: tl.constexpr, RANK: tl.constexpr, TILE: tl.constexpr, WEIGHTED: tl.constexpr,
          TWICE: tl.constexpr):  # fmt: skip
    """Compute the scores of a tile of children in a channel."""
    i, c = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE), tl.program_id(1)
    for k in range(0, 2 * distance):
        product = _pairs(u, v, more_u, more_v, i, k, c, n, distance, u_row, u_bucket, u_channel, v_row, v_bucket,
                         v_channel, rank, RANK, TWICE)  # fmt: skip
        product = _weighted(product, weight, k, c, channels, rank, RANK, WEIGHTED)
        tl.store(scores + (i * 2 * distance + k) * channels + c, tl.sum(product, axis=1), mask=i < n)


@triton.jit(do_not_specialize=["n", "distance", "channels", "tiles"])
def _by_weight(u, v, more_u, more_v, p, of_weight, n, distance, channels, tiles,
               u_row, u_bucket, u_channel, v_row, v_bucket, v_channel,
               rank: tl.constexpr, RANK: tl.constexpr, TILE: tl.constexpr, TWICE: tl.constexpr):  # fmt: skip
    """Compute the part of ``dD`` of a bucket and channel that so many tiles of children have."""
    k, c = tl.program_id(1) // channels, tl.program_id(1) % channels
    total, component = tl.zeros([RANK], tl.float32), tl.arange(0, RANK)
    for tile in range(0, tiles):
        i = (tl.program_id(0).to(tl.int64) * tiles + tile) * TILE + tl.arange(0, TILE)
        product = _pairs(u, v, more_u, more_v, i, k, c, n, distance, u_row, u_bucket, u_channel, v_row, v_bucket,
                         v_channel, rank, RANK, TWICE)  # fmt: skip
        chances = tl.load(p + (i * 2 * distance + k) * channels + c, mask=i < n, other=0.0).to(tl.float32)
        total += tl.sum(product * chances[:, None], axis=0)
    place = (tl.program_id(0) * 2 * distance * channels + tl.program_id(1)) * rank + component
    tl.store(of_weight + place, total, mask=component < rank)


@triton.jit(do_not_specialize=["n", "distance", "channels"])
def _by_side(p, side, weight, message, n, distance, channels,
             of_row, of_bucket, of_channel, to_row, to_bucket, to_channel,
             rank: tl.constexpr, RANK: tl.constexpr, TILE: tl.constexpr, WEIGHTED: tl.constexpr,
             HEAD: tl.constexpr, BUCKETS: tl.constexpr, CHANNELS: tl.constexpr):  # fmt: skip
    """Compute the message to a tile of rows, of the other ``side``: ``HEAD``: to the heads, of the children.

    ``BUCKETS``, ``CHANNELS``: whether each has a message of its own, or all a sum.
    """
    row, own = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE), tl.program_id(1)
    component = tl.arange(0, RANK)
    place = row[:, None] * to_row + (own * to_channel + component)[None, :]
    stored = (row < n)[:, None] & (component < rank)[None, :]
    total = tl.zeros([TILE, RANK], tl.float32)
    first, last = own, own + 1
    if not CHANNELS:
        first, last = own * 0, own * 0 + channels
    for k in range(0, 2 * distance):
        x = _shift(k, distance)
        partner = row - x
        child = row
        if HEAD:
            partner = row + x
            child = row + x
        there = (row < n) & (partner >= 0) & (partner < n)
        for c in range(first, last):
            chances = tl.load(p + (child * 2 * distance + k) * channels + c, mask=there, other=0.0).to(tl.float32)
            values = _side(side, partner, k, c, there, of_row, of_bucket, of_channel, rank, RANK)
            total += chances[:, None] * _weighted(values, weight, k, c, channels, rank, RANK, WEIGHTED)
        if BUCKETS:
            tl.store(message + place + k * to_bucket, total, mask=stored)
            total = tl.zeros([TILE, RANK], tl.float32)
    if not BUCKETS:
        tl.store(message + place, total, mask=stored)


# --- tensors ----------------------------------------------------------------------------------------------------------


def _steps(side: Float[Tensor, "w k c r"]) -> tuple[int, int, int]:
    """Return what is between its rows, buckets and channels: 0 where buckets or channels share it."""
    _, buckets, channels, rank = side.shape
    return buckets * channels * rank, channels * rank * (buckets > 1), rank * (channels > 1)


def _launch(rows: int, rank: int) -> tuple[int, dict[str, Any]]:
    """Return the number of tiles of so many rows, and the last arguments of the kernels."""
    power = triton.next_power_of_2(rank)
    tile = max(1, min(TILE, NUMBERS // power))
    return triton.cdiv(max(rows, 1), tile), {"rank": rank, "RANK": power, "TILE": tile, "num_warps": 4}


def by_p(
    shifts: Sequence[int], weight: Tensor | None, *terms: tuple[Tensor, Tensor], p: Tensor | None = None
) -> tuple[Float[Tensor, "w k c"], Float[Tensor, "k c r"] | None]:
    """See :class:`Products`."""
    terms = tuple((u.contiguous(), v.contiguous()) for u, v in terms)
    (u, v), distance = terms[0], len(shifts) // 2
    n, rank = u.shape[0], u.shape[3]
    channels = max(u.shape[2], v.shape[2]) if weight is None else weight.shape[1]
    tiles, options = _launch(n, rank)
    options["TWICE"] = len(terms) == 2
    pairs, steps = (u, v, *terms[-1]), (*_steps(u), *_steps(v))
    scores = u.new_empty(n, len(shifts), channels, dtype=torch.float32)
    by_weight: Tensor | None = None
    with torch.cuda.device_of(u):  # type: ignore[no-untyped-call]
        weights = u if weight is None else weight.contiguous()
        _by_p[tiles, channels](
            *pairs, weights, scores, n, distance, channels, *steps, **options, WEIGHTED=weight is not None
        )
        if weight is not None and p is not None:
            each = triton.cdiv(tiles, PARTS)
            parts = triton.cdiv(tiles, each)
            by_weight = u.new_empty(parts, *weight.shape, dtype=torch.float32)
            _by_weight[parts, len(shifts) * channels](
                *pairs, p.contiguous(), by_weight, n, distance, channels, each, *steps, **options
            )
            by_weight = by_weight.sum(0).to(weight.dtype)
    return scores, by_weight


def by_sides(
    shifts: Sequence[int], p: Float[Tensor, "w k c"], u: Tensor, v: Tensor, weight: Tensor | None
) -> tuple[Float[Tensor, "w k2 c2 r"], Float[Tensor, "w k3 c3 r"]]:
    """See :class:`Products`."""
    p, u, v = p.contiguous(), u.contiguous(), v.contiguous()
    weights = u if weight is None else weight.contiguous()
    tiles, options = _launch(u.shape[0], u.shape[3])
    options["WEIGHTED"] = weight is not None
    messages = []
    with torch.cuda.device_of(u):  # type: ignore[no-untyped-call]
        for side, partner, of_heads in ((u, v, False), (v, u, True)):
            message = torch.empty_like(side)
            _by_side[tiles, side.shape[2]](
                p, partner, weights, message, len(side), len(shifts) // 2, p.shape[2], *_steps(partner), *_steps(side),
                **options, HEAD=of_heads, BUCKETS=side.shape[1] > 1, CHANNELS=side.shape[2] == p.shape[2],
            )  # fmt: skip
            messages.append(message)
    return messages[0], messages[1]


PRODUCTS = Products(by_p, by_sides)
"""For bands whose shifts are the distances from -γ to γ without 0."""
