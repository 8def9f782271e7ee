"""Pretraining as BERT's (Devlin et al. 2019): hidden words, and what the second of two texts is to the first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.data.corpus.documents import PAIR
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder
from probtrans_cli.models.network import Network, PairOutput, PretrainingOutput, Sentence
from probtrans_cli.models.transformer import TransformerEncoder
from probtrans_cli.recipe.model import Model, ProbabilisticTransformer
from probtrans_cli.recipe.task import Pretraining as Section
from probtrans_cli.tasks.base import UNSEEN, Evaluation, Loss, Task, tensor
from probtrans_cli.tasks.masking import Masks, nothing_hidden
from probtrans_cli.tasks.mlm import is_tied, perplexities, start_at_frequencies, word_output


class Outcome(NamedTuple):
    """Of a batch, or of several: summed cross entropies, how many of what they are, and how many are right."""

    word_loss: Tensor
    words: Tensor
    words_right: Tensor
    pair_loss: Tensor
    pairs: Tensor
    pairs_right: Tensor


class Pretraining(Task):
    """Loss: mean cross entropy over hidden words, plus the weighted mean over pairs. Score: perplexity."""

    metric = "perplexity"
    larger_is_better = False

    def __init__(self, section: Section, vocabulary: Vocabulary, labels: dict[str, list[str]]) -> None:
        self.section = section
        self.vocabulary = vocabulary
        self.pairs = len(labels.get(PAIR, ()))
        self.masks = Masks(section.mlm, vocabulary)

    @property
    def outputs(self) -> int:
        """One word score per vocabulary entry."""
        return self.vocabulary.size

    @property
    def tied(self) -> bool:
        """Whether the recipe wants the output layer of words tied to the unary scores."""
        return is_tied(self.section)

    def output(self, encoder: Encoder) -> nn.Module:
        """The output layers of words and, where there are some, of pairs."""
        words = word_output(self.section, self.vocabulary, encoder)
        if not self.pairs:
            return PretrainingOutput(words, None)
        return PretrainingOutput(words, PairOutput(encoder.sentence_width, self.pairs))

    def representation(self, model: Model) -> Sentence | None:
        """Of a pair: the root where there is one, else the state of `<cls>`."""
        if not self.pairs:
            return None
        rooted = isinstance(model, ProbabilisticTransformer) and model.root is not None
        return "root" if rooted else "cls"

    def start(self, network: Network, split: Split) -> None:
        """Let tied scores begin at the frequencies of the words that can be hidden."""
        start_at_frequencies(network.words, split, self.vocabulary)

    def require_something(self, split: Split, how: Evaluation) -> None:
        self.masks.require_some(split, how, min(self.section.dev_masks, self.section.eval_masks))

    def loss(self, network: Network, split: Split, indices: np.ndarray, device: torch.device) -> Loss:
        """Training loss under masks drawn afresh, or kept: its mean over words is the sum of both means."""
        found = self._outcome(network, split, indices, self.masks.draw(split, indices, device), training=True)
        of_pairs = found.pair_loss / found.pairs.clamp(min=1) * found.words.clamp(min=1)
        return Loss(found.word_loss + self.section.pair_weight * of_pairs, found.words)

    @torch.inference_mode()
    def evaluate(self, network: Network, split: Split, how: Evaluation, *, final: bool) -> dict[str, Any]:
        """``perplexity`` and ``accuracy`` of hidden words under fixed masks, ``pair_accuracy``, and the ``loss``."""
        draws = self.section.eval_masks if final else self.section.dev_masks
        sums = np.array([self._sums(network, split, how, draw) for draw in range(draws)])
        total = Outcome(*sums.sum(0))
        if total.words == 0:
            raise nothing_hidden()
        scores = perplexities(sums[:, :2])
        scores["accuracy"] = float(total.words_right / total.words)
        scores["loss"] = float(total.word_loss / total.words)
        if total.pairs:
            scores["pair_accuracy"] = float(total.pairs_right / total.pairs)
            scores["loss"] += self.section.pair_weight * float(total.pair_loss / total.pairs)
        return scores

    def _sums(self, network: Network, split: Split, how: Evaluation, draw: int) -> list[float]:
        """The outcome of a split under one draw of masks, a function of corpus and draw, not of batches."""
        uniform = self.masks.evaluation(split, draw)
        sums = np.zeros(len(Outcome._fields))
        for indices in how.over(split):
            of_batch = self.masks.batch(split, indices, uniform, how.device)
            with how.autocast():
                found = self._outcome(network, split, indices, of_batch, training=False)
            sums += [float(value) for value in found]
        return sums.tolist()

    def _outcome(self, network: Network, split: Split, indices: np.ndarray, draw: Tensor, *, training: bool) -> Outcome:
        """Losses and hits of a batch whose masks are a function of ``draw [k, b, n]``; in training at all words that
        it scores, else at the hidden ones."""
        device = draw.device
        ids = tensor(split.padded("ids", indices, self.vocabulary.PAD), device)
        hidden = self.masks.hidden(split, indices, ids, draw)
        at = self.masks.scored(ids, hidden) if training else hidden
        shown = self.masks.shown(ids, hidden, draw)
        segments = None
        if self.pairs and isinstance(network.encoder, TransformerEncoder) and network.encoder.segments is not None:
            segments = tensor(split.padded("segments", indices, 0), device)
        words, pairs = network.pretrain(shown, ids != self.vocabulary.PAD, at, segments)
        of_words = _scored(words, ids[at])
        if pairs is None:
            nothing = torch.zeros((), device=device)
            return Outcome(*of_words, nothing, nothing, nothing)
        return Outcome(*of_words, *_scored(pairs, tensor(split.padded(PAIR, indices, UNSEEN), device)[:, 0]))


def _scored(scores: Tensor, gold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Summed cross entropy, number and hits."""
    total = functional.cross_entropy(scores.float(), gold, reduction="sum")
    return total, torch.tensor(len(gold), device=gold.device), (scores.argmax(-1) == gold).sum()
