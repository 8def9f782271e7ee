"""The variables of the field: their distributions, what mean field passes on of them, and how a message becomes one.

M^(t) = (1 - β) (message) / λ + β M^(t-1)     damped messages, after the division by the weight     (2.3.3, B.2)
Q^(t) = α softmax(M^(t)) + (1 - α) Q^(t-1)    distributions after a step                            (B.1)

The latent variable of a word is one of d labels or, not in the paper, *spherical*: a vector of length √d. Every
potential of the field is linear in each of its labels and heads, written as vectors ``z`` of d numbers. So all
that mean field passes on of a variable with the scores ``M``, whose distribution is ``exp(M · z)``, is its mean:

    categorical   z is one of the d unit vectors            E[z] = softmax(M), the label distribution    (Eq. 5)
    spherical     z has length √d, and every direction is   E[z] = d ρ(κ) M        ρ(κ) = A(κ) / κ       κ = √d |M|
                  alike before anything is known            A(κ) = I_{d/2}(κ) / I_{d/2-1}(κ)         (von Mises-Fisher)

Of weak scores the mean of a spherical variable is ``M`` itself; of strong ones it is the direction of ``M``, at length
√d: a transformer's normalisation, of which the mean of squares is 1. Neighbouring ratios ``I_{ν+1}(κ) / (κ I_ν(κ)) =
ρ_ν`` are known from each other, ``ρ_ν = 1 / (2ν + 2 + κ² ρ_{ν+1})``.

symbol   variable    shape     meaning
M        scores      [*, d]    scores of a variable, divided by its weight λ
E[z]     mean        [*, d]    what messages are computed with, ``Q`` of a categorical one
κ        –           [*, 1]    concentration of the von Mises-Fisher distribution
H        entropy     [*]       in nats; of a spherical variable 0 where it is uniform, and otherwise less
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.func import grad
from torch.nn import functional

from probtrans_cli.models.probabilistic.matrix_tree import head_marginals
from probtrans_cli.recipe.model.probabilistic import LatentKind

_STEPS = 2  # of the ratios' recurrence, below an approximation that is the better the higher the order
_HALVINGS = 80  # of an interval of float64
_POINTS = 200  # of an integral


class State(NamedTuple):
    """All distributions at one moment, zero on padding; ``root`` and ``features`` None where the model has none.

    ``scores``: ``M_H``, of which the heads were made, very low where there is no candidate; kept if asked for.
    ``prefix``: of a causal field, the label distributions of words as heads, which are constants; see ``causal.py``.
    """

    labels: Float[Tensor, "b n d"]
    heads: Float[Tensor, "b c n m"]
    root: Float[Tensor, "b e"] | None
    features: Float[Tensor, "b n g k"] | None
    scores: Float[Tensor, "b c n m"] | None = None
    prefix: Float[Tensor, "b n d"] | None = None

    @property
    def word_heads(self) -> Float[Tensor, "b c n n"]:
        """``Q_ic(j)``."""
        words = self.labels if self.prefix is None else self.prefix
        return self.heads[..., : words.shape[1]]

    @property
    def root_heads(self) -> Float[Tensor, "b c n"]:
        """``Q_ic(root)``, where there is a root."""
        words = self.labels if self.prefix is None else self.prefix
        return self.heads[..., words.shape[1]]


class Sentences(NamedTuple):
    """What factors may read of a batch; ``cues``: see ``head_bias.py``."""

    unary: Float[Tensor, "b n d"]
    mask: Bool[Tensor, "b n"]
    cues: Float[Tensor, "b n 9"] | None = None


def labels_allowed(heads: Bool[Tensor, "b 1 n m"], root: int, channels: int) -> Bool[Tensor, "b c n m"]:
    """Return the allowed pairs of head and label where label 0 is that of the root, column ``root``, alone."""
    of_root = torch.arange(heads.shape[-1], device=heads.device) == root
    first = torch.arange(channels, device=heads.device) == 0
    return heads & (of_root == first[:, None, None])


def masked(scores: Float[Tensor, "b c n m"], allowed: Bool[Tensor, "b k n m"]) -> Float[Tensor, "b c n m"]:
    """Return the scores, very low where there is no candidate."""
    return scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)


def over(
    scores: Float[Tensor, "b c n m"], allowed: Bool[Tensor, "b k n m"], *, labelled: bool = False
) -> Float[Tensor, "b c n m"]:
    """Return the softmax over the allowed entries of each row; a row with none is all zero, never NaN.

    ``labelled``: over the rows of all channels of a word together.
    """
    scores = masked(scores, allowed)
    if not labelled:
        return scores.softmax(-1) * allowed
    together = scores.transpose(1, 2)
    distribution = together.flatten(2).softmax(-1).view(together.shape).transpose(1, 2)
    return distribution * allowed


# --- latent variables -------------------------------------------------------------------------------------------------


class Latent(NamedTuple):
    """A kind of latent variable.

    ``mean`` of the scores; ``entropy`` of the mean; ``start``: scores before any message, from the unary scores and the
    weight λ_Z.
    """

    mean: Callable[[Float[Tensor, "*n d"]], Float[Tensor, "*n d"]]
    entropy: Callable[[Float[Tensor, "*n d"]], Float[Tensor, " *n"]]
    start: Callable[[Float[Tensor, "*n d"], float], Float[Tensor, "*n d"]]


def spherical_mean(scores: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
    """Return ``E[z]`` of a spherical variable, computed in float32 or better.

    The relative error of its formula is below 1e-6 from d = 64 on, below 1e-4 from 5, 4e-4 for d = 2 and 7e-4 for 1.
    """
    exact = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    d = exact.shape[-1]
    mean: Tensor = d * _ratio(d * exact.square().sum(-1, keepdim=True), d) * exact
    return mean.to(scores.dtype)


def _ratio(squares: Float[Tensor, "*n"], d: int) -> Float[Tensor, "*n"]:
    """Return ``ρ(κ)`` for the ``squares`` κ²: its recurrence, from an approximation at a higher order.

    The approximation is by the differential equation ``A' = 1 - A² - (d-1) A / κ``, with the slope ``A'`` of a lower
    bound of ``A`` (Amos 1974), ``κ / (a + √(b² + κ²))``, ``a = (d-1)/2``, ``b = (d+1)/2``; for d above 1.
    """
    highest = d + 2 * _STEPS
    a, b = (highest - 1) / 2, (highest + 1) / 2
    root = (b * b + squares).sqrt()
    rest = 1.0 - (a + b * b / root) / (a + root).square()
    ratio: Tensor = rest / (a + (a * a + squares * rest).sqrt())
    for size in range(highest - 2, d - 1, -2):
        ratio = 1.0 / (size + squares * ratio)
    return ratio


def spherical_entropy(mean: Float[Tensor, "*n d"]) -> Float[Tensor, " *n"]:
    """Return ``log Z(κ) - κ A(κ) = κ (1 - A(κ)) - ∫ (1 - A(x)) dx``, from 0 to the concentration κ of that mean.

    ``Z`` is the mean of ``exp(κ cos)`` over all directions. A read-out: κ is found by halving an interval, and the
    integral is taken by points of Gauss and Legendre over ``log(1 + x)``.
    """
    d = mean.shape[-1]

    def cosine(kappa: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        """``A(κ)``, the mean cosine of the angle to the direction of the scores."""
        return kappa * _ratio(kappa.square(), d)

    length = (mean.double().norm(dim=-1) / math.sqrt(d)).clamp(max=1.0 - 1e-9)
    low, high = torch.zeros_like(length), d * length / (1.0 - length.square()) + 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = cosine(middle) < length
        low, high = torch.where(short, middle, low), torch.where(short, high, middle)
    node, weight = (torch.as_tensor(part, device=mean.device) for part in np.polynomial.legendre.leggauss(_POINTS))
    end = high.log1p()[..., None] / 2.0
    x = (end * (node + 1.0)).expm1()
    rest = (end * weight * (1.0 - cosine(x)) * (x + 1.0)).sum(-1)
    entropy: Tensor = high * (1.0 - cosine(high)) - rest
    return entropy.to(mean.dtype)


LATENT: dict[LatentKind, Latent] = {
    "categorical": Latent(
        lambda scores: scores.softmax(-1), lambda mean: torch.special.entr(mean).sum(-1), lambda unary, _: unary
    ),
    "spherical": Latent(spherical_mean, spherical_entropy, lambda unary, weight: unary / weight),
}
"""The kinds of `model.latent`. The paper's categorical labels start with ``exp(S)``, whatever λ_Z is (Eq. 7)."""


