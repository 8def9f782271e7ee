"""The verb `eval`: scores of a model on a split: its task's, and those of its trees where the split has gold trees."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from probtrans_cli import atomic, console
from probtrans_cli.checkpoint import refuse_link
from probtrans_cli.commands.checks import faults_of, splitter_of
from probtrans_cli.commands.eval_uncertainty import (
    other_text,
    read_sentences,
    runs_and_files,
    store_scores,
    who_is_asked,
)
from probtrans_cli.commands.launch import processes
from probtrans_cli.data.corpus.encode import encode_corpus
from probtrans_cli.data.corpus.gold import NewLabels, OddLabels, unlearned
from probtrans_cli.data.corpus.lengths import Shortened
from probtrans_cli.data.corpus.selection import Selected
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.files import find, find_all
from probtrans_cli.data.ranks import Ranks
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError, NothingToScoreError, RequirementNotMetError, UsageError
from probtrans_cli.folders import lock
from probtrans_cli.folders.checkpoints import locate
from probtrans_cli.recipe.data import Select
from probtrans_cli.recipe.training import Eval
from probtrans_cli.reports.scores import evaluation_report, flattened
from probtrans_cli.tasks.base import Splitter
from probtrans_cli.trained.arcs import Reading
from probtrans_cli.trained.card import store_reading
from probtrans_cli.trained.evaluation import choose_reading, scores_trees, tree_scores
from probtrans_cli.trained.evaluation import evaluate as evaluated
from probtrans_cli.trained.latent_labels import Types, describe, require_labels
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.predictor import Predictor
from probtrans_cli.trained.side_by_side import side_by_side
from probtrans_cli.trained.uncertainty import uncertainty_scores
from probtrans_cli.trees import decode

__all__ = ["EvalRequest", "evaluate", "evaluation_report"]

_REQUIREMENT = re.compile(r"\s*([^\s<>=]+)\s*(>=|<=|>|<|==)\s*([-+0-9.eE]+)\s*")
_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}


@dataclass(frozen=True)
class EvalRequest:
    """What `eval` is asked for."""

    checkpoint: str
    """A CKPT argument: a run folder, ``RUN@last``, ..."""
    files: Sequence[str] = ()
    """What is scored; none: a split of the recipe. Folders among them are further runs, which predict together."""
    split: str | None = None
    """``dev``, ``test`` or ``extra``; None: ``test``, or ``dev`` where there is none."""
    require: Sequence[str] = ()
    """Comparisons such as ``accuracy>=0.91``."""
    baselines: bool = False
    """Score also the floors of the trees, and of tuples."""
    channel: str | None = None
    """A number, ``mean``, ``best`` or ``all``; None: the checkpoint's choice. So for the next two."""
    iteration: int | None = None
    decoder: decode.Method | None = None
    choose: bool = False
    """First choose channel, iteration and decoder, what of them is not given, by the trees of what is scored, and store
    the choice in the checkpoint."""
    masks: int | None = None
    """Mask draws of a masked language model; None: the recipe's."""
    latent_labels: bool = False
    """Tell also what the latent labels are about in what is scored, see
    :func:`probtrans_cli.trained.latent_labels.describe`; this is not part of the file beside the checkpoint."""
    top: int | None = None
    """How much is told of each latent label."""
    relations: bool = False
    """Tell also which channel finds which gold relation, as part of the scores of the trees."""
    predictions: Path | None = None
    """A file to write gold and predictions to, side by side, see :mod:`probtrans_cli.trained.side_by_side`."""
    coordination: str | None = None
    """A CKPT of coordinations, at which sentences are split before tuples are found in them."""
    rescore: bool = False
    """Tuples of split sentences get the confidence that they have in the whole one."""
    uncertainty: bool = False
    """Tell also how far the probabilities can be relied on, see :mod:`probtrans_cli.trained.uncertainty`."""
    ood: str | None = None
    """Another text: also how well the uncertainty tells it from what is scored; ``extra``: the recipe's."""
    dropout_samples: int | None = None
    """Predict by so many passes with dropout; None: by one without."""
    weights: str | None = None
    """How uncertain weights are used, see :func:`probtrans_cli.recipe.weights.way_of`; None: as the recipe says."""
    threads: int | None = None


