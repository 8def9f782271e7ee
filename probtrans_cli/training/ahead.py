"""Batches that are made while the one before is learned: a thread beside the training.

Only what draws no random numbers is done there, from stored sentences to padded arrays. What a task hides or drops is
drawn by the training itself, in its own order, so a training is the same to the bit whether batches are made ahead or
not. An error of the thread is raised where its batch is asked for.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Self, TypeVar

import numpy as np

from probtrans_cli.data.ranks import ALONE, Ranks

AHEAD = 2
"""Batches that are made, or being made, before they are asked for."""
Made = TypeVar("Made")


def in_turn(batches: Sequence[np.ndarray], first: int, accumulate: int, ranks: Ranks = ALONE) -> Iterator[np.ndarray]:
    """The batches from the number ``first`` on, in the order in which a process asks for them: of each update of
    ``accumulate`` the k-th where ``k mod world`` is its ``rank``, and its first one where too few are left."""
    for start in range(first, len(batches), accumulate):
        group = batches[start : start + accumulate]
        for number in range(ranks.rank, math.ceil(len(group) / ranks.world) * ranks.world, ranks.world):
            yield group[number if number < len(group) else 0]


class Ahead(Generic[Made]):
    """Makes what is expected in a thread, while it is entered; ``make``: what makes a batch of some sentences."""

    def __init__(self, make: Callable[[np.ndarray], Made]) -> None:
        self._make = make
        self._expected: Iterator[np.ndarray] = iter(())
        self._waiting: deque[tuple[np.ndarray, Future[Made]]] = deque()
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        self._thread = ThreadPoolExecutor(1, "batches")
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing runs on; what was made and not asked for is forgotten."""
        assert self._thread is not None, "it was entered"
        self._thread.shutdown(cancel_futures=True)
        self._thread = None
        self._waiting.clear()

    def expect(self, batches: Iterable[np.ndarray]) -> None:
        """Begin to make these, the sentences of each, in the order in which they are to be asked for."""
        self._expected = iter(batches)
        self._waiting.clear()
        self._go_on()

    def __call__(self, indices: np.ndarray) -> Made:
        """The batch of the sentences that are next; of others it is made now."""
        if not self._waiting or not np.array_equal(self._waiting[0][0], indices):
            return self._make(indices)
        _, found = self._waiting.popleft()
        try:
            return found.result()
        finally:
            self._go_on()

    def _go_on(self) -> None:
        while self._thread is not None and len(self._waiting) < AHEAD:
            indices = next(self._expected, None)
            if indices is None:
                return
            self._waiting.append((indices, self._thread.submit(self._make, indices)))
