"""What every ``model`` section says of itself, whatever its kind. Imports no torch.

Encoders have channels and iterations of arcs, whatever these are called: a transformer's are its attention heads and
layers. The rest of the package reads :class:`Facts`, and never asks which kind a section is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Self

from pydantic import Field

from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.base import Inconsistency, Kinds, KindSection, Section, Share
from probtrans_cli.recipe.data import VocabularySection


class Growth(NamedTuple):
    """How many times as wide as its base a model is: ``width`` of a word's vector, ``rank`` of a channel's products."""

    width: float = 1.0
    rank: float = 1.0

    @classmethod
    def of(cls, width: int, base_width: int | None, rank: int, base_rank: int | None) -> Self | None:
        """Compare sizes with those of the base; None where there is no base."""
        if base_width is None:
            return None
        return cls(width / base_width, 1.0 if base_rank is None else rank / base_rank)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What an encoder has, made from its section."""

    width: int
    """The size of a word's representation."""
    in_width: int | None = None
    """The size of a word's unary scores; None = `width`."""
    root_width: int | None = None
    """The size of the representation of a sentence by root or pooler; None = `width`."""
    has_arcs: bool = True
    """Whether it has a probability for every head, so that trees can be read from it."""
    has_latent_labels: bool = False
    """Whether a word's representation is a distribution over latent labels."""
    label_variables: int = 1
    """Of how many latent labels: the representation is then one distribution behind the other."""
    has_head_variables: bool = False
    """Whether arcs are distributions of head variables."""
    has_head_labels: bool = False
    """Whether the channels are labels of one head of each word, and arcs joint probabilities of head and label."""
    has_ternary_scores: bool = False
    """Whether `optim.ternary_penalty` has something to penalise."""
    is_causal: bool = False
    """Whether a word's representation depends on earlier words alone, so that words can be predicted one by one."""
    without_exact_readout: str | None = None
    """The option with which a causal field cannot sum all of its variables out, as a recipe has it."""
    readout_sets: int = 0
    """The number of rounds of a causal field's readout that have potentials of their own."""
    has_bert_output: bool = False
    """Whether `task.output: bert` can be its output layer."""
    has_root: bool = False
    """Whether a root node represents the sentence."""
    has_pooler: bool = False
    """Whether a layer of its own makes the sentence's representation from that of the first word."""
    counts_words: bool = False
    """Whether it needs the count of every word in the training file."""
    order_cues: int = 0
    """How many columns it needs of what the order of words in the training file says of each word: 0; 2, z and R of
    :mod:`probtrans_cli.statistics.word_order`; 6, these, Λ, D, e and 1 for punctuation, of
    :mod:`probtrans_cli.models.probabilistic.head_bias`; or 8, these, N and 1 for a rare word."""
    separate_layers: int = 0
    """The number of layers with weights of their own, one upon the other."""
    segment_types: int | None = None
    """The number of segment types; 0 = it could have some; None = it cannot."""
    position_rows: int | None = None
    """The length of the longest sentence; None = any length."""
    reads_first: bool = False
    """Whether it needs the position of each word's first token."""
    has_gains: bool = False
    """Whether learned gains scale its scores of labels; a tied output then has gains, too."""
    untraceable: tuple[str, str] | None = None
    """The option that no exported graph can compute, as a path below `model`, and what to write instead."""
    variational: Bayes | None = None
    """How its weights are distributed; None = they are plain."""
    without_moments: tuple[str, ...] = ("its `model.kind`",)
    """The options for which means and variances cannot go through it, as the recipe has them."""
    refuses_unknown_tensors: bool = False
    """Whether a foreign folder of weights with unknown tensors is refused."""
    encoders: Mapping[str, ModelSection] = field(default_factory=dict)
    """The sections of the encoders that it is made of, by their keys; empty for a single encoder. The first is the one
    that reads segments and takes the weights of another model."""
    growth: Growth | None = None
    """How much wider it is than its `base_width`; None = it has none."""
    shortest: tuple[str, ...] = ()
    """The path, within the section, of the encoder that has no more than `position_rows`."""

    @property
    def unary_width(self) -> int:
        """The size of a word's unary scores."""
        return self.in_width or self.width


