"""From encoded sentences to the tensors of a batch: the only way, for training, scores and predictions alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.models.arithmetic import sent
from probtrans_cli.models.base import Features, Inputs
from probtrans_cli.models.bayesian.propagation import selected

PADDING = -2  # in place of a label where there is no word
UNLEARNED = -1  # a label that the training file does not have: never predicted, counted as wrong, and in no loss


@dataclass(frozen=True, kw_only=True)
class Batch(Inputs):
    """Some sentences of a split, padded: what a network reads of them, and what a task knows of them.

    ``split``, ``indices [b]``: where they come from. ``words [b, w]``: True where there is a word. ``frequency
    [b, w]``: of each word in the training file, -1 where there is none. ``gold``: the columns that the task asked for,
    as far as the split has them, by name, ``[b, w]`` or ``[b, 1]``. ``scored``: of words or tokens, those that the task
    has something to say of; None = all words. ``positions [m]``: of these, or of all words, counted through the padded
    batch, where they are known. ``candidates [k]``, ``log_chance [k]``: in training, the entries of the vocabulary that
    a word is compared with, ascending, and the chance with which each was drawn; None = all. ``number``: of the pass of
    an evaluation, from 0. ``arc_temperature``: in predictions, that of the heads that a task predicts. ``done``,
    ``epoch``: in training, the share of it that is done, and the number of the epoch, from 0.
    """

    split: Split
    indices: np.ndarray
    words: Bool[Tensor, "b w"]
    frequency: Int[Tensor, "b w"]
    gold: Mapping[str, Int[Tensor, "b k"]] = field(default_factory=dict)
    scored: Bool[Tensor, "b s"] | None = None
    positions: Int[Tensor, " m"] | None = None
    candidates: Int[Tensor, " k"] | None = None
    log_chance: Float[Tensor, " k"] | None = None
    number: int = 0
    arc_temperature: float = 1.0
    done: float = 0.0
    epoch: int = 0

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def sentences(self) -> Int[Tensor, ""]:
        """The number of sentences. Made on the device: to copy a number to a GPU is to wait for it."""
        return torch.full((), len(self), device=self.ids.device)

    def picked(self, values: Shaped[Tensor, "b s"]) -> Shaped[Tensor, " m"]:
        """Pick the values of the words or tokens that are scored, in row-major order."""
        where = self.words if self.scored is None else self.scored
        picked: Tensor = selected(values, where if self.positions is None else self.positions)
        return picked

    def located(self) -> Batch:
        """Return the batch with the positions of what is scored: to be called before it goes to a GPU."""
        where = self.words if self.scored is None else self.scored
        return replace(self, positions=where.flatten().nonzero()[:, 0])

    def to(self, device: torch.device) -> Batch:
        if device == self.ids.device:
            return self
        moved: dict[str, Any] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, Tensor):
                moved[part.name] = sent(value, device)
            elif isinstance(value, Features):
                moved[part.name] = Features(*(sent(values, device) for values in value))
            elif isinstance(value, dict):
                moved[part.name] = {name: sent(values, device) for name, values in value.items()}
        return replace(self, **moved)


def collate(
    split: Split,
    indices: np.ndarray,
    columns: Mapping[str, int] | None = None,
    *,
    padding: int,
    device: torch.device,
) -> Batch:
    """Make the batch of some sentences of a split, with the gold ``columns`` that it has."""

    def padded(name: str, fill: int) -> Tensor:
        return tensor(split.padded(name, indices, fill), device)

    of_host = split.padded("ids", indices, padding)
    is_token = of_host != padding
    lengths = is_token.sum(1)
    is_padding_behind = np.array_equal(is_token, np.arange(is_token.shape[1]) < lengths[:, None])
    ids, frequency, features = tensor(of_host, device), padded("frequency", -1), None
    if split.has("widths"):
        rows, widths = split.features(indices)
        features = Features(tensor(rows, device), tensor(np.cumsum(widths) - widths.ravel(), device))
    return Batch(
        split=split,
        indices=indices,
        ids=ids,
        mask=ids != padding,
        first=padded("first", ids.shape[1]) if split.has("first") else None,
        features=features,
        segments=padded("segments", 0) if split.has("segments") else None,
        lengths=tuple(lengths.tolist()) if is_padding_behind else None,
        words=frequency >= 0,
        frequency=frequency,
        gold={name: padded(name, fill) for name, fill in (columns or {}).items() if split.has(name)},
    )


def tensor(array: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)
