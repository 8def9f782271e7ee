"""The verb `eval`: scores of a model on a split: its task's, and those of its trees where the split has gold trees."""

from __future__ import annotations

import json
import math
import operator
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from probtrans_cli import atomic, console
from probtrans_cli.checkpoint import refuse_link
from probtrans_cli.commands.launch import processes
from probtrans_cli.data.corpus.encode import encode_corpus
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.corpus.tally import END, Tally, chosen, in_blocks, noting_new_labels, shortened, unlearned
from probtrans_cli.data.files import display_name, find, find_all, require_output
from probtrans_cli.data.processes import Ranks
from probtrans_cli.data.readers import format_by_name, format_of, read_corpus
from probtrans_cli.data.readers.columns import TAG
from probtrans_cli.data.readers.lines import LABEL
from probtrans_cli.data.sentence import Sentence, character_spans
from probtrans_cli.data.streams import excess, form_of
from probtrans_cli.data.tokens import LONGEST
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import CheckpointError, DataError, NothingToScoreError, RequirementNotMetError, UsageError
from probtrans_cli.folders import lock, regular
from probtrans_cli.folders.checkpoints import is_installed, locate
from probtrans_cli.recipe.data import Data, Select
from probtrans_cli.recipe.training import Eval, Precision
from probtrans_cli.reports.charts import reliability_diagram
from probtrans_cli.reports.scores import CHOICES, UNCERTAINTY_ROWS, evaluation_report, flattened
from probtrans_cli.tasks import TASKS
from probtrans_cli.tasks.base import Splitter, scored
from probtrans_cli.text import counted
from probtrans_cli.trained.base import Reading, store_reading
from probtrans_cli.trained.evaluation import (
    Watch,
    by_sentence,
    can_score_trees,
    choose_arc_temperature,
    choose_reading,
    tree_scores,
)
from probtrans_cli.trained.evaluation import evaluate as task_scores
from probtrans_cli.trained.formats.lines import require_side_by_side, side_by_side
from probtrans_cli.trained.generation import require_causal
from probtrans_cli.trained.latent_labels import Types, describe, require_labels
from probtrans_cli.trained.machine import keep_memory
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import splitter_of
from probtrans_cli.trained.predictor import PredictOptions, Predictor, ensemble_of, predictor_of
from probtrans_cli.trained.surprisal import Watched
from probtrans_cli.trained.uncertainty import uncertainty_scores

__all__ = ["EvalRequest", "evaluate", "evaluation_report"]

DIAGRAM = "reliability.svg"
_REQUIREMENT = re.compile(r"\s*([^\s<>=]+)\s*(>=|<=|>|<|==)\s*([-+0-9.eE]+)\s*")
_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}


@dataclass(frozen=True)
class EvalRequest(PredictOptions):
    """The arguments of `eval`."""

    checkpoint: str
    """A CKPT argument: a run folder, ``RUN@last``, ..."""
    files: Sequence[str] = ()
    """The files to score; none: a split of the recipe. Folders among them are further runs, which predict together."""
    split: str | None = None
    """``dev``, ``test`` or ``extra``; None: ``test``, or ``dev`` where there is none."""
    require: Sequence[str] = ()
    """Comparisons such as ``accuracy>=0.91``."""
    trees: Literal["yes", "no"] | None = None
    """Whether to score trees; None: where the recipe does so, or another argument is about them."""
    baselines: bool = False
    """Score also the baselines of trees, and of tuples."""
    choose: bool = False
    """First choose channel, iteration and decoder, unless given, by the trees of the corpus, and store the choice in
    the checkpoint."""
    masks: int | None = None
    """Mask draws of a masked language model; None: the recipe's."""
    latent_labels: bool = False
    """Describe also the latent labels, see :func:`probtrans_cli.trained.latent_labels.describe`; this is not part of
    the file beside the checkpoint."""
    top: int | None = None
    """How many words and pairs of each latent label."""
    relations: bool = False
    """Score also which channel finds which gold relation."""
    predictions: Path | None = None
    """A file for gold and predictions, see :func:`probtrans_cli.trained.formats.lines.side_by_side`."""
    surprisal: Path | None = None
    """A file for the surprisal of every word, JSON lines if it ends in ``.jsonl``, see
    :class:`probtrans_cli.trained.surprisal.Watched`."""
    coordination: str | None = None
    """A CKPT of coordinations, at which sentences are split before tuples are extracted."""
    ood: str | None = None
    """Another text: also how well the uncertainty tells it from the corpus; ``extra``: the recipe's."""
    longest: int = LONGEST
    """Words or tokens that a sentence of ``files`` or ``ood`` may have, where the recipe has no bound of its own."""
    threads: int | None = None
    precision: Precision | None = None


