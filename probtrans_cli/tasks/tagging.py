"""Sequence labelling (Wu & Tu 2023, D.2): one tag per word, from its representation by one linear layer."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.store import Split
from probtrans_cli.data.vocabulary import Vocabulary
from probtrans_cli.models.heads import Network
from probtrans_cli.recipe import Tagging
from probtrans_cli.tasks.base import Evaluation, Loss, Task, features, tensor

NO_LABEL = -2  # padding; -1 is a label that the training file does not have: never predicted, counted as wrong


class WordTagging(Task):
    """Loss: cross entropy of the tags. Score: accuracy, also of known and of unknown words apart."""

    metric = "accuracy"
    larger_is_better = True

    def __init__(self, section: Tagging, vocabulary: Vocabulary, labels: dict[str, list[str]]) -> None:
        self.section = section
        self.names = labels[section.column]
        self.pad, self.unknown = vocabulary.PAD, vocabulary.UNKNOWN

    @property
    def outputs(self) -> int:
        """One score per tag."""
        return len(self.names)

    def _scores(self, network: Network, split: Split, indices: np.ndarray, ids: Tensor, at: Tensor) -> Tensor:
        """Tag scores ``[words, tags]`` at the words where ``at [b, w]`` is True, read at the word's first piece."""
        if split.has("first"):
            first = tensor(split.padded("first", indices, 0), ids.device)
            sentences, _ = at.nonzero(as_tuple=True)
            at_pieces = torch.zeros_like(ids, dtype=torch.bool)
            at_pieces[sentences, first[at]] = True
            at = at_pieces
        scores: Tensor = network(ids, ids != self.pad, at, features(split, indices, ids.device))
        return scores

    def loss(self, network: Network, split: Split, indices: np.ndarray, device: torch.device) -> Loss:
        """Training loss, summed over words, or summed over sentences of means over words."""
        ids = tensor(split.padded("ids", indices, self.pad), device)
        gold = tensor(split.padded(self.section.column, indices, NO_LABEL), device)
        at = gold >= 0
        if self.section.word_dropout > 0.0:
            ids = ids.masked_fill(self._dropped(split, indices, ids) & (ids != self.pad), self.unknown)
        losses = functional.cross_entropy(
            self._scores(network, split, indices, ids, at).float(), gold[at], reduction="none"
        )
        if self.section.loss == "words":
            return Loss(losses.sum(), at.sum())
        words = at.sum(1, keepdim=True).expand_as(at)[at]
        return Loss((losses / words).sum(), at.any(1).sum())

    def _dropped(self, split: Split, indices: np.ndarray, ids: Tensor) -> Tensor:
        """Which of ``ids [b, n]`` word dropout replaces: True with probability alpha / (alpha + f), for whole words."""
        frequency = tensor(split.padded("frequency", indices, 0), ids.device)
        alpha = self.section.word_dropout
        drop = torch.rand(frequency.shape).to(ids.device) * (alpha + frequency) < alpha
        if not split.has("first"):
            return drop
        first = tensor(split.padded("first", indices, ids.shape[1]), ids.device)  # behind the end: no piece's word
        pieces = torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1).contiguous()
        return drop.gather(1, torch.searchsorted(first, pieces, right=True) - 1)

    @torch.no_grad()
    def evaluate(self, network: Network, split: Split, how: Evaluation, *, final: bool) -> dict[str, float]:
        """``accuracy``, ``accuracy_known``, ``accuracy_unknown`` (words not in train), ``loss``, ``unknown_rate``."""
        del final
        right, count = np.zeros(2), np.zeros(2)
        total = 0.0
        for indices in how.over(split):
            ids = tensor(split.padded("ids", indices, self.pad), how.device)
            gold = tensor(split.padded(self.section.column, indices, NO_LABEL), how.device)
            at = gold != NO_LABEL
            with how.autocast():
                scores = self._scores(network, split, indices, ids, at).float()
            gold = gold[at]
            total += float(functional.cross_entropy(scores, gold, reduction="sum", ignore_index=-1))
            correct = (scores.argmax(-1) == gold).cpu().numpy()
            unknown = split.padded("frequency", indices, 0)[at.cpu().numpy()] == 0
            right += (correct & ~unknown).sum(), (correct & unknown).sum()
            count += (~unknown).sum(), unknown.sum()
        share = right / np.maximum(count, 1)
        words = max(float(count.sum()), 1.0)
        scores_by_name = {
            "accuracy": float(right.sum() / words),
            "loss": total / words,
            "unknown_rate": float(count[1] / words),
        }
        scores_by_name |= {
            name: float(share[i]) for i, name in enumerate(("accuracy_known", "accuracy_unknown")) if count[i]
        }
        return scores_by_name
