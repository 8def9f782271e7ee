"""The trees of many sentences in one array, punctuation taken out of them, and trees that need no model.

Word i of a sentence that starts at ``start`` is node ``start + i + 1``, node 0 is the root of every sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from probtrans_cli.trees.decode import decode, portions

DISTANCE, RIGHT, FREQUENCY, ROOT = 1.0, 2.0, 0.04, 0.16
"""The numbers of :func:`untrained_bias`: found on English trees of UD EWT, and the same for every language."""


@dataclass(frozen=True)
class Forest:
    """Trees of many sentences: ``heads`` as nodes of the whole array, ``lengths`` in words of each sentence."""

    heads: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, heads: Sequence[np.ndarray]) -> Forest:
        """Make it of one array a sentence: 0 = root, 1..n = word."""
        lengths = np.array([len(h) for h in heads], dtype=np.int64)
        local = np.concatenate([np.zeros(0, dtype=np.int64), *heads]).astype(np.int64)
        forest = cls(local, lengths)
        if ((local < 0) | (local > np.repeat(lengths, lengths))).any():
            raise ValueError("a head is not a word of its sentence")
        return forest.replaced(local)

    @property
    def start(self) -> np.ndarray:
        return np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)

    @property
    def sentence(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def replaced(self, local: np.ndarray) -> Forest:
        """Return the same sentences with other heads, numbered 0..n within each sentence."""
        return Forest(np.where(local == 0, 0, local + self.start), self.lengths)

    def restricted(self, keep: np.ndarray) -> Forest:
        """Return the trees over the words that ``keep`` marks; children of others go to the nearest kept ancestor."""
        if keep.shape != self.heads.shape:
            raise ValueError(f"{len(keep)} words in one list, {len(self.heads)} in the other")
        if keep.all():
            return self
        stays = np.concatenate([[True], keep])
        climb = np.where(stays, np.arange(len(stays)), np.concatenate([[0], self.heads]))
        for _ in range(max(int(self.lengths.max()), 1).bit_length()):
            climb = climb[climb]
        climb = np.where(stays[climb], climb, 0)  # a circle of removed words leads nowhere
        number = np.concatenate([[0], np.cumsum(keep)])
        lengths = np.bincount(self.sentence[keep], minlength=len(self.lengths))
        return Forest(number[climb[self.heads[keep]]], lengths)


def not_trees(forest: Forest) -> np.ndarray:
    """Mark the sentences whose arcs are not a tree with one root, ``[S]``; one without words is not marked."""
    up = np.concatenate([[0], forest.heads])
    for _ in range(int(forest.lengths.max(initial=1)).bit_length()):
        up = up[up]  # the ancestor twice as far away; the root is its own
    count = len(forest.lengths)
    roots = np.bincount(forest.sentence, forest.heads == 0, minlength=count)
    circles = np.bincount(forest.sentence, up[1:] != 0, minlength=count)
    odd: np.ndarray = (forest.lengths > 0) & ((roots != 1) | (circles > 0))
    return odd


def compare(gold: Forest, predicted: Forest) -> tuple[np.ndarray, np.ndarray]:
    """Mark words with the right head, and gold arcs that are there with head and dependent swapped only; ``[words]``.

    An arc of gold is named by its dependent. Of a circle of two words, one of whose arcs is gold, that one is right.
    """
    if not np.array_equal(gold.lengths, predicted.lengths):
        raise ValueError("gold and predicted sentences differ in length")
    right = gold.heads == predicted.heads
    node = np.arange(1, len(gold.heads) + 1)
    reverse = predicted.heads[np.maximum(gold.heads, 1) - 1] == node if len(node) else right
    return right, (gold.heads != 0) & reverse & ~right


def conventions(
    gold: Sequence[np.ndarray], punct: Sequence[np.ndarray] | None
) -> Iterator[tuple[str, np.ndarray, Forest]]:
    """Yield the ways of counting: name, words that are kept, gold trees over them; without ``punct`` there is one."""
    forest = Forest.of(gold)
    if punct is not None:
        keep = ~np.concatenate([np.zeros(0, dtype=bool), *punct]).astype(bool)
        yield "no_punct", keep, forest.restricted(keep)
    yield "with_punct", np.ones(len(forest.heads), dtype=bool), forest


# --- trees that need no model -----------------------------------------------------------------------------------------


def rule_trees(forest: Forest, frequency: np.ndarray) -> dict[str, Forest]:
    """Return the same sentences with heads by simple rules; ``frequency`` counts each word in the training file.

    ``next_word``: a chain whose root is the last word; ``previous_word``: a chain whose root is the first;
    ``nearest_rarer`` and ``untrained_bias``: see the functions of these names.
    """
    position = np.arange(len(forest.heads)) - forest.start
    lengths = np.repeat(forest.lengths, forest.lengths)
    counts = [part for part in np.split(frequency, np.cumsum(forest.lengths)[:-1]) if len(part)]
    return {
        "next_word": forest.replaced(np.where(position + 1 == lengths, 0, position + 2)),
        "previous_word": forest.replaced(position),
        "nearest_rarer": forest.replaced(np.concatenate([np.zeros(0, dtype=np.int64), *map(nearest_rarer, counts)])),
        "untrained_bias": forest.replaced(untrained_bias(frequency, forest.lengths)),
    }


def nearest_rarer(counts: np.ndarray) -> np.ndarray:
    """Return the heads (0..n) of one sentence: each word hangs at the nearest word with a smaller count.

    Ties in distance go to the right; of equal counts the later word's counts as smaller, so exactly one word, the last
    of the rarest, is the root.
    """
    n = len(counts)
    position = np.arange(n)
    rank = np.empty(n, dtype=np.int64)
    rank[np.lexsort((-position, counts))] = position
    distance = 2 * np.abs(position[:, None] - position) + (position[:, None] > position)
    distance = np.where(rank[:, None] > rank, distance, 4 * n)
    return np.where(rank == 0, 0, distance.argmin(axis=1) + 1)


def untrained_bias(counts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return heads (0..n) of the best projective trees by what is expected of trees before anything is learned.

    The scores are those of ``model.head_bias`` alone: near heads, to the right, rare ones; the root is rare. ``counts
    [words]`` in training, ``lengths`` in words of each sentence.
    """
    heads = np.zeros(len(counts), dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    for rows, n in portions(lengths):
        mask = np.arange(n) < lengths[rows][:, None]
        words = np.where(mask, starts[rows][:, None] + np.arange(n), 0)
        heads[words[mask]] = decode(bias_scores(counts[words]), mask, "eisner")[mask]
    return heads


def bias_scores(counts: Int64[np.ndarray, "b n"]) -> Float[np.ndarray, "b n n+1"]:
    """Return the scores of :func:`untrained_bias`: of word j as the head of word i, then of the root.

    ``ρ [j > i] - δ ln|i - j| - φ (ln n_j)²``, and ``-κ (ln n_i)²`` of the root, with the training counts ``n``; a word
    that was never seen counts as one.
    """
    word = np.arange(counts.shape[1])
    x = word - word[:, None]
    common = np.log(np.maximum(counts, 1)) ** 2
    heads = RIGHT * (x > 0) - DISTANCE * np.log(np.maximum(np.abs(x), 1)) - FREQUENCY * common[:, None]
    return np.concatenate([heads, -ROOT * common[:, :, None]], axis=2)


def random_heads(lengths: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw heads (0..n) of one uniform rooted tree a sentence, all sentences of a length at once."""
    starts = np.cumsum(lengths) - lengths
    heads = np.zeros(int(lengths.sum()), dtype=np.int64)
    for n in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == n)
        heads[starts[rows][:, None] + np.arange(n)] = random_trees(len(rows), n, random)
    return heads


def random_trees(count: int, n: int, random: np.random.Generator) -> np.ndarray:
    """Draw ``count`` trees over n words, heads 0..n, uniform over all n^(n-1) labelled rooted trees.

    By Prüfer codes (1918) of n - 1 numbers, the last one the root: at each step the smallest leaf hangs at the next
    number.
    """
    heads = np.zeros((count, n), dtype=np.int64)
    code = random.integers(0, n, size=(count, n - 1))
    rows = np.arange(count)
    remaining = np.zeros((count, n), dtype=np.int64)
    np.add.at(remaining, (rows[:, None], code), 1)
    for step in range(n - 1):
        leaf = (remaining == 0).argmax(axis=1)
        heads[rows, leaf] = code[:, step] + 1
        remaining[rows, leaf] = -1
        remaining[rows, code[:, step]] -= 1
    return heads
