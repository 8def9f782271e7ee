"""What a task is: a loss for training, scores for evaluation, and which of them decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.models.base import Encoder
from probtrans_cli.models.network import Features, Network, Sentence
from probtrans_cli.models.probabilistic.head_bias import commonness
from probtrans_cli.recipe.model import Model

PADDING = -2  # in place of a label
UNSEEN = -1  # a label that the training file does not have: never predicted, counted as wrong, and in no loss


class Loss(NamedTuple):
    """A summed loss and the number of things it was summed over; their ratio is the mean."""

    total: Tensor
    number: Tensor


def mean(total: float, number: int) -> float | None:
    """The loss of an evaluation: the mean over labels that the training file has; None where there is none."""
    return total / number if number else None


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

    def output(self, encoder: Encoder) -> nn.Module:
        """The output layer: from words' states to scores, one linear layer unless a task has its own."""
        return nn.Linear(encoder.width, self.outputs)

    def representation(self, model: Model) -> Sentence | None:
        """What represents a sentence, for tasks that ask, given the recipe's ``model`` section."""
        del model
        return None

    def start(self, network: Network, split: Split) -> None:
        """Set what fresh weights take from the training corpus before the first update; most tasks take nothing."""
        del network, split

    def require_something(self, split: Split, how: Evaluation) -> None:
        """Raise NothingToScoreError where a split has nothing that an evaluation of the training could score."""
        del split, how

    @abstractmethod
    def loss(self, network: Network, split: Split, indices: np.ndarray, device: torch.device) -> Loss:
        """Training loss of the sentences ``indices``; random choices come from torch's default CPU generator."""

    @abstractmethod
    def evaluate(self, network: Network, split: Split, how: Evaluation, *, final: bool) -> dict[str, Any]:
        """Scores on a whole split; ``final``: with all the care that a reported figure needs, else quickly."""


def word_scores(network: Network, split: Split, indices: np.ndarray, ids: Tensor, at: Tensor) -> Tensor:
    """Output scores ``[words, o]`` at the words where ``at [b, w]`` is True, read at the word's first piece."""
    where = at_pieces(split, indices, ids, at)
    scores: Tensor = network(ids, ids != network.padding, where, features(split, indices, ids.device))
    return scores


def at_pieces(split: Split, indices: np.ndarray, ids: Tensor, at: Tensor) -> Tensor:
    """The positions ``[b, n]`` of the first pieces of the words where ``at [b, w]`` is True."""
    if not split.has("first"):
        return at
    first = tensor(split.padded("first", indices, 0), ids.device)
    sentences, _ = at.nonzero(as_tuple=True)
    where = torch.zeros_like(ids, dtype=torch.bool)
    where[sentences, first[at]] = True
    return where


def without_some_words(split: Split, indices: np.ndarray, ids: Tensor, alpha: float, vocabulary: Vocabulary) -> Tensor:
    """``ids [b, n]`` after word dropout: unknown for all of a word of frequency f at rate ``alpha / (alpha + f)``."""
    frequency = tensor(split.padded("frequency", indices, 0), ids.device)
    if alpha == 0.0 or not frequency.shape[1]:
        return ids
    drop = torch.rand(frequency.shape).to(ids.device) * (alpha + frequency) < alpha
    if split.has("first"):
        first = tensor(split.padded("first", indices, ids.shape[1]), ids.device)  # behind the end: no piece's word
        pieces = torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1).contiguous()
        # What stands before the first word belongs to none, and like all specials it is never dropped.
        drop = drop.gather(1, (torch.searchsorted(first, pieces, right=True) - 1).clamp(min=0))
    return ids.masked_fill(drop & ~special(ids, vocabulary), vocabulary.UNKNOWN)


def special(ids: Tensor, vocabulary: Vocabulary) -> Tensor:
    """Which of ``ids [b, n]`` are no words: padding, what begins and ends a sentence, what cannot be told."""
    return torch.isin(ids, torch.tensor(vocabulary.specials, device=ids.device))


def tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """A numpy batch on the device."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)


def features(split: Split, indices: np.ndarray, device: torch.device) -> Features | None:
    """The features of the words of a batch; None where the vocabulary has none."""
    if not split.has("widths"):
        return None
    rows, widths = split.features(indices)
    return Features(tensor(rows, device), tensor(np.cumsum(widths) - widths.ravel(), device))


def commonness_of(vocabulary: Vocabulary) -> Float[Tensor, " v"]:
    """How common every entry of the vocabulary is, see :func:`commonness`; a recipe has word vocabularies only here."""
    assert isinstance(vocabulary, Words), "a recipe with another vocabulary is refused"
    return commonness(vocabulary.counts, unread=len(vocabulary.specials))


def entry_features(vocabulary: Vocabulary) -> Features | None:
    """The features of the vocabulary's own entries, as they are spelled there; the specials have none."""
    if vocabulary.features is None:
        return None
    hashed, specials = vocabulary.features, set(vocabulary.specials)
    ids = range(vocabulary.size)
    of_entries = [[] if id in specials else hashed.rows(vocabulary.decode(id)) for id in ids]
    widths = np.array([len(rows) for rows in of_entries])
    rows = np.fromiter(chain.from_iterable(of_entries), dtype=np.int64)
    return Features(torch.from_numpy(rows), torch.from_numpy(np.cumsum(widths) - widths))
