"""The exchange of the heads on a GPU: one kernel forwards, one backwards, and nothing of n × n in memory.

A program of :func:`_forward` has a tile of children of one line and channel. With the scores ``F`` of its far and short
columns, and the factors ``D`` of dropout, it computes

    L_i = log Σ_j exp(F_ij)          P = exp(F - L)       Q = D ∘ P       ū = Q v       v̄ = Qᵀ u

and keeps ``L`` for the gradient alone: :func:`_backward` computes ``F``, ``P`` and ``D`` again, of the sides, ``L`` and
the seed of the dropout.

    dQ = dū vᵀ + u dv̄ᵀ               δ_i = Σ_j Q_ij dQ_ij               dF = Q ∘ dQ - P δ
    du = dF v / λ + Q dv̄             dv = dFᵀ u / λ + Qᵀ dū

Of two far buckets a head is in one alone: there is one ``F``, and each part of it meets the sides of its bucket. A line
of one tile is *whole*, and one program does all of this. In a longer one, sums over heads go from tile to tile; those
over children, ``v̄`` and ``dv``, have kernels of their own, whose programs have a tile of heads. So no two programs add
to the same number, and results are the same every time.

Products have the precision of the sides; sums, and softmaxes, have float32. ``meanfield.py`` imports this module for
tensors on a GPU alone: triton comes with torch's builds for CUDA, and its import takes time. Where the environment has
``TRITON_INTERPRET=1`` before that, kernels run on a CPU, which is how they are tested without a GPU.

symbol  tensors             in a tile   shape           meaning
u ū     child, to_child     u, to_u     [l, c, n, r]    child side of a far bucket, and the message to it
v v̄     head, to_head       v, to_v     [l, c|1, n, r]  head side, of each channel or of all, and the message to it
F Q     short, used         F, Q        [l, c, n, s]    scores of the short columns, and their distribution
L δ     log_total, deltas   L, delta    [l, c, n]       what the gradient needs of a row
dū dv̄   by_child, by_head   by_u, by_v  as u and v      gradients of the messages
du dv   of_child, of_head   of_u, of_v  as u and v      gradients of the sides
–       sentence            far         [l, n]          whose word stands there (``layout.py``)
–       allowed             –           [l, 1, n, s]    which short columns are candidates
D       seed                key         [1]             of random numbers; every line and channel has a key of its own
"""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.bands import first_derivatives_only
from probtrans_cli.models.probabilistic.fast.heads import HeadVariables

SMALLEST = 16  # rows of a tile, and components of a side: what a product of matrices takes at least
SHORT = 32  # short columns of a tile, at most

# --- parts of the kernels ---------------------------------------------------------------------------------------------


@triton.jit
def _places(row, n, rank: tl.constexpr, RANK: tl.constexpr):
    """Return where some rows of a side ``[n, r]`` stand, and which of these numbers there are."""
    component = tl.arange(0, RANK)
    return row[:, None] * rank + component[None, :], (row < n)[:, None] & (component < rank)[None, :]


@triton.jit
def _rows(right, left, row, n, rank: tl.constexpr, RANK: tl.constexpr, BUCKETS: tl.constexpr):
    """Load some rows of a side of each far bucket; of a single bucket, twice the same."""
    place, there = _places(row, n, rank, RANK)
    of_right = tl.load(right + place, mask=there, other=0.0)
    of_left = of_right
    if BUCKETS == 2:
        of_left = tl.load(left + place, mask=there, other=0.0)
    return of_right, of_left


@triton.jit
def _store(values, right, left, row, n, rank: tl.constexpr, RANK: tl.constexpr, BUCKETS: tl.constexpr):
    """Store some rows of a side of each far bucket."""
    place, there = _places(row, n, rank, RANK)
    tl.store(right + place, values[0], mask=there)
    if BUCKETS == 2:
        tl.store(left + place, values[1], mask=there)


@triton.jit
def _zeros(TILE: tl.constexpr, RANK: tl.constexpr):
    return tl.zeros([TILE, RANK], tl.float32), tl.zeros([TILE, RANK], tl.float32)


