"""What a model says of sentences: the trees that it sees in them, and the predictions of its task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, repeat
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from probtrans_cli.data.sentence import Sentence, character_spans
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.tasks import TASKS
from probtrans_cli.tasks.base import Places, Prediction, Splitter, Task, abstained, with_probability
from probtrans_cli.text import rounded
from probtrans_cli.trained.arcs import BatchOptions, chain_of, read_arcs
from probtrans_cli.trained.base import Channel, ModelBase, Reading
from probtrans_cli.trained.formats import FORMATS, DisplayOptions
from probtrans_cli.trained.latent_labels import most_probable, require_labels
from probtrans_cli.trained.predictor import PredictOptions, Predictor, predictor_of
from probtrans_cli.trained.reader import Reader
from probtrans_cli.trained.several import SentenceTrees, Tree, random_of
from probtrans_cli.trees.best import Trees
from probtrans_cli.trees.decode import method_for
from probtrans_cli.trees.drawing import EveryTree, reads_right_to_left, tree_record
from probtrans_cli.trees.drawing.html import LONGEST_WITH_MARGINALS

MISC = {"LatentLabelEntropy": "latent_label_entropy", "HeadEntropy": "head_entropy"}
"""The entropies inside the network, by their names in MISC of CoNLL-U."""


@dataclass(frozen=True, kw_only=True)
class ParseOptions(PredictOptions):
    """What is wanted of sentences, from the command line to the predictor."""

    trees: bool = True
    """Without them, nothing is computed for them."""
    latent_labels: int | None = None
    """How many latent labels of each word; None: none."""
    top: int | None = None
    """How many alternatives of the task's predictions, where there are several."""
    abstain: float | None = None
    """Leave out tags and labels that are less probable."""
    samples: int | None = None
    """How many trees are drawn of each sentence; see :mod:`probtrans_cli.trained.several`."""
    best: int | None = None
    """How many of its most probable trees."""
    seed: int = 0
    """Of the draws; those of a sentence depend on it and on the words alone."""
    marginals: bool = False
    """Whether the probabilities of all heads are kept."""

    def __post_init__(self) -> None:
        for name, least in (("latent_labels", 1), ("top", 1), ("samples", 1), ("best", 1), ("seed", 0)):
            number = getattr(self, name)
            if number is not None and number < least:
                raise UsageError(f"{name} {number}: is out of range", hint=f"give {least} or more")


class Word(str):
    """A word with what is said of it, as far as it is: ``head`` (0 = the root), ``relation``, ``upos``, ``xpos``,
    ``feats`` or ``tag``, and their probabilities, ``head_probability`` and so on."""

    __slots__ = ("__dict__",)

    def __new__(cls, text: str, says: Mapping[str, Any] = MappingProxyType({})) -> Self:
        word = super().__new__(cls, text)
        word.__dict__.update(says)
        return word

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


_SAID_OF_WORDS = ("head", "relation", "upos", "xpos", "feats", "tag")  # what the names of their entries begin with
_OF_A_WORD = {"heads": "head", "relations": "relation", "tags": "tag"}


