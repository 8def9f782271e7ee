"""What a training remembers beside its tensors: how far it is, and how good it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import ConfigDict


@dataclass
class State:
    """The numbers of `training/state.json`. ``batch`` counts within ``epoch``, ``step`` counts updates."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False)

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: float | None = None
    best_loss: float | None = None
    best_step: int = 0
    waited: int = 0
    since_drop: int = 0
    evaluated: int = -1
    drops: int = 0
    finished: bool = False
    seconds: float = 0.0
    scores: dict[str, Any] = field(default_factory=dict)
    data: str = ""

    def note(self, scores: dict[str, Any], metric: str, *, larger_is_better: bool) -> bool:
        """Take the scores of dev; returns whether they are the best so far: of equal ones those with less loss."""
        loss = scores["loss"] or 0.0  # None: dev has no label of train
        sign = 1.0 if larger_is_better else -1.0
        better = self.best is None or (sign * scores[metric], -loss) > (sign * self.best, -(self.best_loss or 0.0))
        if better:
            self.best, self.best_loss, self.best_step = scores[metric], loss, self.step
            self.waited = self.since_drop = 0
            self.scores = {"dev": scores}
        else:
            self.waited, self.since_drop = self.waited + 1, self.since_drop + 1
        return better
