"""Which sentences form a batch: a plan that is a pure function of the lengths, the seed and the epoch.

Nothing about batches is ever stored: a resumed training computes the same plan again and skips what it has done.

A plan of very many sentences would take more memory than the sentences' lengths. So it is made window by window: a
window is some of the shards that the sentences lie in, drawn at random; its sentences are shuffled among themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW = 1 << 20
"""Sentences of a window, at most (a larger shard is a window of its own); of so many, the whole corpus is one."""
_LENGTH_NOISE = 0.1  # a shuffled plan sorts by lengths up to 10 % (and one word) off, so that batch mates change


def plan(
    lengths: NDArray[np.integer],
    words: int,
    seed: int,
    epoch: int,
    *,
    sentences: int | None = None,
    shuffle: bool = True,
    by_length: bool = True,
    bounds: NDArray[np.integer] | None = None,
) -> Sequence[NDArray[np.int64]]:
    """Cut the sentences into batches; each sentence that is not empty occurs exactly once.

    A batch of ``m`` sentences whose longest has ``n`` words satisfies ``m * n <= words`` (a single longer sentence
    makes a batch of its own) and ``m <= sentences``.

    Args:
        lengths: length of every sentence, [number of sentences].
        words: largest padded size of a batch.
        seed: seed of the recipe, not negative.
        epoch: number of the pass, not negative; another epoch gives another plan.
        sentences: largest number of sentences in a batch; None = unlimited.
        shuffle: False sorts by length (then by position) and uses no randomness.
        by_length: sentences of similar length go together; False mixes all lengths, at the price of padding.
        bounds: the first sentence of every shard, and behind them the number of sentences; None = a single shard.
    """
    if words < 1 or (sentences is not None and sentences < 1):
        raise ValueError(f"a batch holds at least one word and one sentence, not {words} and {sentences}")
    if len(lengths) <= WINDOW or bounds is None or len(bounds) <= 2:
        return _of_window(np.arange(len(lengths)), lengths, words, sentences, [seed, epoch], shuffle, by_length)
    shards = (
        np.random.default_rng([seed, epoch]).permutation(len(bounds) - 1) if shuffle else np.arange(len(bounds) - 1)
    )
    windows: list[list[int]] = []  # consecutive shards, as many in each as WINDOW allows
    room = 0
    for shard in shards.tolist():
        size = int(bounds[shard + 1] - bounds[shard])
        if not windows or size > room:
            windows.append([])
            room = WINDOW
        windows[-1].append(shard)
        room -= size

    def batches(number: int) -> list[NDArray[np.int64]]:
        indices = np.concatenate([np.arange(bounds[shard], bounds[shard + 1]) for shard in windows[number]])
        return _of_window(indices, lengths[indices], words, sentences, [seed, epoch, number], shuffle, by_length)

    return Windows(len(windows), batches)


class Windows(Sequence[NDArray[np.int64]]):
    """The batches of a plan in ``number`` windows, made by ``batches`` when needed: only those of one are in memory."""

    def __init__(self, number: int, batches: Callable[[int], list[NDArray[np.int64]]]) -> None:
        self._make = batches
        self._latest: tuple[int, list[NDArray[np.int64]]] = -1, []
        self._ends: list[int] = []  # batches up to the end of every window
        for window in range(number):
            self._ends.append((self._ends[-1] if self._ends else 0) + len(self._of(window)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: Any) -> Any:  # callers see the types of a sequence
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        window = bisect_right(self._ends, place)
        return self._of(window)[place - (self._ends[window - 1] if window else 0)]

    def _of(self, window: int) -> list[NDArray[np.int64]]:
        if self._latest[0] != window:
            self._latest = -1, []  # so that there are never two in memory
            self._latest = window, self._make(window)
        return self._latest[1]


def _of_window(
    numbers: NDArray[np.int64],
    lengths: NDArray[np.integer],
    words: int,
    sentences: int | None,
    seed: Sequence[int],
    shuffle: bool,
    by_length: bool,
) -> list[NDArray[np.int64]]:
    indices = np.flatnonzero(lengths > 0)
    size = lengths[indices].astype(np.int64)
    generator = np.random.default_rng(seed)
    rank: NDArray[np.number] = size
    if shuffle:
        noise = generator.random((2, len(indices)))
        rank = noise[1] + (size * (1.0 + _LENGTH_NOISE * noise[0]) if by_length else 0.0)
    order = np.argsort(rank, kind="stable")
    indices, size = numbers[indices[order]], size[order]
    batches = []
    start = 0
    while start < len(indices):  # each batch takes as many sentences as its limits allow
        most = max(1, words // int(size[start]))
        if sentences is not None:
            most = min(most, sentences)
        longest = np.maximum.accumulate(size[start : start + most])
        padded = longest * np.arange(1, len(longest) + 1)  # increasing, so the last one that fits is found by bisection
        count = max(1, int(np.searchsorted(padded, words, side="right")))
        batches.append(indices[start : start + count])
        start += count
    return [batches[position] for position in generator.permutation(len(batches))] if shuffle else batches
