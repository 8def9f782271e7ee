"""Which sentences form a batch: a plan that is a pure function of the lengths, the seed and the epoch.

Nothing about batches is ever stored: a resumed training computes the same plan again and skips what it has done.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
) -> list[NDArray[np.int64]]:
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

    Returns:
        Arrays of sentence indices, in the order in which the batches are to be used.

    Raises:
        ValueError: ``words`` or ``sentences`` is not positive.
    """
    if words < 1 or (sentences is not None and sentences < 1):
        raise ValueError(f"a batch holds at least one word and one sentence, not {words} and {sentences}")
    indices = np.flatnonzero(lengths > 0).astype(np.int64)
    size = lengths[indices].astype(np.int64)
    if not shuffle:
        order = np.argsort(size, kind="stable")
        return _cut(indices[order], size[order], words, sentences)
    generator = np.random.default_rng([seed, epoch])
    noise = generator.random((2, len(indices)))
    near = size * (1.0 + _LENGTH_NOISE * noise[0]) if by_length else 0.0
    order = np.argsort(near + noise[1], kind="stable")
    batches = _cut(indices[order], size[order], words, sentences)
    return [batches[position] for position in generator.permutation(len(batches))]


def _cut(
    indices: NDArray[np.int64], size: NDArray[np.int64], words: int, sentences: int | None
) -> list[NDArray[np.int64]]:
    """Cut greedily from left to right: each batch takes as many sentences as its limits allow."""
    batches = []
    start = 0
    while start < len(indices):
        most = max(1, words // int(size[start]))
        if sentences is not None:
            most = min(most, sentences)
        longest = np.maximum.accumulate(size[start : start + most])
        padded = longest * np.arange(1, len(longest) + 1)  # increasing, so the last one that fits is found by bisection
        count = max(1, int(np.searchsorted(padded, words, side="right")))
        batches.append(indices[start : start + count])
        start += count
    return batches
