"""The ``model`` section of kind `probabilistic`: all its options. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from probtrans_cli.recipe.base import (
    Count,
    File,
    Fraction,
    Inconsistency,
    Kinds,
    KindSection,
    NonNegativeFloat,
    PositiveFloat,
    Section,
    Size,
    below,
    too_large,
)
from probtrans_cli.recipe.data import VocabularySection
from probtrans_cli.recipe.model.base import MODELS, Facts, Growth, ModelSection, in_proportion


class FactorSection(KindSection):
    """A further factor of the field."""


FACTORS: Kinds[FactorSection] = Kinds("factor")
"""The kinds of `model.factors`."""


@FACTORS.add
class Neighbours(FactorSection):
    """A chain: `sum_i N[Z_i, Z_{i+1}]`, scores of the labels of two words in a row (not in the paper)."""

    kind: Literal["neighbours"]
    std: PositiveFloat = 0.1
    """Standard deviation of the scores at the start."""


@FACTORS.add
class Arcs(FactorSection):
    """Scores of arcs that all channels share, and of the distance i - j in buckets k, beside the ternary ones (not in
    the paper): `F[c,i,j] += sum_ab Q_i(a) Q_j(b) S[a,b] + sum_a Q_i(a) q[k,a] + sum_b Q_j(b) r[k,b] + p[k,c]`."""

    kind: Literal["arcs"]
    distances: Annotated[list[Size], Field(max_length=100)] = [1, 2, 3, 4, 6, 9, 14, 22]  # noqa: RUF012 - pydantic copies it
    """The longest distance of each bucket but the last, which has the rest; there are as many to the left and to the
    right."""
    between: Annotated[int, Field(ge=0, le=1_000)] = 0
    """The number of learned classes of words, by their unary scores: that some word between i and j belongs to a class
    is one more feature of the pair, beside the distance; of the root, that some word before i or behind it does."""
    std: PositiveFloat = 0.1
    """Standard deviation of all of these at the start."""

    def inconsistencies(self) -> Iterator[Inconsistency]:
        if self.distances != sorted(set(self.distances)):
            yield ("distances",), "each bucket is of longer distances than the one before: sort them"


@FACTORS.add
class Relations(FactorSection):
    """Scores of the channel c of a word's head (not in the paper): `x[c,a]` with the word's label a, `y[c,b]` with the
    head's, `W[c,e]` with the channel e of the head's own head, and `V[c,e] + V[e,c]` with that of another word that has
    the same head. The latter two read the heads of the iteration before."""

    kind: Literal["relations"]
    std: PositiveFloat = 0.1
    """Standard deviation of all of these at the start."""


# One number for all channels, or one for each.
Numbers = float | Annotated[list[float], Field(min_length=1)]
NonNegativeNumbers = NonNegativeFloat | Annotated[list[NonNegativeFloat], Field(min_length=1)]
_OF_WORDS = ("leaning", "leaning_head", "reducible", "reducible_far")
"""Scores that ask for the leaning and the reducibility of words."""
_OF_LANGUAGE = ("branching", "reducible_side", "phrase_end", "phrase_end_side", "phrase_end_next", "punctuation")
"""Scores that ask more of the training file than the leaning and the reducibility of words."""


class HeadBias(Section):
    """Scores of heads that do not depend on labels (not in the paper): `F[c,i,j] += right [j > i] - distance ln|i - j|
    - frequency (ln n_j)^2 + rarer [n_j < n_i]` and `F[c,i,root] -= root (ln n_i)^2`, and the terms of the other keys.
    `n_j` is the count of word j in the training file of this recipe (also with `init_from`). Like every score of heads
    it is divided by `message_weight.heads`. That is 1/d by default, so the bias is d times as strong. Each key is one
    number for all channels, or a list of one number for each channel."""

    distance: NonNegativeNumbers = 1.0
    """Loss of a distant head, times the logarithm of the distance in words."""
    right: Numbers = 0.0
    """Gain of a head to the right."""
    frequency: NonNegativeNumbers = 0.0
    """Loss of a frequent head, so that function words become leaves."""
    root: NonNegativeNumbers = 0.0
    """Loss of a frequent word at the root."""
    rarer: NonNegativeNumbers = 0.0
    """Gain of a head that is rarer than the word. With a large value, every head is rarer where there is such a
    word."""
    leaning: Numbers = 0.0
    """Gain of a head to the right, times the leaning of the word: words hardly ever in front of punctuation or the end
    of a sentence, such as `the`, lean to the right."""
    leaning_head: Numbers = 0.0
    """Loss of a head to the right, times the leaning of the head."""
    branching: Numbers = 0.0
    """Gain of a head to the right, times how much (ln n_i)^2 of the dependent is above the mean, and times how far the
    language leans to the right (0 to 1), where rare words have their heads to the left."""
    reducible: NonNegativeNumbers = 0.0
    """Loss of a head, or of a word at the root, times its reducibility in standard deviations: how well its neighbours
    go together without it, as those of an adjective do."""
    reducible_far: Numbers = 0.0
    """Decrease of `reducible` for a distant head, times the logarithm of the distance in words."""
    reducible_side: Numbers = 0.0
    """Addition to `reducible` for heads that are words, times how far the language leans to the right."""
    frequency_pair: Numbers = 0.0
    """Gain of a frequent head with a frequent dependent, times (ln n_i)^2 (ln n_j)^2."""
    phrase_end: Numbers = 0.0
    """Gain of a head, times (ln n)^2 of the word behind it: a common word begins another phrase. Punctuation counts as
    the most common word, the end of the sentence as the largest value in the sentence."""
    phrase_end_side: Numbers = 0.0
    """Loss of a head to the right, times that value of the word behind the dependent."""
    phrase_end_next: Numbers = 0.0
    """Loss of a head next to the dependent, on either side, times that value of the word behind the dependent."""
    punctuation: Numbers = 0.0
    """Loss of a head for every punctuation mark between it and the dependent, at most two. No effect with
    `data.vocabulary.punctuation: false`."""
    alone: Numbers = 0.0
    """For two words in a row that are not among the 200 most frequent ones: gain of the second as the head of the
    first, and its loss as the dependent, times by how many standard deviations the second of such words stands alone
    more often in train than the first: positive where modifiers stand in front of nouns, so one `alone` serves every
    language."""

    def asks(self, *names: str) -> bool:
        """Whether one of these numbers, or one of a list, is not 0."""
        values = (getattr(self, name) for name in names)
        return any(any(value) if isinstance(value, list) else value != 0 for value in values)

    def inconsistencies(self, channels: int, *, has_root: bool) -> Iterator[Inconsistency]:
        """Check the lists against the number of channels, and `root` against the root node."""
        for name, value in self.model_dump().items():
            if isinstance(value, list) and len(value) != channels:
                reason = f"{len(value)} numbers for {channels} channels: give one for each, or one for all"
                yield (name,), reason
        if self.asks("root") and not has_root:
            yield ("root",), "the model has no root node: set model.root='{}', or leave it out"

    @property
    def order_cues(self) -> int:
        """The columns that the scores need, see :class:`Facts`."""
        if self.asks("alone"):
            return 8
        if self.asks(*_OF_LANGUAGE):
            return 6
        return 2 if self.asks(*_OF_WORDS) else 0


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

    can_be_causal: ClassVar[bool] = False
    """Whether its scores are those of earlier heads alone, with a bucket for each of their distances, where the model
    is causal."""
    has_buckets: ClassVar[bool] = True
    """Whether there are scores for each distance bucket of Eq. 10; otherwise `distance` has no meaning."""
    can_be_symmetric: ClassVar[bool] = True
    """Whether `symmetric` has a meaning."""
    by_channel: ClassVar[bool] = False
    """Whether every channel has scores, or factors of a word, of its own."""
    can_be_widened: ClassVar[bool] = False
    """Whether its parameters are `U` and `V`, and others of which no sum over labels or ranks is taken: what
    `base_width` knows to scale."""

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        """Count the parameters for this many labels of a child and of its head; 0 = unknown."""
        del buckets, channels, child, head
        return 0


@ROOT_DECOMPOSITIONS.add
@DECOMPOSITIONS.add
class NoDecomposition(Decomposition):
    """`T` itself: one d x d matrix for every bucket and channel."""

    has_gains = True
    can_be_causal = True
    by_channel = True

    kind: Literal["none"] = "none"

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        return buckets * channels * child * head


class _OfRank(Decomposition):
    """A sum of products of factors."""

    has_gains = True
    can_be_causal = True

    rank: Size = 64
    """r, the number of terms."""


@ROOT_DECOMPOSITIONS.add
@DECOMPOSITIONS.add
class UVDecomposition(_OfRank):
    """Eq. 14: `T[k,c,a,b] = sum_l U[k,a,c,l] V[k,b,c,l]`."""

    can_be_widened = True
    by_channel = True

    kind: Literal["uv"]

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        return buckets * channels * self.rank * (child + head)


@ROOT_DECOMPOSITIONS.add
@DECOMPOSITIONS.add
class UVWDecomposition(_OfRank):
    """Eq. 13: `T[k,c,a,b] = sum_l U[k,a,l] V[k,b,l] W[k,c,l]`."""

    kind: Literal["uvw"]

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        return buckets * self.rank * (child + head + channels)


@DECOMPOSITIONS.add
class SharedDecomposition(_OfRank):
    """One pair of factors for all buckets (not in the paper): `T[k,c,a,b] = sum_l U[a,c,l] D[k,c,l] V[b,c,l]`."""

    can_be_widened = True
    by_channel = True

    kind: Literal["shared"]

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        return channels * self.rank * (child + head + buckets)


@DECOMPOSITIONS.add
class RotaryDecomposition(Decomposition):
    """A rotation by the distance x = i - j between the two factors (not in the paper): `T[x,c] = U[c] R(x) V[c]^T`."""

    has_gains = True
    can_be_causal = True
    has_buckets = False
    can_be_symmetric = False
    can_be_widened = True
    by_channel = True

    kind: Literal["rotary"]
    rank: Annotated[int, Field(ge=2, le=100_000, multiple_of=2)] = 64
    """r, the number of terms, two to a rotated plane."""
    base: PositiveFloat = 10000.0
    """Plane l turns by `base^(-2l/r)` a word."""

    def numbers(self, buckets: int, channels: int, child: int, head: int) -> int:
        del buckets
        return channels * self.rank * (child + head)


class Root(Section):
    """A root node (2.3.5): one more possible head for every word, with a label of its own."""

    labels: Size = 512
    """d_root, the number of the root's labels."""
    decomposition: Annotated[Decomposition, ROOT_DECOMPOSITIONS] = NoDecomposition()
    """How the root scores `T'[c,a,b]` are parameterised: none | uv | uvw."""
    own_label: bool = False
    """true: channel 0 is the label of arcs from the root and of no other arc (with `head_labels`); `kind: parsing`
    gives it the relation `root`."""