@triton.jit
def _times(rows, columns):
    """Return ``rows @ columns``; that of float32 to 21 bits, of three products, where a GPU would round to 10 bits."""
    return tl.dot(rows, columns, input_precision="tf32x3")


@triton.jit
def _products(u, v, right, BUCKETS: tl.constexpr):
    """Return ``u vᵀ``, each number of its own bucket."""
    products = _times(u[0], tl.trans(v[0]))
    if BUCKETS == 2:
        products = tl.where(right, products, _times(u[1], tl.trans(v[1])))
    return products


@triton.jit
def _by_bucket(weights, right, rows, BUCKETS: tl.constexpr):
    """Return the weights of each bucket, in the precision of the rows that they are to weigh."""
    of_right, of_left = weights, weights
    if BUCKETS == 2:
        of_right, of_left = tl.where(right, weights, 0.0), tl.where(right, 0.0, weights)
    return of_right.to(rows[0].dtype), of_left.to(rows[0].dtype)


@triton.jit
def _over_heads(total, weights, v, BUCKETS: tl.constexpr):
    """Return ``total + weights v`` for each bucket."""
    of_right, of_left = total
    if BUCKETS == 2:
        of_left += _times(weights[1], v[1])
    return of_right + _times(weights[0], v[0]), of_left


@triton.jit
def _over_children(total, weights, u, BUCKETS: tl.constexpr):
    """Return ``total + weightsᵀ u`` for each bucket."""
    of_right, of_left = total
    if BUCKETS == 2:
        of_left += _times(tl.trans(weights[1]), u[1])
    return of_right + _times(tl.trans(weights[0]), u[0]), of_left


@triton.jit
def _far(i, j, sentence, n, distance):
    """Return which words ``j`` are far candidates of the children ``i``, and which stand in the right bucket."""
    of_i = tl.load(sentence + i, mask=i < n, other=-1)
    of_j = tl.load(sentence + j, mask=j < n, other=-1)
    x = i[:, None] - j[None, :]
    same = (of_i[:, None] == of_j[None, :]) & (of_i >= 0)[:, None]
    return same & ((x > distance) | (x < -distance)), x < 0


@triton.jit
def _scores(u, v, far, right, scale, BUCKETS: tl.constexpr):
    """Return ``F`` of some words as heads: -∞ where one is no candidate."""
    return tl.where(far, _products(u, v, right, BUCKETS) * scale, float("-inf"))


@triton.jit
def _short_scores(short, allowed, i, k, n, s, scale):
    """Return ``F`` of the short columns ``k``, where these numbers stand, and which of them there are."""
    place, there = i[:, None] * s + k[None, :], (i < n)[:, None] & (k < s)[None, :]
    candidate = tl.load(allowed + place, mask=there, other=0) != 0
    F = tl.load(short + place, mask=there, other=0.0).to(tl.float32)
    return tl.where(candidate, F * scale, float("-inf")), place, there


@triton.jit
def _and_more(top, total, F):
    """Return the largest score of every row, and its sum of ``exp(F - top)``, after some more columns."""
    higher = tl.maximum(top, tl.max(F, axis=1))
    finite = tl.where(higher == float("-inf"), 0.0, higher)
    return higher, total * tl.exp(top - finite) + tl.sum(tl.exp(F - finite[:, None]), axis=1)


@triton.jit
def _logarithm(top, total):
    """Return ``L``: 0 for a child without candidates, whose ``P`` is then 0."""
    return tl.where(total > 0.0, top + tl.log(tl.where(total > 0.0, total, 1.0)), 0.0)


@triton.jit
def _factors(key, i, column, columns, p):
    """Return ``D``; every child and column of a key has a random number of its own."""
    return tl.where(tl.rand(key, i[:, None] * columns + column[None, :]) < p, 0.0, 1.0 / (1.0 - p))