@dataclass(frozen=True)
class Analysis:
    """What a model says of a sentence.

    ``heads`` [n] (0 = root, 1..n) and ``probabilities`` [n] of these arcs, NaN where not known, as ``reading`` says;
    None without trees. ``deviations`` [n]: the standard deviations of the probabilities over draws of the weights,
    where these are drawn. ``prediction``: of the task, by the names that a line of JSON has; None where it is not
    wanted, or where there is no word. ``latent_labels``: the numbers [n, k] of each word's most probable ones and their
    probabilities [n, k], where wanted. ``samples``: trees that were drawn; ``best``: the most probable ones;
    ``marginals`` [n, n + 1]: the probability of every head of every word, the root first, NaN where not known; where
    wanted, without a row where the sentence is not read. ``number``: of one tree among several, from 1, with its
    logarithmic probability.
    """

    sentence: Sentence
    heads: np.ndarray | None = None
    probabilities: np.ndarray | None = None
    reading: Reading | None = None
    prediction: Prediction | None = None
    latent_labels: tuple[np.ndarray, np.ndarray] | None = None
    deviations: np.ndarray | None = None
    samples: tuple[Tree, ...] | None = None
    best: tuple[Tree, ...] | None = None
    marginals: np.ndarray | None = None
    number: tuple[int, float] | None = None
    task: Task | None = field(default=None, repr=False, compare=False)

    @property
    def words(self) -> list[Word]:
        """Return the words, each with what is said of it."""
        prediction = self.prediction or {}
        says = {_OF_A_WORD.get(key, key): prediction[key] for key in prediction if key.startswith(_SAID_OF_WORDS)}
        if self.heads is not None and self.probabilities is not None:
            says |= {"head": self.heads.tolist(), "head_probability": self.probabilities.tolist()}
        rows = zip(*says.values(), strict=True) if says else repeat(())
        return [Word(word, dict(zip(says, row, strict=True))) for word, row in zip(self.sentence.words, rows)]  # noqa: B905

    def __repr__(self) -> str:
        prediction = self.prediction or {}
        tree = "no tree" if self.heads is None and "heads" not in prediction else "a tree"
        if self.reading is not None:
            tree = f"tree by {method_for(len(self.sentence.words), self.reading.decoder)}"
        says = "".join(f", {name}" for name in prediction)
        text, count = " ".join(self.sentence.words), len(self.sentence.words)
        return f"Analysis({text if len(text) <= 60 else text[:59] + '…'!r}, {count} words, {tree}{says})"

    def _repr_html_(self) -> str:
        write = resolve_name(FORMATS["svg"].write)
        picture = "".join(write(iter([self]), DisplayOptions(probability=True)))
        return picture[picture.index("<svg") :]

    def places(self, *, probability: bool) -> Places:
        """Return where the prediction stands in formats other than JSON; ``probability``: with the probabilities."""
        if why := self.sentence.unread:
            return Places(title=f"not read: {why}", comments={"unread": why})
        places, prediction = Places(), self.prediction or {}
        if self.task is not None and self.prediction is not None:
            places = self.task.places(self.prediction, probability=probability)
        if self.number is not None:
            several = {"tree": f"{self.number[0]}", "log_prob": f"{rounded(self.number[1]):.6f}"}
            titles = [*(f"{name} {value}" for name, value in several.items()), *filter(None, [places.title])]
            places = replace(places, title=", ".join(titles), comments={**places.comments, **several})
        misc = {name: [f"{value:.4f}" for value in prediction[key]] for name, key in MISC.items() if key in prediction}
        return replace(places, misc={**places.misc, **misc}) if misc else places

    def one_by_one(self) -> Iterator[Analysis]:
        """Yield an analysis for each of several trees, or this one where there are none."""
        trees = self.best if self.samples is None else self.samples
        if not trees:
            yield self
        for number, tree in enumerate(trees or (), start=1):
            yield replace(
                self,
                heads=tree.heads,
                probabilities=tree.probabilities,
                prediction=None if self.prediction is None else {**self.prediction, **tree.prediction},
                deviations=None,
                samples=None,
                best=None,
                number=(number, tree.log_probability),
            )

    def record(self) -> dict[str, Any]:
        """Return all of it as `parse -f jsonl` writes it: numbers, texts, lists and mappings."""
        record: dict[str, Any] = {"words": list(self.sentence.words)}
        task, prediction = self.task, dict(self.prediction or {})
        if task is not None:
            prediction = {key: value for key, value in prediction.items() if key not in task.answers.not_in_json}
        if self.heads is not None and self.reading is not None:
            record = tree_record(
                self.sentence.words, self.heads, self.probabilities,
                channel=self.reading.channel, iteration=self.reading.iteration,
                decode=method_for(len(self.sentence.words), self.reading.decoder), deviations=self.deviations,
            )  # fmt: skip
        if self.latent_labels is not None:
            record["latent_labels"] = [
                [{"label": int(label), "probability": round(float(p), 6)} for label, p in zip(*of_word, strict=True)]
                for of_word in zip(*self.latent_labels, strict=True)
            ]
        if task is not None and task.answers.with_text:
            id_ = {} if self.sentence.id is None else {"id": self.sentence.id}
            record = {**id_, "text": character_spans(self.sentence)[0], **record}
        if self.sentence.place is not None:
            record |= dict(zip(("line", "start"), self.sentence.place, strict=True))
        if self.sentence.unread:
            record["unread"] = self.sentence.unread
        if self.marginals is not None:
            record["marginals"] = rounded(self.marginals.tolist())
        for name, trees in (("samples", self.samples), ("best", self.best)):
            if trees is not None:
                record[name] = [tree.record() for tree in trees]
        return record | {key: rounded(value) for key, value in prediction.items()}


