"""The ``model`` section of kind `probabilistic`: all its options. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from probtrans_cli.recipe.base import (
    MOST_NUMBERS,
    TOO_LARGE,
    Count,
    File,
    Fraction,
    Inconsistency,
    KindSection,
    PositiveFloat,
    Section,
    Size,
)
from probtrans_cli.recipe.kinds import Kinds
from probtrans_cli.recipe.model.base import MODELS, ModelSection
from probtrans_cli.recipe.model.factors import FACTORS, FactorSection
from probtrans_cli.recipe.model.head_bias import HeadBias

if TYPE_CHECKING:
    from probtrans_cli.recipe.schema import Recipe

LatentKind = Literal["categorical", "spherical"]
StepSize = Annotated[float, Field(gt=0.0, le=1.0)]
DECOMPOSITIONS: Kinds[Decomposition] = Kinds("decomposition")
"""The kinds of `model.decomposition`."""
ROOT_DECOMPOSITIONS: Kinds[Decomposition] = Kinds("decomposition of root scores")
"""The kinds of `model.root.decomposition`."""


class Decomposition(KindSection):
    """A parameterisation of the ternary scores."""

    has_gains: ClassVar[bool] = False
    """Whether its scores are scaled by `gains`, where the model has them."""

    @property
    def has_buckets(self) -> bool:
        """Whether there are scores for each distance bucket of Eq. 10; otherwise `distance` has no meaning."""
        return True

    @property
    def can_be_symmetric(self) -> bool:
        """Whether `symmetric` has a meaning."""
        return True

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        """How many numbers the scores have for the labels of a child and of its head; 0 = it is not known."""
        del buckets, channels, child, head
        return 0


@ROOT_DECOMPOSITIONS.add
@DECOMPOSITIONS.add
class NoDecomposition(Decomposition):
    """`T` itself: one d x d matrix for every bucket and channel."""

    has_gains = True

    kind: Literal["none"] = "none"

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        return buckets * channels * child * head


@ROOT_DECOMPOSITIONS.add
@DECOMPOSITIONS.add
class UVDecomposition(Decomposition):
    """Eq. 14: `T[k,c,a,b] = sum_l U[k,a,c,l] V[k,b,c,l]`."""

    has_gains = True

    kind: Literal["uv"]
    rank: Size = 64
    """r, the number of terms."""

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        return buckets * channels * self.rank * (child + head)


@ROOT_DECOMPOSITIONS.add
@DECOMPOSITIONS.add
class UVWDecomposition(Decomposition):
    """Eq. 13: `T[k,c,a,b] = sum_l U[k,a,l] V[k,b,l] W[k,c,l]`."""

    has_gains = True

    kind: Literal["uvw"]
    rank: Size = 64
    """r, the number of terms."""

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        return buckets * self.rank * (child + head + channels)


@DECOMPOSITIONS.add
class SharedDecomposition(Decomposition):
    """One pair of factors for all buckets (not in the paper): `T[k,c,a,b] = sum_l U[a,c,l] D[k,c,l] V[b,c,l]`."""

    has_gains = True

    kind: Literal["shared"]
    rank: Size = 64
    """r, the number of terms."""

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        return channels * self.rank * (child + head + buckets)


@DECOMPOSITIONS.add
class RotaryDecomposition(Decomposition):
    """A rotation by the distance x = i - j between the factors (not in the paper): `T[x,c] = U[c] R(x) V[c]^T`."""

    has_gains = True

    kind: Literal["rotary"]
    rank: Annotated[int, Field(ge=2, le=100_000, multiple_of=2)] = 64
    """r, the number of terms, two to a rotated plane."""
    base: PositiveFloat = 10000.0
    """Plane l turns by `base^(-2l/r)` a word."""

    @property
    def has_buckets(self) -> bool:
        return False

    @property
    def can_be_symmetric(self) -> bool:
        return False

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        del buckets
        return channels * self.rank * (child + head)


class Root(Section):
    """A root node (2.3.5): one more head for every word, with a label of its own."""

    labels: Size = 512
    """d_root, the number of the root's labels."""
    decomposition: Annotated[Decomposition, ROOT_DECOMPOSITIONS] = NoDecomposition()
    """How the root scores `T'[c,a,b]` are parameterised: none | uv | uvw."""


