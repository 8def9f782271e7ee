"""The batches of an update, dealt out to processes.

An update has `train.accumulate` microbatches, whatever the number of processes. The k-th is that of the process
``k mod world``, and its random numbers are its own (:mod:`probtrans_cli.training.draws`). Where fewer are left than
processes, the others take the first one of the update once more and count it 0 times, so that all of them go through
the network equally often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from probtrans_cli.data.ranks import Ranks
from probtrans_cli.errors import OutOfMemoryError
from probtrans_cli.tasks.base import Task
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.training.draws import Draws
from probtrans_cli.training.loss import counts_of


@dataclass(frozen=True)
class Microbatch:
    """The ``k``-th batch of an update, as training shows it; ``counted``: whether it is part of the gradient."""

    k: int
    batch: Batch
    counted: bool


def dealt(
    group: Sequence[np.ndarray], ranks: Ranks, draws: Draws, batch_of: Callable[[np.ndarray], Batch]
) -> list[Microbatch]:
    """The microbatches of this process; ``batch_of`` draws what is random in one."""
    rounds = math.ceil(len(group) / ranks.world)
    found = []
    for number in range(ranks.rank, rounds * ranks.world, ranks.world):
        k = number if number < len(group) else 0
        draws.begin(k)
        found.append(Microbatch(k, batch_of(group[k]), counted=number < len(group)))
        draws.leave(k)
    return found


def counts_over(task: Task, given: Sequence[Microbatch], ranks: Ranks, what: str) -> dict[str, Tensor]:
    """``N_t`` of the batches of an update in all processes, at least 1, by term; ``what``: that is, for messages."""
    counted = [one.batch for one in given if one.counted]
    counts = counts_of(task, counted or [given[0].batch])
    if not counted:
        counts = {name: torch.zeros_like(number) for name, number in counts.items()}
    if ranks.world > 1:
        whole = ranks.total(torch.stack([*counts.values()]), what)
        counts = dict(zip(counts, whole.unbind(), strict=True))
    return {name: number.clamp(min=1) for name, number in counts.items()}


@contextmanager
def fits(lengths: np.ndarray, batch_words: int, ranks: Ranks) -> Iterator[None]:
    """Within: running out of memory with sentences of these lengths is an error that says what to do."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        other = isinstance(error, RuntimeError) and not isinstance(error, torch.OutOfMemoryError)
        if other and "memory" not in str(error):
            raise
        who = f"{ranks.name}: " if ranks.name else ""
        raise OutOfMemoryError(
            f"{who}out of memory with a batch of {len(lengths)} sentences, the longest of {int(lengths.max())} words",
            hint=f"lower train.batch_words (now {batch_words}); train.accumulate makes up for it",
        ) from None
