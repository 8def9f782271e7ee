"""The ``model`` section of a recipe: the probabilistic transformer, the transformer, and all their options.

Both say how many channels and iterations of arcs they have, whatever these are called. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from probtrans_cli.recipe.base import (
    File,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Section,
)

StepSize = Annotated[float, Field(gt=0.0, le=1.0)]
# A key's path within the section, and why its value does not go together with others.
Inconsistency = tuple[tuple[str, ...], str]


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


# One number for all channels, or one for each.
Numbers = float | Annotated[list[float], Field(min_length=1)]
NonNegativeNumbers = NonNegativeFloat | Annotated[list[NonNegativeFloat], Field(min_length=1)]


class HeadBias(Section):
    """Scores of heads in which no label has a say (not in the paper): `F[c,i,j] += right [j > i] - distance ln|i - j|
    - frequency (ln n_j)^2 + rarer [n_j < n_i]` and `F[c,i,root] -= root (ln n_i)^2`, with `n_j` the count of word j in
    the training file of this recipe (also with `init_from`). Like every score of heads it is divided by
    `message_weight.heads`, which is 1/d unless set: such a bias is d times as strong. Each is one number for all
    channels, or a list of one for each."""

    distance: NonNegativeNumbers = 1.0
    """What a head loses by being far away, times the logarithm of the number of words."""
    right: Numbers = 0.0
    """What a head to the right gains."""
    frequency: NonNegativeNumbers = 0.0
    """What a head loses by being frequent: function words are leaves."""
    root: NonNegativeNumbers = 0.0
    """What a word loses at the root by being frequent."""
    rarer: NonNegativeNumbers = 0.0
    """What a head gains that is rarer than the word: with a large one, heads are rarer words wherever they can be."""


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
    head_bias: HeadBias | None = None
    """Scores of heads by distance, direction and frequency alone; null = none. Messages are then
    computed for all pairs of words."""
    schedule: Literal["asynchronous", "synchronous"] = "asynchronous"
    """asynchronous: heads first, then labels from the new heads (2.3.2); synchronous: both from the old values."""
    message_weight: MessageWeight = MessageWeight()
    """lambda_Z and lambda_H."""
    step_size: StepSizes = StepSizes()
    """alpha_Z and alpha_H."""
    damping: Damping = Damping()
    """beta_Z and beta_H."""
    word_std: PositiveFloat | None = None
    """Standard deviation of the words' unary scores at the start; null = Xavier-uniform (the paper's code), with which
    messages drown a word's own scores for long, those of rare words above all."""
    dropout: Fraction = 0.1
    """On head distributions and on the label scores of every iteration."""
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

    def describe(self) -> str:
        """For people, a sentence."""
        sizes = f"{self.labels} labels, {self.channels} channels, {self.iterations} iterations"
        return f"A probabilistic transformer (Wu & Tu, Findings of ACL 2023): {sizes}."

    def resolved(self) -> ProbabilisticTransformer:
        """The same section with every automatic value (``null``) filled in."""
        weight = self.message_weight
        if weight.heads is None:
            weight = weight.model_copy(update={"heads": 1.0 / self.labels})
        return self.model_copy(update={"message_weight": weight})

    def inconsistencies(self) -> list[Inconsistency]:
        """Values of the section that do not go together: each key's path with the reason."""
        faults: list[Inconsistency] = []
        if self.decomposition.kind == "rotary" and self.distance is not None:
            faults.append((("distance",), "`rotary` knows every distance by itself: set this to null or leave it out"))
        if self.symmetric and self.decomposition.kind == "rotary":
            faults.append((("symmetric",), "a rotation is not symmetric: choose another decomposition, or false"))
        if self.globals is not None:
            if self.globals.parameterization == "neural" and self.globals.kind != "all-dep":
                faults.append((("globals", "parameterization"), "`neural` is for `kind: all-dep`"))
            if self.globals.kind == "all-dep" and self.heads == "tree":
                reason = "a word whose head is a global feature is in no tree: choose dep-split or single-split"
                faults.append((("globals", "kind"), reason))
        if self.head_bias is not None:
            for name, value in self.head_bias.model_dump().items():
                if isinstance(value, list) and len(value) != self.channels:
                    reason = f"{len(value)} numbers for {self.channels} channels: give one for each, or one for all"
                    faults.append((("head_bias", name), reason))
            root = self.head_bias.root
            if any(root if isinstance(root, list) else [root]) and self.root is None:
                reason = "the model has no root node: set model.root='{}', or leave it out"
                faults.append((("head_bias", "root"), reason))
        return faults


# --- the transformer --------------------------------------------------------------------------------------------------


class AbsolutePositions(Section):
    """A learned vector for every position, added to the word's."""

    kind: Literal["absolute"]
    rows: PositiveInt = 512
    """The number of positions: longer sentences are refused."""


class LearnedSinusoidalPositions(Section):
    """As `absolute`, but the learned vectors start as those of `sinusoidal`."""

    kind: Literal["learned_sinusoidal"]
    rows: PositiveInt = 512
    """The number of positions: longer sentences are refused."""


class SinusoidalPositions(Section):
    """A fixed vector of sines and cosines for every position (Vaswani et al. 2017), added to the word's."""

    kind: Literal["sinusoidal"]


