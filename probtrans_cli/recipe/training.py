"""Sections of a recipe about the training: optimizer and schedule, length, evaluation, checkpoints, log, runtime.
Imports no torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from probtrans_cli.recipe.base import (
    MOST_THREADS,
    Fraction,
    Kinds,
    KindSection,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Section,
)
from probtrans_cli.recipe.weights import PositiveKLWeight, WeightPredict, WeightPrior

Messages = Literal["fast", "plain"]
"""How messages are computed, see :class:`Runtime`."""
Forms = Messages | Literal["banded", "linear"]
"""The same, and two that name a form of the fast messages, to compare them."""


def _renamed(messages: object) -> object:
    """Forms had names of their own in older recipes and checkpoints; the length of sentences chooses among them."""
    return "fast" if messages in ("auto", "banded", "linear") else messages


class Schedule(KindSection):
    """How the learning rate changes; a pure function, so that resuming is exact."""

    def rate(self, lr: float, done: float, drops: int) -> float:
        """The rate after a share ``done`` of all steps and so many ``drops``; ``lr``: the rate of the recipe."""
        del done, drops
        return lr

    @property
    def drops_after(self) -> int | None:
        """Evaluations without a better dev score after which the rate drops; None = it never does, and no dev set is
        needed."""
        return None

    def ends_at(self, rate: float) -> bool:
        """Whether the training ends when a drop leads to this rate."""
        del rate
        return False


SCHEDULES: Kinds[Schedule] = Kinds("schedule")
"""The kinds of `optim.schedule`."""


@SCHEDULES.add
class PlateauSchedule(Schedule):
    """Multiply the rate by `factor` after `patience` evaluations without a better dev score (the paper's way)."""

    kind: Literal["plateau"]
    factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """Multiplier of the learning rate."""
    patience: PositiveInt = 6
    """Evaluations without improvement before the rate drops."""
    min_lr: PositiveFloat = 1e-7
    """Training stops when the rate falls below this."""

    def rate(self, lr: float, done: float, drops: int) -> float:
        del done
        return lr * self.factor**drops

    @property
    def drops_after(self) -> int | None:
        return self.patience

    def ends_at(self, rate: float) -> bool:
        return rate < self.min_lr


class _WarmedUp(Schedule):
    """A straight line up to the rate, then down from it to `final` times the rate."""

    if TYPE_CHECKING:  # fields of each kind

        @property
        def warmup(self) -> float:
            """Share of all steps on the way up."""

        @property
        def final(self) -> float:
            """Rate at the end, as a multiple of the rate."""

    def rate(self, lr: float, done: float, drops: int) -> float:
        del drops
        if done < self.warmup:
            return lr * done / self.warmup
        share = min((done - self.warmup) / (1.0 - self.warmup), 1.0)
        return lr * (self.final + (1.0 - self.final) * self.height(share))

    def height(self, share: float) -> float:
        """From 1 to 0, as ``share`` of the way down goes from 0 to 1."""
        return 1.0 - share


@SCHEDULES.add
class CosineSchedule(_WarmedUp):
    """Linear warm-up, then half a cosine down to `final` times the rate."""

    kind: Literal["cosine"] = "cosine"
    warmup: Fraction = 0.05
    """Share of all steps."""
    final: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Rate at the end, as a multiple of `lr`."""

    def height(self, share: float) -> float:
        return 0.5 * (1.0 + math.cos(math.pi * share))


@SCHEDULES.add
class LinearSchedule(_WarmedUp):
    """Linear warm-up, then a straight line down to `final` times the rate (BERT's way)."""

    kind: Literal["linear"]
    warmup: Fraction = 0.1
    """Share of all steps."""
    final: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Rate at the end, as a multiple of `lr`."""


@SCHEDULES.add
class ConstantSchedule(Schedule):
    """The same rate throughout."""

    kind: Literal["constant"]


class TernaryPenalty(Section):
    """Penalty on the Frobenius norm of the whole of `T`: all buckets, channels, and iterations that have their own; of
    `T` with its gains, where it has some."""

    weight: NonNegativeFloat = 0.0
    """Factor in the loss; 0 = none."""


class DrawnPredict(WeightPredict):
    """How the uncertainty of the weights enters what the trained model says; by draws unless said otherwise."""

    kind: Literal["moments", "samples", "mean"] = "samples"
    """moments: mean and variance go through the network in one pass (of a transformer), which understates the mutual
    information; samples: the mean over draws of the weights; mean: the mean weights alone."""


class Ivon(Section):
    """`optim.kind: ivon` (Shen et al. 2024): every matrix of encoder and output has a Gaussian, whose precision is the
    curvature of the loss. All else, words too, moves as with `adamw`."""

    lr: Annotated[float, Field(gt=0.0, le=1e6)] = 0.3
    """Learning rate of the matrices, relative to `hessian_start`; it follows `optim.schedule`, as `optim.lr` does."""
    betas: tuple[Fraction, Fraction] = Field(default=(0.9, 0.999), strict=False)
    """Decay rates of the mean gradient and of the curvature."""
    hessian_start: Annotated[float, Field(ge=1e-12, le=1e6)] = 0.02
    """The curvature at the start."""
    kl_weight: PositiveKLWeight = 0.1
    """κ, the weight of the divergence from the prior: 1 is Bayes' rule, less is a cold posterior."""
    prior: WeightPrior = WeightPrior()
    """What the weights are believed to be before anything is learned: fan_in or normal."""
    clip: Annotated[float, Field(gt=0.0, le=1e6)] | None = None
    """Largest size of an element of a step before the rate; null = unlimited. 1e-3 where training is unstable."""
    predict: DrawnPredict = DrawnPredict()
    """How a trained model answers."""


class Optim(Section):
    """How the parameters move."""

    kind: Literal["adam", "adamw", "ivon"] = "adam"
    """adam: decay as part of the gradient (the paper's); adamw: decoupled decay; ivon: a distribution over weights."""
    ivon: Ivon = Ivon()
    """Options of `kind: ivon`."""
    lr: PositiveFloat = 1e-3
    """Learning rate."""
    layer_decay: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Lower layers move more slowly: of L layers, layer l at the rate times `layer_decay` to the power L - l, and the
    embeddings as if they were layer 0; what stands above the layers, and features of spelling, at the rate itself.
    1 = all alike."""
    encoder_rate: PositiveFloat = 1.0
    """The encoder's parameters (of a stacked model, both encoders'; of a transformer, also positions and segments) move
    at the rate times this; the scores or vectors of words, and the output layer, at the rate itself. 1 = all alike."""
    betas: tuple[Fraction, Fraction] = Field(default=(0.9, 0.999), strict=False)
    """Decay rates of the two moments."""
    eps: PositiveFloat = 1e-9
    """Adam's epsilon."""
    weight_decay: NonNegativeFloat = 0.0
    """Coefficient of the L2 decay."""
    decayed: Literal["all", "matrices"] = "all"
    """What decays: all parameters, or none with a single index: no biases, no layer norms, no gains (BERT's way)."""
    ternary_penalty: TernaryPenalty = TernaryPenalty()
    """Penalty on the ternary scores."""
    clip: PositiveFloat | None = 5.0
    """Largest norm of the gradient; null = unlimited. With `kind: ivon`, of what Adam moves."""
    schedule: Annotated[Schedule, SCHEDULES] = CosineSchedule()
    """How the learning rate changes: cosine | linear | plateau | constant."""
    ema: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Decay of an exponential moving average of the weights, which is then what is evaluated and saved as the model."""

    @property
    def posterior(self) -> Ivon | None:
        """The options of an optimizer that finds a distribution over weights; None = it does not."""
        return self.ivon if self.kind == "ivon" else None


class Train(Section):
    """How long, and in what portions."""

    epochs: PositiveInt = 20
    """Passes over the training set."""
    steps: PositiveInt | None = None
    """Stop after this many updates, whatever `epochs` says."""
    batch_words: PositiveInt = 2048
    """Largest number of tokens (words, or their pieces where the vocabulary has such), padding included, in a batch."""
    by_length: bool = True
    """Sentences of similar length go together; false: any (the paper's code), at the price of padding."""
    batch_sentences: PositiveInt | None = None
    """Largest number of sentences in a batch; null = as many as fit."""
    accumulate: PositiveInt = 1
    """Batches per update; the gradient is that of their union. Several processes share them, so there must be as many
    as processes, or more; `batch_words` is the size of one of them, and not cut."""
    patience: PositiveInt | None = None
    """Stop after this many evaluations without a better dev score; null = never."""
    freeze: Literal["embeddings"] | PositiveInt | None = None
    """What stays as `model.init_from` has it: `embeddings`: the vectors of words, positions and segments, and the norm
    of their sum; a number n: these and the n lowest layers; null = nothing. Of a stacked model they are the lower
    encoder's, and with all of its layers all of it is frozen. Dropout is as elsewhere."""
    probe: bool = False
    """Learn the output layer alone, which must be linear; the words' scores and the encoder stay as `model.init_from`
    has them, and nothing in them is dropped."""

    @property
    def frozen_stages(self) -> int:
        """The number of stages that are frozen, from below: the embeddings are the first, then come the layers."""
        return 0 if self.freeze is None else 1 if self.freeze == "embeddings" else 1 + self.freeze


class Eval(Section):
    """What is measured on dev, and when."""

    every_epochs: PositiveInt = 1
    """Evaluate on dev every so many epochs (and at the end)."""
    every_steps: PositiveInt | None = None
    """Evaluate every so many updates instead; null = by epochs."""
    batch_words: PositiveInt = 4096
    """Batch size of evaluation and parsing, in tokens, as `train.batch_words`."""
    channel: Literal["mean", "best"] | NonNegativeInt = "best"
    """Channel whose trees are scored and printed: a number from 0, `mean` of the log marginals, or `best` on dev."""
    iteration: Literal["best"] | int = "best"
    """Iteration whose head marginals are read: 1..T, -1 for the last, or `best` on dev."""
    decode: Literal["best", "argmax", "mst", "eisner"] = "best"
    """Decoder that turns head marginals into trees; `best` on dev is `mst` or `eisner`."""


class Predict(Section):
    """How a trained model turns scores into probabilities."""

    temperature: bool = False
    """Divide the scores by the temperature that has the least loss on dev, which every training with labels finds."""


class Save(Section):
    """When checkpoints are written (always after an evaluation)."""

    every_steps: PositiveInt | None = None
    """Also every so many updates; null = after evaluations only."""
    keep: PositiveInt = 1
    """How many checkpoints to keep besides the best and the last."""


class Log(Section):
    """What is reported while training."""

    every_steps: PositiveInt = 20
    """Updates between two lines of metrics.jsonl."""
    tensorboard: bool = False
    """Also write what metrics.jsonl has for TensorBoard, into the folder tensorboard of the run; needs
    pip install 'probtrans[tensorboard]'."""


class Runtime(Section):
    """Where and how the arithmetic is done. Does not change what is computed, up to rounding."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: the GPU if there is one."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 autocast on the GPU, float32 on the CPU."""
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] | None = None
    """CPU threads; null = torch's own choice (fix it for results that repeat to the bit)."""
    allocator: Literal["system", "keep"] = "system"
    """What becomes of memory that is let go of (CPU, GNU C library): system: large pieces go back at once; keep: they
    stay for the next batch, which saves their making anew and takes some more memory."""
    compile: bool = False
    """Run the encoder through torch.compile (for the GPU)."""
    timeout: PositiveInt = 1800
    """Seconds after which processes that wait for one that does not come end, and say which."""
    messages: Annotated[Messages, BeforeValidator(_renamed)] = "fast"
    """How messages are computed, which changes no value but rounding: plain (the equations as they stand in
    `models/probabilistic/crf.py`: what you edit there is what runs; for research and short sentences), fast (the same
    without work on padding, in blocks where sentences are long)."""


SCHEDULES.used_in(Optim)