def evaluate(request: EvalRequest) -> tuple[dict[str, Any], RequirementNotMetError | None]:
    """Score a checkpoint; returns the report and, where a requirement is not met, the error to end with.

    Raises:
        UsageError: nothing to score, an unreadable requirement, a channel or iteration that the model does not have; a
            choice is to be stored while another process writes there.
        DataError, CheckpointError: as their readers do.
    """
    require_output(request.predictions, "--predictions", request.files)
    require_output(request.surprisal, "--surprisal", request.files)
    with processes() as ranks:
        if ranks.world > 1 and "-" in request.files:
            raise UsageError("several processes cannot read one text from stdin", hint="give a file")
        if not request.choose:
            return _evaluate(request, ranks)
        if request.channel == "all":
            raise UsageError("--choose chooses one channel", hint="leave out --channel all")
        folder = locate(request.checkpoint)
        if is_installed(folder):
            hint = f"export it into a folder first: probtrans export {request.checkpoint} OUT"
            raise UsageError(f"--choose is stored in the model, and {request.checkpoint} is installed", hint=hint)
        refuse_link(folder)
        located = replace(request, checkpoint=str(folder))
        if not ranks.first:
            return _evaluate(located, ranks)
        in_run = folder.parent.name == "checkpoints"
        file = lock.inside(folder.parent.parent) if in_run else lock.beside(folder)
        with lock.locked(file, request.checkpoint, hint="choose again when that has ended"):
            return _evaluate(located, ranks)