# --- kernels ----------------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["n", "s", "channels", "distance"])
def _forward(child_right, child_left, head_right, head_left, short, allowed, sentence, seed,
             to_child_right, to_child_left, to_head_right, to_head_left, used, log_total,
             n, s, channels, distance, scale, p,
             rank: tl.constexpr, RANK: tl.constexpr, TILE: tl.constexpr, SHORT: tl.constexpr, BUCKETS: tl.constexpr,
             SHARED: tl.constexpr, DROPS: tl.constexpr, WHOLE: tl.constexpr):  # fmt: skip
    """Compute ``ū``, the short part of ``Q``, ``L`` and, of a whole line, ``v̄`` for a tile of children."""
    at = tl.program_id(0).to(tl.int64)
    line = at // channels
    own, heads = at * n * rank, (line if SHARED else at) * n * rank
    short, used, allowed, sentence = short + at * n * s, used + at * n * s, allowed + line * n * s, sentence + line * n
    key = tl.load(seed) + at
    i = tl.program_id(1) * TILE + tl.arange(0, TILE)
    u = _rows(child_right + own, child_left + own, i, n, rank, RANK, BUCKETS)
    top, total = tl.full([TILE], float("-inf"), tl.float32), tl.zeros([TILE], tl.float32)
    for start in range(0, s, SHORT):
        F_short, _, _ = _short_scores(short, allowed, i, start + tl.arange(0, SHORT), n, s, scale)
        top, total = _and_more(top, total, F_short)
    if WHOLE:
        v = _rows(head_right + heads, head_left + heads, i, n, rank, RANK, BUCKETS)
        far, right = _far(i, i, sentence, n, distance)
        F = _scores(u, v, far, right, scale, BUCKETS)
        top, total = _and_more(top, total, F)
        L = _logarithm(top, total)
        Q = tl.exp(F - L[:, None])
        if DROPS:
            Q *= _factors(key, i, i, n + s, p)
        weights = _by_bucket(Q, right, u, BUCKETS)
        to_u = _over_heads(_zeros(TILE, RANK), weights, v, BUCKETS)
        to_v = _over_children(_zeros(TILE, RANK), weights, u, BUCKETS)
        _store(to_v, to_head_right + own, to_head_left + own, i, n, rank, RANK, BUCKETS)
    else:
        for start in range(0, n, TILE):
            j = start + tl.arange(0, TILE)
            v = _rows(head_right + heads, head_left + heads, j, n, rank, RANK, BUCKETS)
            far, right = _far(i, j, sentence, n, distance)
            top, total = _and_more(top, total, _scores(u, v, far, right, scale, BUCKETS))
        L = _logarithm(top, total)
        to_u = _zeros(TILE, RANK)
        for start in range(0, n, TILE):
            j = start + tl.arange(0, TILE)
            v = _rows(head_right + heads, head_left + heads, j, n, rank, RANK, BUCKETS)
            far, right = _far(i, j, sentence, n, distance)
            Q = tl.exp(_scores(u, v, far, right, scale, BUCKETS) - L[:, None])
            if DROPS:
                Q *= _factors(key, i, j, n + s, p)
            to_u = _over_heads(to_u, _by_bucket(Q, right, u, BUCKETS), v, BUCKETS)
    _store(to_u, to_child_right + own, to_child_left + own, i, n, rank, RANK, BUCKETS)
    tl.store(log_total + at * n + i, L, mask=i < n)
    for start in range(0, s, SHORT):
        k = start + tl.arange(0, SHORT)
        F_short, place, there = _short_scores(short, allowed, i, k, n, s, scale)
        Q_short = tl.exp(F_short - L[:, None])
        if DROPS:
            Q_short *= _factors(key, i, n + k, n + s, p)
        tl.store(used + place, Q_short, mask=there)


