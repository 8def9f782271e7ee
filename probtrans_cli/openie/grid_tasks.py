"""What the tasks over grids share: rows of labels of a sentence, their loss, and how the rows are read.

    L = mean over words of Σ_m w(y_mn) (-log p_mn(y_mn)),        w(no label) = `none_weight`, w = 1 else

Words are those of the sentence and the extra ones behind them. Rows that a sentence does not have are rows without any
label. The labels of a row end where it lacks one of the two that every row has: then there are no more rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder, Outputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.openie.output import NONE, GridOutput
from probtrans_cli.recipe.grids import GridSection
from probtrans_cli.tasks.base import OUTPUT, Counts, OutputRows, Prediction, Task, Term, without_some_words
from probtrans_cli.tasks.batch import Batch

GRID, FED_BACK = "grid", "fed_back"
MERGE = 300
BIASES = (0.0, -0.5, -1.0, -1.5, -2.0, -2.5, -3.0, -4.0, 0.5)
"""What is added to the score of no label, tried on dev."""
START_BIAS = -1.0
"""The same during the training, where dev chooses the checkpoint: near what is chosen in the end, for without it the
score goes up and down with how careful the model is."""


class Rows(NamedTuple):
    """The rows of a sentence: a label for each word and extra word, and the log-probability of each."""

    labels: list[list[int]]
    log_probability: list[list[float]]


class GridLabelling(Task):
    """The grid of labels of every sentence, row after row."""

    not_in_json = ("rows",)
    has_alternatives = False
    with_text = True
    tells_speed = True
    section: GridSection
    names: ClassVar[Sequence[str]]
    """The labels; the first one is none, and a row without the second or third ends a sentence."""

    def __init__(self, section: GridSection, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        self.extra_words = tuple(labels.get("extra_words", ()))
        self.done = 0.0

    @property
    def extra(self) -> int:
        return len(self.extra_words)

    @property
    def outputs(self) -> int:
        """One score per label."""
        return len(self.names)

    @property
    def columns(self) -> Mapping[str, int]:
        return {GRID: 0}

    def output(self, encoder: Encoder) -> GridOutput:
        section = self.section
        made = GridOutput(
            encoder.width,
            len(self.names),
            rows=section.rows,
            steps=section.iterative_steps,
            merge=section.merge_dim or min(MERGE, encoder.width),
            feedback=section.label_feedback,
            words=section.word_repr,
        )
        made.none_bias.fill_(START_BIAS if section.decision_bias == "dev" else section.decision_bias)
        return made

    def output_rows(self, network: Network) -> dict[str, OutputRows]:
        del network
        chosen = () if self.section.decision_bias == "dev" else ("none_bias",)
        return {OUTPUT: OutputRows("labels of a grid", tuple(self.names), chosen=chosen)}

    def described(self, network: Network) -> dict[str, Any]:
        grid = {"labels": list(self.names), "rows": self.section.rows, "extra_words": list(self.extra_words)}
        return {"grid": {**grid, "none_bias": round(float(network.output.none_bias), 6)}}

    @property
    def decisions(self) -> Sequence[float]:
        return BIASES if self.section.decision_bias == "dev" else ()

    def decide(self, network: Network, choice: float) -> None:
        network.output.none_bias.fill_(choice)

    # --- batches ------------------------------------------------------------------------------------------------------

    def advance(self, done: float, epoch: int) -> None:
        del epoch
        self.done = done

    def training(self, batch: Batch) -> Batch:
        """Rare words are hidden at random; the right labels are told where the recipe says so."""
        batch = without_some_words(batch, self.section.word_dropout, self.vocabulary)
        told = {"predicted": 0.0, "gold": 1.0, "scheduled": 1.0 - self.done}[self.section.label_source]
        if told == 0.0:
            return batch
        rows = self._gold(batch)
        by_row = torch.rand(rows.shape[:2]).to(rows.device) < told
        return replace(batch, gold={**batch.gold, FED_BACK: rows.where(by_row[:, :, None], -1)})

    def wants(self, batch: Batch) -> Wants:
        """Scores of all rows; in sentences without a gold grid, up to their end."""
        ends = self.section.early_exit and GRID not in batch.gold
        return Wants(words=batch.words, fed_back=batch.gold.get(FED_BACK), ends=ends)

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        """Words, extra ones among them."""
        return {"loss": batch.words.sum()}

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """The cross entropy of all rows, summed over words."""
        return {"loss": Term(self._loss(outputs, batch, self.section.none_weight), self.counts(batch)["loss"])}

    def _gold(self, batch: Batch) -> Int[Tensor, "b r w"]:
        """The labels of the rows; how they are packed: ``data/corpus/grids.py``."""
        shifts = 3 * torch.arange(self.section.rows, device=batch.words.device)
        return (batch.gold[GRID][:, None, :] >> shifts[:, None]) & 7

    def _loss(self, outputs: Outputs, batch: Batch, none_weight: float = 1.0) -> Float[Tensor, ""]:
        scores, gold = outputs.scores["rows"].float(), self._gold(batch)
        weight = torch.ones(len(self.names), device=scores.device)
        weight[NONE] = none_weight
        losses = functional.cross_entropy(scores.flatten(0, 2), gold.flatten(), weight=weight, reduction="none")
        return (losses.view_as(gold) * batch.words[:, None]).sum()

    # --- answers ------------------------------------------------------------------------------------------------------

    @property
    def nothing(self) -> Prediction:
        return {self.answers: [], "rows": []}

    def read(self, outputs: Outputs, batch: Batch) -> list[Rows]:
        """The rows of every sentence, in order, up to its end; a sentence of one word has none."""
        scores = outputs.scores["rows"].float()
        labels = scores.argmax(-1)
        chance = scores.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
        there = batch.words[:, None]
        ends = torch.ones(labels.shape[:2], dtype=torch.bool, device=labels.device)
        for label in (1, 2):
            ends &= ((labels == label) & there).any(-1)
        words = batch.words.sum(1)
        numbers = ends.long().cumprod(1).sum(1) * (words - self.extra > 1)
        found = zip(labels.tolist(), chance.tolist(), numbers.tolist(), words.tolist(), strict=True)
        return [Rows([row[:n] for row in of[:m]], [row[:n] for row in chances[:m]]) for of, chances, m, n in found]

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """The summed loss and its words; what the rows of every sentence are scored by."""
        counts = Counts(loss=float(self._loss(outputs, batch)), words=int(batch.words.sum()))
        for row, (index, rows) in enumerate(zip(batch.indices.tolist(), self.read(outputs, batch), strict=True)):
            counts.add(self.compared(batch, row, index, rows))
        return counts

    @abstractmethod
    def compared(self, batch: Batch, row: int, index: int, rows: Rows) -> Mapping[Any, float]:
        """What one sentence adds to the counts: it is row ``row`` of the batch, number ``index`` of the corpus."""