def latent_of(kind: LatentKind, variables: int = 1) -> Latent:
    """Return a kind; of several categorical ``variables``, whose labels stand one behind the other."""
    if variables == 1:
        return LATENT[kind]
    return LATENT[kind]._replace(
        mean=lambda scores: torch.cat([part.softmax(-1) for part in scores.chunk(variables, -1)], -1)
    )


RECTIFIED = Latent(torch.relu, lambda degree: degree.square().sum(-1) / -2.0, lambda unary, _: unary)
"""What global features of `kind: rectified` are: numbers ``f ≥ 0`` with the potential ``exp(f F - f²/2)`` for their
score ``F``. In place of their mean stands the most probable value, ``max(0, F)``, which is the mean in the limit of a
small temperature; so no λ changes it. In place of an entropy stands what a degree costs by itself, ``-f²/2``."""


# --- updates ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Update:
    """How messages become distributions: ``weight`` λ, ``step`` α, ``damping`` β."""

    weight: float
    step: float = 1.0
    damping: float = 0.0

    def message(self, new: Tensor, old: Tensor | None) -> Tensor:
        """Return the damped, scaled message ``M``; ``old`` None stands for 0."""
        new = new / self.weight
        if self.damping == 0.0:
            return new
        new = (1.0 - self.damping) * new
        return new if old is None else new + self.damping * old

    def distribution(self, new: Tensor, old: Tensor) -> Tensor:
        """Return the distribution ``Q`` after a step."""
        return new if self.step == 1.0 else self.step * new + (1.0 - self.step) * old