class Parser:
    """A model with all that :class:`ParseOptions` ask of it.

    ``answers`` and ``left_out`` count predictions, and those that :attr:`ParseOptions.abstain` has left out.
    """

    def __init__(
        self,
        model: ModelBase,
        options: ParseOptions = ParseOptions(),
        *,
        predictor: Predictor | None = None,
        splitter: Splitter | None = None,
        readings: Sequence[Reading] | None = None,
    ) -> None:
        """Refuse, with a UsageError, what the model cannot answer."""
        self.model, self.options, self.splitter = model, options, splitter
        self.answers = self.left_out = 0
        kind = model.recipe.task.kind
        if options.top is not None and options.latent_labels is None and not model.task.answers.alternatives:
            raise UsageError(f"--top: a task of kind {kind} gives no alternatives", hint="leave it out")
        if options.trees and not (model.recipe.model.facts.has_arcs or model.task.answers.trees):
            message = f"a model of kind {model.recipe.model.kind} tells no heads of words: it has no trees"
            raise UsageError(message, hint="add --trees no")
        if options.latent_labels is not None:
            require_labels(model)
        if options.abstain is not None and not model.task.answers.abstains:
            raise UsageError(f"--abstain: a task of kind {kind} leaves no answers out", hint="leave it out")
        self.predictor = predictor or predictor_of(model, options)
        if readings is None:
            channels: Sequence[str | int | None] = [options.channel]
            if options.channel == "all":
                channels = range(model.recipe.model.trees)
            # A parser's trees are its predictions, unless its encoder's are asked for.
            chosen = (options.channel, options.iteration, options.decoder) != (None, None, None)
            if not options.trees or (model.task.answers.trees and not chosen):
                channels = ()
            readings = [model.read(channel, options.iteration, options.decoder) for channel in channels]
        several = options.samples is not None or options.best is not None or options.marginals
        if options.best is not None and any(reading.decoder == "argmax" for reading in readings):
            message = "--best: heads that are chosen word by word (argmax) are no trees"
            raise UsageError(message, hint="add --decode mst, eisner or auto")
        last = model.recipe.model.iterations
        self.readings = readings
        self._numbered = [
            replace(reading, iteration=last) if reading.iteration == -1 else reading for reading in readings
        ]
        self._batch_options = BatchOptions(
            predict=splitter is None, top=options.top, predictor=self.predictor, member_arcs=bool(readings),
            latent_labels=options.latent_labels is not None, trees=several,
        )  # fmt: skip

    @property
    def arcs_are_calibrated(self) -> bool:
        """Whether the heads of every reading have a temperature, which comes from gold trees of dev."""
        if not self.readings:
            return not (self.options.trees and self.model.task.answers.trees) or self.model.arc_temperature is not None
        return all(self.model.arc_temperature_of(reading) is not None for reading in self.readings)

    def analyses(self, sentences: Sequence[Sentence]) -> Iterator[Analysis]:
        """Yield what the model says of some sentences, in order; of each once for every reading, or once if there is
        none. Of those that are not read (:attr:`Sentence.unread`), it says nothing."""
        for unread, group in groupby(sentences, key=lambda sentence: bool(sentence.unread)):
            if unread:
                for sentence in group:
                    yield from self._without_words(sentence, self.readings)
            else:
                yield from self._analyses(list(group))

    def _analyses(self, sentences: Sequence[Sentence]) -> Iterator[Analysis]:
        model, count = self.model, self.options.latent_labels
        reader = Reader.of(model, sentences)
        if fault := model.too_long(sentences, reader.split):
            if fault[0]:
                yield from self._analyses(sentences[: fault[0]])
            raise fault[1]
        plain = [self._without_words(sentence, self._numbered) for sentence in sentences]
        parts: list[list[dict[str, Any]]] = [[{} for _ in analyses] for analyses in plain]
        for batch, trees in read_arcs(
            model, reader.split, self._numbered, replace(self._batch_options, shown=reader.shown)
        ):
            best = None if count is None else most_probable(batch.latent_labels, count)
            predictions = self._abstained(batch.predictions)
            for row, index in enumerate(batch.indices):
                sentence, real = sentences[index], batch.mask[row]
                changes: dict[str, Any] = {}
                if best is not None:
                    changes["latent_labels"] = best[0][row][real], best[1][row][real]
                if predictions and sentence.words:  # specials alone are no sentence
                    prediction = model.task.located(predictions[row], sentence)
                    changes |= {"prediction": prediction, "task": model.task}
                    if model.task.answers.trees and self.options.trees:
                        changes["heads"] = np.array(predictions[row]["heads"], dtype=np.int64)
                        changes["probabilities"] = np.array(predictions[row]["head_probability"])
                        changes |= self._several(None if self.readings else batch.trees, row, sentence, None)
                for part in parts[index]:
                    part.update(changes)
            for number, tree in enumerate(trees):
                probabilities, spread = tree.probabilities()
                for row, index in enumerate(batch.indices):
                    real = batch.mask[row]
                    read = True if batch.host is None else batch.host[row][real] < 0
                    parts[index][number].update(
                        heads=tree.heads[row][real],
                        probabilities=np.where(read, probabilities[row][real], np.nan),
                        deviations=None if spread is None else np.where(read, spread[row][real], np.nan),
                        **self._several(tree.trees, row, sentences[index], self._numbered[number]),
                    )
        of_splitter = self.splitter.predictions(sentences) if self.splitter else ()
        for prediction, of_sentence in zip(of_splitter, parts, strict=False):
            for part in of_sentence:
                part.update(prediction=prediction, task=model.task)
        for analyses, changed in zip(plain, parts, strict=True):
            yield from (replace(analysis, **part) for analysis, part in zip(analyses, changed, strict=True))

    def _several(self, trees: Trees | None, row: int, sentence: Sentence, reading: Reading | None) -> dict[str, Any]:
        if trees is None or not sentence.words:  # specials alone are no sentence
            return {}
        options, of_sentence = self.options, SentenceTrees(trees, row, len(sentence.words))
        changes: dict[str, Any] = {}
        if options.marginals:
            changes["marginals"] = np.roll(of_sentence.probabilities, 1, axis=1)  # the root first
        if options.samples is not None:
            which = () if reading is None else (reading.channel, reading.iteration)
            random = random_of(options.seed, sentence.words, *which)
            changes["samples"] = of_sentence.several(options.samples, random)
        if options.best is not None:
            changes["best"] = of_sentence.several(options.best)
        return changes

    def _abstained(self, predictions: Sequence[Prediction]) -> Sequence[Prediction]:
        if self.options.abstain is None:
            return predictions
        kept = []
        for prediction in predictions:
            answer, left_out = abstained(prediction, self.model.task.answers.abstains, self.options.abstain)
            self.answers, self.left_out = self.answers + len(left_out), self.left_out + sum(left_out)
            kept.append(answer)
        return kept

    def _without_words(self, sentence: Sentence, readings: Sequence[Reading]) -> list[Analysis]:
        # Stands for the analyses of a sentence without a word to read, or that is not read: this one has no tree.
        n, task = len(sentence.words), self.model.task
        no_labels = np.zeros((n, 0), dtype=np.int64), np.zeros((n, 0))
        nothing = task.answers.nothing if sentence.unread or not n else None
        if nothing is not None and self.splitter is not None:
            nothing = {"splits": [], **nothing}
        plain = Analysis(
            sentence,
            prediction=nothing,
            latent_labels=None if self.options.latent_labels is None else no_labels,
            samples=None if self.options.samples is None else (),
            best=None if self.options.best is None else (),
            marginals=np.full((0 if sentence.unread else n, n + 1), np.nan) if self.options.marginals else None,
            task=None if nothing is None else task,
        )
        has_trees = readings or (task.answers.trees and self.options.trees)
        if has_trees and not sentence.unread:
            plain = replace(plain, heads=chain_of(n), probabilities=np.full(n, np.nan))
        return [replace(plain, reading=reading) for reading in readings] if readings else [plain]

    def every_tree(
        self, sentences: Sequence[Sentence], *, gold: bool = False, strict: bool = False
    ) -> Iterator[EveryTree]:
        """Yield the trees of every iteration and channel and of the channels' mean, in order, with their marginals.

        The first reading names the decoder, and what a viewer sees first. ``gold``: with the sentences' own trees, if
        they have some; ``strict``: all must.
        """
        section = self.model.recipe.model
        for unread, group in groupby(sentences, key=lambda sentence: bool(sentence.unread)):
            if unread:
                for sentence in group:
                    shape = (section.iterations, section.trees + 1, len(sentence.words))
                    yield EveryTree(
                        words=tuple(sentence.words),
                        heads=np.broadcast_to(chain_of(len(sentence.words)), shape),
                        probabilities=np.full(shape, np.nan),
                        channel=self.readings[0].channel,
                        iteration=self.readings[0].iteration,
                        title=Analysis(sentence).places(probability=False).title,
                        right_to_left=reads_right_to_left(sentence.words),
                    )
            else:
                yield from self._every_tree(list(group), gold=gold, strict=strict)

    def _every_tree(self, sentences: Sequence[Sentence], *, gold: bool, strict: bool) -> Iterator[EveryTree]:
        model, section, first = self.model, self.model.recipe.model, self.readings[0]
        root = model.network.has_root_column
        channels: list[Channel] = [*range(section.trees), "mean"]
        iterations = range(1, section.iterations + 1)
        readings = [replace(first, channel=channel, iteration=t) for t in iterations for channel in channels]
        shape = (len(iterations), len(channels))
        reader = Reader.of(model, sentences)
        if fault := model.too_long(sentences, reader.split):
            raise fault[1]
        heads = {i: np.tile(chain_of(len(sentence.words)), (len(readings), 1)) for i, sentence in enumerate(sentences)}
        probabilities = {index: np.full(of_words.shape, np.nan) for index, of_words in heads.items()}
        deviations: dict[int, np.ndarray] = {}
        marginals: dict[int, np.ndarray] = {}  # of sentences that are short enough: they grow with the square
        predictions: dict[int, Prediction] = {}
        options = replace(self._batch_options, shown=reader.shown, trees=False, latent_labels=False)
        for batch, trees in read_arcs(model, reader.split, readings, options):
            n = batch.mask.shape[1]
            # None of sentences to be split.
            predictions |= dict(zip(batch.indices.tolist(), self._abstained(batch.predictions), strict=False))
            for number, tree in enumerate(trees):
                every_head = np.exp(tree.scores[:, :, : n + root])
                chosen, spread = tree.probabilities()
                for row, (index, real) in enumerate(zip(batch.indices, batch.mask, strict=True)):
                    heads[index][number] = tree.heads[row][real]
                    probabilities[index][number] = chosen[row][real]
                    if spread is not None:
                        of_index = deviations.setdefault(index, np.full(heads[index].shape, np.nan))
                        of_index[number] = spread[row][real]
                    if real.sum() <= LONGEST_WITH_MARGINALS:
                        of_words = every_head[row][real][:, np.pad(real, (0, root), constant_values=True)]
                        kept = marginals.setdefault(index, np.zeros((len(readings), *of_words.shape), dtype=np.float32))
                        kept[number] = of_words
        predictions |= dict(enumerate(self.splitter.predictions(sentences) if self.splitter else ()))
        for index, sentence in enumerate(sentences):
            if gold and strict:
                gold_heads(sentence)
            of_pairs, n = marginals.get(index), len(sentence.words)
            places = Places()
            if n and index in predictions:
                places = model.task.places(model.task.located(predictions[index], sentence), probability=True)
            notes = places.notes_of(n)
            if model.task.answers.trees and places.arcs:
                # Arcs that are drawn are those of the encoder: those of the task are notes, in words.
                for_words = []
                for arc, others in zip(places.arcs, notes or ((),) * n, strict=True):
                    relation = f"{arc.relation} of {sentence.words[arc.head - 1]}" if arc.head else arc.relation
                    for_words.append((with_probability(relation, arc.probability), *others))
                notes = tuple(for_words)
            yield EveryTree(
                words=tuple(sentence.words),
                heads=heads[index].reshape(*shape, n),
                probabilities=probabilities[index].reshape(*shape, n),
                deviations=deviations[index].reshape(*shape, n) if index in deviations else None,
                marginals=None if of_pairs is None else of_pairs.reshape(*shape, *of_pairs.shape[1:]),
                gold=tuple(sentence.heads) if gold and sentence.heads is not None else None,
                channel=first.channel,
                iteration=first.iteration,
                title=places.title,
                notes=notes,
                spans=tuple(places.spans),
                right_to_left=reads_right_to_left(sentence.words),
            )


