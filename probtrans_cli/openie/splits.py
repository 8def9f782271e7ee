"""Split, extract, merge: a model of coordinations in front of one of tuples (OpenIE6, Kolluru et al. 2020, section 5).

A sentence with "A and B" becomes simple sentences with A, and with B; tuples are found in each of them, and reported
with the numbers of the words in the sentence as it was. Nothing is looked up by its text, so that two sentences may
share a simple one.

Confidences of tuples of different simple sentences are not comparable. ``rescore`` makes them so, in a way of our own:
the model of tuples reads the whole sentence, is fed the labels of each tuple instead of its own, and says how probable
they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.models.base import Wants
from probtrans_cli.openie.extractions import Extraction, Texts, tuple_confidence, tuple_to_row
from probtrans_cli.tasks.base import Counts, Prediction
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import predictions
from probtrans_cli.trained.reader import Reader


@dataclass(frozen=True)
class Splitter:
    """A model of coordinations in front of one of tuples, ``extractor``; ``rescore``: tuples get new confidences."""

    model: Model
    extractor: Model
    rescore: bool = False

    def predictions(self, sentences: Sequence[Sentence]) -> list[Prediction]:
        """Return what the extractor says of sentences that are split before.

        ``tuples`` as always, each with the number of its ``split``; ``splits``: the words of each simple sentence,
        empty where the sentence stays whole.
        """
        of_sentences = predictions(self.model, sentences)
        splits = [[] if prediction is None else prediction["splits"] for prediction in of_sentences]
        parts = [(i, places) for i, split in enumerate(splits) for places in split or [range(len(sentences[i].words))]]
        simple = []
        for i, places in parts:  # of raw text, they are raw text, too
            words = [sentences[i].words[place] for place in places]
            simple.append(Sentence(words, text=None if sentences[i].text is None else " ".join(words)))
        # Of tuples with the same texts the first one stays; all have the positions of the whole sentence.
        tuples: list[list[dict[str, Any]]] = [[] for _ in sentences]
        keys: list[set[str]] = [set() for _ in sentences]
        numbers = [0] * len(sentences)
        for (number, places), prediction in zip(parts, predictions(self.extractor, simple), strict=True):
            for record in [] if prediction is None else prediction["tuples"]:
                key = Texts(record["arg1"], record["rel"], record["arg2"]).key
                if key not in keys[number]:
                    keys[number].add(key)
                    positions = {name: [places[i] for i in part] for name, part in record["words"].items()}
                    apart = [places[i] for i in record["location_time"]]
                    tuples[number].append(
                        {**record, "words": positions, "location_time": apart, "split": numbers[number]}
                    )
            numbers[number] += 1
        if self.rescore:
            tuples = self._rescored(sentences, tuples)
        return [
            self.extractor.task.located({"splits": split, "tuples": records}, sentence)
            for sentence, split, records in zip(sentences, splits, tuples, strict=True)
        ]

    def scores(self, corpus: Split) -> dict[str, Any]:
        """Return the extractor's scores on a corpus whose sentences are split before."""
        task: Any = self.extractor.task
        sentences = [Sentence(task.words_of(corpus, index)) for index in range(len(corpus))]
        counts = Counts()
        for index, prediction in enumerate(self.predictions(sentences)):
            counts.add(task.counts_of(corpus, index, [Extraction.of_record(record) for record in prediction["tuples"]]))
        scores: dict[str, Any] = task.scores(counts, final=True)
        del scores["loss"]  # there is none: the rows are those of other sentences
        return scores

    @torch.inference_mode()
    def _rescored(
        self, sentences: Sequence[Sentence], tuples: Sequence[Sequence[dict[str, Any]]]
    ) -> list[list[dict[str, Any]]]:
        """Return the same tuples, each with the confidence that the labels of its words have in the whole sentence,
        where the tuples before it are fed back. A sentence of more tuples than there are rows is read again for those
        that are left."""
        task: Any = self.extractor.task
        network, most = self.extractor.network.eval(), task.section.rows
        readings = [(i, first) for i, records in enumerate(tuples) for first in range(0, len(records), most)]
        rescored = [[dict(record) for record in records] for records in tuples]
        if not readings:
            return rescored
        reader = Reader.of(self.extractor, [sentences[i] for i, _ in readings])
        for indices in self.extractor.evaluation().batches(reader.split):
            batch = self.extractor.collate(reader.split, indices)
            rows = torch.zeros(len(indices), most, batch.words.shape[1], dtype=torch.int64)
            for b, index in enumerate(indices.tolist()):
                i, first = readings[index]
                for m, record in enumerate(tuples[i][first : first + most]):
                    row = tuple_to_row(Extraction.of_record(record), len(sentences[i].words), task.extra_words)
                    rows[b, m, : len(row)] = torch.tensor(row)
            rows = rows.to(batch.words.device)
            with self.extractor.machine.autocast():
                scores = network(batch, Wants(words=batch.words, fed_back=rows)).scores["rows"]
            chances = scores.float().log_softmax(-1).gather(-1, rows[..., None])[..., 0].tolist()
            for b, index in enumerate(indices.tolist()):
                i, first = readings[index]
                for m, record in enumerate(rescored[i][first : first + most]):
                    labels, how = rows[b, m].tolist(), task.section.confidence
                    record["confidence"] = tuple_confidence(labels, chances[b][m], how)
        return rescored
