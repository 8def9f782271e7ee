"""Masked language modelling (Wu & Tu 2023, D.1): hide words, 30 % of them and never `<unk>`, and predict them."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder
from probtrans_cli.models.network import Network, TiedOutput, WordOutput, bert_words, tied
from probtrans_cli.models.transformer import TransformerEncoder
from probtrans_cli.recipe.task import MaskedLanguageModel, Pretraining
from probtrans_cli.tasks.base import Evaluation, Loss, Task, features, tensor
from probtrans_cli.tasks.masking import Masks, nothing_hidden

LARGEST_LOSS = 300.0  # so that a perplexity, and the variance of several, stays a finite number


class MaskedLanguageModelling(Task):
    """Loss: mean cross entropy over hidden words. Score: perplexity over fixed mask draws."""

    metric = "perplexity"
    larger_is_better = False

    def __init__(self, section: MaskedLanguageModel, vocabulary: Vocabulary, labels: dict[str, list[str]]) -> None:
        del labels
        self.section = section
        self.vocabulary = vocabulary
        self.masks = Masks(section.mlm, vocabulary)

    @property
    def outputs(self) -> int:
        """One score per vocabulary entry."""
        return self.vocabulary.size

    @property
    def tied(self) -> bool:
        """Whether the recipe wants the output layer tied to the unary scores."""
        return is_tied(self.section)

    def output(self, encoder: Encoder) -> nn.Module:
        """A linear layer, the unary scores, or BERT's own."""
        return word_output(self.section, self.vocabulary, encoder)

    def start(self, network: Network, split: Split) -> None:
        """Let tied scores begin at the frequencies of the words that can be hidden."""
        start_at_frequencies(network.words, split, self.vocabulary)

    def require_something(self, split: Split, how: Evaluation) -> None:
        self.masks.require_some(split, how, min(self.section.dev_masks, self.section.eval_masks))

    def loss(self, network: Network, split: Split, indices: np.ndarray, device: torch.device) -> Loss:
        """Training loss under masks drawn afresh, or kept."""
        draw = self.masks.draw(split, indices, device)
        return self._loss(network, split, indices, draw, training=True)

    def _loss(self, network: Network, split: Split, indices: np.ndarray, draw: Tensor, *, training: bool) -> Loss:
        """Cross entropy at the words hidden by ``draw [k, b, n]``, or at all that the training scores."""
        ids = tensor(split.padded("ids", indices, self.vocabulary.PAD), draw.device)
        hidden = self.masks.hidden(split, indices, ids, draw)
        at = self.masks.scored(ids, hidden) if training else hidden
        shown = self.masks.shown(ids, hidden, draw)
        scores = network(shown, ids != self.vocabulary.PAD, at, features(split, indices, ids.device))
        return Loss(functional.cross_entropy(scores.float(), ids[at], reduction="sum"), at.sum())

    @torch.inference_mode()
    def evaluate(self, network: Network, split: Split, how: Evaluation, *, final: bool) -> dict[str, float]:
        """``perplexity``, its standard error over mask draws where there are several, and the mean ``loss``."""
        draws = self.section.eval_masks if final else self.section.dev_masks
        sums = np.array([self._sums(network, split, how, draw) for draw in range(draws)])
        total, count = sums.sum(0)
        if count == 0:
            raise nothing_hidden()
        return {**perplexities(sums), "loss": float(total / count)}

    def _sums(self, network: Network, split: Split, how: Evaluation, draw: int) -> tuple[float, float]:
        """Summed loss and number of hidden words under one mask draw, a function of corpus and draw, not of batches."""
        uniform = self.masks.evaluation(split, draw)
        total = count = 0.0
        for indices in how.over(split):
            of_batch = self.masks.batch(split, indices, uniform, how.device)
            with how.autocast():
                loss = self._loss(network, split, indices, of_batch, training=False)
            total += float(loss.total)
            count += float(loss.number)
        return total, count


def is_tied(section: MaskedLanguageModel | Pretraining) -> bool:
    """Whether words are scored by the unary scores."""
    return section.output == "tied" or (section.output == "bert" and section.tie_decoder)


def word_output(section: MaskedLanguageModel | Pretraining, vocabulary: Vocabulary, encoder: Encoder) -> nn.Module:
    """The output layer of words that a recipe asks for. Of a linear and a tied one padding and `<mask>` have no
    probability; BERT's is as `transformers` has it."""
    words, never = vocabulary.size, (vocabulary.PAD, vocabulary.MASK)
    if section.output == "bert":
        assert isinstance(encoder, TransformerEncoder), "the recipe was checked"
        return bert_words(words, encoder, tied=is_tied(section))
    return tied(words, never)(encoder) if is_tied(section) else WordOutput(encoder.width, words, never=never)


@torch.no_grad()
def start_at_frequencies(output: nn.Module, split: Split, vocabulary: Vocabulary) -> None:
    """Let tied scores begin at the frequencies of the words that can be hidden, ``β_w = log (f(w) + 1) / Σ``.

    The optimizer would take thousands of steps to find them.
    """
    if not isinstance(output, TiedOutput):
        return
    counts = np.bincount(split.column("ids"), minlength=vocabulary.size).astype(np.float64)
    counts[list(vocabulary.specials)] = 0.0
    output.bias.copy_(torch.from_numpy(np.log((counts + 1.0) / (counts + 1.0).sum())))


def perplexities(sums: np.ndarray) -> dict[str, float]:
    """``perplexity``, and where there are several mask draws its standard error over them and their number.

    ``sums [masks, 2]``: the summed loss and the number of hidden words of every draw, of some of which there are any.
    """
    total, count = sums.sum(0)
    scores = {"perplexity": _perplexity(float(total / count))}
    some = sums[sums[:, 1] > 0]
    if len(some) > 1:
        each = np.array([_perplexity(total / count) for total, count in some])
        scores["perplexity_se"] = float(each.std(ddof=1) / math.sqrt(len(some)))
        scores["masks"] = len(some)
    return scores


def _perplexity(loss: float) -> float:
    return math.exp(min(loss, LARGEST_LOSS))