def evaluate(request: EvalRequest) -> tuple[dict[str, Any], RequirementNotMetError | None]:
    """Score a checkpoint; returns the report and, where a requirement is not met, the error to end with.

    Raises:
        UsageError: nothing to score, an unreadable requirement, a channel or iteration that the model does not have; a
            choice is to be stored while another process writes there.
        DataError, CheckpointError: as their readers do.
    """
    with processes() as ranks:
        if ranks.world > 1 and "-" in request.files:
            raise UsageError("several processes cannot read one text from stdin", hint="give a file")
        if not request.choose:
            return _evaluated(request, ranks)
        folder = locate(request.checkpoint)
        refuse_link(folder)
        located = replace(request, checkpoint=str(folder))
        if not ranks.first:
            return _evaluated(located, ranks)
        with lock.locked(lock.of_checkpoint(folder), request.checkpoint, hint="choose again when that has ended"):
            return _evaluated(located, ranks)


def _evaluated(request: EvalRequest, ranks: Ranks) -> tuple[dict[str, Any], RequirementNotMetError | None]:
    """The report and the error of :func:`evaluate`; of several ``ranks`` the first one writes, and has the error."""
    if request.top is not None and not request.latent_labels:
        hint = f"write --labels --top {request.top}, or leave it out"
        raise UsageError("--top says how much --labels shows", hint=hint)
    requirements = [_requirement(text) for text in request.require]
    runs, files = runs_and_files(request.files)
    request = replace(request, files=files)
    every = request.channel == "all"
    if request.choose and every:
        raise UsageError("--choose chooses one channel", hint="leave out --channel all")
    model, asked, way = _loaded(request, runs, ranks)
    splitter = _splitter_of(model, request, runs)
    if request.masks is not None:
        model.task.draw(request.masks)
    reading = model.read(None if every else request.channel, request.iteration, request.decoder)
    if request.latent_labels:
        require_labels(model)
        if model.recipe.data.format == "documents":
            raise UsageError("--labels: what is scored are pieces of documents, not sentences", hint="leave it out")
    types = Types.of(model) if request.latent_labels else None
    of_words: list[str] | None = [] if request.relations else None
    kept: list[Sentence] | None = None if request.predictions is None else []
    title, corpus = corpus_of(model, request, types, of_words, kept)
    if kept is not None and ranks.first:
        _write_predictions(request, model, kept, asked)
    if request.choose:
        reading = _choose(model, corpus, title, request, stored=ranks.first)
    ood = None if request.ood is None else other_text(model, request.ood)
    has_trees = not runs and scores_trees(model, corpus)  # an ensemble has no channels of its own
    way = way if splitter is None else f"split by {request.coordination}"
    with _timed(model, title, len(corpus)):
        scores = _task_scores_if_any(model, corpus, title, asked, reading if has_trees else None, ood, splitter)
    if "ood" in scores:
        scores["ood"] = {"file": request.ood, **scores["ood"]}
    scores |= _floors(model, corpus, told=ranks.first and not has_trees) if request.baselines else {}
    if has_trees:
        scores |= tree_scores(
            model, corpus, title, reading, baselines=request.baselines, every=every, relations=of_words, predictor=asked
        )
    if not scores and not request.latent_labels:
        raise DataError(
            f"{title}: has neither {model.task.metric} nor trees to score", hint="give CoNLL-U with gold columns"
        )
    result: dict[str, Any] = {"checkpoint": str(model.folder), "step": model.step, "scores": {title: scores}}
    result |= {} if way is None else {"way": way}
    result |= {"members": [request.checkpoint, *runs]} if runs else {}
    if not runs and not request.files and ranks.first:
        store_scores(model, title, result)
    if types is not None:
        result |= describe(model, corpus, types, request.top)
    unmet = _unmet(request.require, requirements, scores)
    return result, unmet if ranks.first else None


def _floors(model: Model, corpus: Split, *, told: bool) -> dict[str, Any]:
    """The task's floors, those of trees come with them; ``told``: stderr says where there are none."""
    floors = model.task.floors(corpus)
    if told and not floors:
        console.log(f"--baselines: no trees are scored here, and {model.task.metric} has no baselines")
    return floors


def _loaded(request: EvalRequest, runs: Sequence[str], ranks: Ranks) -> tuple[Model, Predictor, str | None]:
    """The model, who is asked of it and of other runs, and how that is called."""
    model = Model.load(request.checkpoint, threads=request.threads, local=ranks.local)
    asked, way = who_is_asked(model, request, runs)
    ranks.start(model.recipe.runtime)
    if not asked.several:  # members may be drawn, always in the same order
        model.ranks = ranks
    return model, asked, way