class Globals(Section):
    """Global features (B.3), the counterpart of a transformer's feed-forward layer."""

    kind: Literal["all-dep", "dep-split", "single-split", "rectified"]
    """all-dep: further candidates of the same head (B.3.1); dep-split: a second head per channel (B.3.2);
    single-split: a second head per word (B.3.3); rectified: no choice of one, each feature is there to the degree
    max(0, score), as in a feed-forward layer whose two matrices are one (not in the paper; scores start at N(0, 1/4d);
    tried with `latent: spherical`)."""
    features: Size = 64
    """m, the number of global features: of every channel (all-dep, dep-split), or in all (single-split, rectified)."""
    parameterization: Literal["direct", "neural"] = "direct"
    """direct: `B[c,k,a]` itself; neural (all-dep only): `B[c,k,a] = sum_g P(F_k = g) T''[c,a,g]`."""

    @property
    def chosen_apart(self) -> bool:
        """Whether one of them is chosen by a variable of its own."""
        return self.kind in ("dep-split", "single-split")

    @property
    def by_channel(self) -> bool:
        """Whether every channel has features of its own."""
        return self.kind in ("all-dep", "dep-split")


class MessageWeight(Section):
    """Weights of the entropies in the mean-field energy (2.3.3); messages are divided by them."""

    labels: PositiveFloat = 1.0
    """lambda_Z."""
    heads: PositiveFloat | None = None
    """lambda_H; null = 1 / labels (1/d), with `latent: spherical` the square root of labels."""
    features: PositiveFloat | None = None
    """Of global features that are chosen apart from the heads (`kind: dep-split` or `single-split`; in the paper their
    weight is lambda_H); null = lambda_H."""


class StepSizes(Section):
    """Share of the new distributions in every update (B.1)."""

    labels: StepSize = 1.0
    """alpha_Z."""
    heads: StepSize = 1.0
    """alpha_H, of heads and of global features apart from them, in every iteration. The paper's code takes a whole step
    in the first one of `schedule: asynchronous`."""


class Damping(Section):
    """Share of the old messages in every update (B.2)."""

    labels: Fraction = 0.0
    """beta_Z."""
    heads: Fraction = 0.0
    """beta_H, of heads and of global features apart from them."""


