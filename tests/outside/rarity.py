"""A task from outside: is a word rare in the training file? One score a word; the score is accuracy."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor
from torch.nn import functional

from probtrans_cli import tasks
from probtrans_cli.models.base import Outputs
from probtrans_cli.recipe.base import PositiveInt
from probtrans_cli.recipe.task import TaskSection
from probtrans_cli.tasks.base import Answers, Counts, Prediction, Task, Term, by_sentence
from probtrans_cli.tasks.batch import Batch


class Rarity(TaskSection):
    """Whether a word occurs but a few times in the training file."""

    needs, metric, larger_is_better = "words", "accuracy", True

    kind: Literal["rarity"]
    most: PositiveInt = 3
    """So many times are a few."""


class RarityTask(Task):
    """Loss: cross entropy of rare and common. Score: accuracy."""

    answers = Answers(kind="rarity")
    outputs = 1
    section: Rarity

    def _gold(self, batch: Batch) -> Tensor:
        return (batch.frequency[batch.words] <= self.section.most).float()

    def terms(self, outputs: Outputs, batch: Batch) -> dict[str, Term]:
        scores = outputs.scores["words"][:, 0].float()
        loss = functional.binary_cross_entropy_with_logits(scores, self._gold(batch), reduction="sum")
        return {"loss": Term(loss, self.counts(batch)["loss"])}

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        loss, rare = self.terms(outputs, batch)["loss"], outputs.scores["words"][:, 0] > 0
        return Counts(loss=float(loss.sum), words=int(loss.count), right=int((rare == self._gold(batch)).sum()))

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        return {"accuracy": counts.mean("right", "words"), "loss": counts.mean("loss", "words")}

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        chances = outputs.scores["words"][:, 0].float().sigmoid().tolist()
        return [{"rare": list(of_words)} for of_words in by_sentence(chances, batch)]


tasks.register(tasks.TaskKind(Rarity, RarityTask))