@dataclass(frozen=True)
class Inference:
    """Options of mean field.

    Args:
        distance: γ; None for one bucket.
        features: of the second heads of dep-split and single-split; or of rectified features, whose weight is 1.
        root: every word may have the root as its head.
        tree: the heads of a sentence form a tree in every channel.
        latent: what the labels of words and root are.
        label_variables: how many of them a word has, see ``causal.py``.
        of_features: what a second head, or a rectified feature, is.
        labelled: a word has one head variable, whose values are pairs of a candidate and a channel.
        root_label: channel 0 is then that of the root, and of no other candidate.
        scored: states keep the scores of heads, too.
    """

    iterations: int
    asynchronous: bool
    channels: int
    distance: int | None
    labels: Update
    heads: Update
    features: Update
    root: bool = False
    tree: bool = False
    latent: LatentKind = "categorical"
    label_variables: int = 1
    of_features: Latent = LATENT["categorical"]
    labelled: bool = False
    root_label: bool = False
    scored: bool = False
    causal: bool = False

    def candidates(self, mask: Bool[Tensor, "b n"], extra: int) -> Bool[Tensor, "b c n m"]:
        """Return the candidates of every head: all words but the word itself, or all earlier ones, and ``extra``."""
        n = mask.shape[1]
        word = torch.arange(n, device=mask.device)
        others = word < word[:, None] if self.causal else word != word[:, None]
        words = (mask[:, None, :] & mask[:, :, None] & others)[:, None]
        allowed = functional.pad(words, (0, extra), value=True) & mask[:, None, :, None]
        return labels_allowed(allowed, n, self.channels) if self.root_label else allowed

    def head_distributions(
        self, M: Float[Tensor, "b c n m"], allowed: Bool[Tensor, "b k n m"], mask: Bool[Tensor, "b n"]
    ) -> Float[Tensor, "b c n m"]:
        """Return ``Q_H`` for the scores ``M``: a softmax over the candidates of each head, or marginals of trees."""
        if not self.tree:
            return over(M, allowed, labelled=self.labelled)
        return head_marginals(masked(M, allowed) if self.labelled else M, mask, labelled=self.labelled)


def derivatives(
    score: Callable[[dict[str, Tensor]], Float[Tensor, ""]], values: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the derivatives of a score by some values; through them gradients flow to what they depend on."""
    if torch.is_inference_mode_enabled():  # where autograd keeps nothing; the import takes a second or more
        result: dict[str, Tensor] = grad(score)(dict(values))
        return result
    # Aliases, so that these are derivatives by the values alone, and not through what they depend on.
    further = torch.is_grad_enabled()
    with torch.enable_grad():
        free = {name: some.view_as(some) if some.requires_grad else some.detach() for name, some in values.items()}
        for some in free.values():
            some.requires_grad_()
        gradients = torch.autograd.grad(score(free), list(free.values()), create_graph=further)
    return dict(zip(free, gradients, strict=True))