@MODELS.add
class ProbabilisticTransformer(ModelSection):
    """The probabilistic transformer of Wu & Tu (2023)."""

    has_head_variables = True
    has_ternary_scores = True

    kind: Literal["probabilistic"] = "probabilistic"
    labels: Size = 384
    """d, the number of latent labels of a word."""
    latent: LatentKind = "categorical"
    """What the latent variable of a word, and of the root, is. categorical: one of the d labels (the paper's);
    spherical: a point on a sphere in d dimensions, whose mean is a normalised vector as in a transformer (not in the
    paper)."""
    channels: Count = 16
    """h, the number of dependency structures."""
    iterations: Count = 5
    """T, the number of mean-field iterations."""
    share_potentials: bool = True
    """All iterations have the same potentials: mean field of one random field (the paper's). false: each iteration has
    its own, as a transformer's layers have (not in the paper)."""
    decomposition: Annotated[Decomposition, DECOMPOSITIONS] = UVDecomposition(kind="uv", rank=64)
    """How the ternary scores are parameterised: none | uv | uvw | shared | rotary."""
    symmetric: bool = False
    """Symmetric ternary scores, `T[k,c,a,b] = T[k,c,b,a]` (3.1): the child's and the head's factors are the same."""
    distance: Annotated[int, Field(ge=0, le=1_000)] | None = 3
    """gamma: words up to this far apart have ternary scores of their own; null = one bucket for every distance
    (always so with `rotary`)."""
    heads: Literal["independent", "tree"] = "independent"
    """independent: every word chooses its head by itself (the paper's); tree: the heads of a sentence form a tree in
    every channel, marginals by the Matrix-Tree theorem (not in the paper)."""
    root: Root | None = None
    """A root node, whose label scores represent the sentence; null = none."""
    globals: Globals | None = None
    """Global features; null = none."""
    gains: bool = False
    """A learned factor `g` of each of the d labels, 1 at the start (not in the paper): the ternary scores are
    `g_a g_b T[k,c,a,b]`, the root's `g_a T'[c,a,b]`, the global ones `g_a B[c,k,a]` and those of `task.output: tied`
    `g_a S_w(a)`, each with a `g` of its own, in every iteration where `share_potentials` is false. `optim.decayed:
    matrices` leaves them alone, so decay can be strong (tried with `latent: spherical`); `all` draws them to 0."""
    head_bias: HeadBias | None = None
    """Scores of heads in which no label has a say, by distance, direction, frequency and order of words; null = none.
    Messages are then computed for all pairs of words."""
    factors: list[Annotated[FactorSection, FACTORS]] = []  # noqa: RUF012 - pydantic copies it
    """Further factors, each known by its expected score alone; all iterations share them. Inference is then `plain`,
    see `runtime.messages`."""
    schedule: Literal["asynchronous", "synchronous"] = "asynchronous"
    """asynchronous: heads first, then labels from the new heads (2.3.2); synchronous: both from the old values."""
    message_weight: MessageWeight = MessageWeight()
    """lambda_Z, lambda_H and that of global features."""
    step_size: StepSizes = StepSizes()
    """alpha_Z and alpha_H."""
    damping: Damping = Damping()
    """beta_Z and beta_H."""
    word_std: PositiveFloat | None = None
    """Standard deviation of the words' unary scores at the start; null = Xavier-uniform (the paper's code), with which
    messages drown a word's own scores for long, those of rare words above all."""
    ternary_std: PositiveFloat | None = None
    """Standard deviation of the ternary scores and the root's at the start, or of their factors `U` and `V`; null = 1,
    of factors 1/sqrt(r) (the paper's code)."""
    dropout: Fraction = 0.1
    """On head distributions and on the label scores, of words and root, of every iteration."""
    output: Literal["scores", "probabilities"] = "scores"
    """A word's representation: its label scores of the last iteration, or their softmax."""
    init_from: File | None = None
    """What the weights start with: a run folder or a checkpoint of the same encoder; words are found by their spelling,
    and labels by their names where the output layer there is for the same. null = drawn at random."""

    @model_validator(mode="before")
    @classmethod
    def _distance_of_rotary(cls, given: Any) -> Any:
        """`rotary` has no threshold: where none is given, there is none."""
        decomposition = given.get("decomposition") if isinstance(given, Mapping) else None
        kind = decomposition.get("kind") if isinstance(decomposition, Mapping) else getattr(decomposition, "kind", None)
        return {"distance": None, **given} if kind == "rotary" else given

    @property
    def has_latent_labels(self) -> bool:  # type: ignore[override]
        """If its variables are labels."""
        return self.latent == "categorical"

    @property
    def has_root(self) -> bool:
        return self.root is not None

    @property
    def state_width(self) -> int:
        return self.labels

    @property
    def separate_layers(self) -> int:
        """The iterations, where each has potentials of its own."""
        return 0 if self.share_potentials else self.iterations

    @property
    def counts_words(self) -> bool:
        return self.head_bias is not None

    @property
    def order_cues(self) -> int:
        return 0 if self.head_bias is None else self.head_bias.order_cues

    def describe(self) -> str:
        """For people, a sentence."""
        sizes = f"{self.labels} labels, {self.channels} channels, {self.iterations} iterations"
        own = "" if self.share_potentials else ", each with potentials of its own (not in the paper)"
        return f"A probabilistic transformer (Wu & Tu, Findings of ACL 2023): {sizes}{own}."

    def resolved(self) -> ProbabilisticTransformer:
        """The same section with every automatic value (``null``) filled in."""
        weight = self.message_weight
        if weight.heads is None:
            heads = math.sqrt(self.labels) if self.latent == "spherical" else 1.0 / self.labels
            weight = weight.model_copy(update={"heads": heads})
        return self.model_copy(update={"message_weight": weight})

    def inconsistencies(self) -> list[Inconsistency]:
        """Values of the section that do not go together: each key's path with the reason."""
        faults: list[Inconsistency] = self._too_large()
        if not self.decomposition.has_buckets and self.distance is not None:
            reason = f"`{self.decomposition.kind}` knows every distance by itself: set this to null or leave it out"
            faults.append((("distance",), reason))
        if self.symmetric and not self.decomposition.can_be_symmetric:
            faults.append((("symmetric",), "a rotation is not symmetric: choose another decomposition, or false"))
        if self.gains and not self.decomposition.has_gains:
            faults.append((("gains",), f"`decomposition.kind: {self.decomposition.kind}` has none: set this to false"))
        if self.latent == "spherical" and self.output == "probabilities":
            faults.append((("output",), "a point on a sphere has no probabilities: set this to scores"))
        if self.globals is not None:
            if self.globals.parameterization == "neural" and self.globals.kind != "all-dep":
                faults.append((("globals", "parameterization"), "`neural` is for `kind: all-dep`"))
            if self.globals.kind == "all-dep" and self.heads == "tree":
                reason = (
                    "a word whose head is a global feature is in no tree: choose dep-split, single-split or rectified"
                )
                faults.append((("globals", "kind"), reason))
        if self.message_weight.features is not None and (self.globals is None or not self.globals.chosen_apart):
            reason = (
                "it is for `model.globals` of kind dep-split or single-split; rectified features have no weight, "
                "and all-dep ones that of heads: choose one of the former, or set this to null"
            )
            faults.append((("message_weight", "features"), reason))
        if self.head_bias is not None:
            for name, value in self.head_bias.model_dump().items():
                if isinstance(value, list) and len(value) != self.channels:
                    reason = f"{len(value)} numbers for {self.channels} channels: give one for each, or one for all"
                    faults.append((("head_bias", name), reason))
            if self.head_bias.asks("root") and self.root is None:
                reason = "the model has no root node: set model.root='{}', or leave it out"
                faults.append((("head_bias", "root"), reason))
        return faults

    def _too_large(self) -> list[Inconsistency]:
        """Parts of the model that would exhaust the machine: each size may be small where their product is not."""
        d, channels = self.labels, self.channels
        buckets = 1 if self.distance is None else 2 * self.distance + 2
        sizes = {"decomposition": self.decomposition.numbers(buckets, channels, d, d)}
        if self.root is not None:
            sizes["root"] = self.root.decomposition.numbers(1, channels, d, self.root.labels)
        if self.globals is not None:
            neural = self.globals.parameterization == "neural"
            groups = channels if self.globals.by_channel else 1
            sizes["globals"] = groups * d * (d if neural else self.globals.features)
        times = 1 if self.share_potentials else self.iterations
        sizes = {part: times * numbers for part, numbers in sizes.items()}
        return [((part,), TOO_LARGE.format(numbers)) for part, numbers in sizes.items() if numbers > MOST_NUMBERS]

    def inconsistencies_with(self, recipe: Recipe) -> list[Inconsistency]:
        faults: list[Inconsistency] = []
        vocabulary = recipe.data.vocabulary
        if self.head_bias is not None and not vocabulary.counts_words:
            reason = f"it counts words: data.vocabulary.kind is {vocabulary.kind}, choose words"
            faults.append((("model", "head_bias"), reason))
        return faults


DECOMPOSITIONS.used_in(ProbabilisticTransformer)
FACTORS.used_in(ProbabilisticTransformer)
