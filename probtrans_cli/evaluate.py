"""Scores of a model on a split: its task's, and those of its induced trees where the split has gold trees."""

from __future__ import annotations

import json
import operator
import os
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from probtrans_cli.data.documents import encode_corpus
from probtrans_cli.data.readers import find, read_corpus
from probtrans_cli.data.store import Split
from probtrans_cli.errors import DataError, RequirementNotMetError, UsageError
from probtrans_cli.labels import Types, describe, require_labels
from probtrans_cli.model import Channel, Model, Reading
from probtrans_cli.recipe import Eval
from probtrans_cli.recipe_task import Tagging
from probtrans_cli.report import flattened
from probtrans_cli.tasks.mlm import MaskedLanguageModelling
from probtrans_cli.tasks.pretraining import Pretraining
from probtrans_cli.trees import decode, score

CHOICE_SENTENCES = 1000  # of dev, to choose a channel by: its standard error is then below half a point


def has_trees(split: Split) -> bool:
    """Whether every sentence of the split has gold heads."""
    return split.has("heads") and bool((split.column("heads") >= 0).all())


def columns(split: Split, name: str) -> list[np.ndarray]:
    """One array a sentence."""
    return [split.row(name, index) for index in range(len(split))]


def task_scores(model: Model, split: Split, *, final: bool) -> dict[str, Any]:
    """The task's own scores."""
    model.network.eval()
    return model.task.evaluate(model.network, split, model.evaluation(), final=final)


def tree_scores(model: Model, split: Split, reading: Reading, *, baselines: bool) -> dict[str, Any]:
    """Attachment scores of the decoded trees (``trees/score.py`` names the conventions), with the floors if asked."""
    gold, punct = columns(split, "heads"), columns(split, "punct") if split.has("punct") else None
    scores: dict[str, Any] = dict(score.attachment(gold, model.trees(split, reading), punct))
    scores["conventions"] = {name: text for name, text in score.CONVENTIONS.items() if name in scores}
    scores["reading"] = vars(reading)
    if baselines:
        scores["floors"] = score.floors(gold, punct, columns(split, "frequency"))
    return scores


def choose_reading(model: Model, dev: Split, wish: Eval, title: str = "dev") -> Reading:
    """The channel (or the mean), iteration and decoder with the best UUAS, punctuation removed.

    Only what ``wish`` calls `best` is chosen. ``argmax`` never is: it may draw circles. Of equals ``eisner``, then the
    later iteration, then the lower channel, the mean last. Uses at most ``CHOICE_SENTENCES`` sentences, evenly spread.
    """
    recipe = model.recipe.model
    sample = dev.select(np.unique(np.linspace(0, len(dev) - 1, min(len(dev), CHOICE_SENTENCES)).astype(np.int64)))
    channels: list[Channel] = [*range(recipe.channels), "mean"] if wish.channel == "best" else [wish.channel]
    iterations = [*range(recipe.iterations, 0, -1)] if wish.iteration == "best" else [wish.iteration]
    decoders: list[decode.Method] = ["eisner", "mst"] if wish.decode == "best" else [wish.decode]
    readings = [
        Reading(channel, iteration, decoder, chosen_on=title)
        for decoder in decoders
        for iteration in iterations
        for channel in channels
    ]
    gold, punct = columns(sample, "heads"), columns(sample, "punct") if sample.has("punct") else None
    kind = "no_punct" if punct is not None else "with_punct"
    found = [
        score.attachment(gold, heads, punct)[kind]["all"]["uuas"] or 0.0 for heads in model.trees_of(sample, readings)
    ]
    return readings[int(np.argmax(found))]


# --- the verb -------------------------------------------------------------------------------------------------------

_REQUIREMENT = re.compile(r"\s*([^\s<>=]+)\s*(>=|<=|>|<|==)\s*([-+0-9.eE]+)\s*")
_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}


