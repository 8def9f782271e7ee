"""Messages between head variables and label variables (Wu & Tu 2023, Eq. 3, 4, 9, 10), distance by distance.

With the two sides ``u_i[k,c]`` and ``v_j[k,c]`` of the ternary scores (``potentials.py``) and the bucket ``k = f(i-j)``:

    F_ic(j)    = u_i[k,c] · v_j[k,c]                       score of head j for word i              (3)
    ū_i[k,c]   = Σ_{j: f(i-j)=k} Q_ic(j) v_j[k,c]          from the words that may be i's head     (4, first term)
    v̄_j[k,c]   = Σ_{i: f(i-j)=k} Q_ic(j) u_i[k,c]          from the words whose head j may be      (4, second term)

``ū`` and ``v̄`` are the derivatives of ``Σ Q_ic(j) F_ic(j)``; the bucket of the second is the child's, as it must be.

A *near* bucket (|i-j| ≤ γ) is one diagonal of the n × n matrix: it is scored by a shift along the sentence and an
elementwise product, O(n). The one or two *far* buckets are attention-sized products. No n × n × K tensor arises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from probtrans_cli.models.probabilistic.potentials import Sides, Ternary


def bucket_count(distance: int | None) -> int:
    """K: ``2γ + 2`` distance buckets, or one without distance (Eq. 10)."""
    return 1 if distance is None else 2 * distance + 2


@dataclass(frozen=True)
class Buckets:
    """Where the buckets of Eq. 10 lie in a sentence of ``n`` words; child ``i``, head ``j``, ``x = i - j``.

    ``far [f, n, n]``: True where a pair is in the first (``x < -γ``) or second (``x > γ``) far bucket; without distance
    there is one, of all pairs. ``near [n, n]``: the near bucket of a pair, counted from the first (0 where it is far).
    ``head [n, 2γ]``: the word at which bucket ``k`` of child ``i`` finds its head, ``i - x_k``; ``head_inside`` where
    there is such a word. ``child``, ``child_inside``: the same for the child ``j + x_k`` of head ``j``.
    """

    far: Bool[Tensor, "f n n"]
    near: Int[Tensor, "n n"]
    head: Int[Tensor, "n w"]
    head_inside: Bool[Tensor, "n w"]
    child: Int[Tensor, "n w"]
    child_inside: Bool[Tensor, "n w"]

    @property
    def width(self) -> int:
        """2γ, the number of near buckets."""
        return self.head.shape[1]

    @classmethod
    def of(cls, n: int, distance: int | None, device: torch.device) -> Buckets:
        """The buckets for sentences of ``n`` words (padding included) at threshold ``distance`` (γ)."""
        gamma = distance or 0
        word = torch.arange(n, device=device)
        x = word[:, None] - word[None, :]
        offset = torch.arange(-gamma, gamma + 1, device=device)
        offset = offset[offset != 0]
        head, child = word[:, None] - offset, word[:, None] + offset
        return cls(
            far=torch.ones_like(x, dtype=torch.bool)[None] if distance is None else torch.stack([x < -gamma, x > gamma]),
            near=torch.where(x < 0, x + gamma, x + gamma - 1).clamp(0, max(2 * gamma - 1, 0)),
            head=head.clamp(0, n - 1),
            head_inside=(head >= 0) & (head < n),
            child=child.clamp(0, n - 1),
            child_inside=(child >= 0) & (child < n),
        )


class Slots(NamedTuple):
    """One side of the ternary scores, apart by bucket: one ``[b, n, h, r]`` per far bucket, ``[b, n, 2γ, h, r]`` near."""

    far: list[Float[Tensor, "b n c r"]]
    near: Float[Tensor, "b n w c r"] | None

    @classmethod
    def of(cls, side: Float[Tensor, "b n k c r"], buckets: Buckets) -> Slots:
        """The slots of a side; a side that is the same for all buckets (K = 1) serves each of them."""
        count = len(buckets.far)
        if side.shape[2] == 1:
            return cls([side[:, :, 0]] * count, side if buckets.width else None)
        if not buckets.width:
            return cls(list(side.unbind(2)), None)
        # `split`, not slices: the gradient of a slice is a zero-filled tensor of the whole size.
        first, near, last = side.split([1, buckets.width, 1], dim=2)
        return cls([first[:, :, 0], last[:, :, 0]], near)

    def joined(self) -> Float[Tensor, "b n k c r"]:
        """All buckets in the order of Eq. 10."""
        if self.near is None:
            return torch.stack(self.far, dim=2)
        return torch.cat([self.far[0][:, :, None], self.near, self.far[1][:, :, None]], dim=2)

    def summed(self) -> Float[Tensor, "b n k c r"]:
        """The sum over all buckets, as one."""
        far = torch.stack(self.far).sum(0)[:, :, None]
        return far if self.near is None else far + self.near.sum(2, keepdim=True)


class TernaryMessages:
    """The messages of one ternary factor for fixed label distributions; projects them once for both directions."""

    def __init__(self, scores: Ternary, labels: Float[Tensor, "b n d"], buckets: Buckets) -> None:
        self.scores = scores
        self.buckets = buckets
        sides = scores.project(labels)
        self.shared_by_buckets = sides.head.shape[2] == 1 < sides.child.shape[2]
        self.shared_by_channels = sides.head.shape[3] == 1 < sides.child.shape[3]
        self.child, self.head = Slots.of(sides.child, buckets), Slots.of(sides.head, buckets)
        self.head_of_child = None if self.head.near is None else shifted(self.head.near, buckets.head)

    def to_heads(self) -> Float[Tensor, "b c n n"]:
        """``F [b, c, i, j]``; entries of words that are no candidates (the diagonal, padding) have no meaning."""
        far = [torch.einsum("bicr,bjcr->bcij", u, v) for u, v in zip(self.child.far, self.head.far, strict=True)]
        scores = far[0] if len(far) == 1 else torch.where(self.buckets.far[0], *far)
        if self.child.near is None or self.head_of_child is None:
            return scores
        band = (self.child.near * self.head_of_child).sum(-1).permute(0, 3, 1, 2)
        near = band.gather(-1, self.buckets.near.expand(scores.shape)).to(scores.dtype)
        return torch.where(self.buckets.far.any(0), scores, near)

    def to_labels(self, heads: Float[Tensor, "b c n n"]) -> Float[Tensor, "b n d"]:
        """``G [b, i, a]`` for head distributions ``Q_H [b, c, i, j]`` that are zero wherever there is no candidate."""
        far = [heads * here for here in self.buckets.far]
        to_head = "bcij,bicr->bjr" if self.shared_by_channels else "bcij,bicr->bjcr"
        child = [torch.einsum("bcij,bjcr->bicr", q, v) for q, v in zip(far, self.head.far, strict=True)]
        head = [torch.einsum(to_head, q, u) for q, u in zip(far, self.child.far, strict=True)]
        if self.shared_by_channels:
            head = [message[:, :, None] for message in head]
        near_child = near_head = None
        if self.child.near is not None and self.head_of_child is not None:
            inside = self.buckets.head_inside
            band = heads.gather(-1, self.buckets.head.expand(*heads.shape[:2], *inside.shape)) * inside
            band = band.permute(0, 2, 3, 1)[..., None]
            near_child = band * self.head_of_child
            from_child = band * self.child.near
            if self.shared_by_channels:
                from_child = from_child.sum(3, keepdim=True)
            near_head = shifted(from_child, self.buckets.child) * self.buckets.child_inside[:, :, None, None]
        to_heads = Slots(head, near_head)
        return self.scores.collect(
            Sides(Slots(child, near_child).joined(), to_heads.summed() if self.shared_by_buckets else to_heads.joined())
        )


def shifted(side: Float[Tensor, "b n w1 c r"], index: Int[Tensor, "n w"]) -> Float[Tensor, "b n w c r"]:
    """``side[b, index[i, w], w, c, r]``: every slot moved along the sentence by its own offset."""
    n, width = index.shape
    if side.shape[2] == 1:
        return side[:, :, 0].index_select(1, index.flatten()).unflatten(1, (n, width))
    slot = torch.arange(width, device=index.device)
    return side.flatten(1, 2).index_select(1, (index * width + slot).flatten()).unflatten(1, (n, width))
