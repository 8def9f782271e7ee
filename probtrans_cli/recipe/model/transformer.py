"""The ``model`` section of kind `transformer`: all its options, and the presets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from probtrans_cli.recipe.base import (
    Count,
    File,
    Fraction,
    Inconsistency,
    Kinds,
    KindSection,
    PositiveFloat,
    Size,
    too_large,
)
from probtrans_cli.recipe.model.base import MODELS, Bayes, Facts, Growth, ModelSection, in_proportion

POSITIONS: Kinds[Positions] = Kinds("positions")
"""The kinds of `model.positions`."""


class Positions(KindSection):
    """How the encoder knows the order of words."""

    @property
    def table_rows(self) -> int | None:
        """The number of learned vectors, one for each position; None if there is no table."""
        return getattr(self, "rows", None)


@POSITIONS.add
class AbsolutePositions(Positions):
    """A learned vector for every position, added to the word's."""

    kind: Literal["absolute"]
    rows: Size = 512
    """The number of positions. Longer sentences are an error."""


@POSITIONS.add
class LearnedSinusoidalPositions(Positions):
    """As `absolute`, but the learned vectors start with the values of `sinusoidal`."""

    kind: Literal["learned_sinusoidal"]
    rows: Size = 512
    """The number of positions. Longer sentences are an error."""


@POSITIONS.add
class SinusoidalPositions(Positions):
    """A fixed vector of sines and cosines for every position (Vaswani et al. 2017), added to the word's."""

    kind: Literal["sinusoidal"]


@POSITIONS.add
class RelativePositions(Positions):
    """Learned vectors for the distance x = i - j of two words, in every layer (Shaw et al. 2018)."""

    kind: Literal["relative"]
    clip: Size = 8
    """Distances beyond this share one vector."""
    terms: Literal["k", "kv", "qk", "qkv"] = "k"
    """Where the distance's vector is added: k: to the key (the paper's code); v: to the value; q: to the query."""


@POSITIONS.add
class NoPositions(Positions):
    """The model does not see the order of words."""

    kind: Literal["none"]


