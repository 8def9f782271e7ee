"""Named entities (Wu & Tu 2023, D.2) as one tag per word; scored strictly, entity by entity."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from typing import Any

from probtrans_cli.data.codecs.entities import TAG_END
from probtrans_cli.models.base import Outputs
from probtrans_cli.tasks.base import Counts, Places, Prediction, by_sentence, with_probability
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.tasks.entity_scores import Scheme, entities_in, entity_counts, scores_of
from probtrans_cli.tasks.tagging import WordTagging, tag_probabilities, tags_of
from probtrans_cli.trees.drawing.drawing import Span

SCHEMES: tuple[Scheme, ...] = ("iob2", "bioes")


class NamedEntities(WordTagging):
    """Loss: cross entropy of the tags. Score: strict F1 of entities: both ends and the type are right."""

    spans = ("entities",)

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Entities by type, in both schemes, as that of the corpus shows in all of its tags alone; right tags."""
        counts, right = self._measured(outputs, batch)
        counts["right"], counts["words"] = int(right.sum()), len(right)
        # Not from their ids: entities of types that the training file does not have are to be found as well.
        gold = [batch.split.text("form", int(index)).split(TAG_END) for index in batch.indices]
        names = [self.names[id] for id in tags_of(outputs).tolist()]
        predicted = [list(tags) for tags in by_sentence(names, batch)]
        ending = _ending(self.names)
        for scheme in SCHEMES[ending:]:  # tags that end an entity say that it is bioes
            counts.add({(scheme, *key): value for key, value in entity_counts(gold, predicted, scheme).items()})
        counts["ending"] = ending or _ending(chain.from_iterable(gold))
        return counts

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """``f1``, ``precision``, ``recall`` of entities, ``accuracy`` of tags, ``loss``; finally also F1 by type."""
        scheme = SCHEMES[counts["ending"] > 0]
        of_scheme = {key[1:]: value for key, value in counts.items() if isinstance(key, tuple) and key[0] == scheme}
        scores: dict[str, Any] = scores_of(of_scheme)
        if not final:
            scores = {name: value for name, value in scores.items() if not name.startswith("f1_")}
        accuracy = counts["right"] / max(counts["words"], 1)
        return scores | {"accuracy": accuracy, "loss": counts.mean("loss", "labelled")}

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """As of tags, and ``entities``: their type, their words from, to, and their probability, which is the product
        of those of their tags."""
        scheme = SCHEMES[_ending(self.names)]
        found: list[Prediction] = []
        for given in super().predict(outputs, batch, top):
            entities = [
                {"type": name, "words": [start, end], "probability": math.prod(given["tag_probability"][start:end])}
                for name, start, end in entities_in(given["tags"], scheme)
            ]
            found.append({**given, "entities": entities})
        return found

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """`NE` in MISC, as iob2 writes it; a bar over the words of each entity."""
        tags, spans = [""] * len(prediction["tags"]), []
        for entity in prediction["entities"]:
            start, end = entity["words"]
            tags[start:end] = [f"{'I' if inside else 'B'}-{entity['type']}" for inside in range(end - start)]
            chance = entity["probability"] if probability else None
            spans.append(Span(start + 1, end, with_probability(entity["type"], chance)))
        return Places(misc={"NE": tags} | tag_probabilities(prediction, probability), spans=spans)


def _ending(tags: Iterable[str]) -> bool:
    """Whether a tag ends an entity, as in bioes."""
    return any(tag.startswith(("S-", "E-")) for tag in tags)