def _write_predictions(request: EvalRequest, model: Model, kept: Sequence[Sentence], asked: Predictor) -> None:
    """The file of `--predictions`."""
    assert request.predictions is not None, "sentences are kept for them alone"
    with faults_of(request.predictions, "--predictions"), atomic.replacing(request.predictions, direct=True) as file:
        file.writelines(side_by_side(model, kept, asked))


def _splitter_of(model: Model, request: EvalRequest, runs: Sequence[str]) -> Splitter | None:
    """What splits sentences before.

    Raises:
        UsageError: it is no model of coordinations, or something else is asked that does not go with it.
    """
    others: dict[str, Any] = {"--uncertainty": request.uncertainty or request.ood, "--predictions": request.predictions}
    others |= {"further runs": runs, "--dropout-samples": request.dropout_samples, "--weights": request.weights}
    found = next((name for name, value in others.items() if value), None)
    if request.coordination is not None and found:
        raise UsageError(f"--coordination does not go with {found}", hint="leave one of them out")
    return splitter_of(model, request.coordination, rescore=request.rescore, threads=request.threads)


@contextmanager
def _timed(model: Model, title: str, sentences: int) -> Iterator[None]:
    """Tell on stderr, beside the result, how many sentences a second a task scores that tells it."""
    began = time.perf_counter()
    yield
    if model.task.tells_speed:
        seconds = time.perf_counter() - began
        console.log(f"{title}: {sentences:,} sentences in {seconds:,.2f} s, {sentences / seconds:,.1f} sentences/s")


def _task_scores_if_any(
    model: Model,
    corpus: Split,
    title: str,
    asked: Predictor,
    reading: Reading | None,
    ood: Split | None,
    splitter: Splitter | None,
) -> dict[str, Any]:
    """The task's scores, of sentences that are split before where there is a ``splitter``, with its uncertainty where
    the predictor tells its doubt; none, said on stderr, where only the trees of a corpus, those of ``reading``, can be
    scored."""
    if splitter is not None:
        return splitter.scores(corpus)
    if not _has_gold(model, corpus):
        if asked.doubt:
            raise DataError(f"{title}: has no gold labels to score probabilities by", hint="leave out --uncertainty")
        return {}
    try:
        if asked.doubt:
            return uncertainty_scores(model, asked, corpus, reading=reading, ood=ood)
        return dict(evaluated(model.task, asked, corpus, model.evaluation(), final=True, ranks=model.ranks))
    except NothingToScoreError as error:
        if reading is None:
            raise NothingToScoreError(f"{title}: {error.message}", hint=error.hint) from None
        console.log(f"{title}: no {model.task.metric}: {error.message}")
        return {}


def _choose(model: Model, corpus: Split, title: str, request: EvalRequest, *, stored: bool) -> Reading:
    """Choose by the gold trees of a corpus how this model's trees are read from now on; ``stored``: for all time."""
    data = model.recipe.data
    if title in ("test", "extra") or any(_same_files(request.files, names) for names in (data.test, data.extra)):
        raise UsageError("--choose: the test set chooses nothing", hint="write --split dev --choose")
    if not scores_trees(model, corpus):
        raise DataError(f"{title}: has no gold trees to choose by", hint="give CoNLL-U with gold columns")
    named = model.read(request.channel, request.iteration, request.decoder)
    wish = Eval(
        channel="best" if request.channel is None else named.channel,
        iteration="best" if request.iteration is None else named.iteration,
        decode=request.decoder or "best",
    )
    if "best" not in (wish.channel, wish.iteration, wish.decode):
        raise UsageError("--choose has nothing to choose", hint="leave out one of --channel, --iteration and --decode")
    model.reading = choose_reading(model, corpus, wish, ", ".join(Path(file).name for file in request.files) or title)
    if stored:
        store_reading(model)
    return model.reading


def _same_files(files: Sequence[str], others: Sequence[str] | str | None) -> bool:
    """Whether one of some files is among others, links and relative names notwithstanding."""
    known = set()
    for name in [others] if isinstance(others, str) else others or []:
        with suppress(DataError):  # it is no longer there
            known |= {path.resolve() for path in find_all(name)}
    return any(find(name, once=True).resolve() in known for name in files if name != "-")


def _requirement(text: str) -> tuple[str, str, float]:
    found = _REQUIREMENT.fullmatch(text)
    try:
        if found:
            return found[1], found[2], float(found[3])
    except ValueError:
        pass
    raise UsageError(f"--require {text!r} is not a comparison", hint="write --require 'accuracy>=0.91'")


