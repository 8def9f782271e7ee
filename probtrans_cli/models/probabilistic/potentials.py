"""Factors of the conditional random field (Wu & Tu 2023, section 2 and B.3) and their parameters.

Every ternary factor is a bilinear form in the label distributions (or means, ``inference.py``) of a word and its head,

    F_ic(j) = Σ_ab Q_i(a) Q_j(b) T[k,c,a,b] = Σ_l u_i[k,c,l] v_j[k,c,l],     k = f(i-j)         (Eq. 3, 9)

so a decomposition says how ``Q`` becomes the child side ``u`` and the head side ``v``, and how messages to the two
sides become one message to the labels: a :class:`Projection` (``projections.py``).

symbol  variable   shape               meaning                                                          equation
T       dense()    [K, h, d, d]        ternary scores: bucket k, channel c, label of word, of head      2, 9
U V     U, V       [K, h, r, d]        factors of `uv`                                                  14
U V W   U, V, W    [K, r, d] [K, h, r] factors of `uvw`                                                 13
U V D   U, V, D    [h, r, d] [K, h, r] factors of `shared`                                              –
U V     U, V       [h, r, d]           factors of `rotary`                                              –
T'      dense()    [h, d, d_root]      root scores                                                      2.3.5
B       dense()    [h|1, m, d]         global scores                                                    B.3
g       gains      [d]                 gains: T g_a g_b, T' g_a and B g_a stand for T, T' and B         –
u v     –          [w, K, h, r]        the two sides of every word

With `model.gains` (not in the paper) each of the three has gains ``g`` of its own, a factor of every label of a word,
which a decay of matrices does not hold back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from probtrans_cli.models.probabilistic import crf
from probtrans_cli.models.probabilistic.causal import Chain, RootColumn, spread
from probtrans_cli.models.probabilistic.projections import Group, Grouped, Projection, Rotated, SharedSides
from probtrans_cli.recipe.base import Table
from probtrans_cli.recipe.model.probabilistic import (
    DECOMPOSITIONS,
    Decomposition,
    Globals,
    NoDecomposition,
    ProbabilisticTransformer,
    Root,
    RotaryDecomposition,
    SharedDecomposition,
    UVDecomposition,
    UVWDecomposition,
)


class Scores(crf.Factor):
    """A factor with gains.

    ``gains [d]``: a learned factor of every label, 1 at the start; None: there are none. Whatever reads parameters has
    them :meth:`scaled`, so gains are a part of the scores, not of the inference.
    """

    gains: nn.Parameter | None
    variables: int = 1
    """Of how many labels each channel reads one, see ``causal.py``."""

    def __init__(self) -> None:
        super().__init__()
        self.gains = None

    def of_words(self, scores: Float[Tensor, "*k c r e"]) -> Float[Tensor, "*k c r d"]:
        """Return scores or factors of all labels of a word, from those of the labels that each channel reads."""
        return self.scaled(spread(scores, self.variables))

    def scaled(self, scores: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
        """Return scores or factors, whose last axis is the labels of a word, times the gains."""
        return scores if self.gains is None else scores * self.gains


class Ternary(Scores, crf.Ternary):
    """Ternary scores ``T [K, h, d, d]`` in some parameterisation. Gains scale the labels of a word and of its head: a
    parameterisation whose section says ``has_gains`` has its parameters :meth:`scaled` in all three methods."""

    distance: int | None = None

    def sides(self, labels: Float[Tensor, "b n d"]) -> tuple[Float[Tensor, "b n k c r"], Float[Tensor, "b n k c r"]]:
        b, n, _ = labels.shape
        position = torch.arange(n, device=labels.device).repeat(b)
        buckets = bucket_count(self.distance, causal=self.causal)
        (sides,) = self.projection([buckets]).sides(labels.flatten(0, 1), position)
        u, v = sides.u.expand(-1, buckets, -1, -1), sides.head  # all buckets may share the sides
        return u.reshape(b, n, *u.shape[1:]), v.expand(u.shape).reshape(b, n, *u.shape[1:])

    @abstractmethod
    def projection(self, sizes: Sequence[int]) -> Projection:
        """Return the projection for groups of neighbouring buckets, whose ``sizes`` sum to K."""

    @abstractmethod
    def dense(self) -> Float[Tensor, "k c a e"]:
        """Return ``T``."""

    def squared_norm(self) -> Float[Tensor, ""]:
        """Return ``Σ T²`` over all buckets and channels, without building ``T`` where that is cheaper."""
        return self.dense().square().sum()


class Full(Ternary):
    """``T`` itself, N(0, 1) at the start: ``u_i = Q_i T[k,c]``, ``v_j = Q_j``. Symmetric: ``(T + Tᵀ) / 2``."""

    def __init__(self, section: ProbabilisticTransformer) -> None:
        super().__init__()
        self.symmetric = section.symmetric
        buckets = bucket_count(section.distance, causal=section.causal)
        self.T = nn.Parameter(torch.randn(buckets, section.channels, section.labels, section.labels))

    def projection(self, sizes: Sequence[int]) -> Projection:
        scores = self.dense().transpose(2, 3).contiguous()
        return Grouped([Group(part, None) for part in torch.split(scores, list(sizes))])

    def dense(self) -> Float[Tensor, "k c a e"]:
        T = (self.T + self.T.transpose(2, 3)) / 2 if self.symmetric else self.T
        return self.of_words(self.scaled(T).mT).mT


class Factored(Ternary):
    """Ternary scores by factors: ``U`` of a word's labels, ``V`` of its head's (None: the same as ``U``)."""

    U: nn.Parameter
    V: nn.Parameter | None

    def factors(self) -> tuple[Float[Tensor, "*u d"], Float[Tensor, "*v d"]]:
        """``U`` and ``V``, scaled."""
        U = self.of_words(self.U)
        return U, U if self.V is None else self.scaled(self.V)


class UV(Factored):
    """``T[k,c,a,b] = Σ_l U[k,c,l,a] V[k,c,l,b]`` (Eq. 14), N(0, 1/r) at the start.

    Symmetric: ``V = D U`` with a learned diagonal ``D [K, h, r]`` (±1 at the start): any symmetric matrix of rank r.
    """

    def __init__(self, section: ProbabilisticTransformer) -> None:
        super().__init__()
        form: Any = section.decomposition
        shape = (bucket_count(section.distance, causal=section.causal), section.channels, form.rank, section.labels)
        self.U = nn.Parameter(torch.randn(shape) * form.rank**-0.5)
        self.V = None if section.symmetric else nn.Parameter(torch.randn(shape) * form.rank**-0.5)
        # Half of a symmetric matrix's eigenvalues have either sign.
        signs = torch.ones(shape[:3]) - 2.0 * (torch.arange(form.rank) % 2)
        self.D = nn.Parameter(signs) if section.symmetric else None

    def factors(self) -> tuple[Tensor, Tensor]:
        U, V = super().factors()
        return U, V if self.D is None else U * self.D[..., None]

    def projection(self, sizes: Sequence[int]) -> Projection:
        U, V = (torch.split(factor, list(sizes)) for factor in self.factors())
        return Grouped([Group(*pair) for pair in zip(U, V, strict=True)])

    def dense(self) -> Float[Tensor, "k c a e"]:
        return torch.einsum("kcra,kcre->kcae", *self.factors())

    def squared_norm(self) -> Float[Tensor, ""]:
        # ‖U Vᵀ‖² = Σ (UᵀU ∘ VᵀV), bucket by bucket and channel by channel.
        U, V = self.factors()
        return ((U @ U.mT) * (V @ V.mT)).sum()


class UVW(Factored):
    """``T[k,c,a,b] = Σ_l U[k,l,a] V[k,l,b] W[k,c,l]`` (Eq. 13), N(0, 1/r) at the start. Symmetric: ``V = U``."""

    def __init__(self, section: ProbabilisticTransformer) -> None:
        super().__init__()
        form: Any = section.decomposition
        buckets, rank = bucket_count(section.distance, causal=section.causal), form.rank
        self.U = nn.Parameter(torch.randn(buckets, rank, section.labels) * rank**-0.5)
        self.V = None if section.symmetric else nn.Parameter(torch.randn(buckets, rank, section.labels) * rank**-0.5)
        self.W = nn.Parameter(torch.randn(buckets, section.channels, rank) * rank**-0.5)

    def projection(self, sizes: Sequence[int]) -> Projection:
        U, V = (torch.split(factor[:, None], list(sizes)) for factor in self.factors())
        return Grouped([Group(*group) for group in zip(U, V, torch.split(self.W, list(sizes)), strict=True)])

    def dense(self) -> Float[Tensor, "k c a e"]:
        return torch.einsum("kra,kre,kcr->kcae", *self.factors(), self.W)

    def squared_norm(self) -> Float[Tensor, ""]:
        U, V = self.factors()
        return ((U @ U.mT) * (V @ V.mT) * (self.W.mT @ self.W)).sum()


class Shared(Factored):
    """``T[k,c,a,b] = Σ_l U[c,l,a] D[k,c,l] V[c,l,b]``: one pair of factors for all buckets (not in the paper).

    The products with ``U`` and ``V`` cost a K-th of those of `uv`. ``D`` is N(0, 1) at the start, so that ``T`` is as
    large as that of `uv`. Symmetric: ``V = U``.
    """

    def __init__(self, section: ProbabilisticTransformer) -> None:
        super().__init__()
        form: Any = section.decomposition
        shape = (section.channels, form.rank, section.labels)
        self.U = nn.Parameter(torch.randn(shape) * form.rank**-0.5)
        self.V = None if section.symmetric else nn.Parameter(torch.randn(shape) * form.rank**-0.5)
        self.D = nn.Parameter(torch.randn(bucket_count(section.distance, causal=section.causal), *shape[:2]))

    def projection(self, sizes: Sequence[int]) -> Projection:
        U, V = self.factors()
        return SharedSides(U[None], V[None], torch.split(self.D, list(sizes)))

    def dense(self) -> Float[Tensor, "k c a e"]:
        U, V = self.factors()
        return torch.einsum("cra,kcr,cre->kcae", U, self.D, V)

    def squared_norm(self) -> Float[Tensor, ""]:
        U, V = self.factors()
        return torch.einsum("crs,kcr,kcs->", (U @ U.mT) * (V @ V.mT), self.D, self.D)


class Rotary(Factored):
    """``T[x,c] = U[c]ᵀ R(x) V[c]``, ``x = i - j``: a rotation by the distance between the factors (not in the paper).

    ``R(x)`` turns the plane of the rows l and l + r/2 by the angle ``x · base^(-2l/r)``. As ``R(i-j) = R(-i)ᵀ R(-j)``,
    each side is turned by its own position, and one product serves every distance: no γ, no buckets.
    """

    frequency: Tensor

    def __init__(self, section: ProbabilisticTransformer) -> None:
        super().__init__()
        form: Any = section.decomposition
        shape, rank = (section.channels, form.rank, section.labels), form.rank
        self.U = nn.Parameter(torch.randn(shape) * rank**-0.5)
        self.V = nn.Parameter(torch.randn(shape) * rank**-0.5)
        frequency = form.base ** (-torch.arange(0, rank, 2, dtype=torch.float64) / rank)
        self.register_buffer("frequency", frequency, persistent=False)

    def projection(self, sizes: Sequence[int]) -> Projection:
        del sizes
        U, V = self.factors()
        return Rotated(U[None], V[None], self.frequency)

    def dense(self) -> Float[Tensor, "k c a e"]:
        """Return ``T`` at the distances -1 and 1: head to the right, head to the left."""
        return self.at([-1, 1])

    def at(self, distances: Sequence[int]) -> Float[Tensor, "k c a e"]:
        """Return ``T`` at each of the distances ``x = i - j``."""
        U, V = self.factors()
        angle = torch.stack([x * self.frequency for x in distances])
        first, second = V.chunk(2, dim=1)
        scores = []
        for of_distance in zip(angle.cos(), angle.sin(), strict=True):
            cos, sin = (part[:, None].to(V.dtype) for part in of_distance)
            turned = torch.cat([first * cos - second * sin, first * sin + second * cos], dim=1)
            scores.append(torch.einsum("cra,cre->cae", U, turned))
        return torch.stack(scores)

    def squared_norm(self) -> Float[Tensor, ""]:
        """The mean of ``Σ T[x]²`` over angles that are independent and uniform: half of ``Σ ‖U_p‖² ‖V_p‖²``, plane by
        plane."""
        (u1, u2), (v1, v2) = (factor.square().sum(-1).chunk(2, dim=1) for factor in self.factors())
        return ((u1 + u2) * (v1 + v2)).sum() / 2


class RootScores(Scores, crf.Root):
    """``T'[c,a,b]`` (2.3.5): `none` N(0, 1) at the start, `uv` and `uvw` factors N(0, 1/r). Gains scale the labels of a
    word, not those of the root."""

    def __init__(self, section: Root, channels: int, labels: int) -> None:
        super().__init__()
        self.root_labels = section.labels
        form: Any = section.decomposition
        self.T: nn.Parameter | None = None
        if isinstance(form, NoDecomposition):
            self.T = nn.Parameter(torch.randn(channels, labels, section.labels))
            return
        each = (channels,) if isinstance(form, UVDecomposition) else ()
        self.U = nn.Parameter(torch.randn(*each, form.rank, labels) * form.rank**-0.5)
        self.V = nn.Parameter(torch.randn(*each, form.rank, section.labels) * form.rank**-0.5)
        self.W = None if each else nn.Parameter(torch.randn(channels, form.rank) * form.rank**-0.5)

    def dense(self) -> Float[Tensor, "c a e"]:
        if self.T is not None:
            return self.scaled(self.T.mT).mT
        U = self.scaled(self.U)
        return U.mT @ self.V if self.W is None else torch.einsum("ra,re,cr->cae", U, self.V, self.W)


class GlobalScores(Scores, crf.Globals):
    """``B[c,k,a]`` (B.3), N(0, 1/d) at the start; one channel where all share it (`single-split`, `rectified`).
    Of rectified features, of which many are there at once, N(0, 1/4d); other deviations were not tried.

    Neural (B.3.1): ``B[c,k,a] = Σ_g P(F_k = g) T''[c,a,g]`` with learned label distributions of the m global features.
    """

    def __init__(self, section: Globals, channels: int, labels: int) -> None:
        super().__init__()
        self.kind, self.by_channel = section.kind, section.by_channel
        channels = channels if section.by_channel else 1
        if section.kind == "all-dep":
            self.candidates = section.features
        else:
            self.second_heads = (channels, section.features)
        std = labels**-0.5 / (2 if section.kind == "rectified" else 1)
        self.B: nn.Parameter | None = None
        if section.parameterization == "direct":
            self.B = nn.Parameter(torch.randn(channels, section.features, labels) * std)
        else:
            self.features = nn.Parameter(torch.randn(section.features, labels))
            self.T = nn.Parameter(torch.randn(channels, labels, labels))

    def dense(self) -> Float[Tensor, "c m a"]:
        return self.of_words(self.features.softmax(-1) @ self.T.mT if self.B is None else self.B)


class Potentials(NamedTuple):
    """All factors of a random field but the unary ones: ``T``, and ``T'`` and ``B`` where the model has them."""

    ternary: Ternary
    root: RootScores | RootColumn | None
    features: GlobalScores | None
    chain: Chain | None = None

    @classmethod
    def of(cls, drawn: DrawnPotentials) -> Potentials:
        """Return the factors of these parameters."""
        return cls(drawn.ternary, drawn.root, drawn.globals, drawn.chain)


