"""The ``model`` section of kind `transformer`: all its options, and the presets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from probtrans_cli.recipe.base import (
    MOST_NUMBERS,
    TOO_LARGE,
    Count,
    File,
    Fraction,
    Inconsistency,
    Kinds,
    KindSection,
    PositiveFloat,
    Size,
)
from probtrans_cli.recipe.model.base import MODELS, ModelSection
from probtrans_cli.recipe.weights import Bayes

POSITIONS: Kinds[Positions] = Kinds("positions")
"""The kinds of `model.positions`."""


class Positions(KindSection):
    """How the order of words is told."""

    @property
    def table_rows(self) -> int | None:
        """The number of learned vectors, one a position; None where there is no such table."""
        return None


@POSITIONS.add
class AbsolutePositions(Positions):
    """A learned vector for every position, added to the word's."""

    kind: Literal["absolute"]
    rows: Size = 512
    """The number of positions: longer sentences are refused."""

    @property
    def table_rows(self) -> int | None:
        return self.rows


@POSITIONS.add
class LearnedSinusoidalPositions(Positions):
    """As `absolute`, but the learned vectors start as those of `sinusoidal`."""

    kind: Literal["learned_sinusoidal"]
    rows: Size = 512
    """The number of positions: longer sentences are refused."""

    @property
    def table_rows(self) -> int | None:
        return self.rows


@POSITIONS.add
class SinusoidalPositions(Positions):
    """A fixed vector of sines and cosines for every position (Vaswani et al. 2017), added to the word's."""

    kind: Literal["sinusoidal"]


@POSITIONS.add
class RelativePositions(Positions):
    """Learned vectors for the distance x = i - j of two words, in every layer (Shaw et al. 2018)."""

    kind: Literal["relative"]
    clip: Size = 8
    """Distances beyond this are all alike."""
    terms: Literal["k", "kv", "qk", "qkv"] = "k"
    """Where the distance's vector is added: k to the key (the paper's code), v to the value, q to the query."""
    per_head: bool = False
    """Vectors of their own for every head, not for the layer."""


@POSITIONS.add
class NoPositions(Positions):
    """Words in any order are the same to the model."""

    kind: Literal["none"]


@MODELS.add
class Transformer(ModelSection):
    """A transformer encoder: the paper's baseline, or with `preset: bert` that of BERT."""

    has_bert_output = True

    kind: Literal["transformer"]
    preset: Literal["bert"] | None = None
    """bert: other defaults, those of BERT (Devlin et al. 2019): `bias: all`, `activation: gelu`, `segments: 2`,
    `embedding_norm`, `pooler`, `norm_eps: 1e-12`, and `width: 768, inner: 3072, heads: 12, layers: 12`."""
    from_: File | None = Field(default=None, alias="from")
    """A BERT folder of Hugging Face's, in the current folder or in $PROBTRANS_DATA, to start from. While the recipe is
    read, its config.json gives the sizes and dropouts, and the folder is taken for `init_from` and, with `kind:
    wordpiece`, for `data.vocabulary`, each where the recipe says nothing; what it says must be as there. A run's own
    recipe has all of it written out, and null here."""
    width: Size = 384
    """d, the size of a word's vector."""
    inner: Size = 2048
    """d_ff, the size of the feed-forward layer."""
    heads: Count = 8
    """h, the number of attention heads."""
    head_size: Size | None = None
    """d_qkv, the size of a head's queries, keys and values; null = width / heads."""
    layers: Count = 5
    """N, the number of layers."""
    positions: Annotated[Positions, POSITIONS] = AbsolutePositions(kind="absolute")
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
    segments: Annotated[int, Field(ge=0, le=1_000)] = 0
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
    """What the weights start with: a run folder or checkpoint of the same encoder, or a BERT folder of Hugging Face's,
    in the current folder or in $PROBTRANS_DATA; words are found by their spelling, and labels by their names where the
    output layer there is for the same. null = drawn at random."""
    init_strict: bool = True
    """Refuse a BERT folder with tensors that are neither of the encoder nor of a known head; false = leave them there
    and tell."""
    bayes: Bayes | None = None
    """Weights with a distribution instead of a value; null = plain weights."""

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

    @property
    def has_pooler(self) -> bool:
        return self.pooler

    @property
    def separate_layers(self) -> int:
        return 0 if self.share_layers else self.layers

    @property
    def segment_types(self) -> int | None:
        return self.segments

    @property
    def position_rows(self) -> int | None:
        return self.positions.table_rows

    @property
    def state_width(self) -> int:
        return self.width

    @property
    def variational(self) -> Bayes | None:
        return self.bayes

    @property
    def refuses_unknown_tensors(self) -> bool:
        return self.init_strict

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
        faults: list[Inconsistency] = []
        if self.head_size is None and self.width % self.heads:
            reason = f"{self.heads} heads do not divide a width of {self.width}: change one of them, or set head_size"
            faults.append((("heads",), reason))
        projections = 4 * self.heads * (self.head_size or self.width // self.heads)
        layers = 1 if self.share_layers else self.layers
        numbers = self.width * ((self.position_rows or 0) + layers * (projections + 2 * self.inner))
        if numbers > MOST_NUMBERS:
            faults.append((("width",), TOO_LARGE.format(numbers)))
        return faults

    def certain(self) -> Transformer:
        return self.model_copy(update={"bayes": None})

    @property
    def without_moments(self) -> list[str]:
        return [f"`model.{name}`" for name in ("tie_kv", "tie_qo", "share_layers") if getattr(self, name)]


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

POSITIONS.used_in(Transformer)
