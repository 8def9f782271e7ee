"""What a training does when: its batches, how far it is, and when it has done enough. Functions of recipe and state."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.training.state import State


class Plan:
    """The plan of a training on sentences of these ``lengths``, which lie in shards; see
    :func:`probtrans_cli.data.corpus.batches.plan`."""

    def __init__(self, recipe: Recipe, lengths: np.ndarray, bounds: np.ndarray | None = None) -> None:
        self.recipe, self.section, self.lengths, self.bounds = recipe, recipe.train, lengths, bounds

    def batches(self, epoch: int) -> Sequence[np.ndarray]:
        """The batches of an epoch, each the numbers of its sentences."""
        section = self.section
        return plan(
            self.lengths, section.batch_words, self.recipe.seed, epoch, sentences=section.batch_sentences,
            by_length=section.by_length, bounds=self.bounds,
        )  # fmt: skip

    def updates(self, batches: int) -> int:
        """The number of updates of the whole training, with so many batches an epoch."""
        section = self.section
        return int(min(math.ceil(batches / section.accumulate) * section.epochs, section.steps or math.inf))

    def passes(self, batches: int) -> float:
        """How often the whole training reads its sentences: a fraction where `train.steps` ends it within an epoch."""
        return self.updates(batches) / math.ceil(batches / self.section.accumulate)

    def share_done(self, state: State, batches: int) -> float:
        """Share of the training that lies behind the middle of the coming update."""
        section = self.section
        by_epochs = (state.epoch + min(state.batch + 0.5 * section.accumulate, batches) / batches) / section.epochs
        return by_epochs if section.steps is None else max(by_epochs, (state.step + 0.5) / section.steps)

    def enough_steps(self, state: State) -> bool:
        """Whether the training has had all the updates that it may have."""
        return self.section.steps is not None and state.step >= self.section.steps

    def is_last(self, state: State, batches: int) -> bool:
        """Whether the latest update was the last one that is planned; plateaus and patience may end it earlier."""
        return self.enough_steps(state) or (state.batch >= batches and state.epoch + 1 >= self.section.epochs)

    def title(self, epoch: int) -> str:
        """An epoch, for people."""
        return f"epoch {epoch + 1}/{self.section.epochs}"
