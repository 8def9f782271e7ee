"""Split, extract, merge: a model of coordinations in front of one of tuples (OpenIE6, Kolluru et al. 2020, section 5).

A sentence with "A and B" becomes simple sentences with A, and with B; tuples are found in each of them, and told with
the numbers of the words in the sentence as it was. Nothing is looked up by its text, so that two sentences may share a
simple one.

Confidences of tuples of different simple sentences are not comparable. ``rescored`` makes them so, in a way of our own:
the model of tuples reads the whole sentence, is told the labels of each tuple instead of its own, and says how probable
it finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from probtrans_cli.data.codecs.coordinations import Coordination, coordinations_to_sentences, splitting
from probtrans_cli.data.codecs.extractions import Extraction, Texts, tuple_to_row
from probtrans_cli.data.codecs.records import tuple_confidence
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import UsageError
from probtrans_cli.models.base import Wants
from probtrans_cli.tasks.base import Counts, Prediction
from probtrans_cli.trained.predictions import Reader, predictions

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model


@dataclass(frozen=True)
class Splitter:
    """A model of coordinations, and how its answers are used; ``rescore``: tuples get new confidences."""

    model: Model
    rescore: bool = False

    @classmethod
    def load(cls, checkpoint: str | None, extractor: Model, *, rescore: bool, threads: int | None) -> Splitter | None:
        """The splitter of a CKPT argument for a model of tuples; None where none is named.

        Raises:
            UsageError: as :meth:`of`; or there is nothing to rescore.
            CheckpointError: the model cannot be read.
        """
        if checkpoint is None:
            if rescore:
                raise UsageError("--rescore is about tuples of split sentences", hint="add --coordination CKPT")
            return None
        return cls.of(type(extractor).load(checkpoint, threads=threads), extractor, rescore=rescore)

    @classmethod
    def of(cls, model: Model, extractor: Model, *, rescore: bool = False) -> Splitter:
        """The splitter for a model of tuples.

        Raises:
            UsageError: the one finds no coordinations, or the other no tuples.
        """
        if model.task.answers != "coordinations":
            kind = model.recipe.task.kind
            raise UsageError(f"--coordination: a model of kind {kind} finds no coordinations", hint="name another run")
        if extractor.task.answers != "tuples":
            kind = extractor.recipe.task.kind
            raise UsageError(f"--coordination: a model of kind {kind} finds no tuples to merge", hint="leave it out")
        return cls(model, rescore)

    def split(self, sentences: Sequence[Sentence]) -> Iterator[list[tuple[int, ...]]]:
        """The simple sentences of each sentence, as the numbers of their words; none where it stays whole."""
        section: Any = self.model.recipe.task
        for sentence, found in zip(sentences, predictions(self.model, sentences), strict=True):
            there = {} if found is None else {one["cc"]: _coordination(one) for one in found["coordinations"]}
            yield coordinations_to_sentences(sentence.words, splitting(sentence.words, there, **section.splitting))


def split_predictions(extractor: Model, splitter: Splitter, sentences: Sequence[Sentence]) -> list[Prediction]:
    """What a model of tuples says of sentences that are split before.

    ``tuples`` as always, each with the number of its ``split``; ``splits``: the words of each simple sentence, empty
    where the sentence stays whole.
    """
    splits = list(splitter.split(sentences))
    parts = [(i, places) for i, of in enumerate(splits) for places in of or [tuple(range(len(sentences[i].words)))]]
    simple = [_simple(sentences[i], places) for i, places in parts]
    tuples: list[list[dict[str, Any]]] = [[] for _ in sentences]
    seen: list[set[str]] = [set() for _ in sentences]
    numbers = [0] * len(sentences)
    for (i, places), found in zip(parts, predictions(extractor, simple), strict=True):
        for one in [] if found is None else found["tuples"]:
            key = Texts(one["arg1"], one["rel"], one["arg2"]).key
            if key not in seen[i]:
                seen[i].add(key)
                words = {name: [places[place] for place in of] for name, of in one["words"].items()}
                apart = [places[place] for place in one["location_time"]]
                tuples[i].append({**one, "words": words, "location_time": apart, "split": numbers[i]})
        numbers[i] += 1
    if splitter.rescore:
        tuples = _rescored(extractor, sentences, tuples)
    reader = Reader.of(extractor, sentences)
    return [
        reader.located({"splits": [list(places) for places in of], "tuples": found}, index)
        for index, (of, found) in enumerate(zip(splits, tuples, strict=True))
    ]


def _simple(sentence: Sentence, places: Sequence[int]) -> Sentence:
    """Some words of a sentence; of raw text they are raw text, too."""
    words = [sentence.words[place] for place in places]
    return Sentence(words, text=None if sentence.text is None else " ".join(words))


def split_scores(extractor: Model, splitter: Splitter, corpus: Split) -> dict[str, Any]:
    """The scores of a model of tuples on a corpus whose sentences are split before."""
    task: Any = extractor.task
    sentences = [Sentence(task.words_of(corpus, index)) for index in range(len(corpus))]
    counts = Counts()
    for index, found in enumerate(split_predictions(extractor, splitter, sentences)):
        counts.add(task.told(corpus, index, [_extraction(one) for one in found["tuples"]]))
    scores: dict[str, Any] = task.scores(counts, final=True)
    del scores["loss"]  # there is none: the rows are those of other sentences
    return scores


def _coordination(one: Prediction) -> Coordination:
    return Coordination(one["cc"], tuple((start, end) for start, end in one["conjuncts"]), level=one["level"])


@torch.inference_mode()
def _rescored(
    extractor: Model, sentences: Sequence[Sentence], tuples: Sequence[Sequence[dict[str, Any]]]
) -> list[list[dict[str, Any]]]:
    """The same tuples, each with the confidence that the labels of its words have in the whole sentence, where the
    tuples before it are told. A sentence of more tuples than there are rows is read again for those that are left."""
    task: Any = extractor.task
    network, most = extractor.network.eval(), task.section.rows
    told = [(i, first) for i, of in enumerate(tuples) for first in range(0, len(of), most)]
    found = [[dict(one) for one in of] for of in tuples]
    if not told:
        return found
    reader = Reader.of(extractor, [sentences[i] for i, _ in told])
    for indices in extractor.evaluation().batches(reader.split):
        batch = extractor.collate(reader.split, indices)
        rows = torch.zeros(len(indices), most, batch.words.shape[1], dtype=torch.int64)
        for b, index in enumerate(indices.tolist()):
            i, first = told[index]
            for m, one in enumerate(tuples[i][first : first + most]):
                row = tuple_to_row(_extraction(one), len(sentences[i].words), task.extra_words)
                rows[b, m, : len(row)] = torch.tensor(row)
        rows = rows.to(batch.words.device)
        with extractor.machine.autocast():
            scores = network(batch, Wants(words=batch.words, fed_back=rows)).scores["rows"]
        chances = scores.float().log_softmax(-1).gather(-1, rows[..., None])[..., 0].tolist()
        for b, index in enumerate(indices.tolist()):
            i, first = told[index]
            for m, one in enumerate(found[i][first : first + most]):
                one["confidence"] = tuple_confidence(rows[b, m].tolist(), chances[b][m], task.section.confidence)
    return found


def _extraction(one: Prediction) -> Extraction:
    arg1, relation, second = (tuple(one["words"][name]) for name in ("arg1", "rel", "arg2"))
    location_time = tuple(one["location_time"])
    arg2 = tuple(place for place in second if place not in location_time)
    return Extraction(arg1, relation, arg2, location_time, tuple(one["added"]), confidence=one["confidence"])
