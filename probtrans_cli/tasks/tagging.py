"""Sequence labelling (Wu & Tu 2023, D.2): one tag per word, from its representation by one linear layer.

Named entities are tags, too, and scored entity by entity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.entities import (
    TAG_END,
    Scheme,
    compare,
    entity_records,
    located_span,
    misplaced,
    scores_by_type,
    scores_of,
)
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Outputs
from probtrans_cli.recipe.task import EntityRecognition, Tagging
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
    by_sentence,
    confusion_table,
    confusions,
    doubt_comment,
    doubt_of,
    records_by_sentence,
    with_probability,
)
from probtrans_cli.tasks.batch import PADDING, UNLEARNED, Batch
from probtrans_cli.trees.drawing import Span

COLUMNS_OF_TAGS = ("upos", "xpos", "feats")
"""Columns of CoNLL-U that can be learned, and in which a tag is written."""


class WordTagging(Task):
    """Loss: cross entropy of the tags. Score: accuracy, also of known and of unknown words apart."""

    answers = Answers(kind="tags", abstains={"tags": "tag_probability"})
    section: Tagging | EntityRecognition
    allowed: Allowed | None = None  # which tags may follow each other; None: all

    def __init__(
        self, section: Tagging | EntityRecognition, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]
    ) -> None:
        super().__init__(section, vocabulary, labels)
        (self.column,) = section.learned
        self.names = list(labels[self.column])
        self.outputs, self.columns = len(self.names), {self.column: PADDING}
        self.output_rows = {OUTPUT: OutputRows("tags of words", tuple(self.names))}
        self.word_dropout = section.word_dropout

    def training(self, batch: Batch) -> Batch:
        """Score only words whose tag the training file has, and hide rare words at random."""
        return super().training(replace(batch, scored=batch.gold[self.column] >= 0))

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        at = batch.gold[self.column] >= 0
        return {"loss": at.sum() if self.section.loss == "words" else at.any(1).sum()}

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the cross entropy, summed over words, or over sentences of means over words."""
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
        """Ask for the tag of every word; none is known where the batch has no gold."""
        gold = batch.gold.get(self.column)
        rows = batch.words.nonzero()[:, 0]
        return Questions("words", torch.full_like(rows, UNLEARNED) if gold is None else gold[batch.words], rows)

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Count words and right tags, those of known and of unknown words apart; which tag stood for which."""
        counts, ids, right = self._measured(outputs, batch)
        counts.add(confusions(batch.gold[self.column][batch.words], ids, self.names))
        unknown = batch.frequency[batch.words] == 0
        for name, where in (("known", ~unknown), ("unknown", unknown)):
            counts[f"right_{name}"], counts[f"words_{name}"] = int(right[where].sum()), int(where.sum())
        return counts

    def tag_ids(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return ids of each word's best tag, or of the most probable tags that are valid, in row-major order."""
        scores = outputs.scores["words"].float()
        return scores.argmax(-1) if self.allowed is None else best_valid(scores, batch.words, self.allowed)

    def _measured(self, outputs: Outputs, batch: Batch) -> tuple[Counts, Tensor, Tensor]:
        ids = self.tag_ids(outputs, batch)
        scores, gold = outputs.scores["words"].float(), batch.gold[self.column][batch.words]
        loss = functional.cross_entropy(scores, gold, reduction="sum", ignore_index=UNLEARNED)
        right = ids == gold
        counts = Counts(loss=float(loss), labelled=int((gold >= 0).sum()))
        of_sentences = batch.words.masked_scatter(batch.words, right).sum(1)
        counts.add(moments("accuracy", of_sentences.cpu().numpy(), batch.words.sum(1).cpu().numpy()))
        return counts, ids, right

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """Return ``accuracy``, ``accuracy_known``, ``accuracy_unknown`` (words not in train), ``loss``,
        ``unknown_rate``; finally also ``accuracy_interval`` and ``confusions``."""
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
        """Return ``tags`` of the words, ``tag_probability``, and with ``top`` ``tag_alternatives`` of each word."""
        chances, tags = outputs.scores["words"].float().softmax(-1), self.tag_ids(outputs, batch)
        best = chances.gather(-1, tags[:, None])[:, 0]
        answers: dict[str, list[Any]] = {
            "tags": [self.names[id] for id in tags.tolist()],
            "tag_probability": best.tolist(),
        }
        answers |= doubt_of(outputs, "words", "tag_")
        if top is not None:
            answers["tag_alternatives"] = alternatives(chances, self.names, top, "tag")
        return records_by_sentence(answers, batch)

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return the column that was learned, or `Tag` in MISC; and lines below the words."""
        tags, chances = prediction["tags"], prediction["tag_probability"]
        of_file = self.column in COLUMNS_OF_TAGS
        misc, comments = tag_doubt(prediction, probability, self.column if of_file else "Tag")
        shown = chances if probability else [None] * len(tags)
        doubts = prediction.get("tag_entropy", [None] * len(tags))
        notes = []
        for tag, chance, entropy in zip(tags, shown, doubts, strict=True):
            *first, last = tag.split("|") if self.column == "feats" else [tag]
            notes.append([*first, with_probability(last, chance), *([] if entropy is None else [f"H {entropy:.2f}"])])
        return Places(
            columns={self.column: tags} if of_file else {},
            misc=misc if of_file else {"Tag": tags, **misc},
            comments=comments,
            notes=notes,
        )


def tag_doubt(prediction: Prediction, probability: bool, where: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return how probable tags are and the doubt about them, as far as they are shown.

    Returns:
        Entries of MISC: `TagProb`, and with the doubt `TagEntropy` and `TagMI`. Comments: `predicted`, which says
        ``where`` the tags stand, the column or the entry of MISC; and the means of the doubt.
    """
    has_doubt = "tag_entropy" in prediction
    if not (probability or has_doubt):
        return {}, {}
    names = {"TagProb": "tag_probability", "TagEntropy": "tag_entropy", "TagMI": "tag_mutual_information"}
    misc = {name: [f"{value:.4f}" for value in prediction[key]] for name, key in names.items() if key in prediction}
    comments = {"predicted": where}
    if has_doubt:
        comments |= doubt_comment(prediction["tag_entropy"], prediction.get("tag_mutual_information"))
    return misc, comments


