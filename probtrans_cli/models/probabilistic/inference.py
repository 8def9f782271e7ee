"""Options of the mean-field loop, and how a message becomes a distribution.

M^(t) = (1 - β) (message) / λ + β M^(t-1)     damped messages, after the division by the weight     (2.3.3, B.2)
Q^(t) = α softmax(M^(t)) + (1 - α) Q^(t-1)    distributions after a step (``latent.py``: or means)   (B.1)
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from probtrans_cli.models.probabilistic.latent import LATENT, RECTIFIED, Latent
from probtrans_cli.recipe.model.probabilistic import LatentKind


@dataclass(frozen=True)
class Update:
    """How messages become distributions: ``weight`` λ, ``step`` α, ``damping`` β."""

    weight: float
    step: float = 1.0
    damping: float = 0.0

    @property
    def forgets(self) -> bool:
        """Whether an iteration depends on the one before through its distributions only."""
        return self.step == 1.0 and self.damping == 0.0

    def message(self, new: Tensor, old: Tensor | None) -> Tensor:
        """The damped, scaled message ``M``; ``old`` None stands for 0."""
        new = new / self.weight
        if self.damping == 0.0:
            return new
        new = (1.0 - self.damping) * new
        return new if old is None else new + self.damping * old

    def distribution(self, new: Tensor, old: Tensor) -> Tensor:
        """The distribution ``Q`` after a step."""
        return new if self.step == 1.0 else self.step * new + (1.0 - self.step) * old


@dataclass(frozen=True)
class Inference:
    """Options of the mean-field loop.

    ``features``: of the second heads of dep-split and single-split, or, if ``rectified``, of features that are there to
    a degree, whose weight is 1; ``distance`` γ, None for one bucket; ``root``: every word may have the root as its
    head; ``tree``: heads of a sentence form a tree in every channel; ``latent``: what the labels of words and root are.
    """

    iterations: int
    asynchronous: bool
    channels: int
    distance: int | None
    labels: Update
    heads: Update
    features: Update
    root: bool = False
    tree: bool = False
    latent: LatentKind = "categorical"
    rectified: bool = False

    @property
    def of_features(self) -> Latent:
        """What a second head is, or a rectified feature."""
        return RECTIFIED if self.rectified else LATENT["categorical"]
