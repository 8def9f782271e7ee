"""Sentence classification (Wu & Tu 2023, D.3): one label per sentence, from its representation by one linear layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers.labelled import LABEL
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder
from probtrans_cli.models.network import Network, Sentence
from probtrans_cli.recipe.model import Model, ProbabilisticTransformer
from probtrans_cli.recipe.task import Classification
from probtrans_cli.tasks.base import UNSEEN, Evaluation, Loss, Task, features, mean, tensor, without_some_words


class SentenceClassification(Task):
    """Loss: mean cross entropy over sentences. Score: accuracy."""

    metric = "accuracy"
    larger_is_better = True

    def __init__(self, section: Classification, vocabulary: Vocabulary, labels: dict[str, list[str]]) -> None:
        self.section = section
        self.names = labels[LABEL]
        self.vocabulary, self.pad = vocabulary, vocabulary.PAD

    @property
    def outputs(self) -> int:
        """One score per label."""
        return len(self.names)

    def output(self, encoder: Encoder) -> nn.Module:
        """One linear layer on a sentence's representation."""
        rooted = self.section.representation in ("root", "auto")
        return nn.Linear(encoder.sentence_width if rooted else encoder.width, self.outputs)

    def representation(self, model: Model) -> Sentence:
        """What the recipe says, or the root where there is one, else the state of `<cls>`."""
        if self.section.representation != "auto":
            return self.section.representation
        return "root" if isinstance(model, ProbabilisticTransformer) and model.root is not None else "cls"

    def _scores(self, network: Network, split: Split, indices: np.ndarray, ids: Tensor) -> Tensor:
        return network.classify(ids, ids != self.pad, features(split, indices, ids.device)).float()

    def loss(self, network: Network, split: Split, indices: np.ndarray, device: torch.device) -> Loss:
        """Training loss, summed over sentences."""
        ids = tensor(split.padded("ids", indices, self.pad), device)
        gold = tensor(split.padded(LABEL, indices, UNSEEN), device)[:, 0]
        ids = without_some_words(split, indices, ids, self.section.word_dropout, self.vocabulary)
        losses = functional.cross_entropy(self._scores(network, split, indices, ids), gold, reduction="sum")
        return Loss(losses, torch.tensor(len(gold), device=device))

    @torch.inference_mode()
    def evaluate(self, network: Network, split: Split, how: Evaluation, *, final: bool) -> dict[str, Any]:
        """``accuracy`` and mean ``loss``."""
        del final
        right, total, labelled = 0, 0.0, 0
        for indices in how.over(split):
            ids = tensor(split.padded("ids", indices, self.pad), how.device)
            gold = tensor(split.padded(LABEL, indices, UNSEEN), how.device)[:, 0]
            with how.autocast():
                scores = self._scores(network, split, indices, ids)
            total += float(functional.cross_entropy(scores, gold, reduction="sum", ignore_index=UNSEEN))
            labelled += int((gold >= 0).sum())
            right += int((scores.argmax(-1) == gold).sum())
        return {"accuracy": right / max(len(split), 1), "loss": mean(total, labelled)}