def predictions(
    model: ModelBase, sentences: Sequence[Sentence], predictor: Predictor | None = None
) -> Iterator[Prediction | None]:
    """Yield the predictions of some sentences, in order; for one without a word None, or what the task has for it.

    ``predictor``: None: the model as its recipe says.
    """
    parser = Parser(model, ParseOptions(trees=False), predictor=predictor)
    return (analysis.prediction for analysis in parser.analyses(sentences))


def splitter_of(
    model: ModelBase, coordination: str | None, *, rescore: bool, threads: int | None, refused: Mapping[str, object]
) -> Splitter | None:
    """Load the model of `--coordination`, to stand in front of a model of tuples; None where none is named."""
    if coordination is None:
        if rescore:
            raise UsageError("--rescore is about tuples of split sentences", hint="add --coordination CKPT")
        return None
    if option := next((name for name, value in refused.items() if value), None):
        raise UsageError(f"--coordination does not go with {option}", hint="leave one of them out")
    splitting = type(model).load(coordination, threads=threads)
    return splitter_by(splitting, model, rescore=rescore)


def splitter_by(splitting: ModelBase, model: ModelBase, *, rescore: bool) -> Splitter:
    """Let the model ``splitting`` split sentences in front of ``model``."""
    kind = splitting.recipe.task.kind
    splitter = TASKS[kind].load("splitter")
    if splitter is None:
        raise UsageError(f"--coordination: a model of kind {kind} finds no coordinations", hint="name another run")
    if model.task.answers.kind != "tuples":
        message = f"--coordination: a model of kind {model.recipe.task.kind} finds no tuples to merge"
        raise UsageError(message, hint="leave it out")
    return splitter(splitting, model, rescore)  # type: ignore[no-any-return]


def gold_heads(sentence: Sentence) -> list[int]:
    """Return the heads that the input gives."""
    if sentence.heads is not None:
        return sentence.heads
    if (word := sentence.missing_head) is not None:
        raise DataError(f"{word}: a word without HEAD: its sentence has no gold tree", hint="leave out --gold")
    raise DataError(f"{sentence.where}: has no gold tree", hint="leave out --gold")
