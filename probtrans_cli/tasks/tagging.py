"""Sequence labelling (Wu & Tu 2023, D.2): one tag per word, from its representation by one linear layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Outputs
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.task import EntityRecognition, Tagging
from probtrans_cli.statistics.uncertainty import interval, moments
from probtrans_cli.tasks.base import (
    ABSTAINED,
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
    by_sentence,
    confusion_table,
    confusions,
    doubt_comment,
    doubt_of,
    doubt_text,
    with_probability,
    without_some_words,
)
from probtrans_cli.tasks.batch import PADDING, UNLEARNED, Batch

COLUMNS_OF_TAGS = ("upos", "xpos", "feats")
"""Columns of CoNLL-U that can be learned, and in which a tag is written."""


class WordTagging(Task):
    """Loss: cross entropy of the tags. Score: accuracy, also of known and of unknown words apart."""

    answers = Answers(kind="tags", abstains=True)
    section: Tagging | EntityRecognition

    def __init__(
        self, section: Tagging | EntityRecognition, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]
    ) -> None:
        super().__init__(section, vocabulary, labels)
        (self.column,) = section.learned
        self.names = list(labels[self.column])

    @property
    def outputs(self) -> int:
        return len(self.names)

    @property
    def columns(self) -> Mapping[str, int]:
        return {self.column: PADDING}

    def output_rows(self, network: Network) -> dict[str, OutputRows]:
        del network
        return {OUTPUT: OutputRows("tags of words", tuple(self.names))}

    def training(self, batch: Batch) -> Batch:
        """Only words whose tag the training file has are scored; rare words are hidden at random."""
        batch = replace(batch, scored=batch.gold[self.column] >= 0)
        return without_some_words(batch, self.section.word_dropout, self.vocabulary)

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        at = batch.gold[self.column] >= 0
        return {"loss": at.sum() if self.section.loss == "words" else at.any(1).sum()}

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """The cross entropy, summed over words, or over sentences of means over words."""
        gold, at = batch.gold[self.column], batch.gold[self.column] >= 0
        # Beside other parts of a task, all words have scores; those without a tag that train has are left out here.
        scores = outputs.scores["words"].float()
        losses = functional.cross_entropy(scores, batch.picked(gold), reduction="none", ignore_index=UNLEARNED)
        if self.section.loss == "words":
            total = losses.sum()
        else:
            total = (losses / batch.picked(at.sum(1, keepdim=True).clamp(min=1).expand_as(at))).sum()
        return {"loss": Term(total, self.counts(batch)["loss"])}

    def questions(self, batch: Batch) -> Questions:
        """The tag of every word; none is known where the batch has no gold."""
        gold = batch.gold.get(self.column)
        rows = batch.words.nonzero()[:, 0]
        return Questions("words", torch.full_like(rows, UNLEARNED) if gold is None else gold[batch.words], rows)

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Right tags and words, those of known and of unknown words apart; which tag was given for which."""
        ids = self.tag_ids(outputs, batch)
        counts, right = self._measured(outputs, batch, ids)
        counts.add(confusions(batch.gold[self.column][batch.words], ids, self.names))
        unknown = batch.frequency[batch.words] == 0
        for name, where in (("known", ~unknown), ("unknown", unknown)):
            counts[f"right_{name}"], counts[f"words_{name}"] = int(right[where].sum()), int(where.sum())
        return counts

    def tag_ids(self, outputs: Outputs, batch: Batch) -> Tensor:
        del batch
        return outputs.scores["words"].float().argmax(-1)

    def _measured(self, outputs: Outputs, batch: Batch, ids: Tensor) -> tuple[Counts, Tensor]:
        scores, gold = outputs.scores["words"].float(), batch.gold[self.column][batch.words]
        loss = functional.cross_entropy(scores, gold, reduction="sum", ignore_index=UNLEARNED)
        right = ids == gold
        counts = Counts(loss=float(loss), labelled=int((gold >= 0).sum()))
        of_sentences = batch.words.masked_scatter(batch.words, right).sum(1)
        counts.add(moments("accuracy", of_sentences.cpu().numpy(), batch.words.sum(1).cpu().numpy()))
        return counts, right

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """``accuracy``, ``accuracy_known``, ``accuracy_unknown`` (words not in train), ``loss``, ``unknown_rate``;
        finally also ``accuracy_interval`` and ``confusions``."""
        words = max(counts["words_known"] + counts["words_unknown"], 1.0)
        scores: dict[str, Any] = {
            "accuracy": (counts["right_known"] + counts["right_unknown"]) / words,
            "loss": counts.mean("loss", "labelled"),
            "unknown_rate": counts["words_unknown"] / words,
        }
        for name in ("known", "unknown"):
            if counts[f"words_{name}"]:
                scores[f"accuracy_{name}"] = counts[f"right_{name}"] / counts[f"words_{name}"]
        if final:
            scores |= {"accuracy_interval": interval("accuracy", counts), "confusions": confusion_table(counts)}
        return scores

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """``tags`` of the words, and ``tag_probability``; with ``top`` also ``tag_alternatives`` of each word."""
        chances, tags = outputs.scores["words"].float().softmax(-1), self.tag_ids(outputs, batch)
        best = chances.gather(-1, tags[:, None])[:, 0]
        answers: dict[str, list[Any]] = {
            "tags": [self.names[id] for id in tags.tolist()],
            "tag_probability": best.tolist(),
        }
        answers |= doubt_of(outputs, "words", "tag_")
        if top is not None:
            answers["tag_alternatives"] = alternatives(chances, self.names, top, "tag")
        of_sentences = zip(*(by_sentence(values, batch) for values in answers.values()), strict=True)
        return [{name: list(values) for name, values in zip(answers, row, strict=True)} for row in of_sentences]

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """The column that was learned, or `Tag` in MISC; below the words."""
        tags, chances = prediction["tags"], prediction["tag_probability"]
        of_file = self.column in COLUMNS_OF_TAGS
        misc = {} if of_file else {"Tag": tags}
        shown = chances if probability else [None] * len(tags)
        return Places(
            columns={self.column: tags} if of_file else {},
            misc=misc | tag_probabilities(prediction, probability),
            comments=tag_comments(prediction, probability, self.column if of_file else "Tag"),
            notes=[
                [*_lines(tag, chance, self.column), *([] if entropy is None else [doubt_text(entropy)])]
                for tag, chance, entropy in zip(
                    tags, shown, prediction.get("tag_entropy", [None] * len(tags)), strict=True
                )
            ],
        )

    def abstained(self, prediction: Prediction, least: float) -> tuple[Prediction, list[bool]]:
        left_out = [chance < least for chance in prediction["tag_probability"]]
        tags = [ABSTAINED if out else tag for tag, out in zip(prediction["tags"], left_out, strict=True)]
        return {**prediction, "tags": tags}, left_out


def _lines(tag: str, chance: float | None, column: str) -> list[str]:
    *first, last = tag.split("|") if column == "feats" else [tag]
    return [*first, with_probability(last, chance)]


def tag_probabilities(prediction: Prediction, probability: bool) -> dict[str, list[str]]:
    """`TagProb` in MISC, where probabilities or the doubt are shown; `TagEntropy` and `TagMI` where the doubt is."""
    names = {"TagProb": "tag_probability", "TagEntropy": "tag_entropy", "TagMI": "tag_mutual_information"}
    if not (probability or "tag_entropy" in prediction):
        return {}
    return {name: [f"{value:.4f}" for value in prediction[key]] for name, key in names.items() if key in prediction}


def tag_comments(prediction: Prediction, probability: bool, where: str) -> dict[str, str]:
    """Comments of a sentence: `predicted`, the column or the entry of MISC that `TagProb` belongs to, where that is
    shown; and the mean entropy and mutual information of its tags, where the doubt is."""
    comments = {"predicted": where} if tag_probabilities(prediction, probability) else {}
    if "tag_entropy" not in prediction:
        return comments
    return comments | doubt_comment(prediction["tag_entropy"], prediction.get("tag_mutual_information"))