@triton.jit(do_not_specialize=["n", "s", "channels", "distance"])
def _to_heads(child_right, child_left, head_right, head_left, sentence, seed, log_total, to_head_right, to_head_left,
              n, s, channels, distance, scale, p,
              rank: tl.constexpr, RANK: tl.constexpr, TILE: tl.constexpr, BUCKETS: tl.constexpr,
              SHARED: tl.constexpr, DROPS: tl.constexpr):  # fmt: skip
    """Compute ``v̄`` for a tile of heads."""
    at = tl.program_id(0).to(tl.int64)
    line = at // channels
    own, heads = at * n * rank, (line if SHARED else at) * n * rank
    sentence, log_total, key = sentence + line * n, log_total + at * n, tl.load(seed) + at
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    v = _rows(head_right + heads, head_left + heads, j, n, rank, RANK, BUCKETS)
    to_v = _zeros(TILE, RANK)
    for start in range(0, n, TILE):
        i = start + tl.arange(0, TILE)
        u = _rows(child_right + own, child_left + own, i, n, rank, RANK, BUCKETS)
        far, right = _far(i, j, sentence, n, distance)
        L = tl.load(log_total + i, mask=i < n, other=0.0)
        Q = tl.exp(_scores(u, v, far, right, scale, BUCKETS) - L[:, None])
        if DROPS:
            Q *= _factors(key, i, j, n + s, p)
        to_v = _over_children(to_v, _by_bucket(Q, right, u, BUCKETS), u, BUCKETS)
    _store(to_v, to_head_right + own, to_head_left + own, j, n, rank, RANK, BUCKETS)


@triton.jit
def _gradients(u, v, by_u, by_v, far, right, L, scale, key, i, j, columns, p,
               BUCKETS: tl.constexpr, DROPS: tl.constexpr):  # fmt: skip
    """Return ``P``, ``Q`` and ``Q ∘ dQ`` of some words as heads."""
    P = tl.exp(_scores(u, v, far, right, scale, BUCKETS) - L[:, None])
    Q = P
    if DROPS:
        Q = P * _factors(key, i, j, columns, p)
    return P, Q, Q * (_products(by_u, v, right, BUCKETS) + _products(u, by_v, right, BUCKETS))


@triton.jit
def _short_gradients(short, allowed, by_used, L, scale, key, i, k, n, s, p, DROPS: tl.constexpr):
    """Return ``P`` and ``Q ∘ dQ`` of the short columns ``k``, where these numbers stand, and which there are."""
    F, place, there = _short_scores(short, allowed, i, k, n, s, scale)
    P = tl.exp(F - L[:, None])
    by_Q = P * tl.load(by_used + place, mask=there, other=0.0).to(tl.float32)
    if DROPS:
        by_Q *= _factors(key, i, n + k, n + s, p)
    return P, by_Q, place, there


