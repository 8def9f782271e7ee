"""What mean-field inference reads of a batch, and the distributions that it keeps (symbols: see ``crf.py``)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class State(NamedTuple):
    """All distributions at one moment, zero on padding; ``root`` and ``features`` where the model has them."""

    labels: Float[Tensor, "b n d"]
    heads: Float[Tensor, "b c n m"]
    root: Float[Tensor, "b e"] | None
    features: Float[Tensor, "b n g k"] | None

    @property
    def word_heads(self) -> Float[Tensor, "b c n n"]:
        """``Q_ic(j)``."""
        return self.heads[..., : self.labels.shape[1]]

    @property
    def root_heads(self) -> Float[Tensor, "b c n"]:
        """``Q_ic(root)``, where there is a root."""
        return self.heads[..., self.labels.shape[1]]

    @property
    def feature_heads(self) -> Float[Tensor, "b c n k"]:
        """``Q_ic(n+k)``, where global features are candidates of the heads."""
        return self.heads[..., self.labels.shape[1] + (self.root is not None) :]


class Result(NamedTuple):
    """``states``: ``M_Z`` after the last iteration; ``root [b, e]``: ``M_root``; ``history``: states asked for."""

    states: Float[Tensor, "b n d"]
    root: Float[Tensor, "b e"] | None
    history: list[State]


class Sentences(NamedTuple):
    """What factors may read of a batch; ``cues``: see ``head_bias.py``."""

    unary: Float[Tensor, "b n d"]
    mask: Bool[Tensor, "b n"]
    cues: Float[Tensor, "b n 9"] | None = None


def candidates(mask: Bool[Tensor, "b n"]) -> Bool[Tensor, "b 1 n n"]:
    """Return which word may be whose head: every word of the sentence but itself."""
    itself = torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
    return (mask[:, None, :] & mask[:, :, None] & ~itself)[:, None]