class DrawnPotentials(nn.Module):
    """The parameters of these factors, drawn as at the start of a training."""

    def __init__(self, section: ProbabilisticTransformer) -> None:
        super().__init__()
        channels, labels = section.channels, section.labels
        self.ternary = TERNARY[section.decomposition.kind].make(section)
        self.ternary.distance, self.ternary.causal = section.distance, section.causal
        start(self.ternary, section.ternary_std)
        self.root: RootScores | RootColumn | None = None
        if section.causal:
            self.root = RootColumn(channels, labels, section.label_variables)
        elif section.root is not None:
            self.root = RootScores(section.root, channels, labels)
        if self.root is not None:
            start(self.root, section.ternary_std)
        self.chain = Chain(labels) if section.chain else None
        self.globals = None if section.globals is None else GlobalScores(section.globals, channels, labels)
        for scores in (self.ternary, self.root, self.globals):
            if not isinstance(scores, Scores):
                continue
            if section.label_variables > 1 and getattr(scores, "by_channel", True):
                # Each channel keeps the scores of the labels of one variable.
                scores.variables = section.label_variables
                for name, axis in (("T", -2), ("U", -1), ("B", -1)):
                    parameter = getattr(scores, name, None)
                    if parameter is not None:
                        part = parameter.data.chunk(section.label_variables, axis)[0].clone()
                        setattr(scores, name, nn.Parameter(part))
            if section.gains:
                scores.gains = nn.Parameter(torch.ones(labels))


