"""Attachment scores of predicted heads against gold trees, and what trees that know nothing would score.

Conventions, always reported side by side: ``no_punct`` takes punctuation out of both trees first (children of a removed
word go to its nearest kept ancestor), ``with_punct`` counts every token; ``all`` lengths and sentences of at most
``10`` words (counted after the removal). ``uas`` counts root arcs. ``uuas`` is the share of gold arcs between two
words that the prediction has in either direction; root arcs are not counted, and a circle of two words counts once.
Both are fractions of 1, and None where there is nothing to count.

All sentences lie in one array: word i of a sentence that starts at ``start`` is node ``start + i + 1``, node 0 is the
root of every sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

SHORT = 10
RANDOM_TREES = 10

Counts = dict[str, float | int | None]
Scores = dict[str, dict[str, Counts]]


def attachment(
    gold: Sequence[np.ndarray], predicted: Sequence[np.ndarray], punct: Sequence[np.ndarray] | None
) -> Scores:
    """Scores of ``predicted`` heads: ``{"no_punct": {"all": {"uas", "uuas", "sentences", "words"}, "10": ...}, ...}``.

    Each list holds one array a sentence: heads as 0 = root, 1..n = word; ``punct`` is True for tokens that ``no_punct``
    leaves out. With ``punct=None`` only ``with_punct`` is reported. Sentences without a (kept) word are not counted.
    """
    conventions = {"with_punct": None} if punct is None else {"no_punct": punct, "with_punct": None}
    result: Scores = {}
    for name, removed in conventions.items():
        keep = _keep(gold, removed)
        result[name] = _score(_kept(_Forest.of(gold), keep), _kept(_Forest.of(predicted), keep))
    return result


def floors(
    gold: Sequence[np.ndarray],
    punct: Sequence[np.ndarray] | None,
    frequency: Sequence[np.ndarray],
    seed: int = 0,
) -> dict[str, Scores]:
    """Scores of four trees that need no model, in the conventions of :func:`attachment`.

    Each tree is built over the kept words. ``next_word``: a chain whose root is the last word; ``previous_word``: a
    chain whose root is the first; ``random_tree``: mean score of ten trees, each uniform over all n^(n-1) labelled
    rooted trees of its length; ``nearest_rarer``: the head is the nearest word that is rarer in ``frequency`` (counts
    of the training file), ties in distance to the right; of equally frequent words the later counts as rarer, so
    exactly one word, the last of the rarest, is the root.
    """
    conventions = {"with_punct": None} if punct is None else {"no_punct": punct, "with_punct": None}
    result: dict[str, Scores] = {"next_word": {}, "previous_word": {}, "random_tree": {}, "nearest_rarer": {}}
    for name, removed in conventions.items():
        keep = _keep(gold, removed)
        tree = _kept(_Forest.of(gold), keep)
        counts = np.concatenate([np.zeros(0), *frequency])[keep]
        random = np.random.default_rng(seed)
        draws = [_score(tree, tree.replaced(_random_trees(tree.lengths, random))) for _ in range(RANDOM_TREES)]
        result["next_word"][name] = _score(tree, tree.replaced(_next_word(tree)))
        result["previous_word"][name] = _score(tree, tree.replaced(_previous_word(tree)))
        result["random_tree"][name] = {group: _mean([draw[group] for draw in draws]) for group in draws[0]}
        result["nearest_rarer"][name] = _score(tree, tree.replaced(_per_sentence(tree, counts, nearest_rarer)))
    return result


def remove(heads: np.ndarray, punct: np.ndarray) -> np.ndarray:
    """Heads of the words that are not ``punct``, renumbered; children of removed words go to the nearest kept ancestor.

    A word whose ancestors are all removed hangs at the root (0), and so does one below a circle of removed words.
    """
    forest = _kept(_Forest.of([heads]), ~np.asarray(punct, dtype=bool))
    return forest.heads


def nearest_rarer(counts: np.ndarray) -> np.ndarray:
    """Heads (0..n) of one sentence: each word hangs at the nearest rarer one, see :func:`floors`."""
    n = len(counts)
    position = np.arange(n)
    rank = np.empty(n, dtype=np.int64)
    rank[np.lexsort((-position, counts))] = position
    distance = 2 * np.abs(position[:, None] - position) + (position[:, None] > position)
    distance = np.where(rank[:, None] > rank, distance, 4 * n)
    return np.where(rank == 0, 0, distance.argmin(axis=1) + 1)


@dataclass(frozen=True)
class _Forest:
    """Trees of many sentences: ``heads`` as nodes of the whole array, ``lengths`` in words of each sentence."""

    heads: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, heads: Sequence[np.ndarray]) -> _Forest:
        lengths = np.array([len(h) for h in heads], dtype=np.int64)
        local = np.concatenate([np.zeros(0, dtype=np.int64), *heads]).astype(np.int64)
        forest = cls(local, lengths)
        if ((local < 0) | (local > np.repeat(lengths, lengths))).any():
            raise ValueError("a head is not a word of its sentence")
        return forest.replaced(local)

    @property
    def start(self) -> np.ndarray:
        """Number of words before the sentence of each word, ``[words]``."""
        return np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)

    def replaced(self, local: np.ndarray) -> _Forest:
        """The same sentences with other heads, given as 0..n within each sentence."""
        return _Forest(np.where(local == 0, 0, local + self.start), self.lengths)


def _keep(heads: Sequence[np.ndarray], removed: Sequence[np.ndarray] | None) -> np.ndarray:
    if removed is None:
        return np.ones(sum(len(h) for h in heads), dtype=bool)
    return ~np.concatenate([np.zeros(0, dtype=bool), *removed]).astype(bool)


def _kept(forest: _Forest, keep: np.ndarray) -> _Forest:
    """The trees over the kept words; a removed word's children climb to its nearest kept ancestor."""
    if keep.shape != forest.heads.shape:
        raise ValueError(f"{len(keep)} words in one list, {len(forest.heads)} in the other")
    if keep.all():
        return forest
    stays = np.concatenate([[True], keep])
    climb = np.where(stays, np.arange(len(stays)), np.concatenate([[0], forest.heads]))
    for _ in range(max(int(forest.lengths.max()), 1).bit_length()):
        climb = climb[climb]
    climb = np.where(stays[climb], climb, 0)  # a circle of removed words leads nowhere
    number = np.concatenate([[0], np.cumsum(keep)])
    sentence = np.repeat(np.arange(len(forest.lengths)), forest.lengths)
    lengths = np.bincount(sentence[keep], minlength=len(forest.lengths))
    return _Forest(number[climb[forest.heads[keep]]], lengths)