@triton.jit(do_not_specialize=["n", "s", "channels", "distance"])
def _backward(child_right, child_left, head_right, head_left, short, allowed, sentence, seed, log_total,
              by_child_right, by_child_left, by_head_right, by_head_left, by_used,
              of_child_right, of_child_left, of_head_right, of_head_left, of_short, deltas,
              n, s, channels, distance, scale, p,
              rank: tl.constexpr, RANK: tl.constexpr, TILE: tl.constexpr, SHORT: tl.constexpr, BUCKETS: tl.constexpr,
              SHARED: tl.constexpr, DROPS: tl.constexpr, WHOLE: tl.constexpr):  # fmt: skip
    """Compute ``du``, the gradient of the short scores, ``δ`` and, of a whole line, ``dv`` for a tile of children."""
    at = tl.program_id(0).to(tl.int64)
    line = at // channels
    own, heads = at * n * rank, (line if SHARED else at) * n * rank
    short, by_used, of_short = short + at * n * s, by_used + at * n * s, of_short + at * n * s
    allowed, sentence, key = allowed + line * n * s, sentence + line * n, tl.load(seed) + at
    i = tl.program_id(1) * TILE + tl.arange(0, TILE)
    u = _rows(child_right + own, child_left + own, i, n, rank, RANK, BUCKETS)
    by_u = _rows(by_child_right + own, by_child_left + own, i, n, rank, RANK, BUCKETS)
    L = tl.load(log_total + at * n + i, mask=i < n, other=0.0)
    delta = tl.zeros([TILE], tl.float32)
    for start in range(0, s, SHORT):
        k = start + tl.arange(0, SHORT)
        _, by_short, _, _ = _short_gradients(short, allowed, by_used, L, scale, key, i, k, n, s, p, DROPS)
        delta += tl.sum(by_short, axis=1)
    if WHOLE:
        v = _rows(head_right + heads, head_left + heads, i, n, rank, RANK, BUCKETS)
        by_v = _rows(by_head_right + heads, by_head_left + heads, i, n, rank, RANK, BUCKETS)
        far, right = _far(i, i, sentence, n, distance)
        P, Q, by_Q = _gradients(u, v, by_u, by_v, far, right, L, scale, key, i, i, n + s, p, BUCKETS, DROPS)
        delta += tl.sum(by_Q, axis=1)
        by_F = _by_bucket((by_Q - P * delta[:, None]) * scale, right, u, BUCKETS)
        weights = _by_bucket(Q, right, u, BUCKETS)
        of_u = _over_heads(_over_heads(_zeros(TILE, RANK), by_F, v, BUCKETS), weights, by_v, BUCKETS)
        of_v = _over_children(_over_children(_zeros(TILE, RANK), by_F, u, BUCKETS), weights, by_u, BUCKETS)
        _store(of_v, of_head_right + own, of_head_left + own, i, n, rank, RANK, BUCKETS)
    else:
        for start in range(0, n, TILE):
            j = start + tl.arange(0, TILE)
            v = _rows(head_right + heads, head_left + heads, j, n, rank, RANK, BUCKETS)
            by_v = _rows(by_head_right + heads, by_head_left + heads, j, n, rank, RANK, BUCKETS)
            far, right = _far(i, j, sentence, n, distance)
            _, _, by_Q = _gradients(u, v, by_u, by_v, far, right, L, scale, key, i, j, n + s, p, BUCKETS, DROPS)
            delta += tl.sum(by_Q, axis=1)
        tl.store(deltas + at * n + i, delta, mask=i < n)
        of_u = _zeros(TILE, RANK)
        for start in range(0, n, TILE):
            j = start + tl.arange(0, TILE)
            v = _rows(head_right + heads, head_left + heads, j, n, rank, RANK, BUCKETS)
            by_v = _rows(by_head_right + heads, by_head_left + heads, j, n, rank, RANK, BUCKETS)
            far, right = _far(i, j, sentence, n, distance)
            P, Q, by_Q = _gradients(u, v, by_u, by_v, far, right, L, scale, key, i, j, n + s, p, BUCKETS, DROPS)
            by_F = _by_bucket((by_Q - P * delta[:, None]) * scale, right, u, BUCKETS)
            of_u = _over_heads(_over_heads(of_u, by_F, v, BUCKETS), _by_bucket(Q, right, u, BUCKETS), by_v, BUCKETS)
    _store(of_u, of_child_right + own, of_child_left + own, i, n, rank, RANK, BUCKETS)
    for start in range(0, s, SHORT):
        k = start + tl.arange(0, SHORT)
        P_short, by_short, place, there = _short_gradients(short, allowed, by_used, L, scale, key, i, k, n, s, p, DROPS)
        tl.store(of_short + place, (by_short - P_short * delta[:, None]) * scale, mask=there)


