"""The recipe: everything that determines a run, as one validated tree of values. Imports no torch.

``Recipe`` is the schema; :mod:`probtrans_cli.recipe.source` reads YAML (with positions), applies ``KEY=VALUE``
overrides and turns every fault into one message. Derived values (``null`` = automatic) are filled in by
:meth:`Recipe.resolved`, after the overrides.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from probtrans_cli.recipe.base import (
    NAME,
    Fraction,
    InconsistentError,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Section,
)
from probtrans_cli.recipe.data import Data, WordPieceVocabulary, WordVocabulary
from probtrans_cli.recipe.model import Model, PositionTable, ProbabilisticTransformer, Transformer
from probtrans_cli.recipe.task import FORMATS, Classification, MaskedLanguageModel, Pretraining, Task

# --- training ---------------------------------------------------------------------------------------------------------


class PlateauSchedule(Section):
    """Multiply the rate by `factor` after `patience` evaluations without a better dev score (the paper's way)."""

    kind: Literal["plateau"]
    factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """Multiplier of the learning rate."""
    patience: PositiveInt = 6
    """Evaluations without improvement before the rate drops."""
    min_lr: PositiveFloat = 1e-7
    """Training stops when the rate falls below this."""


class CosineSchedule(Section):
    """Linear warm-up, then half a cosine down to `final` times the rate."""

    kind: Literal["cosine"] = "cosine"
    warmup: Fraction = 0.05
    """Share of all steps."""
    final: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Rate at the end, as a multiple of `lr`."""


class LinearSchedule(Section):
    """Linear warm-up, then a straight line down to `final` times the rate (BERT's way)."""

    kind: Literal["linear"]
    warmup: Fraction = 0.1
    """Share of all steps."""
    final: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Rate at the end, as a multiple of `lr`."""


class ConstantSchedule(Section):
    """The same rate throughout."""

    kind: Literal["constant"]


Schedule = Annotated[PlateauSchedule | CosineSchedule | LinearSchedule | ConstantSchedule, Field(discriminator="kind")]


class TernaryPenalty(Section):
    """Penalty on the Frobenius norm of the whole of `T`, all buckets and channels."""

    weight: NonNegativeFloat = 0.0
    """Factor in the loss; 0 = none."""
    squared: bool = False
    """Square the norm; the paper's code does not."""


class Optim(Section):
    """How the parameters move."""

    kind: Literal["adam", "adamw"] = "adam"
    """adam: decay as part of the gradient (the paper's); adamw: decoupled decay."""
    lr: PositiveFloat = 1e-3
    """Learning rate."""
    betas: tuple[Fraction, Fraction] = Field(default=(0.9, 0.999), strict=False)
    """Decay rates of the two moments."""
    eps: PositiveFloat = 1e-9
    """Adam's epsilon."""
    weight_decay: NonNegativeFloat = 0.0
    """Coefficient of the L2 decay."""
    decayed: Literal["all", "matrices"] = "all"
    """What decays: all parameters, or none with a single index: no biases, no layer norms (BERT's way)."""
    ternary_penalty: TernaryPenalty = TernaryPenalty()
    """Penalty on the ternary scores."""
    clip: PositiveFloat | None = 5.0
    """Largest norm of the gradient; null = unlimited."""
    schedule: Schedule = CosineSchedule()
    """How the learning rate changes: cosine | linear | plateau | constant."""
    ema: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Decay of an exponential moving average of the weights, which is then what is evaluated and saved as the model."""


class Train(Section):
    """How long, and in what portions."""

    epochs: PositiveInt = 20
    """Passes over the training set."""
    steps: PositiveInt | None = None
    """Stop after this many updates, whatever `epochs` says."""
    batch_words: PositiveInt = 2048
    """Largest number of words, padding included, in a batch."""
    by_length: bool = True
    """Sentences of similar length go together; false: any (the paper's code), at the price of padding."""
    batch_sentences: PositiveInt | None = None
    """Largest number of sentences in a batch; null = as many as fit."""
    accumulate: PositiveInt = 1
    """Batches per update; the gradient is that of their union."""
    patience: PositiveInt | None = None
    """Stop after this many evaluations without a better dev score; null = never."""
    probe: bool = False
    """Learn the output layer alone, which must be linear; the words' scores and the encoder stay as `model.init_from`
    has them, and nothing in them is dropped."""


class Eval(Section):
    """What is measured on dev, and when."""

    every_epochs: PositiveInt = 1
    """Evaluate on dev every so many epochs (and at the end)."""
    every_steps: PositiveInt | None = None
    """Evaluate every so many updates instead; null = by epochs."""
    batch_words: PositiveInt = 4096
    """Batch size of evaluation and parsing, in words."""
    channel: Literal["mean", "best"] | NonNegativeInt = "best"
    """Channel whose trees are scored and printed: a number from 0, `mean` of the log marginals, or `best` on dev."""
    iteration: Literal["best"] | int = "best"
    """Iteration whose head marginals are read: 1..T, -1 for the last, or `best` on dev."""
    decode: Literal["best", "argmax", "mst", "eisner"] = "best"
    """Decoder that turns head marginals into trees; `best` on dev is `mst` or `eisner`."""


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


class Runtime(Section):
    """Where and how the arithmetic is done. Does not change what is computed, up to rounding."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: the GPU if there is one."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 autocast on the GPU, float32 on the CPU."""
    threads: PositiveInt | None = None
    """CPU threads; null = torch's own choice (fix it for results that repeat to the bit)."""
    compile: bool = False
    """Run the encoder through torch.compile (for the GPU)."""
    messages: Literal["auto", "plain", "banded", "linear"] = "auto"
    """How messages are computed: plain (the equations as they stand), banded (near words by shifts, far words by one
    product), linear (banded, in blocks of rows: memory linear in the sentence's length), auto (by length). Tree-shaped
    heads and a head_bias are of all pairs of words: no linear there."""


class Recipe(Section):
    """A complete run of probtrans."""

    version: Literal[1] = 1
    """Version of the recipe format."""
    name: Annotated[str, Field(pattern=NAME)]
    """Name of the run; its folder is `runs/NAME`."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Seed of initialisation, batches, masks and dropout."""
    data: Data
    """Corpora and vocabulary."""
    task: Task
    """What is learned: mlm | tagging | ner | classification | cogs | pretrain."""
    model: Model = ProbabilisticTransformer()
    """The encoder: probabilistic | transformer."""
    optim: Optim = Optim()
    """Optimizer, schedule, regularisation."""
    train: Train = Train()
    """Length and batches of training."""
    eval: Eval = Eval()
    """Evaluation."""
    save: Save = Save()
    """Checkpoints."""
    log: Log = Log()
    """Reporting."""
    runtime: Runtime = Runtime()
    """Device, precision, threads."""

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        faults: list[tuple[tuple[str, ...], str]] = []
        if self.optim.schedule.kind == "plateau" and self.data.dev is None:
            reason = "`plateau` needs data.dev: give a dev file or choose `kind: cosine`"
            faults.append((("optim", "schedule", "kind"), reason))
        if self.train.patience is not None and self.data.dev is None:
            faults.append((("train", "patience"), "patience needs data.dev: give a dev file or set this to null"))
        faults += self._faults_of_data() + self._faults_of_task() + self._faults_of_pretraining()
        faults += [(("model", *path), reason) for path, reason in self.model.inconsistencies()]
        faults += self._faults_of_messages()
        faults += self._faults_of_probe()
        if self.model.kind != "probabilistic" and self.optim.ternary_penalty.weight > 0.0:
            reason = f"a model of kind `{self.model.kind}` has no ternary scores: set this to 0"
            faults.append((("optim", "ternary_penalty", "weight"), reason))
        channel, iteration = self.eval.channel, self.eval.iteration
        if isinstance(channel, int) and channel >= self.model.channels:
            reason = f"found {channel}, but the model has channels 0 to {self.model.channels - 1}"
            faults.append((("eval", "channel"), reason))
        if isinstance(iteration, int) and iteration != -1 and not 1 <= iteration <= self.model.iterations:
            reason = f"found {iteration}, wanted -1 or an iteration of the model, 1 to {self.model.iterations}"
            faults.append((("eval", "iteration"), reason))
        if faults:
            raise InconsistentError(faults)
        return self

    def _faults_of_data(self) -> list[tuple[tuple[str, ...], str]]:
        """A task and files that do not have what it learns from, or options of other files."""
        faults: list[tuple[tuple[str, ...], str]] = []
        kind, form = self.task.kind, self.data.format
        if form not in FORMATS[kind]:
            wanted = ", ".join(FORMATS[kind])
            reason = "plain text has no tags" if kind == "tagging" and form == "text" else f"found {form}"
            faults.append((("data", "format"), f"{reason}: `kind: {kind}` reads {wanted}"))
        for name in ("columns", "table", "jsonl", "documents"):
            if form != name and getattr(self.data, name) != Data.model_fields[name].default:
                faults.append((("data", name), f"for `data.format: {name}` only: leave it out"))
        for name, section in (("table", self.data.table), ("jsonl", self.data.jsonl)):
            if section.text == section.label:
                faults.append((("data", name, "label"), f"found {section.label}, as for the text: it is another one"))
        vocabulary = self.data.vocabulary
        if isinstance(vocabulary, WordPieceVocabulary) and vocabulary.folder is not None:
            for name in ("size", "lowercase"):
                if getattr(vocabulary, name) != WordPieceVocabulary.model_fields[name].default:
                    faults.append((("data", "vocabulary", name), "for a trained vocabulary only: leave it out"))
        if isinstance(vocabulary, WordVocabulary) and not vocabulary.punctuation and kind != "mlm":
            reason = f"`kind: {kind}` has something to say of every token: leave this out"
            faults.append((("data", "vocabulary", "punctuation"), reason))
        faults += self._faults_of_lengths()
        if kind == "ner" and self.data.columns.entities is None and form == "columns":
            reason = "`kind: ner` learns entities: set this to bioes (the paper's) or iob2"
            faults.append((("data", "columns", "entities"), reason))
        return faults

    def _faults_of_lengths(self) -> list[tuple[tuple[str, ...], str]]:
        """Sentences that may not be divided, or have a way of their own."""
        if self.data.format == "documents" and self.data.longest is not None:
            return [(("data", "longest"), "documents have data.documents.max_length: leave this out")]
        if self.data.too_long == "error":
            return []
        path = "data", "too_long"
        if self.data.longest is None:
            return [(path, "too long for what? Set data.longest, too")]
        if self.task.kind == "cogs":
            return [(path, "`kind: cogs` is scored by whole sentences: choose error")]
        if self.task.kind == "classification" and self.data.too_long == "window":
            return [(path, "a label is one of a whole text: choose cut or error")]
        return []

    def _faults_of_task(self) -> list[tuple[tuple[str, ...], str]]:
        """A task and a model that does not have what it asks for."""
        faults: list[tuple[tuple[str, ...], str]] = []
        if isinstance(self.task, MaskedLanguageModel | Pretraining):
            if self.task.output == "bert" and self.model.kind != "transformer":
                reason = f"`bert` is for a transformer, and model.kind is {self.model.kind}: choose linear or tied"
                faults.append((("task", "output"), reason))
            if not self.task.tie_decoder and self.task.output != "bert":
                faults.append((("task", "tie_decoder"), "for `task.output: bert` only: leave it out"))
            faults += self._faults_of_masking(self.task)
        biased = isinstance(self.model, ProbabilisticTransformer) and self.model.head_bias is not None
        if biased and not isinstance(self.data.vocabulary, WordVocabulary):
            reason = f"it counts words: data.vocabulary.kind is {self.data.vocabulary.kind}, choose words"
            faults.append((("model", "head_bias"), reason))
        rooted = isinstance(self.model, ProbabilisticTransformer) and self.model.root is not None
        if isinstance(self.task, Classification) and self.task.representation == "root" and not rooted:
            reason = "the model has no root node: set model.root='{}' (probabilistic), or choose cls or mean"
            faults.append((("task", "representation"), reason))
        return faults

    def _faults_of_masking(self, task: MaskedLanguageModel | Pretraining) -> list[tuple[tuple[str, ...], str]]:
        """Shares that are no whole, and what cannot be shown."""
        faults: list[tuple[tuple[str, ...], str]] = []
        masking = task.mlm
        total = masking.mask + masking.random + masking.keep
        if abs(total - 1.0) > 1e-6:
            faults.append((("task", "mlm", "keep"), f"mask, random and keep are {total:g} together, not 1"))
        featured = getattr(self.data.vocabulary, "features", None) is not None
        if isinstance(task, MaskedLanguageModel) and featured and masking.random > 0.0:
            reason = "a word in another's place would have its features: set this to 0, and mask or keep to more"
            faults.append((("task", "mlm", "random"), reason))
        return faults

    def _faults_of_pretraining(self) -> list[tuple[tuple[str, ...], str]]:
        """Values of the task, the data and the model that do not go together when documents are read."""
        if not isinstance(self.task, Pretraining):
            return []
        faults: list[tuple[tuple[str, ...], str]] = []
        task, documents, model = self.task, self.data.documents, self.model
        if documents.pairs == "none" and task.pair_weight != Pretraining.model_fields["pair_weight"].default:
            faults.append((("task", "pair_weight"), "`data.documents.pairs` is none: leave it out"))
        if getattr(self.data.vocabulary, "features", None) is not None:
            faults.append((("data", "vocabulary", "features"), "`kind: pretrain` has no features: leave it out"))
        if isinstance(model, Transformer) and documents.pairs != "none" and model.segments == 1:
            reason = "two texts have two segments: set this to 2, or to 0 to have none"
            faults.append((("model", "segments"), reason))
        positions = getattr(model, "positions", None)
        if isinstance(positions, PositionTable) and positions.rows < documents.max_length:
            reason = f"found {positions.rows}, less than the {documents.max_length} of data.documents.max_length"
            faults.append((("model", "positions", "rows"), reason))
        return faults

    def _faults_of_probe(self) -> list[tuple[tuple[str, ...], str]]:
        """What a probe cannot do without, or cannot change."""
        faults: list[tuple[tuple[str, ...], str]] = []
        if not self.train.probe:
            return faults
        if self.model.init_from is None:
            reason = "a probe reads a trained encoder: name it with model.init_from or --init-from"
            faults.append((("train", "probe"), reason))
        if getattr(self.task, "output", None) == "tied":
            reason = "tied scores are the words' own, which a probe leaves as they are: choose linear"
            faults.append((("task", "output"), reason))
        if getattr(self.task, "output", None) == "bert":
            reason = "a probe is linear, and BERT's output has a layer before the words: choose linear"
            faults.append((("task", "output"), reason))
        if getattr(self.task, "parent", None) == "attention":
            reason = "a probe is linear, and attention is not: choose relative or absolute"
            faults.append((("task", "parent"), reason))
        if self.optim.ternary_penalty.weight > 0.0:
            reason = "a probe leaves the ternary scores as they are: set this to 0"
            faults.append((("optim", "ternary_penalty", "weight"), reason))
        return faults

    def _faults_of_messages(self) -> list[tuple[tuple[str, ...], str]]:
        """Values of ``runtime`` that do not go together with the probabilistic transformer."""
        if self.runtime.messages != "linear" or not isinstance(self.model, ProbabilisticTransformer):
            return []
        faults: list[tuple[tuple[str, ...], str]] = []
        if self.model.heads == "tree":
            reason = "tree-shaped heads need all pairs of words at once: choose plain, banded or auto"
            faults.append((("runtime", "messages"), reason))
        elif self.model.head_bias is not None:
            reason = "`model.head_bias` is one of all pairs of words: choose plain, banded or auto"
            faults.append((("runtime", "messages"), reason))
        if self.runtime.compile:
            faults.append((("runtime", "compile"), "`runtime.messages: linear` cannot be compiled: set this to false"))
        return faults

    def resolved(self) -> Recipe:
        """The same recipe with every automatic value (``null``) of the model filled in."""
        return self.model_copy(update={"model": self.model.resolved()})