# --- named entities ---------------------------------------------------------------------------------------------------

SCHEMES: tuple[Scheme, ...] = ("iob2", "bioes")


class NamedEntities(WordTagging):
    """Loss: cross entropy of the tags. Score: F1 of entities: both ends and the type are right."""

    section: EntityRecognition

    def __init__(self, section: EntityRecognition, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        # An export reads these: there are entities, and the tags that may stand first, behind each other and last.
        rules: dict[str, Any] = {"entities": True, "allowed": None}
        if section.valid:
            self.allowed = allowed_by(self.names, SCHEMES[_ending(self.names)])
            rules["allowed"] = {name: tags.tolist() for name, tags in self.allowed._asdict().items()}
        self.answers = replace(self.answers, spans={"entities": located_span}, rules=rules)

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Count right tags; and entities by type, in every reading, as only all tags of a corpus show its scheme."""
        counts, ids, right = self._measured(outputs, batch)
        counts["right"], counts["words"] = int(right.sum()), len(right)
        # Not from their ids: entities of types that the training file does not have are to be found as well.
        gold = [batch.split.text("form", int(index)).split(TAG_END) for index in batch.indices]
        predicted = [list(tags) for tags in by_sentence([self.names[id] for id in ids.tolist()], batch)]
        ending = _ending(self.names)
        for reading in (None, *SCHEMES[ending:]):  # tags that end an entity say that it is bioes
            compared = compare(gold, predicted, reading)
            counts.add({(reading, *key): value for key, value in compared.counts().items()})
            if reading is None:
                counts.add(moments("f1", *compared.f1_parts()))
        counts["ending"] = ending or _ending(chain.from_iterable(gold))
        return counts

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """Return ``f1``, ``precision``, ``recall`` of entities, ``f1_strict`` of those that are read strictly,
        ``accuracy`` of tags, ``loss``; finally also F1 by type, ``f1_interval``, and ``types``, all scores and counts
        of each."""
        readings: dict[Any, dict[Any, float]] = {}
        for key, value in counts.items():
            if isinstance(key, tuple):
                readings.setdefault(key[0], {})[key[1:]] = value
        entities = readings.get(None, {})
        result: dict[str, Any] = dict(scores_of(entities))
        of_type = {name: result.pop(name) for name in list(result) if name.startswith("f1_")}
        strict = scores_of(readings.get(SCHEMES[counts["ending"] > 0], {}))["f1"]
        accuracy = counts["right"] / max(counts["words"], 1)
        scores = result | (of_type if final else {}) | {"f1_strict": strict}
        scores |= {"accuracy": accuracy, "loss": counts.mean("loss", "labelled")}
        if final:
            scores |= {"f1_interval": interval("f1", counts), "types": scores_by_type(entities)}
            scores["accuracy_interval"] = interval("accuracy", counts)
        return scores

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """Return what is said of tags, and ``entities``: their type, their words from, to, and their probability, the
        product of those of their tags."""
        return [
            {**tagged, "entities": entity_records(tagged["tags"], tagged["tag_probability"])}
            for tagged in super().predict(outputs, batch, top)
        ]

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return `NE` in MISC, as iob2 writes it, and a bar over the words of each entity."""
        tags, spans = [""] * len(prediction["tags"]), []
        for entity in prediction["entities"]:
            start, end = entity["words"]
            tags[start:end] = [f"{'I' if inside else 'B'}-{entity['type']}" for inside in range(end - start)]
            chance = entity["probability"] if probability else None
            spans.append(Span(start + 1, end, with_probability(entity["type"], chance)))
        misc, comments = tag_doubt(prediction, probability, "NE")
        return Places(misc={"NE": tags, **misc}, comments=comments, spans=spans)


def _ending(tags: Iterable[str]) -> bool:
    return any(tag.startswith(("S-", "E-")) for tag in tags)


class Allowed(NamedTuple):
    """Which tags a scheme allows as the first one ``[a]``, which one after another ``[a, e]``, and which as the last
    one ``[a]``."""

    first: Bool[Tensor, " a"]
    then: Bool[Tensor, "a e"]
    last: Bool[Tensor, " a"]


def allowed_by(names: Sequence[str], scheme: Scheme) -> Allowed:
    """Return what a scheme allows of these tags, which are all its own."""
    return Allowed(
        torch.tensor([misplaced("", name, scheme) is None for name in names]),
        torch.tensor([[misplaced(before, name, scheme) is None for name in names] for before in names]),
        torch.tensor([misplaced(name, "", scheme) is None for name in names]),
    )


def best_valid(scores: Float[Tensor, "m a"], words: Bool[Tensor, "b w"], allowed: Allowed) -> Int[Tensor, " m"]:
    """Return the most probable valid tags of all words, in row-major order, as ids (Viterbi).

    A sentence that no valid sequence fits has each word's best tag.

    Args:
        scores: log probabilities of the tags of every word, up to a constant of the word.
        words: where there is a word; those of a sentence stand at its beginning.
        allowed: by the scheme.
    """
    first, then, last = (
        torch.zeros(tags.shape, dtype=torch.float64).masked_fill(~tags, -torch.inf).to(scores.device)
        for tags in allowed
    )
    exact = scores.double()
    lattice = exact.new_zeros(*words.shape, scores.shape[-1])
    # Each word's best score becomes 0: where the best tags are valid, their sum is 0 without rounding.
    lattice[words] = exact - exact.max(-1, keepdim=True).values
    total, itself = lattice[:, 0] + first, torch.arange(scores.shape[-1], device=scores.device)
    steps = []
    for i in range(1, words.shape[1]):
        best, before = (total[:, :, None] + then).max(1)
        is_word = words[:, i, None]  # behind its end a sentence stays as it is
        total = torch.where(is_word, best + lattice[:, i], total)
        steps.append(torch.where(is_word, before, itself))
    best, tag = (total + last).max(-1)
    path = [tag]
    for before in reversed(steps):
        tag = before.gather(1, tag[:, None])[:, 0]
        path.append(tag)
    possible = (best > -torch.inf)[:, None].expand_as(words)
    return torch.where(possible[words], torch.stack(path[::-1], 1)[words], scores.argmax(-1))