@triton.jit(do_not_specialize=["n", "s", "channels", "distance"])
def _of_heads(child_right, child_left, head_right, head_left, sentence, seed, log_total,
              by_child_right, by_child_left, by_head_right, by_head_left, deltas, of_head_right, of_head_left,
              n, s, channels, distance, scale, p,
              rank: tl.constexpr, RANK: tl.constexpr, TILE: tl.constexpr, BUCKETS: tl.constexpr,
              SHARED: tl.constexpr, DROPS: tl.constexpr):  # fmt: skip
    """Compute ``dv`` for a tile of heads."""
    at = tl.program_id(0).to(tl.int64)
    line = at // channels
    own, heads = at * n * rank, (line if SHARED else at) * n * rank
    sentence, log_total, deltas = sentence + line * n, log_total + at * n, deltas + at * n
    key = tl.load(seed) + at
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    v = _rows(head_right + heads, head_left + heads, j, n, rank, RANK, BUCKETS)
    by_v = _rows(by_head_right + heads, by_head_left + heads, j, n, rank, RANK, BUCKETS)
    of_v = _zeros(TILE, RANK)
    for start in range(0, n, TILE):
        i = start + tl.arange(0, TILE)
        u = _rows(child_right + own, child_left + own, i, n, rank, RANK, BUCKETS)
        by_u = _rows(by_child_right + own, by_child_left + own, i, n, rank, RANK, BUCKETS)
        far, right = _far(i, j, sentence, n, distance)
        L, delta = tl.load(log_total + i, mask=i < n, other=0.0), tl.load(deltas + i, mask=i < n, other=0.0)
        P, Q, by_Q = _gradients(u, v, by_u, by_v, far, right, L, scale, key, i, j, n + s, p, BUCKETS, DROPS)
        by_F = _by_bucket((by_Q - P * delta[:, None]) * scale, right, u, BUCKETS)
        weights = _by_bucket(Q, right, u, BUCKETS)
        of_v = _over_children(_over_children(of_v, by_F, u, BUCKETS), weights, by_u, BUCKETS)
    _store(of_v, of_head_right + own, of_head_left + own, j, n, rank, RANK, BUCKETS)


# --- tensors ----------------------------------------------------------------------------------------------------------


def power_of_two(number: int) -> int:
    """Return the next one that a product of matrices takes."""
    power: int = triton.next_power_of_2(number)
    return max(SMALLEST, power)


