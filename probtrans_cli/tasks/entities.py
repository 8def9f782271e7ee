"""Named entities (Wu & Tu 2023, D.2) as one tag per word; scored strictly, entity by entity."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from probtrans_cli.data.store import Split
from probtrans_cli.models.heads import Network
from probtrans_cli.tasks.base import Evaluation
from probtrans_cli.tasks.entity_scores import entity_scores
from probtrans_cli.tasks.tagging import NO_LABEL, WordTagging

_UNSEEN = "B-<unseen>"  # an entity of a type that the training file does not have


class NamedEntities(WordTagging):
    """Loss: cross entropy of the tags. Score: strict F1 of entities: both ends and the type are right."""

    metric = "f1"

    @torch.no_grad()
    def evaluate(self, network: Network, split: Split, how: Evaluation, *, final: bool) -> dict[str, Any]:
        """``f1``, ``precision``, ``recall`` of entities, ``accuracy`` of tags, ``loss``; finally also F1 by type."""
        gold: list[list[str]] = []
        predicted: list[list[str]] = []
        total, words, right = 0.0, 0, 0
        for batch in self.predictions(network, split, how):
            total += batch.loss
            for given, wanted in zip(batch.predicted, batch.gold, strict=True):
                real = wanted != NO_LABEL
                predicted.append(self._tags(given[real]))
                gold.append(self._tags(wanted[real]))
                right += int((given == wanted)[real].sum())
                words += int(real.sum())
        ending = any(name.startswith(("S-", "E-")) for name in self.names)
        scores = entity_scores(gold, predicted, "bioes" if ending else "iob2")
        if not final:
            scores = {name: value for name, value in scores.items() if not name.startswith("f1_")}
        return scores | {"accuracy": right / max(words, 1), "loss": total / max(words, 1)}

    def _tags(self, ids: np.ndarray) -> list[str]:
        return [self.names[id] if id >= 0 else _UNSEEN for id in ids]