def _score(gold: _Forest, predicted: _Forest) -> dict[str, Counts]:
    """Scores over all sentences and over the short ones."""
    if not np.array_equal(gold.lengths, predicted.lengths):
        raise ValueError("gold and predicted sentences differ in length")
    node = np.arange(1, len(gold.heads) + 1)
    correct = gold.heads == predicted.heads
    edge = gold.heads != 0
    reverse = predicted.heads[np.maximum(gold.heads, 1) - 1] == node if len(node) else correct
    found = edge & (correct | reverse)
    length = np.repeat(gold.lengths, gold.lengths)
    result: dict[str, Counts] = {}
    for name, longest in (("all", None), (str(SHORT), SHORT)):
        words = np.ones(len(node), dtype=bool) if longest is None else length <= longest
        sentences = (gold.lengths > 0) & (True if longest is None else gold.lengths <= longest)
        result[name] = {
            "uas": _share(correct & words, words),
            "uuas": _share(found & words, edge & words),
            "sentences": int(sentences.sum()),
            "words": int(words.sum()),
        }
    return result


def _share(part: np.ndarray, whole: np.ndarray) -> float | None:
    return int(part.sum()) / int(whole.sum()) if whole.any() else None


def _mean(draws: Sequence[Counts]) -> Counts:
    result = dict(draws[0])
    for name in ("uas", "uuas"):
        values = [value for draw in draws if (value := draw[name]) is not None]
        result[name] = sum(values) / len(values) if values else None
    return result


def _next_word(forest: _Forest) -> np.ndarray:
    position = np.arange(len(forest.heads)) - forest.start
    return np.where(position + 1 == np.repeat(forest.lengths, forest.lengths), 0, position + 2)


def _previous_word(forest: _Forest) -> np.ndarray:
    return np.asarray(np.arange(len(forest.heads)) - forest.start)


def _per_sentence(forest: _Forest, values: np.ndarray, rule: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    parts = np.split(values, np.cumsum(forest.lengths)[:-1]) if len(forest.lengths) else []
    return np.concatenate([np.zeros(0, dtype=np.int64), *[rule(part) for part in parts if len(part)]])


def _random_trees(lengths: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Heads (0..n) of one uniform rooted tree a sentence, all sentences of a length at once."""
    starts = np.cumsum(lengths) - lengths
    heads = np.zeros(int(lengths.sum()), dtype=np.int64)
    for n in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == n)
        heads[starts[rows][:, None] + np.arange(n)] = random_trees(len(rows), n, random)
    return heads


def random_trees(count: int, n: int, random: np.random.Generator) -> np.ndarray:
    """``count`` trees over n words, heads 0..n, uniform over all n^(n-1) labelled rooted trees (Pruefer codes, 1918).

    A code of n - 1 numbers whose last one is the root: at each step the smallest leaf hangs at the next number.
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
