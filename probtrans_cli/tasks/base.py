"""What a task is: it asks a network about a batch, and makes of the answers a loss, scores and predictions.

batch   = model.collate(split, indices)                by tasks/batch.py, with the gold columns of task.columns
batch   = task.training(batch)                         or task.evaluation(batch, number): what is hidden, what dropped
outputs = network(batch, task.wants(batch))
task.terms(outputs, batch)                             sums for the loss, each to be divided by its own count
task.measure(outputs, batch)                           counts that add up, of which task.scores makes scores
task.predict(outputs, batch)                           one prediction a sentence
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence as RawSentence
from probtrans_cli.data.sentence import character_spans
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder, Features, Outputs, Readout, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import LinearOutput, OutputLayer
from probtrans_cli.recipe.task import TaskSection
from probtrans_cli.tasks.batch import UNLEARNED, Batch, collate
from probtrans_cli.trees.best import Trees
from probtrans_cli.trees.drawing import Arc, Span, probability_text

Prediction = Mapping[str, Any]
"""What a task says of one sentence, by the names that a line of JSON gives it; numbers, texts, lists and mappings."""


class Splitter(Protocol):
    """A model of coordinations in front of a model of tuples."""

    model: Any
    """The model of coordinations."""

    def predictions(self, sentences: Sequence[RawSentence]) -> list[Prediction]:
        """Return the predictions of sentences that are split before."""

    def scores(self, corpus: Split) -> dict[str, Any]:
        """Return the scores of a corpus whose sentences are split before."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where a prediction stands in formats that have a place for it. What is empty has none.

    ``columns``: of CoNLL-U, by name (``upos``, ``xpos``, ``feats``), a value a word. ``misc``: entries of MISC by name,
    a value a word, "" where there is none. ``comments``: of the sentence, one or a list by name. ``notes``: for every
    word the lines below it in a picture; words behind the last of them have none. ``spans``: bars below words.
    ``title``: above the sentence. ``lines``: below it in plain text. ``arcs``: of its tree in a picture.
    """

    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    misc: Mapping[str, Sequence[str]] = field(default_factory=dict)
    comments: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    notes: Sequence[Sequence[str]] = ()
    spans: Sequence[Span] = ()
    title: str = ""
    lines: Sequence[str] = ()
    arcs: Sequence[Arc] = ()

    def notes_of(self, words: int) -> tuple[tuple[str, ...], ...]:
        notes = [tuple(texts) for texts in self.notes]
        return (*notes, *[()] * (words - len(notes))) if any(notes) else ()


@dataclass(frozen=True)
class Term:
    """A part of the loss of a batch: ``sum`` over ``count`` things. The loss of an update adds up ``weight`` times the
    mean of each term over all of its batches."""

    sum: Tensor
    count: Tensor
    weight: float = 1.0


class Counts(dict[Any, float]):
    """Numbers that add up: over batches, files and processes. One that was never counted is 0. Keys are texts, numbers,
    None, or tuples of such: processes tell them to each other as JSON."""

    def __missing__(self, key: Hashable) -> float:
        return 0.0

    def add(self, counts: Mapping[Any, float]) -> None:
        for key, value in counts.items():
            self[key] = self[key] + value

    def mean(self, total: Hashable, number: Hashable) -> float | None:
        return self[total] / self[number] if self[number] else None


class Evaluation(NamedTuple):
    """How an evaluation runs: the plan of its batches, the device, and the context of the forward pass."""

    batches: Callable[[Split], Sequence[np.ndarray]]
    device: torch.device
    autocast: Callable[[], torch.autocast]
    wants: Callable[[Wants], Wants] = lambda wants: wants
    """Adds to what the task wants of a batch."""


@dataclass(frozen=True)
class OutputRows:
    """What a part of an output layer gives, in words that are the same where two layers fit, and its rows' names."""

    gives: str
    names: tuple[str, ...] | None = None  # none: the rows are the entries of the vocabulary
    named: bool = True  # false: nobody has named them, and they are called LABEL_0, LABEL_1, ...
    fault: str | None = None  # why no row can be taken from it
    labels: tuple[str, ...] = ()  # what is scored, where rows are something else
    chosen: tuple[str, ...] = ()  # tensors of the part that the recipe sets, whatever another model has


class Questions(NamedTuple):
    """What is asked in a batch that has one right answer each: words, or sentences.

    ``scores``: the name of their scores. ``gold [m]``: the right answers, -1 where train lacks them. ``rows [m]``: the
    sentences of the batch that they belong to.
    """

    scores: str
    gold: Int[Tensor, " m"]
    rows: Int[Tensor, " m"]


