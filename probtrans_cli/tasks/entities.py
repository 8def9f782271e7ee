"""Named entities (Wu & Tu 2023, D.2) as one tag per word; scored entity by entity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain
from typing import Any

from torch import Tensor

from probtrans_cli.data.codecs.entities import TAG_END, Scheme, entity_records
from probtrans_cli.data.codecs.entity_scores import compare, scores_by_type, scores_of
from probtrans_cli.models.base import Outputs
from probtrans_cli.recipe.task import EntityRecognition
from probtrans_cli.statistics.intervals import interval, moments
from probtrans_cli.tasks.answers import with_probability
from probtrans_cli.tasks.base import Counts, Places, Prediction, by_sentence
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.tasks.tagging import WordTagging, tag_comments, tag_probabilities
from probtrans_cli.tasks.valid_tags import Allowed, allowed_by, best_valid
from probtrans_cli.trees.drawing.drawing import Span

SCHEMES: tuple[Scheme, ...] = ("iob2", "bioes")


class NamedEntities(WordTagging):
    """Loss: cross entropy of the tags. Score: F1 of entities: both ends and the type are right."""

    section: EntityRecognition
    spans = ("entities",)

    @cached_property
    def allowed(self) -> Allowed:
        """The sequences of tags that the scheme of the training file allows."""
        return allowed_by(self.names, SCHEMES[_ending(self.names)])

    @property
    def rules(self) -> Mapping[str, Any]:
        """``entities``: there are some; ``allowed``: the tags that may stand first, behind each other and last."""
        allowed = {name: rows.tolist() for name, rows in self.allowed._asdict().items()} if self.section.valid else None
        return {"entities": True, "allowed": allowed}

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
    """The counts of entities in one reading."""
    return {key[1:]: value for key, value in counts.items() if isinstance(key, tuple) and key[0] == reading}


def _ending(tags: Iterable[str]) -> bool:
    """Whether a tag ends an entity, as in bioes."""
    return any(tag.startswith(("S-", "E-")) for tag in tags)