class Globals(Section):
    """Global features (B.3), the counterpart of a transformer's feed-forward layer."""

    kind: Literal["all-dep", "dep-split", "single-split", "rectified"]
    """all-dep: further candidates of the same head (B.3.1); dep-split: a second head per channel (B.3.2); single-split:
    a second head per word (B.3.3); rectified: max(0, score) of each, as in a feed-forward layer whose two matrices are
    one (not in the paper; scores start at N(0, 1/4d); tried with `latent: spherical`)."""
    features: Size = 64
    """m, the number of global features: of each channel (all-dep, dep-split), or in total (single-split, rectified)."""
    parameterization: Literal["direct", "neural"] = "direct"
    """direct: `B[c,k,a]` itself; neural (all-dep only): `B[c,k,a] = sum_g P(F_k = g) T''[c,a,g]`."""

    @property
    def by_channel(self) -> bool:
        """Whether every channel has features of its own."""
        return self.kind in ("all-dep", "dep-split")


class MessageWeight(Section):
    """Weights of the entropies in the mean-field energy (2.3.3); messages are divided by them."""

    labels: PositiveFloat = 1.0
    """lambda_Z."""
    heads: PositiveFloat | None = None
    """lambda_H; null = 1 / labels (1/d), with `latent: spherical` the square root of labels. With `base_width`, this
    and `features` are those of a model of that width."""
    features: PositiveFloat | None = None
    """The weight of global features of kind dep-split or single-split; null = lambda_H (the paper)."""


