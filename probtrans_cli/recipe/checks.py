"""Values of different sections of a recipe that do not go together. Imports no torch.

What concerns one kind of model or task alone is said by that kind (``inconsistencies_with``); here is the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from probtrans_cli.recipe.base import Inconsistency
from probtrans_cli.recipe.data import FORMATS, Data, Grid, Select
from probtrans_cli.recipe.task import formats_for

if TYPE_CHECKING:
    from probtrans_cli.recipe.schema import Recipe


def inconsistencies(recipe: Recipe) -> list[Inconsistency]:
    """Every inconsistency of a recipe: the key's path, and why its value does not go with the others."""
    of_model = ((("model", *path), reason) for path, reason in recipe.model.inconsistencies())
    checks = (
        _dev(recipe),
        _data(recipe),
        _grid(recipe),
        _lengths(recipe),
        _vocabulary(recipe),
        _reading(recipe),
        _probe(recipe),
        _layers(recipe),
        _posterior(recipe),
        _shards(recipe),
    )
    by_kind = (recipe.task.inconsistencies_with(recipe), of_model, recipe.model.inconsistencies_with(recipe))
    return [*chain(*checks), *chain(*by_kind)]


def _dev(recipe: Recipe) -> Iterator[Inconsistency]:
    """What cannot do without a dev set."""
    if recipe.data.dev is not None:
        return
    schedule = recipe.optim.schedule
    if schedule.drops_after is not None:
        reason = f"`{schedule.kind}` needs data.dev: give a dev file or choose `kind: cosine`"
        yield ("optim", "schedule", "kind"), reason
    if recipe.train.patience is not None:
        yield ("train", "patience"), "patience needs data.dev: give a dev file or set this to null"


def _data(recipe: Recipe) -> Iterator[Inconsistency]:
    """Files that do not have what the task learns from, or options of other files."""
    kind, form = recipe.task.kind, recipe.data.format
    fitting = formats_for(recipe.task)
    if form not in fitting:
        reason = "plain text has no tags" if recipe.task.needs == "tags" and form == "text" else f"found {form}"
        yield ("data", "format"), f"{reason}: `kind: {kind}` reads {', '.join(fitting)}"
    for options in dict.fromkeys(one.options for one in FORMATS.values() if one.options is not None):
        names = [one.name for one in FORMATS.values() if one.options == options]
        if form not in names and getattr(recipe.data, options) != Data.model_fields[options].default:
            yield ("data", options), f"for `data.format: {' or '.join(names)}` only: leave it out"
    for name, section in (("table", recipe.data.table), ("jsonl", recipe.data.jsonl)):
        if section.text == section.label:
            yield ("data", name, "label"), f"found {section.label}, as for the text: it is another one"
    yield from ((("data", "table", key), reason) for key, reason in recipe.data.table.inconsistencies())


def _vocabulary(recipe: Recipe) -> Iterator[Inconsistency]:
    """Options of another vocabulary, and a vocabulary that leaves out what the task asks of."""
    vocabulary, kind = recipe.data.vocabulary, recipe.task.kind
    for path, reason in vocabulary.inconsistencies():
        yield ("data", "vocabulary", *path), reason
    if recipe.task.needs_every_token and vocabulary.omits_words:
        reason = f"`kind: {kind}` has something to say of every token: leave this out"
        yield ("data", "vocabulary", "punctuation"), reason


def _grid(recipe: Recipe) -> Iterator[Inconsistency]:
    """Extra words that nobody can tell apart, or that the format or the vocabulary does not have."""
    data, path = recipe.data, ("data", "grid", "extra_words")
    twice = next((word for word, count in Counter(data.grid.extra_words).items() if count > 1), None)
    if twice is not None:
        yield path, f"{twice} stands there twice: each extra word is another one"
    if data.format == "coordinations" and data.grid.extra_words != Grid().extra_words:
        yield path, "coordinations have no extra words: leave this out"
    if data.extra_words and not data.vocabulary.has_extra_words:
        reason = f"a vocabulary of kind `{data.vocabulary.kind}` has no entries for extra words: set this to []"
        yield path, reason


def _lengths(recipe: Recipe) -> Iterator[Inconsistency]:
    """Sentences that may not be divided, or have a way of their own."""
    data, task = recipe.data, recipe.task
    if data.format == "documents" and data.select != Select():
        yield ("data", "select"), "documents are read as a whole: leave this out"
    path = "data", "too_long"
    if data.format == "documents" and data.longest is not None:
        yield ("data", "longest"), "documents have data.documents.max_length: leave this out"
    elif data.too_long == "error":
        return
    elif data.longest is None:
        yield path, "too long for what? Set data.longest, too"
    elif data.too_long == "skip":
        return
    elif data.format == "extractions":
        if data.too_long != "split":
            yield path, "tuples of `format: extractions` are not cut: choose error, skip or split"
    elif data.rows:
        yield path, f"rows of labels of `format: {data.format}` are not divided: choose error or skip"
    elif data.too_long == "split":
        yield path, "only `format: extractions` is split: choose error, cut, window or skip"
    elif not task.may_be_cut:
        yield path, f"`kind: {task.kind}` is scored by whole sentences: choose error or skip"
    elif data.too_long == "window" and not task.may_be_divided:
        yield path, "a label is one of a whole text: choose cut or error"


