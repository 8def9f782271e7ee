"""What a model says of sentences: the trees that it sees in them, and the predictions of its task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from probtrans_cli.data.sentence import Sentence, character_spans
from probtrans_cli.errors import DataError
from probtrans_cli.tasks.base import Places, Prediction, Splitter, Task
from probtrans_cli.trained.abstention import Abstention
from probtrans_cli.trained.arcs import Channel, Reading, chain_of, read_arcs
from probtrans_cli.trained.inner import with_inner_places
from probtrans_cli.trained.latent_labels import as_records, most_probable
from probtrans_cli.trained.predictions import Reader
from probtrans_cli.trees.drawing.drawing import EveryTree, arc_probabilities, reads_right_to_left
from probtrans_cli.trees.drawing.html import LONGEST_WITH_MARGINALS
from probtrans_cli.trees.drawing.records import rounded, tree_record

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model
    from probtrans_cli.trained.predictor import Predictor


@dataclass(frozen=True)
class Asked:
    """What is asked of a model: a tree for each of the ``readings``; ``latent_labels``: how many a word, None = none;
    ``predictions``: of its task, with ``top`` alternatives; ``predictor``: who is asked for them, None = the model as
    its recipe says; ``abstention``: which of them are left out; ``splitter``: sentences are split before tuples are
    found in them."""

    readings: Sequence[Reading]
    latent_labels: int | None = None
    predictions: bool = True
    top: int | None = None
    predictor: Predictor | None = None
    abstention: Abstention | None = None
    splitter: Splitter | None = None

    @property
    def more(self) -> dict[str, Any]:
        """What :func:`probtrans_cli.trained.arcs.word_batches` is asked beside trees and latent labels."""
        return {
            "predict": self.predictions and self.splitter is None,
            "top": self.top,
            "predictor": self.predictor,
            "abstention": self.abstention,
        }


@dataclass(frozen=True)
class Analysis:
    """What a model says of a sentence.

    ``heads`` [n] (0 = root, 1..n) and ``probabilities`` [n] of these arcs, NaN where not known, as ``reading`` says;
    None where no tree was asked for. ``deviations`` [n]: the standard deviations of the probabilities over draws of the
    weights, where these are drawn. ``prediction``: of the task, by the names that a line of JSON has; None where it
    was not asked for, or where there is no word. ``latent_labels``: the numbers [n, k] of each word's most probable
    ones and their probabilities [n, k], where asked for.
    """

    sentence: Sentence
    heads: np.ndarray | None = None
    probabilities: np.ndarray | None = None
    reading: Reading | None = None
    prediction: Prediction | None = None
    latent_labels: tuple[np.ndarray, np.ndarray] | None = None
    deviations: np.ndarray | None = None
    task: Task | None = field(default=None, repr=False, compare=False)

    @property
    def words(self) -> list[str]:
        """The words of the sentence."""
        return self.sentence.words

    def places(self, *, probability: bool) -> Places:
        """Where its prediction stands in formats other than JSON; ``probability``: with the probabilities."""
        if why := self.sentence.unread:
            return Places(title=f"not read: {why}", comments={"unread": why})
        if self.task is None or self.prediction is None:
            return Places()
        return with_inner_places(self.task.places(self.prediction, probability=probability), self.prediction)

    def record(self) -> dict[str, Any]:
        """All of it as `parse -f jsonl` writes it: numbers, texts, lists and mappings."""
        found: dict[str, Any] = {"words": list(self.words)}
        task, said = self.task, dict(self.prediction or {})
        if task is not None:
            said = {key: value for key, value in said.items() if key not in task.not_in_json}
        if self.heads is not None and self.reading is not None:
            found = tree_record(
                self.words, self.heads, self.probabilities,
                channel=self.reading.channel, iteration=self.reading.iteration, decode=self.reading.decoder,
                deviations=self.deviations,
            )  # fmt: skip
        if self.latent_labels is not None:
            found["latent_labels"] = as_records(*self.latent_labels)
        if task is not None and task.with_text:
            named = {} if self.sentence.id is None else {"id": self.sentence.id}
            found = {**named, "text": character_spans(self.sentence)[0], **found}
        if self.sentence.unread:
            found["unread"] = self.sentence.unread
        return found | {key: rounded(value) for key, value in said.items()}


def analyses(model: Model, sentences: Sequence[Sentence], asked: Asked) -> Iterator[Analysis]:
    """What a model says of some sentences, in order; of each sentence once for every reading, or once if there is none.
    Of those that are not read (:attr:`Sentence.unread`), it says nothing.

    Raises:
        DataError: after those before it: a sentence has more tokens than the encoder has positions.
    """
    for unread, some in groupby(sentences, key=lambda one: bool(one.unread)):
        if unread:
            yield from (one for sentence in some for one in _not_read(sentence, asked, model.task))
        else:
            yield from _analyses(model, list(some), asked)


def _analyses(model: Model, sentences: Sequence[Sentence], asked: Asked) -> Iterator[Analysis]:
    """The same of sentences that are read."""
    reader = Reader.of(model, sentences)
    if fault := model.too_long(sentences, reader.split):
        if fault[0]:
            yield from _analyses(model, sentences[: fault[0]], asked)
        raise fault[1]
    last = model.recipe.model.iterations
    readings = [replace(one, iteration=last if one.iteration == -1 else one.iteration) for one in asked.readings]
    found = [_not_read(sentence, replace(asked, readings=readings), model.task) for sentence in sentences]
    labels = asked.latent_labels is not None
    for batch, trees in read_arcs(
        model, reader.split, readings, shown=reader.shown, latent_labels=labels, member_arcs=True, **asked.more
    ):
        best = None if asked.latent_labels is None else most_probable(batch.latent_labels, asked.latent_labels)
        for row, index in enumerate(batch.indices):
            real = batch.mask[row]
            said: dict[str, Any] = {}
            if best is not None:
                said["latent_labels"] = best[0][row][real], best[1][row][real]
            if batch.predictions and sentences[index].words:  # specials alone are no sentence
                said |= {"prediction": reader.located(batch.predictions[row], index), "task": model.task}
            found[index] = [replace(one, **said) for one in found[index]]
        for number, tree in enumerate(trees):
            known = tree.probabilities(root=model.has_root_column)
            spread = tree.deviations(root=model.has_root_column)
            for row, index in enumerate(batch.indices):
                real = batch.mask[row]
                read = True if batch.host is None else batch.host[row][real] < 0
                found[index][number] = replace(
                    found[index][number],
                    heads=tree.heads[row][real],
                    probabilities=np.where(read, known[row][real], np.nan),
                    deviations=None if spread is None else np.where(read, spread[row][real], np.nan),
                )
    for index, one in split_before(sentences, asked).items():
        found[index] = [replace(each, prediction=one, task=model.task) for each in found[index]]
    for of_sentence in found:
        yield from of_sentence


def split_before(sentences: Sequence[Sentence], asked: Asked) -> dict[int, Prediction]:
    """The predictions of sentences that are split before, by their numbers; none where no splitter is asked for."""
    if asked.splitter is None:
        return {}
    return dict(enumerate(asked.splitter.predictions(sentences)))


def _not_read(sentence: Sentence, asked: Asked, task: Task) -> list[Analysis]:
    """What stands for the analyses of a sentence without a word to read, or that is not read: this one has no tree."""
    n = len(sentence.words)
    none = None if asked.latent_labels is None else (np.zeros((n, 0), dtype=np.int64), np.zeros((n, 0)))
    nothing = task.nothing if asked.predictions and (sentence.unread or not n) else None
    if nothing is not None and asked.splitter is not None:
        nothing = {"splits": [], **nothing}
    plain = Analysis(sentence, prediction=nothing, latent_labels=none, task=None if nothing is None else task)
    if not asked.readings:
        return [plain]
    if sentence.unread:
        return [replace(plain, reading=reading) for reading in asked.readings]
    return [
        replace(plain, heads=chain_of(n), probabilities=np.full(n, np.nan), reading=reading)
        for reading in asked.readings
    ]


def no_gold(sentence: Sentence) -> DataError:
    """What to say of a sentence whose gold tree is to be shown."""
    return DataError(f"{sentence.where}: has no gold tree", hint="leave out --gold")


def every_tree(
    model: Model,
    sentences: Sequence[Sentence],
    reading: Reading,
    *,
    gold: bool = False,
    strict: bool = False,
    asked: Asked | None = None,
) -> Iterator[EveryTree]:
    """The trees of every iteration and channel and of the channels' mean, in order, with their marginals.

    ``reading`` names the decoder, and what a viewer sees first. ``gold``: with the sentences' own trees, if they
    have some; ``strict``: all must. ``asked``: how the task is asked for its predictions.

    Raises:
        DataError: a sentence has no tree that must have one, or more tokens than the encoder has positions.
    """
    for unread, some in groupby(sentences, key=lambda one: bool(one.unread)):
        if unread:
            yield from (_no_tree(model, sentence, reading) for sentence in some)
        else:
            yield from _every_tree(model, list(some), reading, gold=gold, strict=strict, asked=asked)


def _no_tree(model: Model, sentence: Sentence, reading: Reading) -> EveryTree:
    """What stands for the trees of a sentence that is not read: chains of words without probabilities."""
    shape = (model.recipe.model.iterations, model.recipe.model.channels + 1, len(sentence.words))
    return EveryTree(
        words=tuple(sentence.words),
        heads=np.broadcast_to(chain_of(len(sentence.words)), shape),
        probabilities=np.full(shape, np.nan),
        channel=reading.channel,
        iteration=reading.iteration,
        title=Analysis(sentence).places(probability=False).title,
        right_to_left=reads_right_to_left(sentence.words),
    )


def _every_tree(
    model: Model, sentences: Sequence[Sentence], reading: Reading, *, gold: bool, strict: bool, asked: Asked | None
) -> Iterator[EveryTree]:
    """The same of sentences that are read."""
    section = model.recipe.model
    channels: list[Channel] = [*range(section.channels), "mean"]
    iterations = range(1, section.iterations + 1)
    readings = [replace(reading, channel=channel, iteration=number) for number in iterations for channel in channels]
    shape = (len(iterations), len(channels))
    reader = Reader.of(model, sentences)
    if fault := model.too_long(sentences, reader.split):
        raise fault[1]
    heads = {index: np.tile(chain_of(len(one.words)), (len(readings), 1)) for index, one in enumerate(sentences)}
    probabilities = {index: np.full(of_words.shape, np.nan) for index, of_words in heads.items()}
    deviations: dict[int, np.ndarray] = {}
    marginals: dict[int, np.ndarray] = {}  # of sentences that are short enough: they grow with the square
    said: dict[int, Prediction] = {}
    more = (asked or Asked([])).more
    for batch, found in read_arcs(model, reader.split, readings, shown=reader.shown, member_arcs=True, **more):
        n = batch.mask.shape[1]
        said |= dict(zip(batch.indices.tolist(), batch.predictions, strict=False))  # none of sentences to be split
        for number, tree in enumerate(found):
            known = np.exp(tree.scores[:, :, : n + model.has_root_column])
            spread = tree.deviations(root=model.has_root_column)
            for row, (index, real) in enumerate(zip(batch.indices, batch.mask, strict=True)):
                heads[index][number] = tree.heads[row][real]
                if spread is not None:
                    of_index = deviations.setdefault(index, np.full(heads[index].shape, np.nan))
                    of_index[number] = spread[row][real]
                of_words = known[row][real][:, np.pad(real, (0, model.has_root_column), constant_values=True)]
                probabilities[index][number] = arc_probabilities(heads[index][None, None, number], of_words[None, None])
                if len(of_words) <= LONGEST_WITH_MARGINALS:
                    kept = marginals.setdefault(index, np.zeros((len(readings), *of_words.shape), dtype=np.float32))
                    kept[number] = of_words
    said |= split_before(sentences, asked or Asked([]))
    for index, sentence in enumerate(sentences):
        if gold and strict and sentence.heads is None:
            raise no_gold(sentence)
        of_pairs = marginals.get(index)
        said_something = index in said and sentence.words
        places = model.task.places(reader.located(said[index], index), probability=True) if said_something else Places()
        yield EveryTree(
            words=tuple(sentence.words),
            heads=heads[index].reshape(*shape, len(sentence.words)),
            probabilities=probabilities[index].reshape(*shape, len(sentence.words)),
            deviations=deviations[index].reshape(*shape, len(sentence.words)) if index in deviations else None,
            marginals=None if of_pairs is None else of_pairs.reshape(*shape, *of_pairs.shape[1:]),
            gold=tuple(sentence.heads) if gold and sentence.heads is not None else None,
            channel=reading.channel,
            iteration=reading.iteration,
            title=places.title,
            notes=places.notes_of(len(sentence.words)),
            spans=tuple(places.spans),
            right_to_left=reads_right_to_left(sentence.words),
        )
