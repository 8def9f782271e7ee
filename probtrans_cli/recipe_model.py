"""The ``model`` section of a recipe: the probabilistic transformer and all its options. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from probtrans_cli.recipe_base import Fraction, NonNegativeInt, PositiveFloat, PositiveInt, Section

StepSize = Annotated[float, Field(gt=0.0, le=1.0)]


class NoDecomposition(Section):
    """`T` itself: one d x d matrix for every bucket and channel."""

    kind: Literal["none"] = "none"


class UVDecomposition(Section):
    """Eq. 14: `T[k,c,a,b] = sum_l U[k,a,c,l] V[k,b,c,l]`."""

    kind: Literal["uv"]
    rank: PositiveInt = 64
    """r, the number of terms."""


class UVWDecomposition(Section):
    """Eq. 13: `T[k,c,a,b] = sum_l U[k,a,l] V[k,b,l] W[k,c,l]`."""

    kind: Literal["uvw"]
    rank: PositiveInt = 64
    """r, the number of terms."""


class SharedDecomposition(Section):
    """One pair of factors for all buckets (not in the paper): `T[k,c,a,b] = sum_l U[a,c,l] D[k,c,l] V[b,c,l]`."""

    kind: Literal["shared"]
    rank: PositiveInt = 64
    """r, the number of terms."""


class RotaryDecomposition(Section):
    """A rotation by the distance x = i - j between the factors (not in the paper): `T[x,c] = U[c] R(x) V[c]^T`."""

    kind: Literal["rotary"]
    rank: Annotated[int, Field(ge=2, lt=2**31, multiple_of=2)] = 64
    """r, the number of terms, two to a rotated plane."""
    base: PositiveFloat = 10000.0
    """Plane l turns by `base^(-2l/r)` a word."""


Decomposition = Annotated[
    NoDecomposition | UVDecomposition | UVWDecomposition | SharedDecomposition | RotaryDecomposition,
    Field(discriminator="kind"),
]
RootDecomposition = Annotated[NoDecomposition | UVDecomposition | UVWDecomposition, Field(discriminator="kind")]


class Root(Section):
    """A root node (2.3.5): one more head for every word, with a label of its own."""

    labels: PositiveInt = 512
    """d_root, the number of the root's labels."""
    decomposition: RootDecomposition = NoDecomposition()
    """How the root scores `T'[c,a,b]` are parameterised: none | uv | uvw."""


class Globals(Section):
    """Global features (B.3), the counterpart of a transformer's feed-forward layer."""

    kind: Literal["all-dep", "dep-split", "single-split"]
    """all-dep: further candidates of the same head (B.3.1); dep-split: a second head per channel (B.3.2);
    single-split: a second head per word (B.3.3)."""
    features: PositiveInt = 64
    """m, the number of global features."""
    parameterization: Literal["direct", "neural"] = "direct"
    """direct: `B[c,k,a]` itself; neural (all-dep only): `B[c,k,a] = sum_g P(F_k = g) T''[c,a,g]`."""


class MessageWeight(Section):
    """Weights of the entropies in the mean-field energy (2.3.3); messages are divided by them."""

    labels: PositiveFloat = 1.0
    """lambda_Z."""
    heads: PositiveFloat | None = None
    """lambda_H; null = 1 / labels (1/d)."""


class StepSizes(Section):
    """Share of the new distributions in every update (B.1)."""

    labels: StepSize = 1.0
    """alpha_Z."""
    heads: StepSize = 1.0
    """alpha_H."""


class Damping(Section):
    """Share of the old messages in every update (B.2)."""

    labels: Fraction = 0.0
    """beta_Z."""
    heads: Fraction = 0.0
    """beta_H."""


class ProbabilisticTransformer(Section):
    """The probabilistic transformer of Wu & Tu (2023)."""

    kind: Literal["probabilistic"] = "probabilistic"
    labels: PositiveInt = 384
    """d, the number of latent labels of a word."""
    channels: PositiveInt = 16
    """h, the number of dependency structures."""
    iterations: PositiveInt = 5
    """T, the number of mean-field iterations."""
    decomposition: Decomposition = UVDecomposition(kind="uv", rank=64)
    """How the ternary scores are parameterised: none | uv | uvw | shared | rotary."""
    symmetric: bool = False
    """Symmetric ternary scores, `T[k,c,a,b] = T[k,c,b,a]` (3.1): the child's and the head's factors are the same."""
    distance: NonNegativeInt | None = 3
    """gamma: words up to this far apart have ternary scores of their own; null = one bucket for every distance
    (always so with `rotary`)."""
    heads: Literal["independent", "tree"] = "independent"
    """independent: every word chooses its head by itself (the paper's); tree: the heads of a sentence form a tree in
    every channel, marginals by the Matrix-Tree theorem (not in the paper)."""
    root: Root | None = None
    """A root node, whose label scores represent the sentence; null = none."""
    globals: Globals | None = None
    """Global features; null = none."""
    schedule: Literal["asynchronous", "synchronous"] = "asynchronous"
    """asynchronous: heads first, then labels from the new heads (2.3.2); synchronous: both from the old values."""
    message_weight: MessageWeight = MessageWeight()
    """lambda_Z and lambda_H."""
    step_size: StepSizes = StepSizes()
    """alpha_Z and alpha_H."""
    damping: Damping = Damping()
    """beta_Z and beta_H."""
    dropout: Fraction = 0.1
    """On head distributions and on the label scores of every iteration."""
    output: Literal["scores", "probabilities"] = "scores"
    """A word's representation: its label scores of the last iteration, or their softmax."""

    @model_validator(mode="before")
    @classmethod
    def _distance_of_rotary(cls, given: Any) -> Any:
        """`rotary` has no threshold: where none is given, there is none."""
        decomposition = given.get("decomposition") if isinstance(given, Mapping) else None
        kind = decomposition.get("kind") if isinstance(decomposition, Mapping) else getattr(decomposition, "kind", None)
        return {"distance": None, **given} if kind == "rotary" else given

    def resolved(self) -> ProbabilisticTransformer:
        """The same section with every automatic value (``null``) filled in."""
        weight = self.message_weight
        if weight.heads is None:
            weight = weight.model_copy(update={"heads": 1.0 / self.labels})
        return self.model_copy(update={"message_weight": weight})


def inconsistencies(section: ProbabilisticTransformer) -> list[tuple[tuple[str, ...], str]]:
    """Values of the section that do not go together: each key's path with the reason."""
    faults: list[tuple[tuple[str, ...], str]] = []
    if section.decomposition.kind == "rotary" and section.distance is not None:
        faults.append((("distance",), "`rotary` knows every distance by itself: set this to null or leave it out"))
    if section.symmetric and section.decomposition.kind == "rotary":
        faults.append((("symmetric",), "a rotation is not symmetric: choose another decomposition, or false"))
    if section.globals is not None:
        if section.globals.parameterization == "neural" and section.globals.kind != "all-dep":
            faults.append((("globals", "parameterization"), "`neural` is for `kind: all-dep`"))
        if section.globals.kind == "all-dep" and section.heads == "tree":
            reason = "a word whose head is a global feature is in no tree: choose dep-split or single-split"
            faults.append((("globals", "kind"), reason))
    return faults
