"""Messages between head and label variables (Wu & Tu 2023, Eq. 3, 4, 9, 10), in terms of the sides.

With the sides ``u_i[k,c]`` and ``v_j[k,c]`` of the ternary scores (``potentials.py``) and the bucket ``k = f(i-j)``:

    F_ic(j)    = u_i[k,c] · v_j[k,c]                       score of head j for word i              (3)
    ū_i[k,c]   = Σ_{j: f(i-j)=k} Q_ic(j) v_j[k,c]          from the words that may be i's head     (4, first term)
    v̄_j[k,c]   = Σ_{i: f(i-j)=k} Q_ic(j) u_i[k,c]          from the words whose head j may be      (4, second term)

``ū`` and ``v̄`` are the derivatives of ``Σ Q_ic(j) F_ic(j)``; the bucket of the second is the child's, as it must be.

``banded.py`` computes them; the plain text, which these are equal to, is ``crf.py``.

symbol      variable    shape            meaning
Q_H, F      heads       [l, h, n, m]     on lines (``layout.py``), over words, then root and all-dep global features
G           –           [w, d]           messages to the labels, one row a word (``layout.py``)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.layout import Layout

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


def pairs(sentence: Int[Tensor, "l m"]) -> Bool[Tensor, "l 1 m m"]:
    """Which word may be whose head, ``[l, 1, i, j]``: every word of the same ``sentence`` (-1: no word) but itself."""
    same = (sentence[:, :, None] == sentence[:, None, :]) & (sentence >= 0)[:, None, :]
    itself = torch.eye(sentence.shape[1], dtype=torch.bool, device=sentence.device)
    return (same & ~itself)[:, None]
