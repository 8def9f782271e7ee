"""Factors of the conditional random field (Wu & Tu 2023, section 2) and their parameters.

Every ternary factor is a bilinear form in the label distributions of a word and of its head,

    F_ic(j) = Σ_ab Q_i(a) Q_j(b) T[k,c,a,b] = Σ_l u_i[k,c,l] v_j[k,c,l],     k = f(i-j)         (Eq. 3, 9)

so a decomposition is a pair of matrices that take ``Q`` to the child side ``u`` and to the head side ``v``: a
:class:`Form`. The messages (``messages.py``) see nothing else of ``T``. The way back, from messages to ``u`` and ``v``
to one message to the labels, is the transposed pair.

symbol  variable   shape               meaning                                                          equation
T       dense()    [K, h, d, d]        ternary scores: bucket k, channel c, label of word, of head      2, 9
U V     U, V       [K, d, h, r]        factors of `uv`                                                  14
U V W   U, V, W    [K, d, r] [K, h, r] factors of `uvw`                                                 13
u v     –          [b, n, K, h, r]     the two sides; an axis of size 1 stands for "the same for all"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from probtrans_cli.recipe_model import NoDecomposition, UVDecomposition, UVWDecomposition


@dataclass(frozen=True)
class Form:
    """The bilinear form of some buckets: ``u = Q · child`` (times ``weight``, channel by channel), ``v = Q · head``.

    ``head`` None stands for ``v = Q``, the same for all buckets and channels. In ``child`` and ``head`` the axis ``c``
    has size 1 where all channels share a matrix.
    """

    child: Float[Tensor, "a k c1 r"]
    head: Float[Tensor, "e k c2 r"] | None
    weight: Float[Tensor, "k c r"] | None = None

    def child_side(self, labels: Float[Tensor, "b n d"]) -> Float[Tensor, "b n k c r"]:
        """``u`` for label distributions ``Q_Z``."""
        side = _times(labels, self.child)
        return side if self.weight is None else side * self.weight

    def head_side(self, labels: Float[Tensor, "b n d"]) -> Float[Tensor, "b n k2 c2 r"]:
        """``v`` for label distributions ``Q_Z``."""
        return labels[:, :, None, None] if self.head is None else _times(labels, self.head)

    def from_child(self, message: Float[Tensor, "b n k c r"]) -> Float[Tensor, "b n d"]:
        """A message to ``u`` as a message to the labels."""
        if self.weight is not None:
            message = (message * self.weight).sum(3)
        return message.flatten(2) @ self.child.flatten(1).T

    def from_head(self, message: Float[Tensor, "b n k2 c2 r"]) -> Float[Tensor, "b n d"]:
        """A message to ``v`` as a message to the labels."""
        return message[:, :, 0, 0] if self.head is None else message.flatten(2) @ self.head.flatten(1).T


def _times(labels: Float[Tensor, "b n d"], matrix: Float[Tensor, "d k c r"]) -> Float[Tensor, "b n k c r"]:
    return (labels @ matrix.flatten(1)).reshape(*labels.shape[:2], *matrix.shape[1:])


class Ternary(nn.Module, ABC):
    """Ternary scores ``T [K, h, d, d]`` in some parameterisation."""

    @abstractmethod
    def forms(self, sizes: Sequence[int]) -> list[Form]:
        """The bilinear forms of groups of neighbouring buckets; ``sizes`` sum to K.

        (Split, not sliced: the gradient of a slice is a zero-filled tensor of the whole size.)
        """

    @abstractmethod
    def dense(self) -> Float[Tensor, "k c a e"]:
        """``T`` itself."""

    @abstractmethod
    def squared_norm(self) -> Float[Tensor, ""]:
        """``Σ T²`` over all buckets and channels, without building ``T`` where that is cheaper."""


class Full(Ternary):
    """``T`` itself, N(0, 1) at the start: ``u_i = Q_i T[k,c]``, ``v_j = Q_j`` for every bucket and channel."""

    def __init__(self, buckets: int, channels: int, labels: int) -> None:
        super().__init__()
        self.T = nn.Parameter(torch.randn(buckets, channels, labels, labels))

    def forms(self, sizes: Sequence[int]) -> list[Form]:
        return [Form(T, None) for T in torch.split(self.T.permute(2, 0, 1, 3), list(sizes), dim=1)]

    def dense(self) -> Float[Tensor, "k c a e"]:
        return self.T

    def squared_norm(self) -> Float[Tensor, ""]:
        return self.T.square().sum()


class UV(Ternary):
    """``T[k,c,a,b] = Σ_l U[k,a,c,l] V[k,b,c,l]`` (Eq. 14), N(0, 1/r) at the start."""

    def __init__(self, buckets: int, channels: int, labels: int, rank: int) -> None:
        super().__init__()
        shape = (buckets, labels, channels, rank)
        self.U = nn.Parameter(torch.randn(shape) * rank**-0.5)
        self.V = nn.Parameter(torch.randn(shape) * rank**-0.5)

    def forms(self, sizes: Sequence[int]) -> list[Form]:
        sides = [torch.split(factor.transpose(0, 1), list(sizes), dim=1) for factor in (self.U, self.V)]
        return [Form(U, V) for U, V in zip(*sides, strict=True)]

    def dense(self) -> Float[Tensor, "k c a e"]:
        return torch.einsum("kacr,kecr->kcae", self.U, self.V)

    def squared_norm(self) -> Float[Tensor, ""]:
        # ‖U Vᵀ‖² = Σ (UᵀU ∘ VᵀV), bucket by bucket and channel by channel.
        gram_u = torch.einsum("kacr,kacs->kcrs", self.U, self.U)
        gram_v = torch.einsum("kecr,kecs->kcrs", self.V, self.V)
        return (gram_u * gram_v).sum()


class UVW(Ternary):
    """``T[k,c,a,b] = Σ_l U[k,a,l] V[k,b,l] W[k,c,l]`` (Eq. 13), N(0, 1/r) at the start."""

    def __init__(self, buckets: int, channels: int, labels: int, rank: int) -> None:
        super().__init__()
        self.U = nn.Parameter(torch.randn(buckets, labels, rank) * rank**-0.5)
        self.V = nn.Parameter(torch.randn(buckets, labels, rank) * rank**-0.5)
        self.W = nn.Parameter(torch.randn(buckets, channels, rank) * rank**-0.5)

    def forms(self, sizes: Sequence[int]) -> list[Form]:
        U, V = (torch.split(factor.transpose(0, 1)[:, :, None], list(sizes), dim=1) for factor in (self.U, self.V))
        return [Form(u, v, w) for u, v, w in zip(U, V, torch.split(self.W, list(sizes)), strict=True)]

    def dense(self) -> Float[Tensor, "k c a e"]:
        return torch.einsum("kar,ker,kcr->kcae", self.U, self.V, self.W)

    def squared_norm(self) -> Float[Tensor, ""]:
        gram_u = torch.einsum("kar,kas->krs", self.U, self.U)
        gram_v = torch.einsum("ker,kes->krs", self.V, self.V)
        gram_w = torch.einsum("kcr,kcs->krs", self.W, self.W)
        return (gram_u * gram_v * gram_w).sum()


def ternary(
    decomposition: NoDecomposition | UVDecomposition | UVWDecomposition, buckets: int, channels: int, labels: int
) -> Ternary:
    """The ternary scores that a recipe's ``model.decomposition`` asks for."""
    if isinstance(decomposition, UVDecomposition):
        return UV(buckets, channels, labels, decomposition.rank)
    if isinstance(decomposition, UVWDecomposition):
        return UVW(buckets, channels, labels, decomposition.rank)
    return Full(buckets, channels, labels)
