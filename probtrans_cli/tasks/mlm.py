"""Masked language modelling (Wu & Tu 2023, D.1): hide words, 30 % of them and never `<unk>`, and predict them.

Pretraining as BERT's (Devlin et al. 2019) adds what the second of two texts is to the first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.corpus.encode import PAIR
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder, Outputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import (
    BertWordOutput,
    TiedLinear,
    TiedMean,
    TiedOutput,
    WordLayer,
    word_output,
)
from probtrans_cli.recipe.task import Classification, LanguageModel, WordPrediction
from probtrans_cli.recipe.task import Pretraining as Section
from probtrans_cli.tasks.base import (
    DOUBT,
    OUTPUT,
    Answers,
    Counts,
    OutputRows,
    Places,
    Prediction,
    Questions,
    Task,
    Term,
    doubt_of,
    with_probability,
)
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.tasks.classification import SentenceClassification
from probtrans_cli.tasks.masking import Masks, nothing_hidden
from probtrans_cli.tasks.parts import Part, Parts

LARGEST_LOSS = 300.0  # so that a perplexity, and the variance of several, stays a finite number
BERT_WORDS = "words"  # the part of a network that is an output layer of words in BERT's form
IDS = "ids"  # the gold column of the tokens that were hidden
MOST_PROBABLE = 5  # words of a prediction


class PredictedWords(Task):
    """Words of the vocabulary are predicted, at the tokens that are scored: hidden ones, or those of the batch."""

    section: WordPrediction | LanguageModel

    def __init__(
        self,
        section: WordPrediction | LanguageModel,
        vocabulary: Vocabulary,
        labels: Mapping[str, Sequence[str]],
    ) -> None:
        super().__init__(section, vocabulary, labels)
        self.outputs, self.sampled = vocabulary.size, section.sampled
        self._chances: tuple[Split, Tensor] | None = None  # of the words of the latest split

    @torch.no_grad()
    def start(self, network: Network, split: Split) -> None:
        """Begin with the biases of words at their frequencies in training, ``β_w = log (f(w) + 1) / Σ``, where the
        recipe says so; special entries count as if they did not occur."""
        wanted, words = self.section.start_at_frequencies, network.words
        if isinstance(words, TiedOutput | TiedMean) if wanted is None else wanted:
            counts = frequencies(split, self.vocabulary)
            bias: Any = words.bias
            bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))

    def with_candidates(self, batch: Batch, gold: Int[Tensor, " m"]) -> Batch:
        """Draw what a training compares the ``gold`` words with, in place of the whole vocabulary: the words of the
        batch, and others by their frequency ``f``, in each update anew (not in the paper).

        Words of the batch are always there, and any other with the chance ``π_w = min(1, c f_w)``; the sum of all ``π``
        is the number that the recipe wants (`task.sampled`; null: the batch stays as it is). With ``s_w - log π_w`` in
        place of the score ``s_w``, the sum of ``exp`` over what is drawn is on average that over the vocabulary, so the
        gradient is nearly that of the full loss.
        """
        if self.sampled is None:
            return batch
        if self._chances is None or self._chances[0] is not batch.split:
            frequency = torch.from_numpy(frequencies(batch.split, self.vocabulary))
            self._chances = batch.split, chances(frequency, self.sampled).float().to(gold.device)
        chance = self._chances[1].index_fill(0, gold, 1.0)
        ids = (torch.rand(chance.shape).to(gold.device) < chance).nonzero()[:, 0]
        return replace(batch, candidates=ids, log_chance=chance[ids].log())

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        assert batch.scored is not None, "the batch is one of training or evaluation"
        return {"loss": batch.scored.sum()}

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the cross entropy at the tokens that are scored."""
        total = cross_entropy(outputs, batch, batch.picked(batch.gold.get(IDS, batch.ids)))
        return {"loss": Term(total, self.counts(batch)["loss"])}

    def questions(self, batch: Batch) -> Questions:
        assert batch.scored is not None, "the batch is one of evaluation"
        gold = batch.gold.get(IDS, batch.ids)
        return Questions("words", gold[batch.scored], batch.scored.nonzero()[:, 0])