class Choices(NamedTuple):
    """Choices that a task makes beside its question, or without one: of heads, relations, tags.

    ``scores [m, k]``: log-probabilities of the options, up to a constant for each choice; -inf: no option. ``gold
    [m]``: the right ones, -1 where it is none of them. ``chosen [m]``: what is answered, -1 where its probability is
    not known. ``rows [m]``: the sentences of the batch that they belong to.
    """

    scores: Float[Tensor, "m k"]
    gold: Int[Tensor, " m"]
    chosen: Int[Tensor, " m"]
    rows: Int[Tensor, " m"]


OUTPUT = "output"  # the part of a network that is an output layer with one kind of rows


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a task predicts, and how its predictions are written."""

    kind: str  # what it predicts, in a word: `words`, `tags`, `class`, ...: exports choose by it
    scores: str = "words"  # the network's name of the scores that the predictions are read from
    spans: Mapping[str, Callable[..., Mapping[str, Any]]] = field(default_factory=dict)
    """Which parts of a prediction are lists of records that stand at some words; and what adds their text to each:
    ``spans[part](record, text, characters)``, see :func:`probtrans_cli.data.sentence.character_spans`."""
    gives: tuple[str, ...] = ()
    """Parts of a prediction that some output formats are made for; see :mod:`probtrans_cli.trained.formats`."""
    not_in_json: tuple[str, ...] = ()  # parts of a prediction that only other formats have a place for
    trees: Callable[[Outputs, Batch], Trees] | None = None
    """Returns the distributions over trees, of a task that predicts trees: none are read from the arcs of the encoder
    then."""
    choices: Callable[[Outputs, Batch], Mapping[str, Choices]] | None = None
    """Returns the choices that it makes beside :meth:`Task.questions` in a batch of :meth:`Task.evaluation`, by the
    names that predictions have."""
    alternatives: bool = True  # whether it can have alternatives that are less probable
    alternatives_in: tuple[str, ...] = ()  # the output formats that show them beside JSON lines
    abstains: Mapping[str, str] = field(default_factory=dict)
    """The answers that are left out where they are not probable enough, each with the part of a prediction that has
    its probability; see :func:`abstained`."""
    scored_apart: str = ""
    """How it is written and scored, where no format of data holds it beside gold; empty: one does."""
    with_text: bool = False  # whether JSON has the text of the sentence, too
    tells_speed: bool = False  # whether `eval` tells how many sentences a second it scores
    draws: int | None = None
    """How many draws of masks an evaluation whose figures are reported goes over; None: nothing is masked."""
    readout: Readout | None = None
    """How a word is represented that has not been read yet, if such words are predicted."""
    nothing: Prediction | None = None
    """The prediction of a sentence without a word; None: there is none."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """What decides it beside the scores and their labels, as data: exports carry it."""


class Task(ABC):
    """One task, made of its section of the recipe, the vocabulary and the labels of the training file."""

    answers: Answers
    """What it predicts: of the class, or of a task whose labels decide about it."""
    outputs: int
    """The size of the output layer."""
    output_rows: Mapping[str, OutputRows] = MappingProxyType({})
    """What the rows of the output layer stand for, by its parts, once it is made; empty: they fit no other model's."""
    word_dropout: float = 0.0
    """How many words are dropped in training; see :func:`without_some_words`."""
    columns: Mapping[str, int] = MappingProxyType({})
    """The gold columns that it reads, each with the number that stands behind a sentence's end."""

    def __init__(self, section: TaskSection, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        del labels
        self.section, self.vocabulary = section, vocabulary

    # --- the network --------------------------------------------------------------------------------------------------

    def output(self, encoder: Encoder) -> OutputLayer:
        """Make the output layer, from words' states to scores, and say in :attr:`output_rows` what its rows stand for,
        where they may fit another model's. Here: one linear layer."""
        return LinearOutput(encoder.facts.width, self.outputs)

    def start(self, network: Network, split: Split) -> None:
        """Set what fresh weights take from the training corpus before the first update; most tasks take nothing."""
        del network, split

    # --- batches ------------------------------------------------------------------------------------------------------

    def training(self, batch: Batch) -> Batch:
        """Return the batch as training shows it, by default with some words dropped; random choices come from torch's
        default CPU generator."""
        return without_some_words(batch, self.word_dropout, self.vocabulary)

    def evaluation(self, batch: Batch, number: int) -> Batch:
        """Return the batch as a pass of an evaluation shows it: a function of the corpus and the pass alone."""
        return replace(batch, number=number)

    def wants(self, batch: Batch) -> Wants:
        """Return what the network is to compute: scores of the words that are scored, or of sentences."""
        if self.answers.scores == "sentence":
            return Wants(sentence=True)
        return Wants(words=batch.words if batch.scored is None else batch.scored)

    # --- the loss -----------------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        """Return the number of things that each term of the loss is summed over, the most important term first; by
        default the words, or the sentences.

        It is known without the network, so that an update can divide by the number in all its batches.
        """
        return {"loss": batch.sentences if self.answers.scores == "sentence" else batch.words.sum()}

    @abstractmethod
    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the terms of the training loss, by the names of :meth:`counts`."""

    # --- scores -------------------------------------------------------------------------------------------------------

    def questions(self, batch: Batch) -> Questions | None:
        """Return what is asked in a batch of :meth:`evaluation`, in the order of the scores; None where an answer is
        more than one choice among classes."""
        del batch
        return None

    @abstractmethod
    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Return the counts that the scores are made of."""

    @abstractmethod
    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """Return the scores of all that was counted, ``loss`` among them; None where there is nothing to compute it
        from. ``final``: for figures that are reported, as against those that choose between checkpoints."""

    # --- predictions --------------------------------------------------------------------------------------------------

    @abstractmethod
    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """Return a prediction for each sentence, in order; the batch is one of :meth:`evaluation`, or plain.

        ``top``: with so many alternatives, the best first, where there are several.
        """

    def located(self, prediction: Prediction, sentence: RawSentence) -> Prediction:
        """Add to a prediction the text of its spans and where in the sentence's text they stand."""
        if not self.answers.spans:
            return prediction
        text, characters = character_spans(sentence)
        with_text = {
            part: [add_text(record, text, characters) for record in prediction[part]]
            for part, add_text in self.answers.spans.items()
        }
        return {**prediction, **with_text}

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return where a prediction stands in formats other than JSON; ``probability``: with the probabilities of
        words."""
        del prediction, probability
        return Places()


def scored(task: Task, split: Split, how: Evaluation) -> Iterator[int]:
    """Yield for each batch of a split how many things its loss is summed over: words, sentences or hidden words."""
    for indices in how.batches(split):
        batch = collate(split, indices, task.columns, padding=task.vocabulary.PAD, device=how.device)
        yield int(next(iter(task.counts(task.evaluation(batch, 0)).values())))


def without_some_words(batch: Batch, alpha: float, vocabulary: Vocabulary) -> Batch:
    """Drop words: one of frequency f is shown as unknown, all of its tokens, at the rate ``alpha / (alpha + f)``."""
    frequency, ids = batch.frequency.clamp(min=0), batch.ids
    if alpha == 0.0 or not frequency.shape[1]:
        return batch
    drop = torch.rand(frequency.shape).to(ids.device) * (alpha + frequency) < alpha
    if batch.first is not None:
        pieces = torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1).contiguous()
        # What stands before the first word belongs to none, and like all specials it is never dropped.
        drop = drop.gather(1, (torch.searchsorted(batch.first, pieces, right=True) - 1).clamp(min=0))
    special = torch.isin(ids, torch.tensor(vocabulary.specials).to(ids.device, non_blocking=True))
    return replace(batch, ids=ids.masked_fill(drop & ~special, vocabulary.UNKNOWN))


def by_sentence(values: Sequence[Any], batch: Batch) -> Iterator[Sequence[Any]]:
    """Cut the values of all words of a batch, in row-major order, into those of each sentence."""
    start = 0
    for number in batch.words.sum(1).tolist():
        yield values[start : start + number]
        start += number


def records_by_sentence(columns: Mapping[str, Sequence[Any]], batch: Batch) -> list[Prediction]:
    """Return a record for each sentence, with the values of its words in every column."""
    of_sentences = zip(*(by_sentence(values, batch) for values in columns.values()), strict=True)
    return [{name: list(values) for name, values in zip(columns, row, strict=True)} for row in of_sentences]


def entry_features(vocabulary: Vocabulary) -> Features | None:
    """Return the features of the vocabulary's own entries, as they are spelled there; the specials have none."""
    if vocabulary.features is None:
        return None
    hashed, specials = vocabulary.features, set(vocabulary.specials)
    ids = range(vocabulary.size)
    of_entries = [[] if id in specials else hashed.rows(vocabulary.decode(id)) for id in ids]
    widths = np.array([len(rows) for rows in of_entries])
    rows = np.fromiter(chain.from_iterable(of_entries), dtype=np.int64)
    return Features(torch.from_numpy(rows), torch.from_numpy(np.cumsum(widths) - widths))


DOUBT = ("entropy", "expected_entropy", "mutual_information")
"""The parts of the doubt about an answer; the last two only where a model has members that can disagree."""
ABSTAINED = "_"  # stands for an answer that is not probable enough
UNSEEN = "(not in training)"  # stands for all labels that the training file does not have


def abstained(prediction: Prediction, probabilities: Mapping[str, str], least: float) -> tuple[Prediction, list[bool]]:
    """Return a prediction with `_` for every answer that is less probable than ``least``, and without entities that
    have such an answer; and for each answer whether it is one of them.

    Args:
        probabilities: of its answers, see :attr:`Answers.abstains`.
    """
    rest, left_out = dict(prediction), list[bool]()
    for name, of_probability in probabilities.items():
        answer, chance = prediction[name], prediction[of_probability]
        if isinstance(answer, str):  # of the sentence
            left_out.append(chance < least)
            rest[name] = ABSTAINED if chance < least else answer
            continue
        out = [of_word < least for of_word in chance]
        left_out += out
        rest[name] = [ABSTAINED if is_out else of_word for of_word, is_out in zip(answer, out, strict=True)]
        if "entities" in prediction:
            rest["entities"] = [span for span in prediction["entities"] if not any(out[slice(*span["words"])])]
    return rest, left_out


def doubt_of(outputs: Outputs, name: str, prefix: str = "") -> dict[str, list[float]]:
    """Return the parts of the doubt about some answers, as JSON has them; nothing where it was not asked for."""
    doubt = outputs.doubt.get(name)
    return {} if doubt is None else {prefix + part: getattr(doubt, part).tolist() for part in DOUBT}


def without_members(value: Any) -> Any:
    """Leave out the parts of the doubt that only models with members have."""
    if isinstance(value, Mapping):
        return {key: without_members(item) for key, item in value.items() if not str(key).endswith(DOUBT[1:])}
    return [without_members(item) for item in value] if isinstance(value, list) else value


def alternatives(
    probabilities: Float[Tensor, "m o"], names: Sequence[str], top: int, key: str
) -> list[list[dict[str, Any]]]:
    """Return the ``top`` most probable names of every row, the best first, as JSON has them; ``key``: of a name."""
    best, ids = probabilities.topk(min(top, probabilities.shape[-1]), dim=-1)
    return [
        [{key: names[id], "probability": chance} for id, chance in zip(of_row, chances, strict=True)]
        for of_row, chances in zip(ids.tolist(), best.tolist(), strict=True)
    ]


def with_probability(name: str, probability: float | None) -> str:
    """Return a name as it stands in a picture, with its probability where that is shown."""
    return name if probability is None else f"{name} {probability_text(probability)}"


def doubt_comment(entropy: Sequence[float], information: Sequence[float] | None) -> dict[str, str]:
    """Return the comment of a sentence: the mean entropy, and the mean mutual information where there is one."""
    means = [sum(values) / len(values) for values in (entropy, information) if values]
    return {"uncertainty": " ".join(f"{value:.4f}" for value in means)} if means else {}


def confusions(
    gold: Int[Tensor, " m"], predicted: Int[Tensor, " m"], names: Sequence[str]
) -> dict[tuple[str, str, str], float]:
    """Count how often each label was predicted where another one, or the same, is right."""
    pairs, numbers = torch.unique(torch.stack([gold, predicted]), dim=1, return_counts=True)
    return {
        ("confusion", UNSEEN if right == UNLEARNED else names[right], names[best]): float(number)
        for right, best, number in zip(*pairs.tolist(), numbers.tolist(), strict=True)
    }


def confusion_table(counts: Mapping[Any, float]) -> dict[str, dict[str, int]]:
    """Return ``{gold: {predicted: number}}``, both in the order of their names."""
    table: dict[str, dict[str, int]] = {}
    for key in sorted(key for key in counts if isinstance(key, tuple) and key[0] == "confusion"):
        _, gold, predicted = key
        table.setdefault(gold, {})[predicted] = int(counts[key])
    return table
