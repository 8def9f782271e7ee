"""The recipe: everything that determines a run, as one validated tree of values. Imports no torch.

``Recipe`` is the schema, with the rules of which values of different sections do not go together (what concerns one
kind of model or task alone, that kind says). :mod:`probtrans_cli.recipe.source` reads YAML, applies
``KEY=VALUE`` overrides and turns every fault into one message. Derived values (``null`` = automatic) are filled in by
:meth:`Recipe.resolved`, after the overrides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from probtrans_cli.recipe import grids as _grids  # noqa: F401 - it adds two kinds of tasks
from probtrans_cli.recipe.base import NAME, Inconsistency, InconsistentError, Section, below
from probtrans_cli.recipe.data import FORMATS, VOCABULARIES, Data, Grid, Select
from probtrans_cli.recipe.model import MODELS, ModelSection, ProbabilisticTransformer
from probtrans_cli.recipe.model.base import WeightPredict
from probtrans_cli.recipe.model.probabilistic import DECOMPOSITIONS, FACTORS
from probtrans_cli.recipe.model.transformer import POSITIONS
from probtrans_cli.recipe.task import TASKS, TaskSection
from probtrans_cli.recipe.training import SCHEDULES, Eval, Log, Optim, Predict, Runtime, Save, Train


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
    task: Annotated[TaskSection, TASKS]
    """What is learned: mlm | lm | pretrain | tagging | ner | classification | parsing | cogs | openie |
    coordination."""
    model: Annotated[ModelSection, MODELS] = ProbabilisticTransformer()
    """The encoder: probabilistic | transformer | stacked."""
    optim: Optim = Optim()
    """Optimizer, schedule, regularisation."""
    train: Train = Train()
    """Length and batches of training."""
    eval: Eval = Eval()
    """Evaluation."""
    predict: Predict = Predict()
    """Probabilities of a trained model."""
    save: Save = Save()
    """Checkpoints."""
    log: Log = Log()
    """Reporting."""
    runtime: Runtime = Runtime()
    """Device, precision, threads."""

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        data, model = self.data, self.model
        faults = [
            *_model(self),
            *_data(self),
            *_lengths(self),
            *_training(self),
            *_ivon(self),
            *_bayes(self),
            *below(("data", "table"), data.table.inconsistencies()),
            *below(("data", "vocabulary"), data.vocabulary.inconsistencies()),
            *below(("model",), model.inconsistencies()),
            *below(("model",), model.inconsistencies_with(data.vocabulary)),
            *below(("task",), self.task.inconsistencies()),
            *self.task.inconsistencies_with(self),
        ]
        if faults:
            raise InconsistentError(faults)
        return self

    @property
    def scores_trees(self) -> bool:
        """Whether a training scores and draws the trees of its model, where it has arcs."""
        return self.task.has_trees if self.eval.trees is None else self.eval.trees

    @property
    def uncertain_weights(self) -> WeightPredict | None:
        """How the uncertainty of the weights enters predictions; None = they are certain."""
        section = self.model.facts.variational or self.optim.posterior
        return None if section is None else section.predict

    @property
    def without_moments(self) -> list[str]:
        """The options for which means and variances cannot go through the network; empty where they can."""
        model, task = self.model.facts, self.task.facts
        options = [*model.without_moments]
        if task.without_moments is not None:
            options.append(f"`task.{task.without_moments}`")
        if model.variational is not None and model.variational.words and task.tied:
            options.append("uncertain word vectors that are also the output layer")
        return options

    def certain(self) -> Recipe:
        """The same recipe with weights that are certain."""
        optim = self.optim.model_copy(update={"kind": "adamw"} if self.optim.posterior else {})
        model = self.model.model_copy(update={"bayes": None} if self.model.facts.variational else {})
        return self.model_copy(update={"model": model, "optim": optim})

    def resolved(self) -> Recipe:
        """The same recipe with every automatic value (``null``) of the model filled in."""
        return self.model_copy(update={"model": self.model.resolved()})


for table in (VOCABULARIES, FORMATS, MODELS, DECOMPOSITIONS, FACTORS, POSITIONS, TASKS, SCHEDULES):
    table.used_in(Recipe)


# --- values that do not go together -----------------------------------------------------------------------------------


def _model(recipe: Recipe) -> Iterator[Inconsistency]:
    task, facts = recipe.task, recipe.model.facts
    layers, frozen, path = facts.separate_layers, recipe.train.freeze, ("train", "freeze")
    if facts.encoders and task.is_causal:
        yield ("model", "kind"), f"`task.kind: {task.kind}` needs a causal model: choose probabilistic or transformer"
    elif task.is_causal != facts.is_causal and not facts.encoders:
        wanted = str(task.is_causal).lower()
        yield ("model", "causal"), f"`task.kind: {task.kind}` needs a model with `causal: {wanted}`"
    none = f"this model of kind `{recipe.model.kind}` has no layers with weights of their own"
    if recipe.optim.layer_decay != 1.0 and not layers:
        yield ("optim", "layer_decay"), f"{none}: set this to 1"
    if frozen is None:
        return
    uncertain = "optim.kind: ivon" if recipe.optim.posterior is not None else "model.bayes"
    if recipe.train.probe:
        yield path, "a probe leaves all but the output layer as it is: leave one out"
    elif recipe.model.init_from is None:
        yield path, "what is frozen must be trained: name it with model.init_from or --init-from"
    elif frozen == "embeddings":
        if (bayes := facts.variational) is not None and bayes.words:
            yield path, "words with `model.bayes.words` have a distribution to find: leave one out"
    elif not layers:
        yield path, f"{none}: set this to embeddings or null"
    elif frozen > layers:
        yield path, f"found {frozen}, but the model has {layers} layers"
    elif recipe.uncertain_weights is not None:
        yield path, f"layers with `{uncertain}` have a distribution to find: choose embeddings, or leave one out"


def _data(recipe: Recipe) -> Iterator[Inconsistency]:
    data, task, vocabulary = recipe.data, recipe.task, recipe.data.vocabulary
    fitting = [name for name, row in FORMATS.items() if task.needs in row.gives]
    if data.format not in fitting:
        plain = task.needs == "tags" and data.format == "text"
        reason = "plain text has no tags" if plain else f"found {data.format}"
        yield ("data", "format"), f"{reason}: `kind: {task.kind}` reads {', '.join(fitting)}"
    for options in dict.fromkeys(row.options for row in FORMATS.values() if row.options is not None):
        names = [row.name for row in FORMATS.values() if row.options == options]
        if data.format not in names and getattr(data, options) != Data.model_fields[options].default:
            yield ("data", options), f"for `data.format: {' or '.join(names)}` only: leave it out"
    for name, section in (("table", data.table), ("jsonl", data.jsonl)):
        if section.text == section.label:
            yield ("data", name, "label"), f"found {section.label}, as for the text: it is another one"
        elif section.label is None and task.needs == "class":
            yield ("data", name, "label"), f"found null, but `kind: {task.kind}` learns the labels"
    if data.raw is not None and not getattr(task, "mlm", None):
        yield ("data", "raw"), "nothing is learned of it: set task.mlm=0.03 (`kind: parsing`), or leave this out"
    elif data.raw is not None and task.needs != "parses":
        yield ("data", "raw"), f"`kind: {task.kind}` hides words of data.train: name the file there"
    if task.needs_every_token and vocabulary.omits_words:
        yield ("data", "vocabulary", "punctuation"), f"`kind: {task.kind}` labels every token: leave this out"
    words = ("data", "grid", "extra_words")
    twice = next((word for word, count in Counter(data.grid.extra_words).items() if count > 1), None)
    if twice is not None:
        yield words, f"{twice} stands there twice: each extra word is another one"
    if data.format == "coordinations" and data.grid.extra_words != Grid().extra_words:
        yield words, "coordinations have no extra words: leave this out"
    if data.extra_words and not vocabulary.has_extra_words:
        yield words, f"a vocabulary of kind `{vocabulary.kind}` has no entries for extra words: set this to []"


def _lengths(recipe: Recipe) -> Iterator[Inconsistency]:
    data, task, vocabulary = recipe.data, recipe.task, recipe.data.vocabulary
    if data.format == "documents" and data.select != Select():
        yield ("data", "select"), "documents are read as a whole: leave this out"
    if data.blocks is not None:
        if task.needs != "words" or vocabulary.omits_words or not vocabulary.counts_words:
            yield ("data", "blocks"), "blocks are for `kind: lm` and `mlm`, and a vocabulary of words: leave this out"
        if data.longest is not None:
            yield ("data", "longest"), "data.blocks says how many words a block has: leave this out"
    if data.format == "documents" and data.longest is not None:
        yield ("data", "longest"), "documents have data.documents.max_length: leave this out"
    elif data.too_long != "error" and (reason := _undivided(data, task)):
        yield ("data", "too_long"), reason


def _undivided(data: Data, task: TaskSection) -> str:
    """Return why longer sentences cannot be treated as `data.too_long` says; empty where they can."""
    if data.longest is None:
        return "too long for what? Set data.longest, too"
    if data.too_long == "skip":
        return ""
    if data.format == "extractions":
        cut = data.too_long != "split"
        return "tuples of `format: extractions` are not cut: choose error, skip or split" if cut else ""
    if data.rows:
        return f"rows of labels of `format: {data.format}` are not divided: choose error or skip"
    if data.too_long == "split":
        return "only `format: extractions` is split: choose error, cut, window or skip"
    if not task.may_be_cut:
        return f"`kind: {task.kind}` is scored by whole sentences: choose error or skip"
    if data.too_long == "window" and not task.may_be_divided:
        return "a label is one of a whole text: choose cut or error"
    return ""


def _training(recipe: Recipe) -> Iterator[Inconsistency]:
    model, optim = recipe.model, recipe.optim
    channel, iteration, penalty = recipe.eval.channel, recipe.eval.iteration, ("optim", "ternary_penalty", "weight")
    if recipe.data.dev is None and optim.schedule.drops_after is not None:
        reason = f"`{optim.schedule.kind}` needs data.dev: give a dev file or choose `kind: cosine`"
        yield ("optim", "schedule", "kind"), reason
    if recipe.data.dev is None and recipe.train.patience is not None:
        yield ("train", "patience"), "patience needs data.dev: give a dev file or set this to null"
    if optim.ternary_penalty.weight > 0.0 and not model.facts.has_ternary_scores:
        yield penalty, f"a model of kind `{model.kind}` has no ternary scores: set this to 0"
    if isinstance(channel, int) and channel >= model.trees:
        yield ("eval", "channel"), f"found {channel}, but the model has channels 0 to {model.trees - 1}"
    if isinstance(iteration, int) and iteration != -1 and not 1 <= iteration <= model.iterations:
        reason = f"found {iteration}, wanted -1 or an iteration of the model, 1 to {model.iterations}"
        yield ("eval", "iteration"), reason
    if not recipe.train.probe:
        return
    if model.init_from is None:
        yield ("train", "probe"), "a probe reads a trained encoder: name it with model.init_from or --init-from"
    if (not_linear := recipe.task.facts.not_linear) is not None:
        path, reason = not_linear
        yield ("task", *path), reason
    if optim.ternary_penalty.weight > 0.0:
        yield penalty, "a probe leaves the ternary scores as they are: set this to 0"
    if optim.encoder_rate != 1.0:
        yield ("optim", "encoder_rate"), "a probe leaves the encoder as it is: set this to 1"


def _ivon(recipe: Recipe) -> Iterator[Inconsistency]:
    ivon, path = recipe.optim.posterior, ("optim", "ivon")
    if ivon is None:
        return
    if ivon.prior.kind == "start":
        yield (*path, "prior", "kind"), "the prior of ivon is around 0: choose fan_in or normal"
    if recipe.runtime.compile:
        yield ("optim", "kind"), "ivon is not for `runtime.compile`: set that to false"
    if recipe.optim.ema is not None:
        yield ("optim", "ema"), "the weights of ivon are means already: set this to null"
    if ivon.predict.kind == "moments":
        for option in recipe.without_moments:
            yield (*path, "predict", "kind"), f"there is no rule for the moments of {option}: choose samples"


def _bayes(recipe: Recipe) -> Iterator[Inconsistency]:
    bayes, path = recipe.model.facts.variational, ("model", "bayes")
    if bayes is None:
        return
    if not (bayes.layers or bayes.norms or bayes.words):
        yield (*path, "layers"), "no weight is uncertain: name attention, feed_forward or output"
    if bayes.prior.kind == "start" and recipe.model.init_from is None:
        yield (*path, "prior", "kind"), "start is around given weights: name them with model.init_from"
    if getattr(recipe.task, "sampled", None) is not None:
        yield ("task", "sampled"), "with model.bayes, words are compared with the whole vocabulary: leave it out"
    if recipe.train.probe and "output" not in bayes.layers:
        yield (*path, "layers"), "a probe learns the output layer alone: name output"
    if recipe.runtime.compile:
        yield path, "is not for `runtime.compile`: set that to false"
    if recipe.optim.posterior is not None:
        yield path, "is not for `optim.kind: ivon`, which finds the distribution itself: leave it out"
    if bayes.objective == "moments":
        resolved = recipe.model.resolved()
        for name in type(resolved).model_fields:
            if name.endswith("dropout") and getattr(resolved, name):
                yield (*path, "objective"), f"moments have no dropout: set model.{name}=0.0"
        if recipe.task.several_answers:
            reason = f"`task.kind: {recipe.task.kind}` has several answers a word: choose samples"
            yield (*path, "objective"), reason
    if "moments" in (bayes.objective, bayes.predict.kind):
        of_objective = bayes.objective == "moments"
        key = ("objective",) if of_objective else ("predict", "kind")
        remedy = "choose samples" + (" here and in model.bayes.predict.kind" if of_objective else "")
        for option in recipe.without_moments:
            yield (*path, *key), f"there is no rule for the moments of {option}: {remedy}"
