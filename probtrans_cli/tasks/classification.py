"""Sentence classification (Wu & Tu 2023, D.3): one label per sentence, from its representation by one linear layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from probtrans_cli.data.readers.lines import LABEL
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder, Outputs
from probtrans_cli.models.outputs import SentenceOutput
from probtrans_cli.recipe.task import Classification
from probtrans_cli.statistics.uncertainty import interval, moments
from probtrans_cli.tasks.base import (
    OUTPUT,
    Answers,
    Counts,
    OutputRows,
    Places,
    Prediction,
    Questions,
    Task,
    Term,
    alternatives,
    confusion_table,
    confusions,
    doubt_comment,
    doubt_of,
    with_probability,
)
from probtrans_cli.tasks.batch import UNLEARNED, Batch

POOLED = "the pooled first word"  # what stands for a text, in words


class SentenceClassification(Task):
    """Loss: mean cross entropy over sentences. Score: accuracy."""

    answers = Answers(kind="class", scores="sentence", abstains={"label": "label_probability"})
    column, texts = LABEL, "labels of texts"
    std: float | None = None  # of the output layer at the start, see :class:`SentenceOutput`
    section: Classification

    def __init__(self, section: Classification, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        self.names = list(labels[self.column])
        self.outputs, self.columns = len(self.names), {self.column: UNLEARNED}
        self.word_dropout = section.word_dropout

    def output(self, encoder: Encoder) -> SentenceOutput:
        """Make a linear layer on what the recipe says, or on the root where there is one, else on `<cls>`."""
        facts, represents = encoder.facts, self.section.representation
        width = (facts.root_width if represents in ("root", "auto") else None) or facts.width
        if represents == "auto":
            represents = "root" if facts.has_root else "cls"
        first = POOLED if facts.has_pooler else "the first word"
        reader = {"root": "the root", "cls": first, "mean": "the mean of the words"}[represents]
        self.output_rows = {OUTPUT: OutputRows(f"{self.texts} by {reader}", tuple(self.names))}
        return SentenceOutput(width, self.outputs, represents, std=self.std)

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the cross entropy, summed over sentences."""
        gold = batch.gold[self.column][:, 0]
        losses = functional.cross_entropy(outputs.scores["sentence"].float(), gold, reduction="sum")
        return {"loss": Term(losses, self.counts(batch)["loss"])}

    def questions(self, batch: Batch) -> Questions:
        """Ask for the label of every sentence; none is known where the batch has no gold."""
        rows = torch.arange(len(batch), device=batch.ids.device)
        gold = batch.gold.get(self.column)
        return Questions("sentence", torch.full_like(rows, UNLEARNED) if gold is None else gold[:, 0], rows)

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Sum the loss, and count the sentences that have one, all of them, and right labels; which stood for which."""
        scores, gold = outputs.scores["sentence"].float(), batch.gold[self.column][:, 0]
        loss = functional.cross_entropy(scores, gold, reduction="sum", ignore_index=UNLEARNED)
        best = scores.argmax(-1)
        right = best == gold
        counts = Counts(loss=float(loss), labelled=int((gold >= 0).sum()), right=int(right.sum()), sentences=len(batch))
        counts.add(confusions(gold, best, self.names))
        counts.add(moments("accuracy", right.cpu().numpy(), np.ones(len(batch))))
        return counts

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """Return ``accuracy`` and mean ``loss``; finally also ``accuracy_interval`` and ``confusions``."""
        accuracy = counts["right"] / max(counts["sentences"], 1)
        scores: dict[str, Any] = {"accuracy": accuracy, "loss": counts.mean("loss", "labelled")}
        if final:
            scores |= {"accuracy_interval": interval("accuracy", counts), "confusions": confusion_table(counts)}
        return scores

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """Return the ``label`` and its ``label_probability``; with ``top`` also ``label_alternatives``."""
        del batch
        chances = outputs.scores["sentence"].float().softmax(-1)
        best, labels = chances.max(-1)
        answers = [
            {"label": self.names[id], "label_probability": probability}
            for id, probability in zip(labels.tolist(), best.tolist(), strict=True)
        ]
        for name, values in doubt_of(outputs, "sentence", "label_").items():
            answers = [{**answer, name: value} for answer, value in zip(answers, values, strict=True)]
        if top is None:
            return list(answers)
        several = alternatives(chances, self.names, top, "label")
        return [{**answer, "label_alternatives": options} for answer, options in zip(answers, several, strict=True)]

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return comments of the sentence, and what stands above it."""
        label, chance = prediction["label"], prediction["label_probability"]
        comments, title = {"label": label, "label_probability": f"{chance:.4f}"}, ""
        if "label_entropy" in prediction:
            information = prediction.get("label_mutual_information")
            comments |= doubt_comment([prediction["label_entropy"]], None if information is None else [information])
            title = f", H {prediction['label_entropy']:.2f}"
        return Places(comments=comments, title=with_probability(label, chance if probability else None) + title)