def _evaluate(request: EvalRequest, ranks: Ranks) -> tuple[dict[str, Any], RequirementNotMetError | None]:
    # Of several processes the first writes, and has the error.
    all_channels = request.channel == "all"
    requirements = [_requirement(text) for text in request.require]
    runs, files = runs_and_files(request.files)
    # A text that is told from the corpus is told by the uncertainty.
    request = replace(request, files=files, uncertainty=request.uncertainty or request.ood is not None)
    model, predictor, method, splitter = _loaded(request, runs, ranks)
    reading = model.read(None if all_channels else request.channel, request.iteration, request.decoder)
    types = Types(model.vocabulary.normalise) if request.latent_labels else None
    noted = Noted(
        relations=[] if request.relations else None,
        keeps=bool(request.predictions or request.surprisal),
        in_blocks=model.recipe.data.blocks is not None,
    )
    title, corpus = corpus_of(model, request, types, noted)
    if request.predictions is not None and ranks.first:
        with atomic.output_of(request.predictions, "--predictions") as file:
            file.writelines(side_by_side(model, noted.sentences, predictor))
    if request.choose:
        reading = _choose(model, corpus, title, request, stored=ranks.first)
    ood = None if request.ood is None else other_text(model, request.ood, request.longest)
    # An ensemble has no channels of its own.
    has_trees = not runs and request.trees != "no" and can_score_trees(model, corpus)
    method = method if splitter is None else f"split by {request.coordination}"
    began = time.perf_counter()
    watched = None if request.surprisal is None else Watched(model.task)
    scores = _task_scores(model, corpus, title, predictor, reading if has_trees else None, ood, splitter, watched)
    if model.task.answers.tells_speed:
        seconds = time.perf_counter() - began
        speed = f"{len(corpus) / seconds:,.1f} sentences/s"
        console.log(f"{title}: {counted(len(corpus), 'sentence')} in {seconds:,.2f} s, {speed}")
    if watched is not None and request.surprisal is not None:
        with atomic.output_of(request.surprisal, "--surprisal") as file:
            file.writelines(watched.rows(noted.sentences, as_json=request.surprisal.suffix.lower() == ".jsonl"))
    task: Any = model.recipe.task
    if scores.get("loss") is not None and task.is_causal and task.score_first:  # all words are scored
        words = sum(scored(model.task, corpus, model.evaluation()))
        scores["bits_per_character"] = scores["loss"] / math.log(2.0) * words / noted.characters
    if "ood" in scores:
        scores["ood"] = {"file": request.ood, **scores["ood"]}
    about_trees = (request.trees, request.channel, request.iteration, request.decoder)
    wanted = (
        any(option is not None for option in about_trees)
        or request.choose or request.relations or request.baselines
        or any(metric in ("uas", "uuas") for metric, *_ in requirements)
        or model.recipe.scores_trees
    )  # fmt: skip
    if wanted and not has_trees and (request.trees == "yes" or corpus.has("heads")) and ranks.first:
        console.log(f"{title}: no trees are scored: {_why_no_trees(model, corpus, runs)}")
    # Where the text has no labels, its trees are what can be scored.
    has_trees = has_trees and (wanted or not scores)
    if request.baselines:
        # Those of trees come with the trees.
        baselines = TASKS[model.recipe.task.kind].load("baselines")(model.task, corpus)
        if ranks.first and not has_trees and not baselines:
            console.log(f"--baselines: no trees are scored here, and {model.recipe.task.metric} has no baselines")
        scores |= baselines
    if has_trees:
        scores |= tree_scores(
            model, corpus, title, reading, baselines=request.baselines, channels=all_channels,
            relations=noted.relations, predictor=predictor,
        )  # fmt: skip
    if not scores and not request.latent_labels:
        message = f"{title}: has neither {model.recipe.task.metric} nor trees to score"
        raise DataError(message, hint="give CoNLL-U with gold columns")
    result: dict[str, Any] = {
        "checkpoint": str(model.folder),
        "step": model.step,
        "scores": {", ".join(request.files) or title: scores},
    }
    result |= {} if method is None else {"way": method}
    result |= {"members": [request.checkpoint, *runs]} if runs else {}
    if not runs and not request.files and ranks.first:
        store_scores(model, title, result)
    if types is not None:
        result |= describe(model, corpus, types, request.top)
    unmet = _unmet(request.require, requirements, scores)
    return result, unmet if ranks.first else None