@MODELS.add
class Transformer(ModelSection):
    """A transformer encoder: the paper's baseline, or BERT with `preset: bert`; or a decoder, as GPT-2."""

    kind: Literal["transformer"]
    preset: Literal["bert", "gpt2"] | None = None
    """bert: the defaults of BERT (Devlin et al. 2019): `bias: all`, `activation: gelu`, `segments: 2`,
    `embedding_norm`, `pooler`, `norm_eps: 1e-12`, `width: 768, inner: 3072, heads: 12, layers: 12`. gpt2: those of
    GPT-2 (Radford et al. 2019): `causal`, `norm: pre`, `bias: all`, `activation: gelu_tanh`, and the same sizes."""
    from_: File | None = Field(default=None, alias="from")
    """A Hugging Face folder of a BERT or GPT-2 to start from, in the current folder or in $PROBTRANS_DATA. Its
    config.json gives the sizes and dropouts, which a recipe must not contradict; it is also `init_from` and, where the
    recipe sets none, `data.vocabulary`: with `kind: wordpiece`, or of a GPT-2 `kind: words`. The recipe of a run has
    all of this written out, and null here."""
    width: Size = 384
    """d, the size of a word's vector."""
    base_width: Size | None = None
    """The width at which the settings were chosen. Start, rates and scores of a wider model are then scaled by the
    maximal update parametrisation (docs/scaling.md), if `inner` and heads (or their size) grow with the width; at this
    width, nothing changes. null = nothing is scaled."""
    base_rank: Size | None = None
    """With `base_width`: the `head_size` there, where it grows in place of the number of heads; null = the same."""
    inner: Size = 2048
    """d_ff, the size of the feed-forward layer."""
    heads: Count = 8
    """h, the number of attention heads."""
    head_size: Size | None = None
    """d_qkv, the size of the queries, keys and values of a head; null = width / heads."""
    layers: Count = 5
    """N, the number of layers."""
    causal: bool = False
    """true: a decoder, in which a word attends to itself and to earlier words. For `task.kind: lm`; GPT-2 is
    `preset: gpt2` with `task.word_bias: false`."""
    chain: bool = False
    """With `causal`: a matrix of the word before is added to a word's input, a path as `chain` of a field."""
    positions: Annotated[Positions, POSITIONS] = AbsolutePositions(kind="absolute")
    """How the encoder knows the order of words: absolute | learned_sinusoidal | sinusoidal | relative | none."""
    norm: Literal["post", "pre"] = "post"
    """post: normalise after each addition (the paper, BERT); pre: before each sublayer, and once at the end."""
    norm_eps: PositiveFloat = 1e-5
    """Epsilon of the layer norms, added to the variance."""
    activation: Literal["relu", "gelu", "gelu_tanh"] = "relu"
    """Activation of the feed-forward layer; gelu is exact, gelu_tanh an approximation."""
    bias: Literal["all", "feed_forward", "none"] = "feed_forward"
    """Which linear layers have biases."""
    share_layers: bool = False
    """Apply one layer N times (universal transformer, without halting)."""
    tie_kv: bool = False
    """Keys and values come from one projection (the paper's Limitations)."""
    tie_qo: bool = False
    """The output projection is the transposed projection of the queries (the paper's Limitations)."""
    segments: Annotated[int, Field(ge=0, le=1_000)] = 0
    """Number of segment types. The learned vector of its segment is added to each word's; 0 = none."""
    embedding_norm: bool = False
    """Normalise the input of the first layer."""
    pooler: bool = False
    """Represent the sentence by a linear layer with tanh on the first word's vector."""
    dropout: Fraction = 0.1
    """Dropout on the outputs of the attention and feed-forward layers."""
    attention_dropout: Fraction | None = None
    """Dropout on attention probabilities; null = as `dropout`."""
    embedding_dropout: Fraction = 0.1
    """Dropout on the input of the first layer: on words and positions apart, or with `embedding_norm` on their sum."""
    initialization: Literal["normal", "xavier"] = "normal"
    """normal: all weights N(0, std²) (BERT); xavier: words Xavier-uniform, projections Xavier-normal, positions N(0, 1)
    (the paper), which are much larger than words, so that small data is learned slowly."""
    std: PositiveFloat = 0.02
    """Standard deviation of `initialization: normal`."""
    word_std: PositiveFloat | None = None
    """Standard deviation of the words' vectors at the start; null = as `initialization` says."""
    init_from: File | None = None
    """Start from these weights: a run folder or checkpoint of the same encoder, or a Hugging Face folder of a BERT or
    GPT-2, in the current folder or in $PROBTRANS_DATA. Words are matched by their spelling, and labels by their names
    where the output layers are of the same task. null = random weights."""
    init_strict: bool = True
    """Refuse such a folder with tensors of neither the encoder nor a known head; false = ignore them with a message."""
    bayes: Bayes | None = None
    """Weights with distributions (variational Bayes); null = plain weights."""

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, values: Any) -> Any:
        preset = values.get("preset") if isinstance(values, Mapping) else None
        return {**_PRESETS.get(preset, {}), **values} if isinstance(preset, str) else values

    @property
    def channels(self) -> int:
        return self.heads

    @property
    def iterations(self) -> int:
        return self.layers

    @property
    def facts(self) -> Facts:
        return Facts(
            has_bert_output=True,
            has_pooler=self.pooler,
            is_causal=self.causal,
            untraceable=("causal: true of a transformer", "kind=probabilistic") if self.causal else None,
            separate_layers=0 if self.share_layers else self.layers,
            segment_types=self.segments,
            position_rows=self.positions.table_rows,
            width=self.width,
            growth=Growth.of(self.width, self.base_width, self.head_size or self.width // self.heads, self.base_rank),
            variational=self.bayes,
            without_moments=tuple(
                f"`model.{name}`"
                for name in ("tie_kv", "tie_qo", "share_layers", "causal", "base_width")
                if getattr(self, name)
            ),
            refuses_unknown_tensors=self.init_strict,
        )

    def widened(self, width: int) -> Transformer:
        """Heads and the feed-forward layer grow with the width; the size of a head stays."""
        sizes = {
            name: in_proportion(f"model.{name}", getattr(self, name), width, self.width) for name in ("inner", "heads")
        }
        return self.resolved().model_copy(update={"width": width, **sizes})

    def describe(self) -> str:
        name = "causal transformer" if self.causal else "transformer encoder"
        return f"A {name} of width {self.width}: {self.layers} layers, {self.heads} heads."

    def resolved(self) -> Transformer:
        dropped = self.dropout if self.attention_dropout is None else self.attention_dropout
        size = self.head_size or self.width // self.heads
        return self.model_copy(update={"head_size": size, "attention_dropout": dropped})

    def inconsistencies(self) -> Iterator[Inconsistency]:
        if self.head_size is None and self.width % self.heads:
            reason = f"{self.heads} heads do not divide a width of {self.width}: change one of them, or set head_size"
            yield ("heads",), reason
        for name in ("pooler", "bayes") if self.causal else ():
            if getattr(self, name):
                yield (name,), "a causal model has none: leave it out"
        if self.chain and not self.causal:
            yield ("chain",), "it is for model.causal: leave it out"
        if self.base_width is None:
            if self.base_rank is not None:
                yield ("base_rank",), "it is the head_size at model.base_width: set that, too, or leave this out"
        elif self.bayes is not None:
            yield ("base_width",), "there are no factors for `model.bayes`: leave one of them out"
        elif self.initialization != "normal":
            yield ("initialization",), "model.base_width has no factors for it: set this to normal"
        projections = 4 * self.heads * (self.head_size or self.width // self.heads)
        layers = 1 if self.share_layers else self.layers
        numbers = self.width * ((self.positions.table_rows or 0) + layers * (projections + 2 * self.inner))
        yield from too_large(("width",), numbers)


_BASE = {"width": 768, "inner": 3072, "heads": 12, "layers": 12, "bias": "all"}
_PRESETS: dict[str, dict[str, Any]] = {
    "bert": {
        **_BASE, "norm_eps": 1e-12, "activation": "gelu", "segments": 2, "embedding_norm": True, "pooler": True,
    },
    "gpt2": {**_BASE, "causal": True, "norm": "pre", "activation": "gelu_tanh"},
}  # fmt: skip

POSITIONS.used_in(Transformer)
