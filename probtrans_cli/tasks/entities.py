"""Named entities (Wu & Tu 2023, D.2) as one tag per word; scored strictly, entity by entity."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch

from probtrans_cli.data.codecs.entities import TAG_END
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.models.network import Network
from probtrans_cli.tasks.base import PADDING, Evaluation, mean
from probtrans_cli.tasks.entity_scores import entity_scores
from probtrans_cli.tasks.tagging import WordTagging


class NamedEntities(WordTagging):
    """Loss: cross entropy of the tags. Score: strict F1 of entities: both ends and the type are right."""

    metric = "f1"

    @torch.inference_mode()
    def evaluate(self, network: Network, split: Split, how: Evaluation, *, final: bool) -> dict[str, Any]:
        """``f1``, ``precision``, ``recall`` of entities, ``accuracy`` of tags, ``loss``; finally also F1 by type."""
        gold: list[list[str]] = []
        predicted: list[list[str]] = []
        total, words, right, labelled = 0.0, 0, 0, 0
        for batch in self.predictions(network, split, how):
            total += batch.loss
            labelled += int((batch.gold >= 0).sum())
            real = batch.gold != PADDING
            right += int((batch.predicted == batch.gold)[real].sum())
            words += int(real.sum())
            for index, given in zip(batch.indices, batch.predicted, strict=True):
                # Not from their ids: entities of types that the training file does not have are to be found as well.
                tags = split.text("form", int(index)).split(TAG_END)
                gold.append(tags)
                predicted.append([self.names[id] for id in given[: len(tags)]])
        ending = any(tag.startswith(("S-", "E-")) for tag in chain(self.names, *gold))
        scores = entity_scores(gold, predicted, "bioes" if ending else "iob2")
        if not final:
            scores = {name: value for name, value in scores.items() if not name.startswith("f1_")}
        return scores | {"accuracy": right / max(words, 1), "loss": mean(total, labelled)}
