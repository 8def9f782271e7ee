"""Pretraining as BERT's (Devlin et al. 2019): hidden words, and what the second of two texts is to the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from probtrans_cli.data.corpus.documents import PAIR
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Outputs
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import PairOutput
from probtrans_cli.recipe.task import Classification
from probtrans_cli.recipe.task import Pretraining as Section
from probtrans_cli.tasks.answers import DOUBT
from probtrans_cli.tasks.base import OUTPUT, Counts, OutputRows, Places, Prediction
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.tasks.classification import SentenceClassification, what_reads
from probtrans_cli.tasks.mlm import IDS, MaskedLanguageModelling
from probtrans_cli.tasks.parts import Part, Parts


class HiddenWords(MaskedLanguageModelling):
    """Hidden words, scored by accuracy, too."""

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        counts = super().measure(outputs, batch)
        right = outputs.scores["words"].argmax(-1) == batch.gold[IDS][batch.scored]
        counts["right", batch.number] = float(right.sum())
        return counts

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        scores = super().scores(counts, final=final)
        loss = scores.pop("loss")
        right, words = (sum(n for key, n in counts.items() if key[0] == name) for name in ("right", "words"))
        return {**scores, "accuracy": right / words, "loss": loss}


class Pairs(SentenceClassification):
    """What the second of two texts is to the first."""

    column = PAIR
    layer = PairOutput

    def output_rows(self, network: Network) -> dict[str, OutputRows]:
        return {OUTPUT: OutputRows(f"pairs of texts by {what_reads(network)}", tuple(self.names))}


class Pretraining(Parts):
    """Loss: mean cross entropy over hidden words, plus the weighted mean over pairs. Score: perplexity."""

    answers = MaskedLanguageModelling.answers
    section: Section

    def __init__(self, section: Section, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        parts = {"words": Part(HiddenWords(section, vocabulary, labels))}
        if labels.get(PAIR):
            parts[PAIR] = Part(
                Pairs(Classification(kind="classification"), vocabulary, labels),
                section.pair_weight,
                scores={"accuracy": "pair_accuracy"},
                answers={f"label{name}": f"{PAIR}{name}" for name in ("", "_probability", *(f"_{it}" for it in DOUBT))},
            )
        super().__init__(section, vocabulary, labels, parts)

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return those of the hidden words alone."""
        return self.tasks["words"].places(prediction, probability=probability)