class RelativePositions(Section):
    """Learned vectors for the distance x = i - j of two words, in every layer (Shaw et al. 2018)."""

    kind: Literal["relative"]
    clip: PositiveInt = 8
    """Distances beyond this are all alike."""
    terms: Literal["k", "kv", "qk", "qkv"] = "k"
    """Where the distance's vector is added: k to the key (the paper's code), v to the value, q to the query."""
    per_head: bool = False
    """Vectors of their own for every head, not for the layer."""


class NoPositions(Section):
    """Words in any order are the same to the model."""

    kind: Literal["none"]


PositionTable = AbsolutePositions | LearnedSinusoidalPositions
Positions = Annotated[
    PositionTable | SinusoidalPositions | RelativePositions | NoPositions, Field(discriminator="kind")
]


class Transformer(Section):
    """A transformer encoder: the paper's baseline, or with `preset: bert` that of BERT."""

    kind: Literal["transformer"]
    preset: Literal["bert"] | None = None
    """bert: other defaults, those of BERT (Devlin et al. 2019): `bias: all`, `activation: gelu`, `segments: 2`,
    `embedding_norm`, `pooler`, `norm_eps: 1e-12`, and `width: 768, inner: 3072, heads: 12, layers: 12`."""
    width: PositiveInt = 384
    """d, the size of a word's vector."""
    inner: PositiveInt = 2048
    """d_ff, the size of the feed-forward layer."""
    heads: PositiveInt = 8
    """h, the number of attention heads."""
    head_size: PositiveInt | None = None
    """d_qkv, the size of a head's queries, keys and values; null = width / heads."""
    layers: PositiveInt = 5
    """N, the number of layers."""
    positions: Positions = AbsolutePositions(kind="absolute")
    """How the order of words is told: absolute | learned_sinusoidal | sinusoidal | relative | none."""
    norm: Literal["post", "pre"] = "post"
    """post: normalise after adding (the paper, BERT); pre: before each sublayer, and once at the end."""
    norm_eps: PositiveFloat = 1e-5
    """Added to the variance in layer normalisation."""
    activation: Literal["relu", "gelu", "gelu_tanh"] = "relu"
    """Of the feed-forward layer; gelu is exact, gelu_tanh its approximation."""
    bias: Literal["all", "feed_forward", "none"] = "feed_forward"
    """Which linear layers have biases."""
    share_layers: bool = False
    """One layer, applied N times (universal transformer, without halting)."""
    tie_kv: bool = False
    """Keys and values from one projection (the paper's Limitations)."""
    tie_qo: bool = False
    """The output projection is the transposed one of the queries (the paper's Limitations)."""
    segments: NonNegativeInt = 0
    """Number of segment types whose learned vectors are added to the words'; 0 = none."""
    embedding_norm: bool = False
    """Normalise what goes into the first layer."""
    pooler: bool = False
    """A linear layer with tanh on the first word's vector, which represents the sentence."""
    dropout: Fraction = 0.1
    """On what attention and feed-forward layer add to a word's vector."""
    attention_dropout: Fraction | None = None
    """On attention probabilities; null = as `dropout`."""
    embedding_dropout: Fraction = 0.1
    """On what goes into the first layer: words and positions each, or with `embedding_norm` their normalised sum."""
    initialization: Literal["normal", "xavier"] = "normal"
    """normal: all weights N(0, std²) (BERT); xavier: words Xavier-uniform, projections Xavier-normal, positions N(0, 1)
    (the paper), which drowns the words for long: on the quick start it stays near the unigram."""
    std: PositiveFloat = 0.02
    """Standard deviation of `initialization: normal`."""
    word_std: PositiveFloat | None = None
    """Standard deviation of the words' vectors at the start; null = as `initialization` says."""
    init_from: File | None = None
    """What the weights start with: a run folder or checkpoint of the same encoder, or a BERT folder of Hugging Face's;
    words are found by their spelling, and labels by their names where the output layer there is for the same. null =
    drawn at random."""
    init_strict: bool = True
    """Refuse a BERT folder with tensors that are neither of the encoder nor of a known head; false = leave them there
    and tell."""

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, given: Any) -> Any:
        """What a preset says where the recipe is silent."""
        preset = given.get("preset") if isinstance(given, Mapping) else None
        return {**_PRESETS.get(preset, {}), **given} if isinstance(preset, str) else given

    @property
    def channels(self) -> int:
        """The number of heads."""
        return self.heads

    @property
    def iterations(self) -> int:
        """The number of layers."""
        return self.layers

    def describe(self) -> str:
        """For people, a sentence."""
        return f"A transformer encoder of width {self.width}: {self.layers} layers, {self.heads} heads."

    def resolved(self) -> Transformer:
        """The same section with every automatic value (``null``) filled in."""
        dropped = self.dropout if self.attention_dropout is None else self.attention_dropout
        size = self.head_size or self.width // self.heads
        return self.model_copy(update={"head_size": size, "attention_dropout": dropped})

    def inconsistencies(self) -> list[Inconsistency]:
        """Values of the section that do not go together: each key's path with the reason."""
        if self.head_size is None and self.width % self.heads:
            reason = f"{self.heads} heads do not divide a width of {self.width}: change one of them, or set head_size"
            return [(("heads",), reason)]
        return []


_PRESETS: dict[str, dict[str, Any]] = {
    "bert": {
        "width": 768,
        "inner": 3072,
        "heads": 12,
        "layers": 12,
        "norm_eps": 1e-12,
        "activation": "gelu",
        "bias": "all",
        "segments": 2,
        "embedding_norm": True,
        "pooler": True,
    }
}

Model = Annotated[ProbabilisticTransformer | Transformer, Field(discriminator="kind")]