class StepSizes(Section):
    """Weight of the new distributions in every update (B.1)."""

    labels: StepSize = 1.0
    """alpha_Z."""
    heads: StepSize = 1.0
    """alpha_H, of heads and of global features. The paper's code has 1 in the first iteration of `schedule:
    asynchronous`."""


class Damping(Section):
    """Weight of the old messages in every update (B.2)."""

    labels: Fraction = 0.0
    """beta_Z."""
    heads: Fraction = 0.0
    """beta_H, of heads and of global features."""


@MODELS.add
class ProbabilisticTransformer(ModelSection):
    """The probabilistic transformer of Wu & Tu (2023)."""

    kind: Literal["probabilistic"] = "probabilistic"
    labels: Size = 384
    """d, the number of latent labels of a word."""
    base_width: Size | None = None
    """The number of labels at which the settings were chosen. Start, rates and scores of a model with more labels are
    then scaled so that the same settings serve it, if channels (or ranks) and global features grow with the labels
    (docs/scaling.md); with as many labels as this, nothing changes. null = nothing is scaled."""
    base_rank: Size | None = None
    """With `base_width`: the rank of the decomposition there, where the rank grows in place of the number of channels;
    null = the same rank."""
    latent: LatentKind = "categorical"
    """The latent variable of each word and of the root. categorical: one of d labels (the paper); spherical: a point on
    a sphere in d dimensions (spherical latents, not in the paper), whose mean is a normalised vector as in a
    transformer."""
    channels: Count = 16
    """h, the number of dependency structures."""
    iterations: Count = 5
    """T, the number of mean-field iterations."""
    causal: bool = False
    """true: a decoder, which reads words one by one: the head of a word is an earlier word or the root, and nothing is
    sent to earlier words (not in the paper). For `task.kind: lm`."""
    content: Literal["parallel", "serial"] = "parallel"
    """With `causal`: parallel: an iteration of all words reads the labels that earlier words had before it; serial: a
    word has all its iterations before the next word is read, which takes much longer."""
    chain: bool = False
    """With `causal`: scores `C[a,b]` of a word's label and that of the word before."""
    label_variables: Count = 1
    """With `causal`: K, the number of label variables of a word, independent of each other: each has labels / K of the
    labels and channels / K of the channels, whose heads it chooses alone; an arc reads all labels of the head. For
    `latent: categorical` and a decomposition other than `uvw`, whose channels have factors in common."""
    share_potentials: bool = True
    """true: all iterations have the same potentials: mean field of one random field (the paper); false: each has its
    own, like the layers of a transformer (not in the paper)."""
    readout_potentials: Annotated[int, Field(ge=0, le=100)] = 0
    """With `causal`: how many rounds of `task.readout` have potentials of their own; further rounds have those of the
    last one. 0: all have those of the last iteration, with which words are read."""
    decomposition: Annotated[Decomposition, DECOMPOSITIONS] = UVDecomposition(kind="uv", rank=64)
    """How the ternary scores are parameterised: none | uv | uvw | shared | rotary."""
    symmetric: bool = False
    """Symmetric ternary scores, `T[k,c,a,b] = T[k,c,b,a]` (3.1): child and head have the same factors."""
    distance: Annotated[int, Field(ge=0, le=1_000)] | None = 3
    """gamma: each distance up to this one has ternary scores of its own; null = one bucket for all distances (always so
    with `rotary`)."""
    heads: Literal["independent", "tree"] = "independent"
    """independent: every word chooses its head independently (the paper); tree: in every channel, the heads of a
    sentence form a tree, by the Matrix-Tree theorem (not in the paper)."""
    head_labels: bool = False
    """true: each word has one head with one label, and the channels are the labels: one distribution over all pairs of
    a head and a label. false: each channel has a head of its own (the paper)."""
    root: Root | None = None
    """A root node, whose label scores represent the sentence; null = none."""
    globals: Globals | None = None
    """Global features; null = none."""
    gains: bool = False
    """A learned factor `g` for each of the d labels, 1 at the start (not in the paper). The ternary scores become
    `g_a g_b T[k,c,a,b]`, the root's `g_a T'[c,a,b]`, the global ones `g_a B[c,k,a]` and those of `task.output: tied`
    `g_a S_w(a)`. Each has its own `g`, also in each iteration with `share_potentials: false`. With `optim.decayed:
    matrices` gains do not decay, so weight decay can be strong (tried with `latent: spherical`)."""
    head_bias: HeadBias | None = None
    """Scores of heads by distance, direction, frequency and order of words, independent of labels; null = none."""
    factors: list[Annotated[FactorSection, FACTORS]] = []  # noqa: RUF012 - pydantic copies it
    """Further factors, each defined by its expected score; all iterations share them. With any but `arcs` and
    `relations`, inference is `plain`."""
    schedule: Literal["asynchronous", "synchronous"] = "asynchronous"
    """asynchronous: heads first, then labels from the new heads (2.3.2); synchronous: both from the old values."""
    message_weight: MessageWeight = MessageWeight()
    """lambda_Z, lambda_H and that of global features."""
    step_size: StepSizes = StepSizes()
    """alpha_Z and alpha_H."""
    damping: Damping = Damping()
    """beta_Z and beta_H."""
    word_std: PositiveFloat | None = None
    """Standard deviation of the words' unary scores at the start; null = Xavier-uniform (the paper's code), which is
    much smaller than early messages, most of all for rare words."""
    ternary_std: PositiveFloat | None = None
    """Standard deviation of the ternary and root scores at the start, or of their factors `U` and `V`; null = 1, or
    1/sqrt(r) for factors (the paper's code)."""
    dropout: Fraction = 0.1
    """Dropout on head distributions and on label scores of words and root, in every iteration."""
    output: Literal["scores", "probabilities"] = "scores"
    """The representation of a word: its label scores after the last iteration, or their softmax."""
    init_from: File | None = None
    """Start from these weights: a run folder or checkpoint of the same encoder. Words are matched by their spelling,
    and labels by their names where the output layers are of the same task. null = random weights."""

    @model_validator(mode="before")
    @classmethod
    def _distance_without_buckets(cls, values: Any) -> Any:
        """Leave `distance` out where the decomposition has no buckets, and so no threshold."""
        decomposition = values.get("decomposition") if isinstance(values, Mapping) else None
        kind = decomposition.get("kind") if isinstance(decomposition, Mapping) else getattr(decomposition, "kind", None)
        section = DECOMPOSITIONS.get(kind) if isinstance(kind, str) else None
        return values if section is None or section.has_buckets else {"distance": None, **values}

    @property
    def facts(self) -> Facts:
        return Facts(
            has_latent_labels=self.latent == "categorical",
            label_variables=self.label_variables,
            has_head_variables=True,
            has_ternary_scores=True,
            has_root=self.root is not None or self.causal,
            has_head_labels=self.head_labels,
            is_causal=self.causal,
            without_exact_readout=self._without_exact_readout(),
            readout_sets=self.readout_potentials,
            counts_words=self.head_bias is not None,
            order_cues=0 if self.head_bias is None else self.head_bias.order_cues,
            separate_layers=0 if self.share_potentials else self.iterations,
            width=self.labels,
            growth=Growth.of(self.labels, self.base_width, getattr(self.decomposition, "rank", 1), self.base_rank),
            root_width=None if self.root is None else self.root.labels,
            has_gains=self.gains,
            untraceable=("heads: tree", "heads=independent") if self.heads == "tree" else None,
            without_moments=(f"`model.kind: {self.kind}`",),
        )

    def widened(self, width: int) -> ProbabilisticTransformer:
        """Channels grow with the labels, and so do global features, where channels have none of their own."""
        channels = in_proportion("model.channels", self.channels, width, self.labels)
        features = self.globals
        if features is not None and not features.by_channel:
            number = in_proportion("model.globals.features", features.features, width, self.labels)
            features = features.model_copy(update={"features": number})
        return self.model_copy(update={"labels": width, "channels": channels, "globals": features})

    def describe(self) -> str:
        variables = "" if self.label_variables == 1 else f" of {self.label_variables} variables a word"
        sizes = f"{self.labels} labels{variables}, {self.channels} channels, {self.iterations} iterations"
        layers = "" if self.share_potentials else ", each with potentials of its own (not in the paper)"
        name = "causal probabilistic transformer" if self.causal else "probabilistic transformer"
        return f"A {name} (Wu & Tu, Findings of ACL 2023): {sizes}{layers}."

    def resolved(self) -> ProbabilisticTransformer:
        weight = self.message_weight
        if weight.heads is None:
            labels = self.base_width or self.labels
            heads = math.sqrt(labels) if self.latent == "spherical" else 1.0 / labels
            weight = weight.model_copy(update={"heads": heads})
        return self.model_copy(update={"message_weight": weight})

    def inconsistencies(self) -> Iterator[Inconsistency]:
        # The number of parameters of each part.
        d, channels, features = self.labels, self.channels, self.globals
        buckets = 1 if self.distance is None else (self.distance + 1) * (1 if self.causal else 2)
        sizes = {"decomposition": self.decomposition.numbers(buckets, channels, d // self.label_variables, d)}
        if self.root is not None:
            sizes["root"] = self.root.decomposition.numbers(1, channels, d, self.root.labels)
        if features is not None:
            groups = channels if features.by_channel else 1
            sizes["globals"] = groups * d * (d if features.parameterization == "neural" else features.features)
        times = (1 if self.share_potentials else self.iterations) + self.readout_potentials
        for part, numbers in sizes.items():
            yield from too_large((part,), times * numbers)
        # Options that do not go together.
        if not self.decomposition.has_buckets and self.distance is not None:
            reason = f"`{self.decomposition.kind}` knows every distance by itself: set this to null or leave it out"
            yield ("distance",), reason
        if self.symmetric and not self.decomposition.can_be_symmetric:
            yield ("symmetric",), "a rotation is not symmetric: choose another decomposition, or false"
        if self.gains and not self.decomposition.has_gains:
            yield ("gains",), f"`decomposition.kind: {self.decomposition.kind}` has none: set this to false"
        if self.latent == "spherical" and self.output == "probabilities":
            yield ("output",), "a point on a sphere has no probabilities: set this to scores"
        if features is not None and features.parameterization == "neural" and features.kind != "all-dep":
            yield ("globals", "parameterization"), "`neural` is for `kind: all-dep`"
        if features is not None and features.kind == "all-dep" and self.heads == "tree":
            reason = "a word whose head is a global feature is in no tree: choose dep-split, single-split or rectified"
            yield ("globals", "kind"), reason
        # Of these two, a variable of its own chooses among the features.
        has_weight = features is not None and features.kind in ("dep-split", "single-split")
        if self.message_weight.features is not None and not has_weight:
            reason = (
                "it is for `model.globals` of kind dep-split or single-split; rectified features have no weight, "
                "and all-dep ones that of heads: choose one of the former, or set this to null"
            )
            yield ("message_weight", "features"), reason
        if self.root is not None and self.root.own_label and not (self.head_labels and self.channels > 1):
            reason = "the root's label is one of several: set model.head_labels=true and more channels, or false here"
            yield ("root", "own_label"), reason
        for number, factor in enumerate(self.factors):
            yield from below(("factors", str(number)), factor.inconsistencies())
        yield from self._causal_inconsistencies()
        yield from self._unscaled()
        if self.head_bias is not None:
            faults = self.head_bias.inconsistencies(self.channels, has_root=self.root is not None)
            yield from below(("head_bias",), faults)

    def _unscaled(self) -> Iterator[Inconsistency]:
        if self.base_width is None:
            if self.base_rank is not None:
                yield ("base_rank",), "it is the rank at model.base_width: set that, too, or leave this out"
            return
        reason = "model.base_width has no factors for it: {}"
        if not self.decomposition.can_be_widened:
            yield ("decomposition", "kind"), reason.format("choose uv, shared or rotary")
        if self.output == "probabilities":
            yield ("output",), reason.format("set this to scores")
        if self.globals is not None and self.globals.parameterization == "neural":
            yield ("globals", "parameterization"), reason.format("set this to direct")
        if self.globals is not None and self.globals.kind == "all-dep" and self.base_rank is not None:
            reason_of_ranks = "where ranks grow, more features would leave the other heads less: choose dep-split"
            yield ("globals", "kind"), reason_of_ranks
        for name in ("causal", "head_labels", "root", "head_bias", "factors"):
            if getattr(self, name):
                yield (name,), reason.format("leave one of them out")

    def _without_exact_readout(self) -> str | None:
        weight = self.resolved().message_weight
        if not self.decomposition.has_buckets:
            return f"`model.decomposition.kind: {self.decomposition.kind}`"
        if self.latent != "categorical":
            return f"`model.latent: {self.latent}`"
        if self.globals is not None and self.globals.kind == "rectified":
            return "`model.globals.kind: rectified`"
        if self.label_variables > 1 and self.globals is not None and not self.globals.by_channel:
            return f"`model.globals.kind: {self.globals.kind}`, which couples the variables of `model.label_variables`"
        if {weight.labels, weight.heads, weight.features or 1.0} != {1.0}:
            return "`model.message_weight` other than 1 (set labels and heads to 1.0)"
        if self.readout_potentials > 1:
            return "`model.readout_potentials` above 1"
        return None

    def _causal_inconsistencies(self) -> Iterator[Inconsistency]:
        if self.causal:
            later = "it looks at later words, which a causal model has not read: "
            if self.heads == "tree":
                yield ("heads",), later + "set this to independent"
            if self.symmetric:
                yield ("symmetric",), later + "set this to false"
            if self.head_bias is not None:
                yield ("head_bias",), later + "leave it out"
            if self.factors:
                yield ("factors",), later + "leave it out; model.chain scores the labels of two words in a row"
            if self.head_labels:
                yield ("head_labels",), "labels of heads are for a model that is not causal: set this to false"
            if self.root is not None:
                yield ("root",), "a causal model has a root without labels, in any case: leave it out"
            if not self.decomposition.can_be_causal:
                reason = f"a causal model cannot have `{self.decomposition.kind}`: choose another"
                yield ("decomposition", "kind"), reason
        else:
            for name in ("content", "chain", "label_variables", "readout_potentials"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    yield (name,), "it is for a causal model: set model.causal=true, or leave it out"
        if self.label_variables == 1:
            return
        for name, number in (("labels", self.labels), ("channels", self.channels)):
            if number % self.label_variables:
                reason = f"{number} {name} cannot be shared out among them: choose a divisor of {number}"
                yield ("label_variables",), reason
        if self.latent != "categorical":
            yield ("latent",), "a sphere is one variable: set this to categorical, or model.label_variables=1"
        if not self.decomposition.by_channel:
            reason = "its channels have factors in common, but several label variables have channels of their own"
            yield ("decomposition", "kind"), f"{reason}: choose uv, or set model.label_variables=1"

    def inconsistencies_with(self, vocabulary: VocabularySection) -> Iterator[Inconsistency]:
        if self.head_bias is not None and not vocabulary.counts_words:
            yield ("head_bias",), f"it counts words: data.vocabulary.kind is {vocabulary.kind}, choose words"


DECOMPOSITIONS.used_in(ProbabilisticTransformer)
FACTORS.used_in(ProbabilisticTransformer)
