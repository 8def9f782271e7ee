"""Products of each word with the word ``x`` rows before it, for the few shifts ``x`` of the near buckets.

Left to autograd every shifted slice has a zero-filled gradient of the whole; here results are written where they
belong. The loops over the 2γ buckets of a band are over large operations: the numbers of one bucket fit a processor's
cache, where one operation on all buckets would go through memory again and again.

``traceable_*`` are the same bands in plain operations: the text to read, the oracle of the others, and what compiled
and exported graphs are made of, where shapes are symbols and a compiler fuses the passes.

symbol   variable   shape            meaning
u        u          [w, k, c, r]     child side of every word (``potentials.py``)
v        v          [w, k|1, c|1, r] head side; an axis of size 1 is the same for all buckets or channels
D        weight     [k, c, r]        weight of the child side, where all buckets share both sides
Q_ic(j)  p          [w, k, c]        probability of the head of bucket k, the k-th of ``shifts``
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from probtrans_cli.models.probabilistic.products import by_hand


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
        by_bucket = result.unbind(1)
        for k, i, j in self.pairs:
            pairs = [(u[k][i], v[k][j]) for u, v in sides]
            if self.one_channel:  # a product with each word's matrix
                products = [u @ v.mT for u, v in pairs]
                by_bucket[k][i] = sum(products[1:], products[0])[..., 0]
            else:
                torch.sum(_products(pairs), dim=-1, out=by_bucket[k][i])
        return result

    def by_child(self, p: Tensor, v: Tensor) -> Float[Tensor, "w k c r"]:
        """By ``u``: ``p v`` at every child."""
        result = self._empty_but(p, v.shape[-1], {k: i for k, i, _ in self.pairs})
        parts, heads, weights = result.unbind(1), self._heads(v), p[..., None].unbind(1)
        for k, i, j in self.pairs:
            torch.mul(weights[k][i], heads[k][j], out=parts[k][i])
        return result

    def by_head(self, p: Tensor, u: Tensor) -> Float[Tensor, "w k2 c2 r"]:
        """By ``v``: ``p u`` at every head, summed over what shares a ``v``."""
        children, weights = u.unbind(1), p[..., None].unbind(1)
        if not self.one_bucket and not self.one_channel:
            result = self._empty_but(p, u.shape[-1], {k: j for k, _, j in self.pairs})
            parts = result.unbind(1)
            for k, i, j in self.pairs:
                torch.mul(weights[k][i], children[k][i], out=parts[k][j])
            return result
        rows, buckets, channels = self.shape
        result = u.new_zeros(rows, 1 if self.one_bucket else buckets, 1 if self.one_channel else channels, u.shape[-1])
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


class _BandScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, shifts: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(u, v)
        ctx.bands = bands = _Bands(u, v, shifts)
        return bands.scores((u, v))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        u, v = ctx.saved_tensors
        return ctx.bands.by_child(gradients[0], v), ctx.bands.by_head(gradients[0], u), None


class _BandMessages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, u: Tensor, v: Tensor, shifts: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(p, u, v)
        ctx.bands = bands = _Bands(u, v, shifts)
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
            products = _products([(u[i], v[j]) for u, v in terms])
            torch.sum(products.mul_(weight[k]), dim=-1, out=result[i, k])
        return result

    def by_weight(self, p: Tensor, *terms: tuple[Tensor, Tensor]) -> Float[Tensor, "k c r"]:
        """By ``D``: ``Σ_i p u_i v_{i-x}``, summed over pairs ``(u, v)``."""
        result = p.new_zeros(*self.shape[1:], terms[0][0].shape[-1])
        for k, i, j in self.pairs:
            products = _products([(u[i], v[j]) for u, v in terms])
            result[k] += products.mul_(p[i, k, :, None]).sum(0)
        return result

    def by_sides(self, p: Tensor, u: Tensor, v: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """By ``u`` and by ``v``: ``p D v`` at every child, ``p D u`` at every head."""
        to_child, to_head = torch.zeros_like(u), torch.zeros_like(v)
        for k, i, j in self.pairs:
            scaled = p[i, k, :, None] * weight[k]
            to_child[i].addcmul_(scaled, v[j])
            to_head[j].addcmul_(scaled, u[i])
        return to_child, to_head


class _SharedScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, weight: Tensor, shifts: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(u, v, weight)
        ctx.bands = bands = _SharedBands(u, shifts)
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
        ctx: Any, p: Tensor, u: Tensor, v: Tensor, weight: Tensor, shifts: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(p, u, v, weight)
        ctx.bands = bands = _SharedBands(u, shifts)
        return bands.by_sides(p, u, v, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        p, u, v, weight = ctx.saved_tensors
        of_child, of_head = gradients
        terms = ((of_child, v), (u, of_head))
        by_child, by_head = ctx.bands.by_sides(p, of_child, of_head, weight)
        return ctx.bands.scores(weight, *terms), by_child, by_head, ctx.bands.by_weight(p, *terms), None
