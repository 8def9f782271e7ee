"""Sections of a recipe about the training: optimizer and schedule, length, evaluation, checkpoints, log, runtime.
Imports no torch."""

from __future__ import annotations

import math
from typing import Annotated, Literal

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
from probtrans_cli.recipe.model.base import PositiveKLWeight, WeightPredict, WeightPrior

Messages = Literal["fast", "fused", "plain"]
Precision = Literal["auto", "float32", "bfloat16"]
Forms = Messages | Literal["banded", "linear"]
"""Messages, and two names for forms of the fast ones, to compare them."""


def _renamed(messages: object) -> object:
    """Read the names that older recipes and checkpoints have for forms of the fast messages."""
    return "fast" if messages in ("auto", "banded", "linear") else messages


class Schedule(KindSection):
    """How the learning rate changes; a pure function, so that resuming is exact."""

    def rate(self, lr: float, done: float, drops: int) -> float:
        """The learning rate after the share ``done`` of all steps and ``drops`` drops; ``lr``: the rate of the
        recipe."""
        del done, drops
        return lr

    @property
    def drops_after(self) -> int | None:
        """Evaluations without a better dev score before the rate drops; None = it never drops, and no dev set is
        needed."""
        return None

    def ends_at(self, rate: float) -> bool:
        """Return True if the training ends with this rate, which a drop has made."""
        del rate
        return False


SCHEDULES: Kinds[Schedule] = Kinds("schedule")
"""The kinds of `optim.schedule`."""


@SCHEDULES.add
class PlateauSchedule(Schedule):
    """Multiply the rate by `factor` after `patience` evaluations without a better dev score (the paper)."""

    kind: Literal["plateau"]
    factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """Factor of each drop."""
    patience: PositiveInt = 6
    """Evaluations without a better dev score before the rate drops."""
    min_lr: PositiveFloat = 1e-7
    """Stop when the rate falls below this."""

    def rate(self, lr: float, done: float, drops: int) -> float:
        del done
        return lr * self.factor**drops

    @property
    def drops_after(self) -> int:
        return self.patience

    def ends_at(self, rate: float) -> bool:
        return rate < self.min_lr


class _WarmedUp(Schedule):
    """A straight line up to the rate, then down from it to `final` times the rate."""

    kind: str
    warmup: Fraction = 0.05
    """Share of all steps in which the rate rises."""
    final: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Rate at the end, as a multiple of `lr`."""

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

    def height(self, share: float) -> float:
        return 0.5 * (1.0 + math.cos(math.pi * share))


@SCHEDULES.add
class LinearSchedule(_WarmedUp):
    """Linear warm-up, then a straight line down to `final` times the rate (BERT)."""

    kind: Literal["linear"]
    warmup: Fraction = 0.1


@SCHEDULES.add
class ConstantSchedule(Schedule):
    """The same rate throughout."""

    kind: Literal["constant"]


class TernaryPenalty(Section):
    """Penalty on the Frobenius norm of the whole `T`: all buckets, channels and iterations, with gains if there are
    any."""

    weight: NonNegativeFloat = 0.0
    """Factor in the loss; 0 = none."""


class DrawnPredict(WeightPredict):
    """How a trained model uses the uncertainty of its weights."""

    kind: Literal["moments", "samples", "mean"] = "samples"
    """samples: the mean over draws of the weights; moments (transformers): mean and variance go through the network in
    one pass, which underestimates the mutual information; mean: the mean weights alone."""


class Ivon(Section):
    """`optim.kind: ivon` (Shen et al. 2024): every matrix of encoder and output has a Gaussian, whose precision is the
    curvature of the loss. All other parameters, with the words, are trained as by `adamw`."""

    lr: Annotated[float, Field(gt=0.0, le=1e6)] = 0.3
    """Learning rate of the matrices, relative to `hessian_start`; it follows `optim.schedule`, as `optim.lr` does."""
    betas: tuple[Fraction, Fraction] = Field(default=(0.9, 0.999), strict=False)
    """Decay rates of the mean gradient and of the curvature."""
    hessian_start: Annotated[float, Field(ge=1e-12, le=1e6)] = 0.02
    """The curvature at the start."""
    kl_weight: PositiveKLWeight = 0.1
    """κ, the weight of the divergence from the prior: 1 is Bayes' rule, less is a cold posterior."""
    prior: WeightPrior = WeightPrior()
    """The prior of the weights: fan_in or normal."""
    clip: Annotated[float, Field(gt=0.0, le=1e6)] | None = None
    """Largest absolute value of an element of a step, before the rate; null = unlimited. 1e-3 helps if training is
    unstable."""
    predict: DrawnPredict = DrawnPredict()
    """How a trained model uses the uncertainty of its weights."""


