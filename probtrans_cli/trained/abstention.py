"""Answers that are left out because they are not probable enough."""

from __future__ import annotations

from dataclasses import dataclass

from probtrans_cli.tasks.base import Prediction, Task


@dataclass
class Abstention:
    """Leaves out answers that are less probable than ``least``, and counts: all ``answers``, and those ``left_out``."""

    least: float
    answers: int = 0
    left_out: int = 0

    def applied(self, task: Task, prediction: Prediction) -> Prediction:
        """A prediction with `_` for what is left out."""
        found, left_out = task.abstained(prediction, self.least)
        self.answers, self.left_out = self.answers + len(left_out), self.left_out + sum(left_out)
        return found

    def told(self) -> str:
        """How many, in words."""
        return f"left out {self.left_out:,} of {self.answers:,} answers: less probable than {self.least:g}"