class TernaryKind(NamedTuple):
    """A row of the parameterisations: its section of the recipe, and what makes the scores for the section of the
    model that it stands in; ``section.decomposition`` is then of this kind."""

    section: type[Decomposition]
    make: Callable[[ProbabilisticTransformer], Ternary]


TERNARY: Table[TernaryKind] = Table("parameterisation of the ternary scores")
"""The parameterisations of the ternary scores, by the kind of `model.decomposition`."""


def register(row: TernaryKind) -> TernaryKind:
    """Add a parameterisation of the ternary scores, to what `model.decomposition` may hold and to the table.

    Raises:
        ValueError: there is another one of this name.
    """
    TERNARY.enter(DECOMPOSITIONS.name_of(row.section), row)
    return row


register(TernaryKind(NoDecomposition, Full))
register(TernaryKind(UVDecomposition, UV))
register(TernaryKind(UVWDecomposition, UVW))
register(TernaryKind(SharedDecomposition, Shared))
register(TernaryKind(RotaryDecomposition, Rotary))


def start(scores: nn.Module, std: float | None) -> None:
    """Draw ``T``, or its factors ``U`` and ``V``, or ``r``, from N(0, std²); with None they stay as they are."""
    for name in ("T", "U", "V", "r"):
        parameter = getattr(scores, name, None)
        if std is not None and isinstance(parameter, nn.Parameter):
            nn.init.normal_(parameter, std=std)


def bucket_count(distance: int | None, *, causal: bool = False) -> int:
    """Return K: ``2γ + 2`` distance buckets, or one without distance (Eq. 10); ``γ + 1`` of earlier words alone."""
    return 1 if distance is None else distance + 1 if causal else 2 * distance + 2
