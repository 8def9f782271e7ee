"""Causal language modelling: every word is predicted from the words before it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder, Outputs, Readout, Wants
from probtrans_cli.models.outputs import TiedLinear, TiedMean, WordLayer, word_output
from probtrans_cli.recipe.task import LanguageModel
from probtrans_cli.tasks.base import Answers, Counts, Places, Prediction
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.tasks.mlm import PredictedWords, perplexity, rows_of_words


class CausalLanguageModelling(PredictedWords):
    """Loss: mean cross entropy of words. Score: perplexity."""

    answers = Answers(kind="surprisal", alternatives=False)
    section: LanguageModel

    def __init__(self, section: LanguageModel, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        self._unscored = sorted({*vocabulary.specials} - {vocabulary.UNKNOWN})
        rules = {"unscored": self._unscored, "score_first": section.score_first}
        readout = Readout(section.rounds if section.readout == "mean-field" else None)
        self.answers = replace(self.answers, rules=rules, readout=readout)

    def output(self, encoder: Encoder) -> WordLayer:
        section, size, never = self.section, self.vocabulary.size, (self.vocabulary.PAD, self.vocabulary.MASK)
        if encoder.facts.has_head_variables and section.readout == "mean-field":
            assert encoder.latent_mean is not None, "it has latent variables"
            gains = encoder.facts.width if encoder.facts.has_gains else 0
            words: WordLayer = TiedMean(size, encoder.latent_mean, gains=gains, never=never)
        elif not section.word_bias:
            words = TiedLinear(size, never=never, bias=False, scale=encoder.logit_scale)
        else:
            words = word_output(section.output, encoder, size, never, tied=section.facts.tied)
        if section.start_at_frequencies == "fixed":
            words.bias.requires_grad_(False)
        self.output_rows = rows_of_words(words)
        return words

    def _scored(self, batch: Batch) -> Tensor:
        scored = batch.mask
        for special in self._unscored:
            scored = scored & (batch.ids != special)
        return scored if self.section.score_first else scored & (scored.cumsum(1) > 1)

    def training(self, batch: Batch) -> Batch:
        scored = self._scored(batch)
        return self.with_candidates(replace(batch, scored=scored), batch.ids[scored])

    def evaluation(self, batch: Batch, number: int) -> Batch:
        return replace(batch, number=number, scored=self._scored(batch))

    def wants(self, batch: Batch) -> Wants:
        scored = self._scored(batch) if batch.scored is None else batch.scored
        return Wants(tokens=scored, readout=self.answers.readout, candidates=batch.candidates)

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Sum the loss and count words; add the squares, over texts, from which the standard error follows."""
        losses = functional.cross_entropy(outputs.scores["words"].float(), batch.picked(batch.ids), reduction="none")
        assert batch.scored is not None, "the batch is one of evaluation"
        number = batch.scored.sum(1).double()
        of_texts = torch.stack([part.sum() for part in torch.split(losses.double(), number.long().tolist())])
        sums = {
            "loss": of_texts.sum(),
            "words": number.sum(),
            "loss²": of_texts.square().sum(),
            "loss words": (of_texts * number).sum(),
            "words²": number.square().sum(),
            "texts": (number > 0).sum(),
        }
        return Counts({name: float(value) for name, value in sums.items()})

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """Return ``perplexity`` of a word, its standard error over texts (of two or more), and the mean ``loss``."""
        loss = counts.mean("loss", "words")
        if loss is None:
            return {"perplexity": None, "loss": None}
        scores: dict[str, Any] = {"perplexity": perplexity(loss), "loss": loss}
        if final and counts["texts"] > 1:
            deviations = counts["loss²"] - 2.0 * loss * counts["loss words"] + loss**2 * counts["words²"]
            scores["perplexity_se"] = scores["perplexity"] * math.sqrt(max(deviations, 0.0)) / counts["words"]
        return scores

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """Return of every word ``surprisal`` and ``entropy`` in bits, and its ``rank`` among all words, from 1.

        None for a word that is not scored; of a word of several tokens the sums, and the worst rank.
        """
        del top
        scored = self._scored(batch)
        log_p = outputs.scores["words"].float().log_softmax(-1)
        own = log_p.gather(1, batch.ids[scored][:, None])
        bits = torch.stack([-own[:, 0], torch.special.entr(log_p.exp()).sum(-1)]) / math.log(2.0)
        ranks = (log_p > own).sum(-1) + 1
        rows: list[Prediction] = []
        tokens = batch.ids.new_full(scored.shape, -1)
        tokens[scored] = torch.arange(int(scored.sum()), device=scored.device)
        for row, words in enumerate(batch.words.sum(1).tolist()):
            begins = list(range(words)) if batch.first is None else batch.first[row, :words].tolist()
            ends = [*begins[1:], batch.mask.shape[1]][: len(begins)]  # padding and specials have no number
            of_words = [tokens[row, begin:end] for begin, end in zip(begins, ends, strict=True)]
            of_words = [numbers[numbers >= 0] for numbers in of_words]
            values = [bits[:, numbers].sum(1).tolist() if len(numbers) else (None, None) for numbers in of_words]
            rows.append(
                {
                    "surprisal": [surprisal for surprisal, _ in values],
                    "entropy": [entropy for _, entropy in values],
                    "rank": [int(ranks[numbers].max()) if len(numbers) else None for numbers in of_words],
                }
            )
        return rows

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return the surprisal, in MISC and below the words."""
        del probability
        bits = ["" if value is None else f"{value:.4f}" for value in prediction["surprisal"]]
        return Places(misc={"Surprisal": bits}, notes=[[f"{float(value):.1f}"] if value else [] for value in bits])
