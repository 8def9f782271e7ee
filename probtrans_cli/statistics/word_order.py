"""What the order of the words of a corpus tells of each word: to which side it leans, and how easily it is left out;
and of the language: which one of two rare words in a row stands alone as well.

All are cues of dependency trees, and are read off text without trees. A boundary is where a sentence begins or ends,
and punctuation.

    leaning        z(w) = ln ((b_w + a β) / ((n_w + a) β)) - ln ((e_w + a ε) / ((n_w + a) ε)),     a = 5
    reducibility   R(w) = mean of PMI(c(l), c(r)) over the occurrences l w r, shrunk and standardised
                   PMI(x, y) = ln ((n_xy + s p_x q_y) / ((n + s) p_x q_y)),                         s = 250
    standing alone N = mean of (o(y) - o(x)) / s.d. of o, over the occurrences f x y g of rare words x and y
                   o(w) = ln ((a_w + 1/2) / (n_w - a_w + 1/2))

``b_w`` and ``e_w`` of the ``n_w`` occurrences of a word stand behind and in front of a boundary, as the shares β and ε
of all words do. A word that hardly ever stands in front of one, as `the` and `of`, waits for something to its right,
where its head is then. ``n_xy`` of ``n`` neighbours are of the classes x and y, each of the 200 most frequent words
being a class of its own, all other words together one, and boundaries one; ``p`` and ``q`` are shares of classes on
the left and on the right. So R tells how well its neighbours would go together without the word, which is so of
modifiers: what can be left out has no dependents (reducibility: Mareček and Žabokrtský 2012). Nothing goes together
where both neighbours are boundaries. The mean of a rare word is drawn to that of all words that are no class of their
own, as if 15 of them had been seen, too; then the mean over the corpus is 0 and the variance 1.

A word is frequent if it is one of the 200 most frequent ones, and otherwise rare. ``a_w`` of the ``n_w`` occurrences of
a rare word stand alone: behind a frequent word ``f``, and in front of a frequent word or a boundary ``g``. Where two
rare words stand there together, the head is the one that can do without the other: beside ``the white house`` there is
``the house`` more often than ``the white``. So N is positive where modifiers stand in front of what they modify, and
negative where they stand behind it, as in French. An unknown word is never x or y, nor alone, but it is rare.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int, Int64

LEANING, SHRINKING, PAIRS = 5.0, 15.0, 250.0
"""a, the occurrences that are added to those of a word, and s."""
CLASSES = 200  # how many words are a class of their own


def word_order(
    ids: Int[np.ndarray, " m"], lengths: Int[np.ndarray, " s"], boundary: Bool[np.ndarray, " v"], unknown: int
) -> Float[np.ndarray, "v 2"]:
    """Return z and R of every entry of a vocabulary; 0 of boundaries and of what does not occur.

    Args:
        ids: the words of all sentences, one after the other.
        lengths: of the sentences.
        boundary: which entries are punctuation.
        unknown: the entry of all other words, which is never a class of its own.
    """
    entries = len(boundary)
    words = _in_turn(ids, lengths, boundary)
    at = np.flatnonzero(words >= 0)
    if not at.size:
        return np.zeros((entries, 2))
    here, before, behind = words[at], words[at - 1], words[at + 1]
    counts = np.bincount(here, minlength=entries)
    begun, ended = (np.bincount(here, weights=side < 0, minlength=entries) for side in (before, behind))
    leaning: Float[np.ndarray, " v"] = _share(begun, counts) - _share(ended, counts)

    frequent = _most_frequent(counts, unknown)
    class_of = np.full(entries + 1, CLASSES)  # the last entry, of id -1: a boundary
    class_of[frequent], class_of[-1] = np.arange(len(frequent)), CLASSES + 1
    classes = class_of[words]
    number = CLASSES + 2
    pairs = np.bincount(classes[:-1] * number + classes[1:], minlength=number**2).reshape(number, number)
    expected = np.outer(pairs.sum(axis=1), pairs.sum(axis=0)) / pairs.sum() ** 2
    possible = expected > 0
    information = np.zeros((number, number))
    smoothed = (pairs + PAIRS * expected)[possible] / ((pairs.sum() + PAIRS) * expected)[possible]
    information[possible] = np.log(smoothed)
    together = information[class_of[before], class_of[behind]]
    together[(before < 0) & (behind < 0)] = 0.0
    infrequent = class_of[here] == CLASSES
    middle = together[infrequent].mean() if infrequent.any() else together.mean()
    sums = np.bincount(here, weights=together, minlength=entries)
    mean_association = (sums + SHRINKING * middle) / (counts + SHRINKING)
    reducibility = (mean_association - mean_association[here].mean()) / max(float(mean_association[here].std()), 1e-9)
    order: Float[np.ndarray, "v 2"] = np.where((counts > 0)[:, None], np.stack([leaning, reducibility], axis=1), 0.0)
    return order


def standing_alone(
    ids: Int[np.ndarray, " m"], lengths: Int[np.ndarray, " s"], boundary: Bool[np.ndarray, " v"], unknown: int
) -> tuple[Bool[np.ndarray, " v"], float]:
    """Return which entries of a vocabulary are rare words, also those that are not there, and N, 0 where nothing tells
    it. For the arguments see :func:`word_order`."""
    entries = len(boundary)
    words = _in_turn(ids, lengths, boundary)
    counts = np.bincount(words[words >= 0], minlength=entries)
    frequent = np.zeros(entries + 1, dtype=np.bool_)  # the last entry, of id -1: a boundary
    frequent[_most_frequent(counts, unknown)] = True
    rare = ~(frequent[:-1] & (counts > 0) | boundary)
    behind, last = frequent[words], frequent[words] | (words < 0)
    is_rare = np.append(rare & (np.arange(entries) != unknown), False)[words]
    alone = np.bincount(words[1:-1][behind[:-2] & is_rare[1:-1] & last[2:]], minlength=entries)
    odds = np.log((alone + 0.5) / (counts - alone + 0.5))
    first = 1 + np.flatnonzero(behind[:-3] & is_rare[1:-2] & is_rare[2:-1] & last[3:])
    both = odds[words[np.stack([first, first + 1])]]
    spread = float(both.std()) if both.size else 0.0
    return rare, float((both[1] - both[0]).mean()) / spread if spread > 1e-9 else 0.0


def _most_frequent(counts: Int64[np.ndarray, " v"], unknown: int) -> Int64[np.ndarray, " c"]:
    ranked = np.argsort(-counts, kind="stable")
    frequent: Int64[np.ndarray, " c"] = ranked[ranked != unknown][:CLASSES]
    return frequent


def _in_turn(
    ids: Int[np.ndarray, " m"], lengths: Int[np.ndarray, " s"], boundary: Bool[np.ndarray, " v"]
) -> Int64[np.ndarray, " k"]:
    """Return all words one after the other, with one -1 for every boundary."""
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    words: Int64[np.ndarray, " k"] = np.insert(np.where(boundary[ids], -1, ids).astype(np.int64), ends, -1)
    again = (words[1:] < 0) & (words[:-1] < 0)
    kept: Int64[np.ndarray, " k"] = words[np.concatenate([[True], ~again])]
    return kept


def _share(count: Float[np.ndarray, " v"], of: Int64[np.ndarray, " v"]) -> Float[np.ndarray, " v"]:
    """Return the logarithm of the share of each word at a boundary, against that of all words."""
    share = count.sum() / of.sum()
    logarithm: Float[np.ndarray, " v"] = np.log((count + LEANING * share) / ((of + LEANING) * share))
    return logarithm