def tile_of(n: int, rank: int, size: int) -> int:
    """Return how many rows a tile has, of ``n`` with so many components of ``size`` bytes.

    No more than there are registers for in a program of at most four warps, as compiled for compute capability 9.0. A
    product in float32 is three of a shorter format.
    """
    most, room = (64, 4096) if size == 2 else (32, 512)
    return max(SMALLEST, min(most, room // power_of_two(rank), power_of_two(n)))


class Launch(NamedTuple):
    """How the kernels are started for some sides: the ``grid`` of programs, and their last arguments."""

    grid: tuple[int, int]
    numbers: tuple[int | float, ...]
    options: dict[str, Any]
    short: dict[str, Any]
    whole: bool


def launch_of(heads: HeadVariables, child: Float[Tensor, "l c n r"], head: Float[Tensor, "l c2 n r"], s: int) -> Launch:
    """Return the launch for the sides of a far bucket, and so many short columns."""
    lines, channels, n, rank = child.shape
    size = child.element_size()
    tile = tile_of(n, rank, size)
    warps = 4
    if size == 2:
        warps = min(4, tile * max(64, power_of_two(rank)) // 1024)  # one for 16 rows
    options = {
        "rank": rank,
        "RANK": power_of_two(rank),
        "TILE": tile,
        "BUCKETS": 1 if heads.distance is None else 2,
        "SHARED": head.shape[1] < channels,
        "DROPS": heads.dropout > 0.0,
        "num_warps": warps,
        "num_stages": 1,
        "enable_fp_fusion": True,  # the default, of which Triton 3.9 warns
    }
    whole = n <= tile
    short = {"SHORT": min(SHORT, max(1, triton.next_power_of_2(s))), "WHOLE": whole}
    scale = 1.0 / heads.inference.heads.weight
    numbers = n, s, channels, heads.distance or 0, scale, heads.dropout
    return Launch((lines * channels, triton.cdiv(n, tile)), numbers, options, short, whole)


class FusedHeads(HeadVariables):
    """Distributions that are never in memory: the usual case of :class:`BlockedHeads`, asynchronous, on a GPU."""

    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"], rows: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "w c e"]]:
        sides, far, short = self._sides(labels, extra)
        used, *parts = _Fused.apply(self, short, *far)  # type: ignore[no-untyped-call]
        buckets = len(sides.far)
        return self.messages.to_labels(sides, parts[:buckets], parts[buckets:], used, rows)


class _Fused(torch.autograd.Function):
    """From short scores and sides to the distributions over the short columns, ``ū`` and ``v̄`` of the far buckets.

    The sides are ``u`` of every far bucket, then ``v``.
    """

    @staticmethod
    def forward(ctx: Any, heads: FusedHeads, short: Float[Tensor, "l c n s"], *sides: Tensor) -> tuple[Tensor, ...]:
        short, *sides = (tensor.contiguous() for tensor in (short, *sides))  # type: ignore[assignment]
        far = len(sides) // 2
        child, head = sides[0], sides[far]
        launch = launch_of(heads, child, head, short.shape[-1])
        seed = torch.empty(1, dtype=torch.int64, device=short.device)
        if heads.dropout:
            seed.random_()  # of the device's generator, and nobody waits for it
        tensors = heads.short_allowed.contiguous().view(torch.uint8), heads.layout.sentence.contiguous(), seed
        used, log_total = torch.empty_like(short), child.new_empty(child.shape[:3], dtype=torch.float32)
        to_child, to_head = [torch.empty_like(side) for side in sides[:far]], _of_every_channel(sides[:far], head)
        both = *_both(sides[:far]), *_both(sides[far:])
        with torch.cuda.device_of(short):  # type: ignore[no-untyped-call]
            _forward[launch.grid](
                *both, short, *tensors, *_both(to_child), *_both(to_head), used, log_total,
                *launch.numbers, **launch.short, **launch.options,
            )  # fmt: skip
            if not launch.whole:
                _to_heads[launch.grid](
                    *both, *tensors[1:], log_total, *_both(to_head), *launch.numbers, **launch.options,
                )  # fmt: skip
        ctx.heads = heads
        ctx.save_for_backward(short, log_total, *tensors, *sides)
        return (used, *to_child, *(_summed(total, head) for total in to_head))

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, by_used: Tensor, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        short, log_total, allowed, sentence, seed, *sides = ctx.saved_tensors
        far = len(sides) // 2
        by_used, *by_sides = (tensor.contiguous() for tensor in (by_used, *gradients))
        child, head = sides[0], sides[far]
        launch = launch_of(ctx.heads, child, head, short.shape[-1])
        of_short, deltas = torch.empty_like(short), torch.empty_like(log_total)
        of_child, of_head = [torch.empty_like(side) for side in sides[:far]], _of_every_channel(sides[:far], head)
        both = *_both(sides[:far]), *_both(sides[far:])
        by_both = *_both(by_sides[:far]), *_both(by_sides[far:])
        with torch.cuda.device_of(short):  # type: ignore[no-untyped-call]
            _backward[launch.grid](
                *both, short, allowed, sentence, seed, log_total, *by_both, by_used, *_both(of_child), *_both(of_head),
                of_short, deltas, *launch.numbers, **launch.short, **launch.options,
            )  # fmt: skip
            if not launch.whole:
                _of_heads[launch.grid](
                    *both, sentence, seed, log_total, *by_both, deltas, *_both(of_head),
                    *launch.numbers, **launch.options,
                )  # fmt: skip
        return None, of_short, *of_child, *(_summed(total, head) for total in of_head)


def _both(buckets: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the tensors of the right and of the left bucket, or twice that of a single one."""
    return buckets[0], buckets[-1]


def _of_every_channel(children: Sequence[Tensor], head: Tensor) -> Sequence[Float[Tensor, "l c n r"]]:
    """Return room for what every channel adds to a head side: in float32, where it is still to be summed."""
    shared = head.shape[1] < children[0].shape[1]
    return [torch.empty_like(side, dtype=torch.float32 if shared else head.dtype) for side in children]


def _summed(total: Float[Tensor, "l c n r"], head: Float[Tensor, "l c2 n r"]) -> Float[Tensor, "l c2 n r"]:
    return total if head.shape[1] == total.shape[1] else total.sum(1, keepdim=True).to(head.dtype)