def _reading(recipe: Recipe) -> Iterator[Inconsistency]:
    """Arcs that the model does not have, to be read or to be penalised."""
    model, channel, iteration = recipe.model, recipe.eval.channel, recipe.eval.iteration
    if recipe.optim.ternary_penalty.weight > 0.0 and not model.has_ternary_scores:
        reason = f"a model of kind `{model.kind}` has no ternary scores: set this to 0"
        yield ("optim", "ternary_penalty", "weight"), reason
    if isinstance(channel, int) and channel >= model.channels:
        yield ("eval", "channel"), f"found {channel}, but the model has channels 0 to {model.channels - 1}"
    if isinstance(iteration, int) and iteration != -1 and not 1 <= iteration <= model.iterations:
        reason = f"found {iteration}, wanted -1 or an iteration of the model, 1 to {model.iterations}"
        yield ("eval", "iteration"), reason


def _probe(recipe: Recipe) -> Iterator[Inconsistency]:
    """What a probe cannot do without, or cannot change."""
    if not recipe.train.probe:
        return
    if recipe.model.init_from is None:
        yield ("train", "probe"), "a probe reads a trained encoder: name it with model.init_from or --init-from"
    if recipe.task.not_linear is not None:
        path, reason = recipe.task.not_linear
        yield ("task", *path), reason
    if recipe.optim.ternary_penalty.weight > 0.0:
        reason = "a probe leaves the ternary scores as they are: set this to 0"
        yield ("optim", "ternary_penalty", "weight"), reason
    if recipe.optim.encoder_rate != 1.0:
        yield ("optim", "encoder_rate"), "a probe leaves the encoder as it is: set this to 1"


def _layers(recipe: Recipe) -> Iterator[Inconsistency]:
    """Layers that are frozen or move slowly, and are not there, have no values to keep, or are uncertain."""
    layers, frozen = recipe.model.separate_layers, recipe.train.freeze
    none = f"this model of kind `{recipe.model.kind}` has no layers with weights of their own"
    if recipe.optim.layer_decay != 1.0 and not layers:
        yield ("optim", "layer_decay"), f"{none}: set this to 1"
    if frozen is None:
        return
    path = "train", "freeze"
    uncertain = "optim.kind: ivon" if recipe.optim.posterior is not None else "model.bayes"
    if recipe.train.probe:
        yield path, "a probe leaves all but the output layer as it is: leave one out"
    elif recipe.model.init_from is None:
        yield path, "what is frozen must be trained: name it with model.init_from or --init-from"
    elif frozen == "embeddings":
        if recipe.model.variational is not None and recipe.model.variational.words:
            yield path, "words with `model.bayes.words` have a distribution to find: leave one out"
    elif not layers:
        yield path, f"{none}: set this to embeddings or null"
    elif frozen > layers:
        yield path, f"found {frozen}, but the model has {layers} layers"
    elif recipe.uncertain_weights is not None:
        yield path, f"layers with `{uncertain}` have a distribution to find: choose embeddings, or leave one out"


def _posterior(recipe: Recipe) -> Iterator[Inconsistency]:
    """What an optimizer that finds a distribution over weights cannot do."""
    section = recipe.optim.posterior
    if section is None:
        return
    if section.prior.kind == "start":
        yield ("optim", "ivon", "prior", "kind"), "the prior of ivon is around 0: choose fan_in or normal"
    if recipe.runtime.compile:
        yield ("optim", "kind"), "ivon is not for `runtime.compile`: set that to false"
    if recipe.optim.ema is not None:
        yield ("optim", "ema"), "the weights of ivon are means already: set this to null"
    if section.predict.kind == "moments":
        yield from (
            (("optim", "ivon", "predict", "kind"), f"there is no rule for the moments of {one}: choose samples")
            for one in recipe.model.without_moments(recipe)
        )


def _shards(recipe: Recipe) -> Iterator[Inconsistency]:
    """What processes cannot do that have a share of the weights each."""
    if recipe.runtime.parallel == "fsdp" and recipe.uncertain_weights is not None:
        yield ("runtime", "parallel"), "weights with a distribution are not divided: choose ddp"
    if recipe.runtime.parallel == "fsdp" and recipe.runtime.compile:
        yield ("runtime", "parallel"), "a compiled encoder is not divided: choose ddp, or set runtime.compile to false"
