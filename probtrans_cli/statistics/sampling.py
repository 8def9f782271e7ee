"""How a language model's next word is chosen; exported folders have a copy of this file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from probtrans_cli.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next word is chosen."""

    words: int = 20
    """The most words of a continuation."""
    temperature: float = 1.0
    """Scores are divided by it; 0 = the most probable word."""
    top_k: int | None = None
    """Choose among this number of words, the most probable ones."""
    top_p: float | None = None
    """Choose among the fewest words that have this probability together."""
    seed: int = 0
    stop: str | None = None
    """The word that ends a continuation."""

    def __post_init__(self) -> None:
        wrong = {
            "words": self.words < 1,
            "temperature": not 0.0 <= self.temperature < float("inf"),
            "top_k": self.top_k is not None and self.top_k < 1,
            "top_p": self.top_p is not None and not 0.0 < self.top_p <= 1.0,
            "seed": self.seed < 0,
        }
        for name, is_wrong in wrong.items():
            if is_wrong:
                hint = "temperature is 0 or more, top_p above 0 and at most 1, the others positive"
                raise UsageError(f"{name} {getattr(self, name)}: is out of range", hint=hint)

    def choose(self, log_p: Float[np.ndarray, " v"], random: np.random.Generator) -> int:
        """Draw an id by its logarithmic probability, or of temperature 0 take the most probable one."""
        if self.temperature == 0.0:
            return int(log_p.argmax())
        order = np.argsort(-log_p, kind="stable")[: self.top_k]
        scores = log_p[order] / self.temperature
        cumulated = np.exp(scores - scores[0]).cumsum()
        if self.top_p is not None:
            kept = 1 + int(np.searchsorted(cumulated, self.top_p * cumulated[-1]))
            order, cumulated = order[:kept], cumulated[:kept]
        place = int(np.searchsorted(cumulated, random.random() * cumulated[-1], side="right"))
        return int(order[min(place, len(order) - 1)])