def _unmet(
    require: Sequence[str], requirements: Sequence[tuple[str, str, float]], scores: dict[str, Any]
) -> RequirementNotMetError | None:
    """The first requirement that scores do not meet; a score that there is nothing to compute from meets none."""
    flat = flattened(scores)
    for text, (metric, sign, bound) in zip(require, requirements, strict=True):
        if metric in scores and scores[metric] is None:
            return RequirementNotMetError(f"required {text.strip()}, but {metric} is null: nothing has a known label")
        if metric not in flat:
            hint = f"there are: {', '.join(flat)}"
            if "uncertainty" not in scores:
                hint += "; --uncertainty adds nll, ece, aurc and others"
            raise UsageError(f"--require {text!r}: there is no score {metric!r}", hint=hint)
        if not _COMPARE[sign](flat[metric], bound):
            return RequirementNotMetError(f"required {text.strip()}, but {metric} is {flat[metric]:.6g}")
    return None


def corpus_of(
    model: Model,
    request: EvalRequest,
    types: Types | None = None,
    relations: list[str] | None = None,
    kept: list[Sentence] | None = None,
) -> tuple[str, Split]:
    """Title and content of what is to be scored, encoded with the checkpoint's own vocabulary and labels.

    ``types`` notes the sentences' words and tags; ``relations`` gets the relation of every word; some must have one.
    ``kept`` gets the sentences.
    """
    files, split = request.files, request.split
    if files and split:
        if missing := next((name for name in files if name != "-" and not Path(name).exists()), None):
            raise UsageError(f"{missing}: there is no such run or file", hint="check the name")
        raise UsageError("give either files or --split, not both")
    data = model.recipe.data
    if files:
        title, paths, key = ", ".join(files), list(files), None
    else:
        title = split or ("test" if data.test is not None else "dev")
        named = {"dev": data.dev, "test": data.test, "extra": data.extra}[title]
        if named is None:
            raise UsageError(f"the recipe of {model.folder} names no {title} file", hint="give files to score")
        key = f"data.{title}"
        paths = [str(path) for name in ([named] if isinstance(named, str) else named) for path in find_all(name, key)]
    form = "auto" if files and data.format in ("auto", "conllu", "text") else data.format
    sentences = (sentence for path in paths for sentence in read_sentences(path, key, form, data))
    first = next(sentences, None)
    if first is None:
        raise DataError(f"{title}: there is no sentence in it", hint="check the file")
    selected = Selected(lambda: chain([first], sentences), Select() if files else data.select, title)
    given = OddLabels(selected)
    every = Shortened(given, model.vocabulary, data)
    noted = NewLabels(every, model.labels)
    passing = types.passing(noted) if types else iter(noted)
    if relations is not None:
        passing = _noting_relations(passing, relations)
    if kept is not None:
        passing = _keeping(passing, kept)
    encoded = Split(encode_corpus(data, passing, model.vocabulary, model.labels))
    corpus = model.task.complete(model, {title: encoded}, required=False)[title]
    model.require_positions({title: corpus})
    for report in filter(None, (selected.report(), every.report(title))):
        console.log(report)
    for warning in (*given.all_warnings(model.labels), *unlearned(title, model.recipe.task, corpus, noted.counts)):
        console.log(warning)
    if relations is not None and not (scores_trees(model, corpus) and set(relations) - {"_"}):
        hint = "give CoNLL-U with HEAD and DEPREL, or leave it out"
        raise DataError(f"{title}: has no gold trees with relations, which --relations is about", hint=hint)
    return title, corpus


def _keeping(sentences: Iterable[Sentence], kept: list[Sentence]) -> Iterator[Sentence]:
    """The same sentences; each is appended to ``kept`` as it passes."""
    for sentence in sentences:
        kept.append(sentence)
        yield sentence


def _noting_relations(sentences: Iterable[Sentence], relations: list[str]) -> Iterator[Sentence]:
    """The same sentences; the relations of their words are appended to ``relations`` as they pass."""
    for sentence in sentences:
        relations.extend(sentence.relations or ["_"] * len(sentence.words))
        yield sentence


def _has_gold(model: Model, corpus: Split) -> bool:
    """Whether the corpus has what the task is scored against."""
    column = model.recipe.task.chosen_column
    return column is None or corpus.has(column)