class ModelSection(KindSection):
    """The options of an encoder. A kind has a field ``kind`` with one value, and fields or properties for the rest."""

    if TYPE_CHECKING:  # fields or properties of each kind; pydantic is not to see them here

        @property
        def init_from(self) -> str | None:
            """What the weights start with."""

        @property
        def channels(self) -> int:
            """The number of channels of arcs."""

        @property
        def iterations(self) -> int:
            """The number of iterations of arcs."""

    @property
    def facts(self) -> Facts:
        """What the encoder has; every kind says at least its ``width``."""
        raise NotImplementedError

    @property
    def trees(self) -> int:
        """How many trees can be read of an iteration: one for each channel, or one whose arcs have labels."""
        return 1 if self.facts.has_head_labels else self.channels

    @property
    def drops(self) -> bool:
        """Whether training drops values: a field whose name ends in `dropout` is more than 0."""
        fields = any(getattr(self, name) for name in type(self).model_fields if name.endswith("dropout"))
        return fields or any(part.drops for part in self.facts.encoders.values())

    def widened(self, width: int) -> Self:
        """The same section with another width, and channels and features in proportion.

        Raises:
            UsageError: a size would be no whole number, or the kind has no such rule.
        """
        raise UsageError(f"a model of kind {self.kind} has no rule for width {width}", hint="choose another model.kind")

    def describe(self) -> str:
        """Describe the encoder in a sentence."""
        return f"An encoder of kind {self.kind}."

    def resolved(self) -> Self:
        """The same section with every automatic value (``null``) filled in."""
        return self

    def inconsistencies_with(self, vocabulary: VocabularySection) -> Iterable[Inconsistency]:
        """Check the section against the vocabulary: each wrong key's path within the section, with the reason."""
        del vocabulary
        return ()


def in_proportion(path: str, size: int, width: int, before: int) -> int:
    """Return a size of a model of the width ``before`` for another width."""
    if size * width % before:
        hint = f"choose multiples of {before // math.gcd(size, before)}"
        raise UsageError(f"at width {width}, {path} would be {size * width / before:g} in place of {size}", hint=hint)
    return size * width // before


MODELS: Kinds[ModelSection] = Kinds("model")
"""The kinds of `model`."""


MOST_DRAWS = 10_000
# Standard deviations of weights are kept between e^-12 and e^2, see LEAST and MOST in models/bayesian/weights.py. What
# a recipe asks for stays between these bounds, for a matrix of any size: beyond them it would count as the bound.
LEAST_START, MOST_DEVIATION = 0.002, 7.0
PriorDeviation = Annotated[float, Field(ge=1e-3, le=MOST_DEVIATION)]
KLWeight = Annotated[float, Field(ge=0.0, le=1e6)]
PositiveKLWeight = Annotated[float, Field(ge=1e-6, le=1e6)]


class WeightPrior(Section):
    """The prior of the weights: independent Gaussians."""

    kind: Literal["fan_in", "normal", "start"] = "fan_in"
    """fan_in: N(0, std² / inputs), inputs being those of a matrix; normal: N(0, std²); start: N(weight, std² / inputs)
    around the weights of `model.init_from`. Uncertain layer norms have N(1, 0.1²) and N(0, 0.1²)."""
    std: PriorDeviation = 1.0
    """std in the formula of `kind`."""


class WeightPredict(Section):
    """How a trained model uses the uncertainty of its weights."""

    kind: Literal["moments", "samples", "mean"] = "moments"
    """moments: mean and variance go through the network in one pass, which underestimates the mutual information;
    samples: the mean over draws of the weights; mean: the mean weights alone."""
    state: Literal["kronecker", "diagonal"] = "kronecker"
    """Covariances between words with `moments`: kronecker: one matrix over positions; diagonal: none."""
    samples: Annotated[int, Field(ge=1, le=MOST_DRAWS)] = 16
    """Number of draws of `samples`."""


Part = Literal["attention", "feed_forward", "output"]


class Bayes(Section):
    """Variational weights: a Gaussian for each weight, trained by the evidence lower bound with a tempered
    divergence."""

    family: Literal["row", "full"] = "row"
    """row: one standard deviation for each row of a matrix; full: one for each weight."""
    layers: tuple[Part, ...] = Field(default=("attention", "feed_forward", "output"), strict=False)
    """Which matrices are uncertain: attention, feed_forward, output."""
    norms: bool = False
    """The gains and shifts of layer norms are uncertain, too."""
    words: bool = False
    """Word vectors are uncertain, too. On small data this makes all scores worse."""
    start: Annotated[float, Field(ge=LEAST_START, le=MOST_DEVIATION)] = 0.1
    """Standard deviation of every weight at the start, as a multiple of 1/√inputs (of norms: of 0.1)."""
    sigma_lr: Annotated[float, Field(gt=0.0, le=1000.0)] = 10.0
    """Learning rate of the standard deviations, as a multiple of `optim.lr`. They have no weight decay."""
    prior: WeightPrior = WeightPrior()
    """The prior of the weights."""
    kl_weight: KLWeight = 0.1
    """κ, the weight of the divergence from the prior: 1 is Bayes' rule, less is a cold posterior."""
    kl_warmup: Share = 0.0
    """Share of the updates in which κ grows linearly from 0."""
    objective: Literal["samples", "moments"] = "samples"
    """samples: one draw of the weights for each batch; moments: the expected loss by moments, 6 to 8 times as slow."""
    predict: WeightPredict = WeightPredict()
    """How a trained model uses the uncertainty of its weights."""
