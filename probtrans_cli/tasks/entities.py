"""Named entities (Wu & Tu 2023, D.2) as one tag per word; scored entity by entity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from probtrans_cli.data.codecs.entities import (
    TAG_END,
    Scheme,
    compare,
    entity_records,
    may_follow,
    scores_by_type,
    scores_of,
)
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Outputs
from probtrans_cli.recipe.task import EntityRecognition
from probtrans_cli.statistics.uncertainty import interval, moments
from probtrans_cli.tasks.base import Counts, Places, Prediction, by_sentence, with_probability
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.tasks.tagging import WordTagging, tag_comments, tag_probabilities
from probtrans_cli.trees.drawing.drawing import Span

SCHEMES: tuple[Scheme, ...] = ("iob2", "bioes")


class NamedEntities(WordTagging):
    """Loss: cross entropy of the tags. Score: F1 of entities: both ends and the type are right."""

    section: EntityRecognition

    def __init__(self, section: EntityRecognition, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        self.allowed = allowed_by(self.names, SCHEMES[_ending(self.names)])
        allowed = {name: rows.tolist() for name, rows in self.allowed._asdict().items()} if section.valid else None
        # An export reads these: there are entities, and the tags that may stand first, behind each other and last.
        rules = {"entities": True, "allowed": allowed}
        self.answers = replace(self.answers, spans=("entities",), rules=rules)

    def tag_ids(self, outputs: Outputs, batch: Batch) -> Tensor:
        """The ids of the most probable valid tags, in row-major order; of each word's best one if `valid` is false."""
        if not self.section.valid:
            return super().tag_ids(outputs, batch)
        return best_valid(outputs.scores["words"].float(), batch.words, self.allowed)

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Entities by type, in every reading, as only all tags of the corpus show its scheme; right tags."""
        ids = self.tag_ids(outputs, batch)
        counts, right = self._measured(outputs, batch, ids)
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
        """``f1``, ``precision``, ``recall`` of entities, ``f1_strict`` of those that are read strictly, ``accuracy`` of
        tags, ``loss``; finally also F1 by type, ``f1_interval``, and ``types``, all scores and counts of each."""
        entities = _of_reading(counts, None)
        result: dict[str, Any] = dict(scores_of(entities))
        of_type = {name: result.pop(name) for name in list(result) if name.startswith("f1_")}
        strict = scores_of(_of_reading(counts, SCHEMES[counts["ending"] > 0]))["f1"]
        accuracy = counts["right"] / max(counts["words"], 1)
        scores = result | (of_type if final else {}) | {"f1_strict": strict}
        scores |= {"accuracy": accuracy, "loss": counts.mean("loss", "labelled")}
        if final:
            scores |= {"f1_interval": interval("f1", counts), "types": scores_by_type(entities)}
            scores["accuracy_interval"] = interval("accuracy", counts)
        return scores

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """As of tags, and ``entities``: their type, their words from, to, and their probability, which is the product
        of those of their tags."""
        return [
            {**tagged, "entities": entity_records(tagged["tags"], tagged["tag_probability"])}
            for tagged in super().predict(outputs, batch, top)
        ]

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """`NE` in MISC, as iob2 writes it; a bar over the words of each entity."""
        tags, spans = [""] * len(prediction["tags"]), []
        for entity in prediction["entities"]:
            start, end = entity["words"]
            tags[start:end] = [f"{'I' if inside else 'B'}-{entity['type']}" for inside in range(end - start)]
            chance = entity["probability"] if probability else None
            spans.append(Span(start + 1, end, with_probability(entity["type"], chance)))
        return Places(
            misc={"NE": tags} | tag_probabilities(prediction, probability),
            comments=tag_comments(prediction, probability, "NE"),
            spans=spans,
        )

    def abstained(self, prediction: Prediction, least: float) -> tuple[Prediction, list[bool]]:
        """An entity with a tag that is left out is left out, too."""
        rest, left_out = super().abstained(prediction, least)
        entities = [entity for entity in prediction["entities"] if not any(left_out[slice(*entity["words"])])]
        return {**rest, "entities": entities}, left_out


def _of_reading(counts: Counts, reading: Scheme | None) -> dict[Any, float]:
    return {key[1:]: value for key, value in counts.items() if isinstance(key, tuple) and key[0] == reading}


def _ending(tags: Iterable[str]) -> bool:
    return any(tag.startswith(("S-", "E-")) for tag in tags)


class Allowed(NamedTuple):
    """Which tags a scheme allows as the first one ``[a]``, which one after another ``[a, e]``, and which as the last
    one ``[a]``."""

    first: Bool[Tensor, " a"]
    then: Bool[Tensor, "a e"]
    last: Bool[Tensor, " a"]


def allowed_by(names: Sequence[str], scheme: Scheme) -> Allowed:
    """What a scheme allows of these tags, which are all its own."""
    return Allowed(
        torch.tensor([may_follow("", name, scheme) for name in names]),
        torch.tensor([[may_follow(before, name, scheme) for name in names] for before in names]),
        torch.tensor([may_follow(name, "", scheme) for name in names]),
    )


def best_valid(scores: Float[Tensor, "m a"], words: Bool[Tensor, "b w"], may: Allowed) -> Int[Tensor, " m"]:
    """The tags of all words, in row-major order; a sentence that no valid sequence fits has each word's best tag.

    Args:
        scores: log probabilities of the tags of every word, up to a constant of the word.
        words: where there is a word; those of a sentence stand at its beginning.
        may: what the scheme allows.
    """
    first, then, last = (
        torch.zeros(of.shape, dtype=torch.float64).masked_fill(~of, -torch.inf).to(scores.device) for of in may
    )
    exact = scores.double()
    lattice = exact.new_zeros(*words.shape, scores.shape[-1])
    # Each word's best score becomes 0: where the best tags are valid, their sum is 0 without rounding.
    lattice[words] = exact - exact.max(-1, keepdim=True).values
    total, itself = lattice[:, 0] + first, torch.arange(scores.shape[-1], device=scores.device)
    steps = []
    for i in range(1, words.shape[1]):
        best, before = (total[:, :, None] + then).max(1)
        there = words[:, i, None]  # behind its end a sentence stays as it is
        total = torch.where(there, best + lattice[:, i], total)
        steps.append(torch.where(there, before, itself))
    best, tag = (total + last).max(-1)
    tags = [tag]
    for before in reversed(steps):
        tag = before.gather(1, tag[:, None])[:, 0]
        tags.append(tag)
    possible = (best > -torch.inf)[:, None].expand_as(words)
    return torch.where(possible[words], torch.stack(tags[::-1], 1)[words], scores.argmax(-1))
