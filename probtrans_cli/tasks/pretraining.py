"""Pretraining as BERT's (Devlin et al. 2019): hidden words, and what the second of two texts is to the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.corpus.documents import PAIR
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder, Outputs, Wants
from probtrans_cli.models.network import Network, Sentence
from probtrans_cli.models.outputs import PairOutput, PretrainingOutput
from probtrans_cli.recipe.model import ModelSection
from probtrans_cli.recipe.task import Pretraining as Section
from probtrans_cli.tasks.answers import doubt_of
from probtrans_cli.tasks.base import Counts, OutputRows, Prediction, Term
from probtrans_cli.tasks.batch import UNLEARNED, Batch
from probtrans_cli.tasks.classification import what_reads
from probtrans_cli.tasks.mlm import IDS, WordPrediction, perplexities, sums_of

COUNTED = ("loss", "words", "right", "pair loss", "pairs", "right pairs")


class Pretraining(WordPrediction):
    """Loss: mean cross entropy over hidden words, plus the weighted mean over pairs. Score: perplexity."""

    section: Section

    def __init__(self, section: Section, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        self.names = tuple(labels.get(PAIR, ()))

    def output(self, encoder: Encoder) -> PretrainingOutput:
        """The output layers of words and, where there are some, of pairs."""
        words = self.word_output(encoder)
        return PretrainingOutput(
            words, PairOutput(encoder.facts.sentence_width, len(self.names)) if self.names else None
        )

    def representation(self, model: ModelSection) -> Sentence | None:
        """Of a pair: the root where there is one, else the state of `<cls>`."""
        if not self.names:
            return None
        return "root" if model.facts.has_root else "cls"

    def output_rows(self, network: Network) -> dict[str, OutputRows]:
        of_pairs = {PAIR: OutputRows(f"pairs of texts by {what_reads(network)}", self.names)} if self.names else {}
        return super().output_rows(network) | of_pairs

    @property
    def columns(self) -> Mapping[str, int]:
        return {PAIR: UNLEARNED} if self.names else {}

    def wants(self, batch: Batch) -> Wants:
        return replace(super().wants(batch), sentence=bool(self.names))

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        """Tokens that are scored, and pairs."""
        assert batch.scored is not None, "masks were drawn"
        pairs = {"pairs": batch.sentences} if self.names else {}
        return {"words": batch.scored.sum(), **pairs}

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """The cross entropies at the tokens that are scored, and of the pairs."""
        counts = self.counts(batch)
        words = _cross_entropy(outputs.scores["words"], batch.picked(batch.gold[IDS]))
        terms_of_loss = {"words": Term(words, counts["words"])}
        if self.names:
            pairs = _cross_entropy(outputs.scores["pair"], batch.gold[PAIR][:, 0])
            terms_of_loss["pairs"] = Term(pairs, counts["pairs"], self.section.pair_weight)
        return terms_of_loss

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Summed losses, how many of what they are, and how many are right, draw by draw."""
        terms = self.terms(outputs, batch)
        counts = {"loss": terms["words"].sum, "words": terms["words"].count}
        counts["right"] = (outputs.scores["words"].argmax(-1) == batch.gold[IDS][batch.scored]).sum()
        if self.names:
            counts |= {"pair loss": terms["pairs"].sum, "pairs": terms["pairs"].count}
            counts["right pairs"] = (outputs.scores["pair"].argmax(-1) == batch.gold[PAIR][:, 0]).sum()
        return Counts({(name, batch.number): float(value) for name, value in counts.items()})

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """``perplexity`` and ``accuracy`` of hidden words under fixed masks, ``pair_accuracy``, and the ``loss``."""
        sums = sums_of(counts, self.passes(final=final), COUNTED)
        loss, words, right, pair_loss, pairs, right_pairs = sums.sum(0)
        scores: dict[str, Any] = dict(perplexities(sums[:, :2]))
        scores["accuracy"] = float(right / words)
        scores["loss"] = float(loss / words)
        if pairs:
            scores["pair_accuracy"] = float(right_pairs / pairs)
            scores["loss"] += self.section.pair_weight * float(pair_loss / pairs)
        return scores

    def says_nothing(self, batch: Batch) -> bool:
        """Neither is anything written as a mask, nor were pairs learned."""
        return not self.names and super().says_nothing(batch)

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """``masks`` as of a masked language model; where pairs were learned, the ``pair`` and its probability."""
        predictions = super().predict(outputs, batch, top)
        if not self.names:
            return predictions
        best, labels = outputs.scores["pair"].float().softmax(-1).max(-1)
        for name, values in doubt_of(outputs, PAIR, f"{PAIR}_").items():
            predictions = [{**prediction, name: value} for prediction, value in zip(predictions, values, strict=True)]
        return [
            {**of_words, "pair": self.names[id], "pair_probability": probability}
            for of_words, id, probability in zip(predictions, labels.tolist(), best.tolist(), strict=True)
        ]


def _cross_entropy(scores: Tensor, gold: Tensor) -> Tensor:
    return functional.cross_entropy(scores.float(), gold, reduction="sum")
