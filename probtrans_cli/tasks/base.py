"""What a task is: a loss for training, scores for evaluation, and which of them decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import chain
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from probtrans_cli.data.store import Split
from probtrans_cli.data.vocabulary import SPECIALS, Vocabulary
from probtrans_cli.models.heads import Features, Network


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

    @property
    def tied(self) -> bool:
        """Whether the outputs are the vocabulary, scored by the unary scores."""
        return False

    def start(self, network: Network, split: Split) -> None:
        """Set what fresh weights take from the training corpus before the first update; most tasks take nothing."""
        del network, split

    @abstractmethod
    def loss(self, network: Network, split: Split, indices: np.ndarray, device: torch.device) -> Loss:
        """Training loss of the sentences ``indices``; random choices come from torch's default CPU generator."""

    @abstractmethod
    def evaluate(self, network: Network, split: Split, how: Evaluation, *, final: bool) -> dict[str, float]:
        """Scores on a whole split; ``final``: with all the care that a reported figure needs, else quickly."""


def tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """A numpy batch on the device."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)


def features(split: Split, indices: np.ndarray, device: torch.device) -> Features | None:
    """The features of the words of a batch; None where the vocabulary has none."""
    if not split.has("widths"):
        return None
    rows, widths = split.features(indices)
    return Features(tensor(rows, device), tensor(np.cumsum(widths) - widths.ravel(), device))


def entry_features(vocabulary: Vocabulary) -> Features | None:
    """The features of the vocabulary's own entries, as they are spelled there; the specials have none."""
    if vocabulary.features is None:
        return None
    names = map(vocabulary.decode, range(len(SPECIALS), vocabulary.size))
    of_entries = [*[()] * len(SPECIALS), *map(vocabulary.features.rows, names)]
    widths = np.array([len(rows) for rows in of_entries])
    rows = np.fromiter(chain.from_iterable(of_entries), dtype=np.int64)
    return Features(torch.from_numpy(rows), torch.from_numpy(np.cumsum(widths) - widths))