@dataclass
class Noted:
    """What is noted of the sentences of a corpus, which itself has no spelling."""

    relations: list[str] | None = None  # of every word; None: they are not noted
    keeps: bool = False  # whether the sentences themselves are noted
    in_blocks: bool = False
    sentences: list[Sentence] = field(default_factory=list)
    characters: int = 0  # with one more for the space or the line end behind each sentence

    def passing(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        """Yield the same sentences."""
        for sentence in sentences:
            if self.relations is not None:
                self.relations.extend(sentence.relations or ["_"] * len(sentence.words))
            ends = sentence.words.count(END) if self.in_blocks else 0  # each is the line end behind the word before it
            self.characters += len(character_spans(sentence)[0]) + 1 - ends * (len(END) + 1)
            if self.keeps:
                self.sentences.append(sentence)
            yield sentence


# --- the predictor ----------------------------------------------------------------------------------------------------


def runs_and_files(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments behind the first CKPT of `eval`: further runs, folders or RUN@STEP, then files."""
    runs: list[str] = []
    files: list[str] = []
    for name in arguments:
        base, at, _ = name.rpartition("@")
        is_checkpoint = bool(at) and Path(base).is_dir()
        if is_checkpoint and Path(name).is_file():
            message = f"{name}: a file, and a checkpoint of the run {base}"
            raise UsageError(message, hint="name the file as ./FOLDER/FILE")
        if not (Path(name).is_dir() or is_checkpoint):
            files.append(name)
        elif files:
            raise UsageError(f"{name}: a run behind the file {files[-1]}", hint="give the runs first, then the files")
        else:
            runs.append(name)
    return runs, files


def _loaded(
    request: EvalRequest, runs: Sequence[str], ranks: Ranks
) -> tuple[Model, Predictor, str | None, Splitter | None]:
    if request.top is not None and not request.latent_labels:
        hint = f"write --labels --top {request.top}, or leave it out"
        raise UsageError("--top says how much --labels shows", hint=hint)
    keep_memory()
    model = Model.load(request.checkpoint, threads=request.threads, precision=request.precision, local=ranks.local)
    if request.ood is not None and model.task.answers.trees:
        raise UsageError("--ood: a parser has no one answer whose uncertainty could tell", hint="leave it out")
    predictor, method = _predictor_of(model, request, runs)
    ranks.start(model.recipe.runtime)
    if not predictor.several:  # members may be drawn, always in the same order
        model.ranks = ranks
    splitter = splitter_of(
        model, request.coordination, rescore=request.rescore, threads=request.threads,
        refused={
            "--uncertainty": request.uncertainty, "--predictions": request.predictions,
            "further runs": runs, "--dropout-samples": request.dropout_samples, "--weights": request.weights,
        },
    )  # fmt: skip
    if request.surprisal is not None:
        require_causal(model)
        if request.uncertainty or ranks.world > 1:
            option = "--uncertainty" if request.uncertainty else "several processes"
            raise UsageError(f"--surprisal: not with {option}", hint="call eval once more")
    model.refuse_choice_of_trees(request.channel, request.iteration, request.decoder)
    if model.task.answers.trees and request.choose:
        message = "--choose: a parser's trees are its answers: there is nothing to choose"
        raise UsageError(message, hint="leave out --choose")
    if model.task.answers.trees and request.relations:
        message = "--relations: compares channels, and a parser's trees are its answers"
        raise UsageError(message, hint="leave it out: the scores by relation are those of --json, under `groups`")
    if request.predictions is not None:
        require_side_by_side(model)
    if request.masks is not None:
        if model.task.answers.draws is None:
            raise UsageError("--masks is for masked language models", hint="leave it out")
        model.task.answers = replace(model.task.answers, draws=request.masks)
    if request.latent_labels:
        require_labels(model)
        if model.recipe.data.format == "documents":
            raise UsageError("--labels: the corpus has pieces of documents, not sentences", hint="leave it out")
    return model, predictor, method, splitter


def _predictor_of(model: Model, request: EvalRequest, runs: Sequence[str]) -> tuple[Predictor, str | None]:
    # The predictor, and its method in words; None: as the recipe says.
    if not runs:
        return predictor_of(model, request), request.method
    refused = {
        "--dropout-samples": request.dropout_samples, "--weights": request.weights, "--choose": request.choose,
        "--labels": request.latent_labels,
        "--relations": request.relations, "--channel": request.channel, "--iteration": request.iteration,
        "--decode": request.decoder, "--trees yes": request.trees == "yes", "--baselines": request.baselines,
        "--predictions": request.predictions,
    }  # fmt: skip
    if option := next((name for name, value in refused.items() if value), None):
        raise UsageError(f"{option}: not of several runs together", hint="give one run")
    folders: dict[Path, str] = {}
    for name in (request.checkpoint, *runs):  # twice in an ensemble, a checkpoint would count as two opinions
        folder = locate(name).resolve()
        if folder in folders:
            message = f"{name}: the same checkpoint as {folders[folder]}, twice in one ensemble"
            raise UsageError(message, hint="give different runs, for example those of train --seeds 0,1,2")
        folders[folder] = name
    members = [model, *(Model.load(name, threads=request.threads, precision=request.precision) for name in runs)]
    return ensemble_of(members, doubt=request.uncertainty), f"ensemble of {len(members)}"


# --- the scores -------------------------------------------------------------------------------------------------------


def _task_scores(
    model: Model,
    corpus: Split,
    title: str,
    predictor: Predictor,
    reading: Reading | None,
    ood: Split | None,
    splitter: Splitter | None,
    watch: Watch | None,
) -> dict[str, Any]:
    # None, said on stderr, where only the trees of a corpus, those of ``reading``, can be scored.
    if splitter is not None:
        return splitter.scores(corpus)
    column = model.recipe.task.facts.chosen_column
    if column is not None and not corpus.has(column):
        if predictor.doubt:
            raise DataError(f"{title}: has no gold labels to score probabilities by", hint="leave out --uncertainty")
        return {}
    try:
        if predictor.doubt:
            return uncertainty_scores(model, predictor, corpus, reading=reading, ood=ood)
        how, ranks = model.evaluation(), model.ranks
        return dict(task_scores(model.task, predictor, corpus, how, final=True, watch=watch, ranks=ranks))
    except NothingToScoreError as error:
        if reading is None:
            raise NothingToScoreError(f"{title}: {error.message}", hint=error.hint) from None
        console.log(f"{title}: no {model.recipe.task.metric}: {error.message}")
        return {}


def _why_no_trees(model: Model, corpus: Split, runs: Sequence[str]) -> str:
    if model.task.answers.trees:
        return "those of a parser are its answers, which have been scored"
    if runs or not model.recipe.model.facts.has_arcs:
        return "the model has none"
    whole = sum(bool((heads >= 0).all()) for heads in by_sentence(corpus, "heads")) if corpus.has("heads") else 0
    return f"a HEAD is missing in {len(corpus) - whole:,} of {counted(len(corpus), 'sentence')}"


def _choose(model: Model, corpus: Split, title: str, request: EvalRequest, *, stored: bool) -> Reading:
    files = {find(name, once=True).resolve() for name in request.files if name != "-"}
    held_out: set[Path] = set()  # links and relative names notwithstanding
    for names in (model.recipe.data.test, model.recipe.data.extra):
        for name in [names] if isinstance(names, str) else names or []:
            with suppress(DataError):  # it is no longer there
                held_out |= {path.resolve() for path in find_all(name)}
    if title in ("test", "extra") or files & held_out:
        raise UsageError("--choose: the test set chooses nothing", hint="write --split dev --choose")
    if not can_score_trees(model, corpus):
        raise DataError(f"{title}: has no gold trees to choose by", hint="give CoNLL-U with gold columns")
    reading = model.read(request.channel, request.iteration, request.decoder)
    wish = Eval(
        channel="best" if request.channel is None else reading.channel,
        iteration="best" if request.iteration is None else reading.iteration,
        decode=request.decoder or "best",
    )
    if "best" not in (wish.channel, wish.iteration, wish.decode):
        raise UsageError("--choose has nothing to choose", hint="leave out one of --channel, --iteration and --decode")
    model.reading = choose_reading(model, corpus, wish, ", ".join(Path(file).name for file in request.files) or title)
    choose_arc_temperature(model, corpus)
    if stored:
        store_reading(model)
    return model.reading


def _requirement(text: str) -> tuple[str, str, float]:
    match = _REQUIREMENT.fullmatch(text)
    with suppress(ValueError):
        if match:
            return match[1], match[2], float(match[3])
    raise UsageError(f"--require {text!r} is not a comparison", hint="write --require 'accuracy>=0.91'")


def _unmet(
    require: Sequence[str], requirements: Sequence[tuple[str, str, float]], scores: dict[str, Any]
) -> RequirementNotMetError | None:
    # The first that is not met; a score that there is nothing to compute from meets none.
    flat = flattened(scores)
    for text, (metric, sign, bound) in zip(require, requirements, strict=True):
        if metric in scores and scores[metric] is None:
            return RequirementNotMetError(f"required {text.strip()}, but {metric} is null: nothing has a known label")
        if metric not in flat:
            hint = f"there are: {', '.join(flat)}"
            choice = next((name for name in CHOICES if metric.startswith(f"{name}_")), "")
            if "uncertainty" not in scores and metric.removeprefix(f"{choice}_") in UNCERTAINTY_ROWS:
                hint = "add --uncertainty, which has it"
            raise UsageError(f"--require {text!r}: there is no score {metric!r}", hint=hint)
        if not _COMPARE[sign](flat[metric], bound):
            return RequirementNotMetError(f"required {text.strip()}, but {metric} is {flat[metric]:.6g}")
    return None


def store_scores(model: Model, title: str, result: dict[str, Any]) -> None:
    """Leave the scores of a split beside the checkpoint, with the diagrams of `--uncertainty`."""
    if model.folder is None or is_installed(model.folder) or not os.access(model.folder.parent, os.W_OK):
        return
    in_run = model.folder.parent.name == "checkpoints"
    beside = model.folder.parent if in_run else model.folder
    try:
        if in_run:
            regular.refuse_others(beside, folder=True)
        atomic.replace_text(beside / f"eval-{title}.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        measured = result["scores"][title].get("uncertainty", {})
        for choice in (None, *CHOICES):
            scores = measured if choice is None else measured.get(choice, {})
            if "reliability" in scores:
                heading = ", ".join(filter(None, [title, choice, result.get("way")]))
                diagram = beside / (DIAGRAM if choice is None else f"reliability-{choice}.svg")
                atomic.replace_text(diagram, reliability_diagram(heading, scores))
                console.log(f"diagram: {diagram}")
    except CheckpointError as error:  # the scores are shown all the same
        console.log(f"not stored: {error.message}")


# --- the corpus -------------------------------------------------------------------------------------------------------


def corpus_of(
    model: Model, request: EvalRequest, types: Types | None = None, noted: Noted | None = None
) -> tuple[str, Split]:
    """Return title and content of the corpus to score, encoded with the checkpoint's own vocabulary and labels.

    ``types`` notes the sentences' words and tags; where ``noted`` gets the relations, some words must have one.
    """
    files, split = request.files, request.split
    if files and split:
        if missing := next((name for name in files if name != "-" and not Path(name).exists()), None):
            raise UsageError(f"{missing}: there is no such run or file", hint="check the name")
        raise UsageError("give either files or --split, not both")
    data = model.recipe.data
    if files:
        title, paths, key = ", ".join(map(display_name, files)), list(files), None
    else:
        title = split or ("test" if data.test is not None else "dev")
        names = {"dev": data.dev, "test": data.test, "extra": data.extra}[title]
        if names is None:
            raise UsageError(f"the recipe of {model.folder} names no {title} file", hint="give files to score")
        key = f"data.{title}"
        paths = [str(path) for name in ([names] if isinstance(names, str) else names) for path in find_all(name, key)]
    form = "auto" if files and data.format in ("auto", "conllu", "text") else data.format
    sentences = (sentence for path in paths for sentence in _read(path, key, form, data))
    first = next(sentences, None)
    if first is None:
        raise DataError(f"{title}: there is no sentence in it", hint="check the file")
    tally = Tally(title)
    selected = chosen(lambda _: chain([first], sentences), Select() if files else data.select, tally)
    short = shortened(in_blocks(selected, data.blocks), model.vocabulary, data, tally)
    if files and data.longest is None and data.blocks is None:
        short = _none_too_long(short, request.longest, model.vocabulary)
    passing = noting_new_labels(short, model.labels, tally)
    passing = passing if types is None else types.passing(passing)
    passing = passing if noted is None else noted.passing(passing)
    table = encode_corpus(data, passing, model.vocabulary, model.labels)
    tally.require_some(data)
    encoded = Split(table)
    corpus = TASKS[model.recipe.task.kind].load("complete")(model, {title: encoded}, required=False)[title]
    model.require_positions({title: corpus})
    for line in (
        *tally.notes(title, data),
        *tally.tag_warnings(),
        *tally.header_warnings(data.format, model.labels.get(TAG if data.format == "columns" else LABEL, ())),
        *unlearned(title, model.recipe.task, corpus, tally.new_labels, tally.first_new),
    ):
        console.log(line)
    relations = None if noted is None else noted.relations
    if relations is not None and not (can_score_trees(model, corpus) and set(relations) - {"_"}):
        hint = "give CoNLL-U with HEAD and DEPREL, or leave it out"
        raise DataError(f"{title}: has no gold trees with relations, which --relations is about", hint=hint)
    return title, corpus


def _none_too_long(sentences: Iterable[Sentence], longest: int, vocabulary: Vocabulary) -> Iterator[Sentence]:
    for sentence in sentences:
        if over := excess(sentence, longest, vocabulary):
            message = f"{sentence.where}: a sentence of {over[0]:,} {over[1]}, more than {longest:,}"
            hint = f"split it, or allow it with --longest {over[0]}; time and memory grow with the square of its length"
            raise DataError(message, hint=hint)
        yield sentence


def other_text(model: Model, name: str, longest: int) -> Split:
    """Return a text whose words are enough, encoded with the checkpoint's own vocabulary; `extra` is the recipe's.

    Left out, and counted on stderr, are sentences that the recipe's own splits would not have, those for which the
    model has no positions, and those of more words or tokens than ``longest`` where the recipe has no bound.

    Raises:
        UsageError: the recipe names no extra file.
        DataError: there is no sentence in it, none is short enough, or it cannot be read.
    """
    data = model.recipe.data
    names, key = [name], None
    if name == "extra":
        if data.extra is None:
            raise UsageError(f"--ood extra: the recipe of {model.folder} names no extra file", hint="give a file")
        names, key = [data.extra] if isinstance(data.extra, str) else list(data.extra), "data.extra"
    sentences = [sentence for path in names for sentence in _read_other(path, key, data)]
    if not sentences:
        raise DataError(f"--ood {name}: there is no sentence in it", hint="check the file")
    most, positions = data.select.words, model.network.longest
    selected = [sentence for sentence in sentences if most is None or len(sentence.words) - sentence.extra <= most]
    hint = "split them, or give another text"
    if not selected:
        raise DataError(f"--ood {name}: every sentence has more than {most} words (data.select.words)", hint=hint)
    bound, of_bound, skips = data.longest, "data.longest", data.too_long == "error"
    if bound is None and data.blocks is None and key is None:
        bound, of_bound, skips = longest, "--longest", True
    skipping = data.model_copy(update={"longest": bound, "too_long": "skip"}) if skips else data
    tally = Tally(name)
    table = encode_corpus(
        data,
        shortened(in_blocks(selected, data.blocks), model.vocabulary, skipping, tally),
        model.vocabulary,
        model.labels,
    )
    if not tally.counts["left"] and of_bound == "--longest":
        raise DataError(f"--ood {name}: every sentence has more than {bound:,} tokens (--longest)", hint=hint)
    tally.require_some(data)
    split = Split(table)
    fitting = split.lengths <= (np.inf if positions is None else positions)
    if not fitting.any():
        raise DataError(f"--ood {name}: every sentence has more tokens than the model positions", hint=hint)
    reasons = {
        f"of more than {most} words (data.select.words)": len(sentences) - len(selected),
        f"of more than {bound} tokens ({of_bound})": tally.counts["skipped"],
        f"of more tokens than the model has positions ({positions})": int((~fitting).sum()),
    }
    if left_out := ", ".join(f"{number:,} {reason}" for reason, number in reasons.items() if number):
        console.log(f"--ood {name}: sentences left out: {left_out}")
    return split if fitting.all() else split.select(np.flatnonzero(fitting))


def _read_other(name: str, key: str | None, data: Data) -> Sequence[Sentence]:
    # In the format that its name tells, else in that of the data; or, said on stderr, CoNLL-U by its content or text.
    path = find(name, key, once=key is None)
    form = format_by_name(path) or data.format
    if key is None and form in ("conllu", "text"):
        form = "auto"
    try:
        return list(_read(name, key, form, data))
    except DataError as error:
        if form in ("auto", "conllu") or not path.is_file():
            raise
        guess = format_of(path)
        kind = "CoNLL-U" if guess == "conllu" else "text, a sentence a line"
        console.log(f"--ood {name}: not in data.format {form} ({error.message}): read as {kind}")
        return list(read_corpus(path, guess))


def _read(name: str, key: str | None, form: str, data: Data) -> Iterator[Sentence]:
    # A file is read once; where its name tells no format, CoNLL-U is recognised by its content.
    path, lines = find(name, key, once=key is None), None
    if form == "auto":
        form = format_by_name(path) or "text"
        form = "auto" if form == "text" else form
    if form in ("auto", "text"):
        form, lines = form_of(str(path), form)
    yield from read_corpus(path, form, data=data, lines=lines)
