"""What a task is: a loss for training, scores for evaluation, and which of them decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from probtrans_cli.data.store import Split
from probtrans_cli.models.heads import Network


class Loss(NamedTuple):
    """A summed loss and the number of things it was summed over; their ratio is the mean."""

    total: Tensor
    number: Tensor


class Evaluation(NamedTuple):
    """How an evaluation runs: batches of sentence indices, the device, and the precision's autocast context."""

    batches: Callable[[Split], list[np.ndarray]]
    device: torch.device
    autocast: Callable[[], torch.autocast]

    def over(self, split: Split) -> Iterator[np.ndarray]:
        """The batches of a split."""
        yield from self.batches(split)


class Task(ABC):
    """One task. ``metric`` names the dev score that selects the best checkpoint; ``larger_is_better`` its direction."""

    metric: ClassVar[str]
    larger_is_better: ClassVar[bool]

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Size of the output layer."""

    @abstractmethod
    def loss(self, network: Network, split: Split, indices: np.ndarray, device: torch.device) -> Loss:
        """Training loss of the sentences ``indices``; random choices come from torch's default CPU generator."""

    @abstractmethod
    def evaluate(self, network: Network, split: Split, how: Evaluation, *, final: bool) -> dict[str, float]:
        """Scores on a whole split; ``final``: with all the care that a reported figure needs, else quickly."""


def tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """A numpy batch on the device."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)
