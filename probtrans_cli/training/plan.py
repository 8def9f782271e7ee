"""The plan of a training: its batches, made ahead in a thread; how far it is, and when it has done enough."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, islice
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from pydantic import ConfigDict

from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.data.processes import ALONE, Ranks
from probtrans_cli.recipe.schema import Recipe

AHEAD = 2  # batches that are made, or being made, before they are needed
Item = TypeVar("Item")


@dataclass
class State:
    """The numbers of `training/state.json`. ``batch`` counts within ``epoch``, ``step`` counts updates."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False)

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: float | None = None
    best_loss: float | None = None
    best_step: int = 0
    waited: int = 0
    since_drop: int = 0
    evaluated: int = -1
    drops: int = 0
    finished: bool = False
    seconds: float = 0.0
    scores: dict[str, Any] = field(default_factory=dict)
    data: str = ""

    def note(self, scores: dict[str, Any], metric: str, *, larger_is_better: bool) -> bool:
        """Take the scores of dev; return whether they are the best so far, by the metric and then by the loss."""
        loss = scores["loss"] or 0.0  # None: dev has no label of train
        sign = 1.0 if larger_is_better else -1.0
        better = self.best is None or (sign * scores[metric], -loss) > (sign * self.best, -(self.best_loss or 0.0))
        if better:
            self.best, self.best_loss, self.best_step = scores[metric], loss, self.step
            self.waited = self.since_drop = 0
            self.scores = {"dev": scores}
        else:
            self.waited, self.since_drop = self.waited + 1, self.since_drop + 1
        return better


@dataclass(frozen=True, eq=False)
class Plan:
    """The plan of a training on sentences of these ``lengths``, which lie in shards with these ``bounds``.

    ``raw``: the number of the first sentence of `data.raw`, which stand behind the others; None = there is none.
    """

    recipe: Recipe
    lengths: np.ndarray
    bounds: np.ndarray | None = None
    raw: int | None = None

    def batches(self, epoch: int) -> Sequence[np.ndarray]:
        """Return the batches of an epoch, each the numbers of its sentences."""
        section, lengths, bounds = self.recipe.train, self.lengths, self.bounds
        planned = partial(
            plan, words=section.batch_words, seed=self.recipe.seed, sentences=section.batch_sentences,
            by_length=section.by_length,
        )  # fmt: skip
        if self.raw is None:
            return planned(lengths, epoch=epoch, bounds=bounds)
        first = self.raw
        of_labelled = None if bounds is None else bounds[bounds <= first]
        of_raw = None if bounds is None else bounds[bounds >= first] - first
        return in_alternation(
            [
                lambda number: planned(lengths[:first], epoch=number, bounds=of_labelled),
                lambda number: [batch + first for batch in planned(lengths[first:], epoch=number, bounds=of_raw)],
            ],
            epoch,
        )

    def updates(self, batches: int) -> int:
        """Return the number of updates of the training, with ``batches`` batches an epoch."""
        section = self.recipe.train
        return int(min(math.ceil(batches / section.accumulate) * section.epochs, section.steps or math.inf))

    def passes(self, batches: int) -> float:
        """Return how often the training reads its sentences: a fraction where `train.steps` ends it in an epoch."""
        return self.updates(batches) / math.ceil(batches / self.recipe.train.accumulate)

    def share_done(self, state: State, batches: int) -> float:
        """Return the share of the training that lies behind the middle of the coming update."""
        section = self.recipe.train
        by_epochs = (state.epoch + min(state.batch + 0.5 * section.accumulate, batches) / batches) / section.epochs
        return by_epochs if section.steps is None else max(by_epochs, (state.step + 0.5) / section.steps)

    def enough_steps(self, state: State) -> bool:
        """Return True once `train.steps` updates have been made."""
        steps = self.recipe.train.steps
        return steps is not None and state.step >= steps


def in_alternation(plans: Sequence[Callable[[int], Sequence[np.ndarray]]], epoch: int) -> list[np.ndarray]:
    """Return the batches of an epoch of several corpora in turn; shorter ones begin again, in another order, until the
    longest ends.

    ``plans``: the batches of each corpus in a pass, by the number of the pass.
    """
    size = max(len(batches_of(epoch)) for batches_of in plans)
    passes = (chain.from_iterable(map(batches_of, count(epoch * size))) for batches_of in plans)
    return [batch for batches in zip(*(islice(it, size) for it in passes), strict=True) for batch in batches]


def dealt_to(ranks: Ranks, size: int) -> Iterator[tuple[int, bool]]:
    """Yield the numbers of the batches of a process among the ``size`` batches of an update, and whether each counts:
    where fewer are left than processes, the first one is computed again and does not."""
    for number in range(ranks.rank, math.ceil(size / ranks.world) * ranks.world, ranks.world):
        yield (number, True) if number < size else (0, False)


def in_turn(batches: Sequence[np.ndarray], first: int, accumulate: int, ranks: Ranks = ALONE) -> Iterator[np.ndarray]:
    """Yield the batches from the number ``first`` on in the order in which a process needs them."""
    for start in range(first, len(batches), accumulate):
        group = batches[start : start + accumulate]
        for k, _ in dealt_to(ranks, len(group)):
            yield group[k]


@dataclass
class Ahead(Generic[Item]):
    """Makes expected batches in a thread, beside the training, within :meth:`running`; else when they are needed.

    The thread does only what draws no random numbers, from stored sentences to padded arrays. What a task hides or
    drops is drawn by the training itself, in its own order, so a training is the same to the bit without a thread. An
    error of the thread is raised where its batch is needed.
    """

    make: Callable[[np.ndarray], Item]
    """Makes the batch of some sentences."""
    _expected: Iterator[np.ndarray] = field(init=False)
    _waiting: deque[tuple[np.ndarray, Future[Item]]] = field(default_factory=deque)
    _thread: ThreadPoolExecutor | None = None

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Within: there is the thread. In the end, what nobody took is forgotten."""
        self._thread = ThreadPoolExecutor(1, "batches")
        try:
            yield self
        finally:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None
            self._waiting.clear()

    def expect(self, batches: Iterable[np.ndarray]) -> None:
        """Begin to make these batches, given by their sentences in the order in which they will be needed."""
        self._expected = iter(batches)
        self._waiting.clear()
        self._make_more()

    def __call__(self, indices: np.ndarray) -> Item:
        """Return the next expected batch if it has these sentences; a batch of others is made now."""
        if not self._waiting or not np.array_equal(self._waiting[0][0], indices):
            return self.make(indices)
        _, batch = self._waiting.popleft()
        try:
            return batch.result()
        finally:
            self._make_more()

    def _make_more(self) -> None:
        while self._thread is not None and len(self._waiting) < AHEAD:
            indices = next(self._expected, None)
            if indices is None:
                return
            self._waiting.append((indices, self._thread.submit(self.make, indices)))
