"""Messages between head and label variables (Wu & Tu 2023, Eq. 3, 4, 9, 10), as the equations stand.

With the sides ``u_i[k,c]`` and ``v_j[k,c]`` of the ternary scores (``potentials.py``) and the bucket ``k = f(i-j)``:

    F_ic(j)    = u_i[k,c] · v_j[k,c]                       score of head j for word i              (3)
    ū_i[k,c]   = Σ_{j: f(i-j)=k} Q_ic(j) v_j[k,c]          from the words that may be i's head     (4, first term)
    v̄_j[k,c]   = Σ_{i: f(i-j)=k} Q_ic(j) u_i[k,c]          from the words whose head j may be      (4, second term)

``ū`` and ``v̄`` are the derivatives of ``Σ Q_ic(j) F_ic(j)``; the bucket of the second is the child's, as it must be.

This is the text to read and the oracle of the fast form (``fast/banded.py``): it builds a tensor of all pairs of words
and all buckets, which the fast one never does.

symbol      variable    shape            meaning
f(i-j) = k  bucket      [k, n, n]        1 where the pair (i, j) is in bucket k
Q_H, F      heads       [l, h, n, m]     on lines (``layout.py``), over words, then root and all-dep global features
G           –           [w, d]           messages to the labels, one row a word (``layout.py``)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from probtrans_cli.models.probabilistic.layout import Layout
from probtrans_cli.models.probabilistic.potentials import Ternary, bucket_count
from probtrans_cli.models.probabilistic.projections import Matrix, MatrixOf, Sides

S = TypeVar("S")


class Messages(ABC, Generic[S]):
    """The messages of the ternary factors of one batch.

    ``to_heads`` gives scores over *columns*: some order of the candidates that suits the computation, which
    :meth:`between_words` and :meth:`columns` translate. ``candidates [l, 1, n, m]``: which of them there are. The
    sides of the ternary scores are kept in a form ``S`` of its own.
    """

    layout: Layout

    @property
    @abstractmethod
    def candidates(self) -> Bool[Tensor, "l 1 n m"]:
        """Which of the columns there are."""

    @abstractmethod
    def sides(self, labels: Float[Tensor, "w d"]) -> S:
        """The sides of the ternary scores for label distributions, as the other methods take them."""

    @abstractmethod
    def to_heads(self, sides: S) -> Float[Tensor, "l c n m"]:
        """``F``; entries that are no candidates have no meaning."""

    @abstractmethod
    def to_labels(
        self, sides: S, heads: Float[Tensor, "l c n m"], only: Int[Tensor, " w2"] | None = None
    ) -> Float[Tensor, "w2 d"]:
        """``G`` for head distributions that are zero wherever there is no candidate; of the rows ``only``."""

    @abstractmethod
    def between_words(self, columns: Float[Tensor, "l c n m"]) -> Float[Tensor, "l c n n"]:
        """From columns to one entry a pair of words."""

    @abstractmethod
    def columns(self, pairs: Float[Tensor, "l c n n"]) -> Float[Tensor, "l c n m"]:
        """From one entry a pair of words to columns."""


class PlainMessages(Messages[Sides]):
    """The equations as they stand; column ``j`` is word ``j``."""

    def __init__(self, ternary: Ternary, layout: Layout, distance: int | None, *, matrix: MatrixOf = Matrix) -> None:
        """``matrix``: how the factors of the ternary scores are multiplied with."""
        self.layout, self.position = layout, layout.position
        self.projection = ternary.projection([bucket_count(distance)], matrix)
        self.bucket = bucket_of(layout.sentence.shape[1], distance, layout.sentence.device)

    @property
    def candidates(self) -> Bool[Tensor, "l 1 n m"]:
        return pairs(self.layout.sentence)

    def sides(self, labels: Float[Tensor, "w d"]) -> Sides:
        (sides,) = self.projection.sides(labels, self.position)
        return sides

    def to_heads(self, sides: Sides) -> Float[Tensor, "l c n m"]:
        u, v = self._grids(sides)
        by_bucket = torch.einsum("bikcr,bjkcr->bckij", u, v)
        return (by_bucket * self.bucket).sum(2)

    def to_labels(
        self, sides: Sides, heads: Float[Tensor, "l c n m"], only: Int[Tensor, " w2"] | None = None
    ) -> Float[Tensor, "w2 d"]:
        u, v = self._grids(sides)
        by_bucket = heads.to(u.dtype)[:, :, None] * self.bucket
        to_child = torch.einsum("bckij,bjkcr->bikcr", by_bucket, v)
        to_head = torch.einsum("bckij,bikcr->bjkcr", by_bucket, u)
        for axis in (1, 2):  # a side that is the same for all buckets or channels
            if sides.head.shape[axis] == 1:
                to_head = to_head.sum(axis + 1, keepdim=True)
        message = Sides(sides.back(self.layout.rows(to_child)), self.layout.rows(to_head))
        to_labels = self.projection.collect([message], self.position)
        return to_labels if only is None else to_labels.index_select(0, only)

    def _grids(self, sides: Sides) -> tuple[Float[Tensor, "l n k c r"], Float[Tensor, "l n k c r"]]:
        u = self.layout.grid(sides.u)
        return u, self.layout.grid(sides.head).expand(u.shape)

    def between_words(self, columns: Float[Tensor, "l c n m"]) -> Float[Tensor, "l c n n"]:
        return columns

    def columns(self, pairs: Float[Tensor, "l c n n"]) -> Float[Tensor, "l c n m"]:
        return pairs


def pairs(sentence: Int[Tensor, "l m"]) -> Bool[Tensor, "l 1 m m"]:
    """Which word may be whose head, ``[l, 1, i, j]``: every word of the same ``sentence`` (-1: no word) but itself."""
    same = (sentence[:, :, None] == sentence[:, None, :]) & (sentence >= 0)[:, None, :]
    itself = torch.eye(sentence.shape[1], dtype=torch.bool, device=sentence.device)
    return (same & ~itself)[:, None]


def bucket_of(n: int, distance: int | None, device: torch.device) -> Bool[Tensor, "k n n"]:
    """Eq. 10 for every pair of ``n`` words, child ``i`` and head ``j``: True in the plane of the pair's bucket."""
    word = torch.arange(n, device=device)
    x = word[:, None] - word[None, :]
    if distance is None:
        return torch.ones_like(x, dtype=torch.bool)[None]
    bucket = torch.where(x < 0, x + distance + 1, x + distance).clamp(0, 2 * distance + 1)
    return bucket == torch.arange(bucket_count(distance), device=device)[:, None, None]
