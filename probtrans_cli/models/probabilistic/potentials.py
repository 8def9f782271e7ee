"""Factors of the conditional random field (Wu & Tu 2023, section 2) and their parameters.

Every ternary factor is a bilinear form in the label distributions of a word and of its head,

    F_ic(j) = Σ_ab Q_i(a) Q_j(b) T[k,c,a,b] = Σ_l u_i[k,c,l] v_j[k,c,l],     k = f(i-j)         (Eq. 3, 9)

so a decomposition is a pair of linear maps of ``Q``: to the child side ``u`` and to the head side ``v``. The messages
(``messages.py``) see nothing else of ``T``. The way back, from messages to ``u`` and ``v`` to a message to the labels,
is the transposed pair.

symbol  variable   shape              meaning                                                          equation
T       dense()    [K, h, d, d]       ternary scores: bucket k, channel c, label of word, of head      2, 9
U V     U, V       [K, d, h, r]       factors of `uv`                                                  14
U V W   U, V, W    [K, d, r] [K, h, r] factors of `uvw`                                                 13
u v     child,head [b, n, K, h, r]    the two sides; an axis of size 1 stands for "the same for all"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from probtrans_cli.recipe import NoDecomposition, UVDecomposition, UVWDecomposition


class Sides(NamedTuple):
    """Child side ``u [b, n, K, h, r]`` and head side ``v`` of the bilinear form; axes of ``v`` may have size 1."""

    child: Float[Tensor, "b n k c r"]
    head: Float[Tensor, "b n k1 c1 r"]


class Ternary(nn.Module, ABC):
    """Ternary scores ``T [K, h, d, d]`` in some parameterisation."""

    @abstractmethod
    def project(self, labels: Float[Tensor, "b n d"]) -> Sides:
        """Both sides of the bilinear form for label distributions ``Q_Z``."""

    @abstractmethod
    def collect(self, sides: Sides) -> Float[Tensor, "b n d"]:
        """The transpose of :meth:`project`, summed over both sides: messages to ``u`` and ``v`` as one to the labels."""

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

    def project(self, labels: Float[Tensor, "b n d"]) -> Sides:
        child = torch.einsum("bia,kcae->bikce", labels, self.T)
        return Sides(child, labels[:, :, None, None, :])

    def collect(self, sides: Sides) -> Float[Tensor, "b n d"]:
        return torch.einsum("bikce,kcae->bia", sides.child, self.T) + sides.head[:, :, 0, 0, :]

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

    def project(self, labels: Float[Tensor, "b n d"]) -> Sides:
        return Sides(
            torch.einsum("bia,kacr->bikcr", labels, self.U),
            torch.einsum("bje,kecr->bjkcr", labels, self.V),
        )

    def collect(self, sides: Sides) -> Float[Tensor, "b n d"]:
        return torch.einsum("bikcr,kacr->bia", sides.child, self.U) + torch.einsum(
            "bjkcr,kecr->bje", sides.head, self.V
        )

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

    def project(self, labels: Float[Tensor, "b n d"]) -> Sides:
        child = torch.einsum("bia,kar->bikr", labels, self.U)
        head = torch.einsum("bje,ker->bjkr", labels, self.V)
        return Sides(child[:, :, :, None, :] * self.W, head[:, :, :, None, :])

    def collect(self, sides: Sides) -> Float[Tensor, "b n d"]:
        child = (sides.child * self.W).sum(3)
        return torch.einsum("bikr,kar->bia", child, self.U) + torch.einsum(
            "bjkr,ker->bje", sides.head[:, :, :, 0, :], self.V
        )

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