def evaluate(
    name: str,
    files: Sequence[str],
    *,
    split: str | None,
    require: Sequence[str],
    baselines: bool,
    channel: str | None,
    iteration: int | None,
    decoder: decode.Method | None,
    masks: int | None,
    choose: bool = False,
    labels: bool = False,
    top: int | None = None,
    threads: int | None,
) -> tuple[dict[str, Any], RequirementNotMetError | None]:
    """Score a checkpoint; returns the report and, where a requirement is not met, the error to end with.

    ``choose``: first choose channel, iteration and decoder, what of them is not given, by the trees of what is scored,
    and store the choice in the checkpoint. ``labels``: also what the latent labels are about in what is scored, see
    :func:`probtrans_cli.labels.describe`; this part stands in the report only, not in the file beside the checkpoint.

    Raises:
        UsageError: nothing to score, an unreadable requirement, a channel or iteration that the model does not have.
        DataError, CheckpointError: as their readers do.
    """
    requirements = [_requirement(text) for text in require]
    every = channel == "all"
    if choose and every:
        raise UsageError("--choose chooses one channel", hint="leave out --channel all")
    model = Model.load(name, threads=threads)
    if masks is not None:
        if not isinstance(model.task, MaskedLanguageModelling | Pretraining):
            raise UsageError("--masks is for masked language models", hint="leave it out")
        model.task.section = model.task.section.model_copy(update={"eval_masks": masks})
    reading = model.read(None if every else channel, iteration, decoder)
    if labels:
        require_labels(model)
        if model.recipe.data.format == "documents":
            raise UsageError("--labels: what is scored are pieces of documents, not sentences", hint="leave it out")
    types = Types.of(model) if labels else None
    title, corpus = _corpus(model, files, split, types)
    if choose:
        reading = _choose(model, corpus, title, channel, iteration, decoder)
    scores: dict[str, Any] = dict(task_scores(model, corpus, final=True)) if _has_gold(model, corpus) else {}
    if has_trees(corpus):
        scores["trees"] = tree_scores(model, corpus, reading, baselines=baselines)
        if every:
            scores["channels"] = {
                one: tree_scores(model, corpus, model.read(one, reading.iteration, reading.decoder), baselines=False)
                for one in [*map(str, range(model.recipe.model.channels)), "mean"]
            }
    if not scores and not labels:
        raise DataError(
            f"{title}: has neither {model.task.metric} nor trees to score", hint="give CoNLL-U with gold columns"
        )
    result = {"checkpoint": str(model.folder), "step": model.step, "scores": {title: scores}}
    if not files and model.folder is not None and os.access(model.folder.parent, os.W_OK):
        beside = model.folder.parent if model.folder.parent.name == "checkpoints" else model.folder
        path = beside / f"eval-{title}.json"
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if types is not None:
        result |= describe(model, corpus, types, top)
    return result, _unmet(require, requirements, flattened(scores))


def _choose(
    model: Model,
    corpus: Split,
    title: str,
    channel: str | None,
    iteration: int | None,
    decoder: decode.Method | None,
) -> Reading:
    """Choose by the gold trees of a corpus how this model's trees are read from now on."""
    if title == "test":
        raise UsageError("--choose: the test set chooses nothing", hint="write --split dev --choose")
    if not has_trees(corpus):
        raise DataError(f"{title}: has no gold trees to choose by", hint="give CoNLL-U with gold columns")
    named = model.read(channel, iteration, decoder)
    wish = Eval(
        channel="best" if channel is None else named.channel,
        iteration="best" if iteration is None else named.iteration,
        decode=decoder or "best",
    )
    model.reading = choose_reading(model, corpus, wish, title)
    model.store_reading()
    return model.reading


def _requirement(text: str) -> tuple[str, str, float]:
    found = _REQUIREMENT.fullmatch(text)
    try:
        if found:
            return found[1], found[2], float(found[3])
    except ValueError:
        pass
    raise UsageError(f"--require {text!r} is not a comparison", hint="write --require 'accuracy>=0.91'")


def _unmet(
    require: Sequence[str], requirements: Sequence[tuple[str, str, float]], flat: dict[str, float]
) -> RequirementNotMetError | None:
    """The first requirement that scores do not meet."""
    for text, (metric, sign, bound) in zip(require, requirements, strict=True):
        if metric not in flat:
            raise UsageError(f"--require {text!r}: there is no score {metric!r}", hint=f"there are: {', '.join(flat)}")
        if not _COMPARE[sign](flat[metric], bound):
            return RequirementNotMetError(f"required {text.strip()}, but {metric} is {flat[metric]:.6g}")
    return None


def _corpus(model: Model, files: Sequence[str], split: str | None, types: Types | None = None) -> tuple[str, Split]:
    """Title and content of what is to be scored, encoded with the checkpoint's own vocabulary and labels.

    ``types`` notes the sentences' words and tags.
    """
    if files and split:
        raise UsageError("give either files or --split, not both")
    data = model.recipe.data
    if files:
        title, paths = ", ".join(files), list(files)
    else:
        title = split or ("test" if data.test is not None else "dev")
        named = data.test if title == "test" else data.dev
        if named is None:
            raise UsageError(f"the recipe of {model.folder} names no {title} file", hint="give files to score")
        paths = [named] if isinstance(named, str) else list(named)
    form = "auto" if files and data.format in ("auto", "conllu", "text") else data.format
    sentences = (sentence for path in paths for sentence in read_corpus(find(path), form, data=data))
    first = next(sentences, None)
    if first is None:
        raise DataError(f"{title}: there is no sentence in it", hint="check the file")
    every = chain([first], sentences)
    passing = types.passing(every) if types else every
    return title, Split(encode_corpus(data, passing, model.vocabulary, model.labels))


def _has_gold(model: Model, corpus: Split) -> bool:
    """Whether the corpus has what the task is scored against."""
    section = model.recipe.task
    return not isinstance(section, Tagging) or corpus.has(section.column)