class Optim(Section):
    """Optimizer, learning rate and regularisation."""

    kind: Literal["adam", "adamw", "ivon"] = "adam"
    """adam: weight decay is part of the gradient (the paper); adamw: decoupled weight decay; ivon: a distribution over
    weights."""
    ivon: Ivon = Ivon()
    """Options of `kind: ivon`."""
    lr: PositiveFloat = 1e-3
    """Learning rate."""
    layer_decay: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Lower layers learn more slowly: layer l of L has the rate times `layer_decay` to the power L - l, and the
    embeddings count as layer 0. What stands above the layers, and features of spelling, have the full rate. 1 = all
    alike."""
    encoder_rate: PositiveFloat = 1.0
    """The parameters of the encoder (of a stacked model, of both), with positions and segments, have the rate times
    this. Word scores or vectors and the output layer have the full rate. 1 = all alike."""
    betas: tuple[Fraction, Fraction] = Field(default=(0.9, 0.999), strict=False)
    """Decay rates of the two moments."""
    eps: PositiveFloat = 1e-9
    """Adam's epsilon."""
    weight_decay: NonNegativeFloat = 0.0
    """Coefficient of the L2 decay."""
    decayed: Literal["all", "matrices"] = "all"
    """What decays: all: all parameters; matrices: all but biases, layer norms and gains (BERT)."""
    ternary_penalty: TernaryPenalty = TernaryPenalty()
    """Penalty on the ternary scores."""
    clip: PositiveFloat | None = 5.0
    """Largest norm of the gradient; null = unlimited. With `kind: ivon`, of the parameters that Adam trains."""
    schedule: Annotated[Schedule, SCHEDULES] = CosineSchedule()
    """How the learning rate changes: cosine | linear | plateau | constant."""
    ema: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Decay of an exponential moving average of the weights, which is then evaluated and saved; null = none."""

    @property
    def posterior(self) -> Ivon | None:
        """The options of an optimizer that learns a distribution over weights; None if it does not."""
        return self.ivon if self.kind == "ivon" else None


class Train(Section):
    """Length and batches of training."""

    epochs: PositiveInt = 20
    """Passes over the training set."""
    steps: PositiveInt | None = None
    """Stop after this many updates; null = after `epochs`."""
    batch_words: PositiveInt = 2048
    """Most tokens in a batch, with padding. Tokens are words, or pieces if the vocabulary has pieces."""
    by_length: bool = True
    """true: batches of sentences of similar length; false: of any length (the paper's code), with more padding."""
    batch_sentences: PositiveInt | None = None
    """Most sentences in a batch; null = as many as fit."""
    accumulate: PositiveInt = 1
    """Batches for each update; the gradient is that of their union. Several processes share them, so there must be at
    least as many. `batch_words` is the size of one batch."""
    patience: PositiveInt | None = None
    """Stop after this many evaluations without a better dev score; null = never."""
    freeze: Literal["embeddings"] | PositiveInt | None = None
    """Parameters that keep the values of `model.init_from`. embeddings: the vectors of words, positions and segments,
    and the norm of their sum; a number n: these and the n lowest layers; null = none. In a stacked model they belong to
    the lower encoder, which is frozen whole with all of its layers. Dropout stays on."""
    probe: bool = False
    """Train the output layer alone, which must be linear; the rest keeps the values of `model.init_from`, without
    dropout."""


class Eval(Section):
    """Evaluation on dev."""

    every_epochs: PositiveInt = 1
    """Evaluate on dev after every n epochs, and at the end."""
    every_steps: PositiveInt | None = None
    """Evaluate after every n updates instead; null = by epochs."""
    batch_words: PositiveInt = 4096
    """Batch size of evaluation and parsing, in tokens, as `train.batch_words`; on a CPU at most 1,024, as larger
    batches have more padding and are no faster there."""
    trees: bool | None = None
    """Score the trees that are read from the model beside gold trees, and draw some, at the end of a training; null =
    if the task is to predict hidden words."""
    channel: Literal["mean", "best"] | NonNegativeInt = "best"
    """Channel whose trees are scored and printed: a number from 0; mean: the mean of the log marginals; best: the best
    on dev."""
    iteration: Literal["best"] | int = "best"
    """Iteration whose head marginals are read: 1 to T; -1: the last; best: the best on dev."""
    decode: Literal["best", "argmax", "mst", "eisner", "auto"] = "best"
    """Decoder that turns head marginals into trees; auto: eisner up to 200 words, mst for more,
    as the time of eisner grows with the cube of the length; best: mst or auto, whichever is better on dev."""


class Predict(Section):
    """Probabilities of a trained model."""

    temperature: bool = False
    """Divide the scores by the temperature with the lowest loss on dev, which every training with labels finds."""


class Save(Section):
    """When checkpoints are written. One is written after every evaluation."""

    every_steps: PositiveInt | None = None
    """Also write one after every n updates; null = only after evaluations."""
    keep: PositiveInt = 1
    """Number of checkpoints to keep besides the best and the last."""


class Log(Section):
    """Reports during training."""

    every_steps: PositiveInt = 20
    """Updates between two lines of metrics.jsonl."""
    tensorboard: bool = False
    """Also write the metrics for TensorBoard, into the run's folder tensorboard (pip install
    'probtrans[tensorboard]')."""


class Runtime(Section):
    """Where and how the arithmetic is done. Results differ only by rounding."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: the GPU if there is one."""
    precision: Precision = "auto"
    """auto: bfloat16 autocast on the GPU, float32 on the CPU. Where products in bfloat16 are slower than in float32, as
    on a processor without instructions for them, float32 is used instead, with a warning."""
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] | None = None
    """CPU threads; null = torch's own choice (fix it for results that repeat to the bit)."""
    allocator: Literal["system", "keep"] = "system"
    """Handling of freed memory (CPU, GNU C library): system: return large pieces at once; keep: keep them for the next
    batch, which is faster and needs a little more memory."""
    compile: bool = False
    """Compile the encoder with torch.compile (for the GPU); not where messages are plain."""
    timeout: PositiveInt = 1800
    """Seconds after which processes stop waiting for another process, and end with its number."""
    messages: Annotated[Messages, BeforeValidator(_renamed)] = "fast"
    """How messages are computed. fast: without work on padding, in blocks for long sentences; fused: as fast, and on a
    GPU without padding and masks, with triton by kernels for an exchange and for near words (docs/speed.md), which no
    GPU has timed yet; plain: the equations as they stand in `models/probabilistic/crf.py`, so that what you edit there
    is what runs (for research and short sentences). Results differ only by rounding."""


SCHEDULES.used_in(Optim)
