"""Everything a model says about the heads of one sentence: what the page for exploring trees is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from probtrans_cli.trees.drawing.drawing import Span


@dataclass(frozen=True)
class EveryTree:
    """A sentence with its trees of every iteration ``t`` and channel ``c``, the last of which is the channels' mean.

    ``heads``: 0 = root, 1..n. ``probabilities``: of these arcs, NaN where not known; ``deviations``: the standard
    deviations of these over draws of the weights, where they are drawn. ``marginals``: of every word
    (columns 0..n-1) and of the root (column n, where the model has one) as the head; None where there are too many.
    ``channel`` (from 0) and ``iteration`` (from 1, -1 is the last) are the model's own choice, ``gold`` are the
    treebank's heads. ``title``, ``notes`` and ``spans``: as of :class:`~probtrans_cli.trees.drawing.drawing.Drawing`.
    Raises ValueError for what does not fit together.
    """

    words: tuple[str, ...]
    heads: Int[np.ndarray, "t c n"]
    probabilities: Float[np.ndarray, "t c n"]
    marginals: Float[np.ndarray, "t c n m"] | None = None
    deviations: Float[np.ndarray, "t c n"] | None = None
    gold: tuple[int, ...] | None = None
    channel: int | Literal["mean"] = "mean"
    iteration: int = -1
    title: str = ""
    notes: tuple[tuple[str, ...], ...] = ()
    spans: tuple[Span, ...] = ()
    right_to_left: bool = False

    def __post_init__(self) -> None:
        iterations, channels, count = self.heads.shape
        if count != len(self.words) or self.probabilities.shape != self.heads.shape:
            raise ValueError(f"heads {self.heads.shape} and probabilities of {len(self.words)} words")
        if self.deviations is not None and self.deviations.shape != self.heads.shape:
            raise ValueError(f"heads {self.heads.shape} and deviations {self.deviations.shape}")
        if self.marginals is not None and self.marginals.shape not in (
            (*self.heads.shape, count),
            (*self.heads.shape, count + 1),
        ):
            raise ValueError(f"marginals {self.marginals.shape} for heads {self.heads.shape}")
        if self.gold is not None and len(self.gold) != count:
            raise ValueError(f"{len(self.gold)} gold heads for {count} words")
        outside = self.heads.size and not 0 <= self.heads.min() <= self.heads.max() <= count
        if outside or any(not 0 <= head <= count for head in self.gold or ()):
            raise ValueError(f"a head is outside a sentence of {count} words")
        if self.channel != "mean" and not 0 <= self.channel < channels - 1:
            raise ValueError(f"channel {self.channel} of {channels - 1}")
        if self.iteration != -1 and not 1 <= self.iteration <= iterations:
            raise ValueError(f"iteration {self.iteration} of {iterations}")


def arc_probabilities(
    heads: Int[np.ndarray, "t c n"], marginals: Float[np.ndarray, "t c n m"]
) -> Float[np.ndarray, "t c n"]:
    """The marginals of the arcs to these heads; NaN for the root where it has no column (m = n)."""
    count, columns = marginals.shape[2:]
    if count == 0:
        return np.zeros(heads.shape)
    column = np.where(heads > 0, heads - 1, count)
    known = column < columns
    chosen = np.take_along_axis(marginals, np.minimum(column, columns - 1)[..., None], axis=3)[..., 0]
    return np.where(known, chosen, np.nan).astype(float)
