"""Messages between head variables and label variables (Wu & Tu 2023, Eq. 3, 4, 9, 10), distance by distance.

With the sides ``u_i[k,c]`` and ``v_j[k,c]`` of the ternary scores (``potentials.py``) and the bucket ``k = f(i-j)``:

    F_ic(j)    = u_i[k,c] · v_j[k,c]                       score of head j for word i              (3)
    ū_i[k,c]   = Σ_{j: f(i-j)=k} Q_ic(j) v_j[k,c]          from the words that may be i's head     (4, first term)
    v̄_j[k,c]   = Σ_{i: f(i-j)=k} Q_ic(j) u_i[k,c]          from the words whose head j may be      (4, second term)

``ū`` and ``v̄`` are the derivatives of ``Σ Q_ic(j) F_ic(j)``; the bucket of the second is the child's, as it must be.

A *near* bucket (|i-j| ≤ γ) is one diagonal of the n × n matrix: it is scored by a shift along the sentence and an
elementwise product, O(n). The one or two *far* buckets are attention-sized products. No n × n × K tensor arises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from probtrans_cli.models.probabilistic.potentials import Form


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
    def sizes(self) -> list[int]:
        """Numbers of buckets in the groups that are treated alike: far on the left, near, far on the right; or [1]."""
        near = self.head.shape[1]
        return [1] if len(self.far) == 1 else [1, near, 1] if near else [1, 1]

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
            far=torch.ones_like(x, dtype=torch.bool)[None]
            if distance is None
            else torch.stack([x < -gamma, x > gamma]),
            near=torch.where(x < 0, x + gamma, x + gamma - 1).clamp(0, max(2 * gamma - 1, 0)),
            head=head.clamp(0, n - 1),
            head_inside=(head >= 0) & (head < n),
            child=child.clamp(0, n - 1),
            child_inside=(child >= 0) & (child < n),
        )


class FarMessages:
    """Messages within one far bucket: an attention-sized product. ``here [n, n]``: the pairs that are in it."""

    def __init__(self, form: Form, labels: Float[Tensor, "b n d"], here: Bool[Tensor, "n n"]) -> None:
        self.form, self.here = form, here
        self.child = form.child_side(labels)[:, :, 0]
        self.head = form.head_side(labels)[:, :, 0]

    def to_heads(self) -> Float[Tensor, "b c n n"]:
        """``F [b, c, i, j]``, as if every pair were in this bucket."""
        scores: Tensor = torch.einsum("bicr,bjcr->bcij", self.child, self.head)
        return scores

    def to_labels(self, heads: Float[Tensor, "b c n n"]) -> Float[Tensor, "b n d"]:
        """The share of ``G`` that comes through this bucket."""
        heads = heads * self.here
        to_child = torch.einsum("bcij,bjcr->bicr", heads, self.head)
        if self.head.shape[2] == 1:  # the head side is the same for all channels
            to_head = torch.einsum("bcij,bicr->bjr", heads, self.child)[:, :, None]
        else:
            to_head = torch.einsum("bcij,bicr->bjcr", heads, self.child)
        return self.form.from_child(to_child[:, :, None]) + self.form.from_head(to_head[:, :, None])


class NearMessages:
    """Messages within the near buckets: each is one diagonal, reached by a shift along the sentence."""

    def __init__(self, form: Form, labels: Float[Tensor, "b n d"], buckets: Buckets) -> None:
        self.form, self.buckets = form, buckets
        self.child = form.child_side(labels)
        self.head = shifted(form.head_side(labels), buckets.head)
        self.one_head_side = self.head.shape[3] == 1 < self.child.shape[3]

    def to_heads(self) -> Float[Tensor, "b c n n"]:
        """``F [b, c, i, j]``; only the near pairs have a meaning."""
        one = self.one_head_side  # then as a matrix product, whose gradient needs no temporary of the size of `child`
        band = (self.child @ self.head.mT)[..., 0] if one else (self.child * self.head).sum(-1)
        band = band.permute(0, 3, 1, 2)
        return band.gather(-1, self.buckets.near.expand(*band.shape[:2], *self.buckets.near.shape))

    def to_labels(self, heads: Float[Tensor, "b c n n"]) -> Float[Tensor, "b n d"]:
        """The share of ``G`` that comes through the near buckets."""
        inside = self.buckets.head_inside
        band = heads.gather(-1, self.buckets.head.expand(*heads.shape[:2], *inside.shape)) * inside
        band = band.permute(0, 2, 3, 1)
        if self.one_head_side:
            to_child, from_child = band[..., None] @ self.head, band[..., None, :] @ self.child
        else:
            to_child, from_child = band[..., None] * self.head, band[..., None] * self.child
        to_head = shifted(from_child, self.buckets.child) * self.buckets.child_inside[:, :, None, None]
        if self.form.head is None:
            to_head = to_head.sum(2, keepdim=True)
        return self.form.from_child(to_child) + self.form.from_head(to_head)


class TernaryMessages:
    """The messages of one ternary factor for fixed label distributions; projects them once for both directions.

    ``forms`` are those of the groups ``buckets.sizes``: far on the left, near, far on the right; or one for all.
    """

    def __init__(self, forms: Sequence[Form], labels: Float[Tensor, "b n d"], buckets: Buckets) -> None:
        self.buckets = buckets
        far_forms = [forms[0], forms[-1]] if len(forms) > 1 else [forms[0]]
        self.far = [FarMessages(form, labels, here) for form, here in zip(far_forms, buckets.far, strict=True)]
        self.near = NearMessages(forms[1], labels, buckets) if len(forms) == 3 else None

    def to_heads(self) -> Float[Tensor, "b c n n"]:
        """``F [b, c, i, j]``; entries of words that are no candidates (the diagonal, padding) have no meaning."""
        scores = self.far[0].to_heads()
        if len(self.far) == 2:
            scores = torch.where(self.buckets.far[0], scores, self.far[1].to_heads())
        if self.near is not None:
            scores = torch.where(self.buckets.far.any(0), scores, self.near.to_heads().to(scores.dtype))
        return scores

    def to_labels(self, heads: Float[Tensor, "b c n n"]) -> Float[Tensor, "b n d"]:
        """``G [b, i, a]`` for head distributions ``Q_H [b, c, i, j]`` that are zero wherever there is no candidate."""
        message = self.far[0].to_labels(heads)
        for far in self.far[1:]:
            message = message + far.to_labels(heads)
        return message if self.near is None else message + self.near.to_labels(heads)


def shifted(side: Float[Tensor, "b n w1 c r"], index: Int[Tensor, "n w"]) -> Float[Tensor, "b n w c r"]:
    """``side[b, index[i, w], w, c, r]``: every slot moved along the sentence by its own offset."""
    n, width = index.shape
    b, _, slots, c, r = side.shape
    if slots > 1:
        index = index * width + torch.arange(width, device=index.device)
    moved: Tensor = side.flatten(1, 2).index_select(1, index.flatten())
    return moved.reshape(b, n, width, c, r)
