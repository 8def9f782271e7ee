"""Sequence labelling (Wu & Tu 2023, D.2): one tag per word, from its representation by one linear layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.task import EntityRecognition, Tagging, learned
from probtrans_cli.tasks.base import (
    PADDING,
    UNSEEN,
    Evaluation,
    Loss,
    Task,
    mean,
    tensor,
    without_some_words,
    word_scores,
)


class Predicted(NamedTuple):
    """A batch after evaluation: sentence ``indices [b]``, label ids of all words ``[b, w]``, and the summed loss."""

    indices: np.ndarray
    predicted: np.ndarray
    gold: np.ndarray
    loss: float


class WordTagging(Task):
    """Loss: cross entropy of the tags. Score: accuracy, also of known and of unknown words apart."""

    metric = "accuracy"
    larger_is_better = True

    def __init__(
        self, section: Tagging | EntityRecognition, vocabulary: Vocabulary, labels: dict[str, list[str]]
    ) -> None:
        self.section = section
        (self.column,) = learned(section)
        self.names = labels[self.column]
        self.vocabulary, self.pad = vocabulary, vocabulary.PAD

    @property
    def outputs(self) -> int:
        """One score per tag."""
        return len(self.names)

    def loss(self, network: Network, split: Split, indices: np.ndarray, device: torch.device) -> Loss:
        """Training loss, summed over words, or summed over sentences of means over words."""
        ids = tensor(split.padded("ids", indices, self.pad), device)
        gold = tensor(split.padded(self.column, indices, PADDING), device)
        at = gold >= 0
        ids = without_some_words(split, indices, ids, self.section.word_dropout, self.vocabulary)
        scores = word_scores(network, split, indices, ids, at).float()
        losses = functional.cross_entropy(scores, gold[at], reduction="none")
        if self.section.loss == "words":
            return Loss(losses.sum(), at.sum())
        words = at.sum(1, keepdim=True).expand_as(at)[at]
        return Loss((losses / words).sum(), at.any(1).sum())

    def predictions(self, network: Network, split: Split, how: Evaluation) -> Iterator[Predicted]:
        """Every batch of a split with its best tags; ``PADDING`` at padding."""
        for indices in how.over(split):
            ids = tensor(split.padded("ids", indices, self.pad), how.device)
            gold = tensor(split.padded(self.column, indices, PADDING), how.device)
            at = gold != PADDING
            with how.autocast():
                scores = word_scores(network, split, indices, ids, at).float()
            loss: Tensor = functional.cross_entropy(scores, gold[at], reduction="sum", ignore_index=UNSEEN)
            predicted = torch.full_like(gold, PADDING).masked_scatter(at, scores.argmax(-1))
            yield Predicted(indices, predicted.cpu().numpy(), gold.cpu().numpy(), float(loss))

    @torch.inference_mode()
    def evaluate(self, network: Network, split: Split, how: Evaluation, *, final: bool) -> dict[str, Any]:
        """``accuracy``, ``accuracy_known``, ``accuracy_unknown`` (words not in train), ``loss``, ``unknown_rate``."""
        del final
        right, count = np.zeros(2), np.zeros(2)
        total, labelled = 0.0, 0
        for indices, predicted, gold, loss in self.predictions(network, split, how):
            total, labelled = total + loss, labelled + int((gold >= 0).sum())
            unknown = split.padded("frequency", indices, 0) == 0
            for known, where in enumerate((~unknown, unknown)):
                real = where & (gold != PADDING)
                right[known] += (predicted == gold)[real].sum()
                count[known] += real.sum()
        share = right / np.maximum(count, 1)
        words = max(float(count.sum()), 1.0)
        scores = {
            "accuracy": float(right.sum() / words),
            "loss": mean(total, labelled),
            "unknown_rate": float(count[1] / words),
        }
        return scores | {
            name: float(share[i]) for i, name in enumerate(("accuracy_known", "accuracy_unknown")) if count[i]
        }