def rows_of_words(layer: WordLayer) -> dict[str, OutputRows]:
    """Return what the rows of an output layer of words stand for: see :attr:`Task.output_rows`."""
    if isinstance(layer, BertWordOutput):
        return {BERT_WORDS: OutputRows("words in BERT's form")}
    return {OUTPUT: OutputRows(f"words by {'their vectors' if layer.reads_table else 'a linear layer'}")}


class MaskedLanguageModelling(PredictedWords):
    """Loss: mean cross entropy over hidden words. Score: perplexity, of all fixed mask draws together."""

    answers = Answers(
        kind="words",
        alternatives_in=("tree", "svg", "html", "latex", "displacy"),
        rules={"most": MOST_PROBABLE},  # words of each mask
    )
    has_accuracy = False  # whether accuracy is one of its scores
    section: WordPrediction

    def __init__(self, section: WordPrediction, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        self.masks = Masks(section.mlm, vocabulary)
        self.answers = replace(self.answers, draws=section.eval_masks)

    def output(self, encoder: Encoder) -> WordLayer:
        """Make the output layer that the recipe asks for: linear, the unary scores, or BERT's own. Of the first two
        padding and `<mask>` have no probability; BERT's is as `transformers` has it."""
        never = (self.vocabulary.PAD, self.vocabulary.MASK)
        words = word_output(self.section.output, encoder, self.vocabulary.size, never, tied=self.section.facts.tied)
        if isinstance(words, TiedLinear):
            words.scale /= self.section.word_weight
        self.output_rows = rows_of_words(words)
        return words

    # --- batches ------------------------------------------------------------------------------------------------------

    def training(self, batch: Batch) -> Batch:
        """Hide some tokens, by masks drawn afresh or kept; score these, or all."""
        draw = self.masks.uniform(batch)
        hidden = self.masks.hidden(batch, draw)
        scored = hidden if self.section.mlm.loss_positions == "masked" else batch.ids != self.vocabulary.PAD
        return self.with_candidates(self._shown(batch, hidden, draw, scored), batch.ids[scored])

    def evaluation(self, batch: Batch, number: int) -> Batch:
        """Hide and score the tokens of a draw of masks, which is a function of the corpus and the draw alone."""
        draw = self.masks.uniform(batch, number)
        hidden = self.masks.hidden(batch, draw)
        return replace(self._shown(batch, hidden, draw, hidden), number=number)

    def _shown(self, batch: Batch, hidden: Tensor, draw: Tensor, scored: Tensor) -> Batch:
        shown = self.masks.shown(batch.ids, hidden, draw)
        return replace(batch, ids=shown, gold={**batch.gold, IDS: batch.ids}, scored=scored)

    # --- answers ------------------------------------------------------------------------------------------------------

    def wants(self, batch: Batch) -> Wants:
        """Ask for scores of what is hidden; where nothing was hidden, of what is written as a mask."""
        tokens = batch.ids == self.vocabulary.MASK if batch.scored is None else batch.scored
        return Wants(tokens=tokens, candidates=batch.candidates)

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        loss = self.terms(outputs, batch)["loss"]
        counts = Counts({("loss", batch.number): float(loss.sum), ("words", batch.number): float(loss.count)})
        if self.has_accuracy:
            right = outputs.scores["words"].argmax(-1) == batch.gold[IDS][batch.scored]
            counts["right", batch.number] = float(right.sum())
        return counts

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """Return ``perplexity`` of the pooled ``loss``; where there are several mask draws, the standard error of their
        own perplexities, and how many they are."""
        del final
        draws = sorted({draw for _, draw in counts})
        sums = np.array([[counts[name, draw] for name in ("loss", "words")] for draw in draws])
        if not draws or sums[:, 1].sum() == 0:
            raise nothing_hidden()
        total, number = sums.sum(0)  # the loss of all draws is pooled
        loss = float(total / number)
        scores: dict[str, Any] = {"perplexity": perplexity(loss)}
        with_words = sums[sums[:, 1] > 0]
        if len(with_words) > 1:
            each = np.array([perplexity(total / number) for total, number in with_words])
            scores["perplexity_se"] = float(each.std(ddof=1) / math.sqrt(len(with_words)))
            scores["masks"] = len(with_words)
        if self.has_accuracy:
            scores["accuracy"] = sum(counts["right", draw] for draw in draws) / float(number)
        return {**scores, "loss": loss}

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """Return ``masks``: of every word that is written as a mask its number from 0 (``word``), the most probable
        ``words`` there, the best first, and their ``probabilities``; ``top`` of them, or 5."""
        predictions: list[Prediction] = [{"masks": []} for _ in batch.indices]
        if "words" not in outputs.scores:  # nothing is written as a mask
            return predictions
        scores = outputs.scores["words"].float().softmax(-1)
        best, ids = scores.topk(min(top or MOST_PROBABLE, scores.shape[-1]), dim=-1)
        at = self.wants(batch).tokens
        assert at is not None, "tokens are wanted"
        doubt = doubt_of(outputs, "words")
        rows = zip(at.nonzero().tolist(), ids.tolist(), best.tolist(), strict=True)
        for number, ((row, token), of_token, chances) in enumerate(rows):
            word = token if batch.first is None else batch.first[row].tolist().index(token)
            words = [self.vocabulary.decode(id) for id in of_token]
            parts = {name: values[number] for name, values in doubt.items()}
            predictions[row]["masks"].append({"word": word, "words": words, "probabilities": chances, **parts})
        return predictions

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return the words, below the masks."""
        masks = {mask["word"]: mask for mask in prediction["masks"]}
        notes: list[list[str]] = [[] for _ in range(max(masks, default=-1) + 1)]
        for word, mask in masks.items():
            chances = mask["probabilities"] if probability else [None] * len(mask["words"])
            notes[word] = [with_probability(*pair) for pair in zip(mask["words"], chances, strict=True)]
        return Places(notes=notes)


def chances(frequency: Float[Tensor, " v"], number: float) -> Float[Tensor, " v"]:
    """Return ``π = min(1, c f)``, whose sum is ``number``; 1 for all where there are no more words than that."""
    certain = torch.zeros_like(frequency, dtype=torch.bool)
    while not certain.all():
        scaled = (number - certain.sum()) / frequency[~certain].sum() * frequency
        if not (more := (scaled >= 1.0) & ~certain).any():
            return scaled.masked_fill(certain, 1.0)
        certain |= more
    return torch.ones_like(frequency)


def cross_entropy(outputs: Outputs, batch: Batch, gold: Int[Tensor, " m"]) -> Float[Tensor, ""]:
    """Return the sum over the words that are scored; of a batch with candidates, its estimate from them."""
    scores = outputs.scores["words"].float()
    if batch.candidates is not None and batch.log_chance is not None:
        scores, gold = scores - batch.log_chance, torch.searchsorted(batch.candidates, gold)
    return functional.cross_entropy(scores, gold, reduction="sum")


def frequencies(split: Split, vocabulary: Vocabulary) -> np.ndarray:
    """Return how often each entry of the vocabulary occurs in a split, special ones not counted, and 1 more."""
    counts = np.zeros(vocabulary.size)
    for ids in split.columns("ids"):
        counts += np.bincount(ids, minlength=vocabulary.size)
    counts[list(vocabulary.specials)] = 0.0
    return counts + 1.0


def perplexity(loss: float) -> float:
    return math.exp(min(loss, LARGEST_LOSS))


class HiddenWords(MaskedLanguageModelling):
    """Hidden words, scored by accuracy, too."""

    has_accuracy = True


class Pairs(SentenceClassification):
    """What the second of two texts is to the first."""

    places = Task.places  # JSON alone has them
    column, texts = PAIR, "pairs of texts"
    std = 0.02


class Pretraining(Parts):
    """Loss: mean cross entropy over hidden words, plus the weighted mean over pairs. Score: perplexity."""

    section: Section

    def __init__(self, section: Section, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        words = HiddenWords(section, vocabulary, labels)
        self.answers = words.answers
        parts = {"words": Part(words)}
        if labels.get(PAIR):
            parts[PAIR] = Part(
                Pairs(Classification(kind="classification"), vocabulary, labels),
                section.pair_weight,
                scores={"accuracy": "pair_accuracy"},
                answers={f"label{name}": f"{PAIR}{name}" for name in ("", "_probability", *(f"_{it}" for it in DOUBT))},
            )
        super().__init__(section, vocabulary, labels, parts)
