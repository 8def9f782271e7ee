"""Tuples as text, as the scorers of open information extraction get them, and how many there are and how alike.

What two sentences must have in common to be the same is as in CaRB (Bhardwaj et al. 2019, EMNLP, D19-1651).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_BRACKET = re.compile("|".join(_BRACKETS))
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
MOST_COMPARED = 500
"""So many different tuples of a sentence are compared with each other at most."""


class Pair(NamedTuple):
    """How well a prediction fits a gold tuple: the right shares of its words and of those of the gold tuple."""

    precision: float
    recall: float


class TupleText(NamedTuple):
    """A tuple of any system."""

    relation: str
    arguments: tuple[str, ...]
    """The first argument, then all others; there may be none."""
    confidence: float = 1.0

    @property
    def second(self) -> str:
        """All arguments but the first one."""
        return " ".join(self.arguments[1:])


Tuples = Mapping[str, Sequence[TupleText]]
"""The tuples of sentences, each under its :func:`sentence_key`."""


def sentence_key(sentence: str) -> str:
    """What sentences are compared by: the text without white space and punctuation, in which escapes such as -LRB- are
    brackets, and so are left out."""
    without_spaces = "".join(sentence.split())
    return _BRACKET.sub(lambda found: _BRACKETS[found[0]], without_spaces).translate(_NO_PUNCTUATION)


def counts_of(sentences: Iterable[Sequence[Collection[Hashable]]]) -> dict[str, float]:
    """How many tuples there are, and how redundant they are.

    Args:
        sentences: of every sentence its tuples, and of each the words: positions, or texts where there are none.

    Returns:
        ``sentences``; ``tuples``; ``sentences_without_tuple``, the share of sentences without a tuple;
        ``tuples_per_word``, the mean number of tuples that have a word, over words that any tuple of the sentence has;
        ``tuple_overlap``, the mean Jaccard index of the words of two tuples of a sentence, for which only the first
        :data:`MOST_COMPARED` different ones of a sentence are looked at. The last two are 0 where there is nothing to
        count.
    """
    total = tuples = without = occurrences = words = pairs = 0
    overlap = 0.0
    for sentence in sentences:
        of_tuples = [set(one) for one in sentence]
        total, tuples, without = total + 1, tuples + len(of_tuples), without + (not of_tuples)
        occurrences += sum(map(len, of_tuples))
        words += len(set().union(*of_tuples))
        # Equal tuples are compared once, for a file may repeat one a thousand times.
        kinds = list(Counter(map(frozenset, of_tuples)).items())[:MOST_COMPARED]
        compared = sum(times for _, times in kinds)
        for i, (one, times) in enumerate(kinds):
            overlap += times * (times - 1) / 2
            overlap += sum(times * others * _jaccard(one, other) for other, others in kinds[i + 1 :])
        pairs += compared * (compared - 1) // 2
    return {
        "sentences": total,
        "tuples": tuples,
        "sentences_without_tuple": without / max(total, 1),
        "tuples_per_word": occurrences / max(words, 1),
        "tuple_overlap": overlap / max(pairs, 1),
    }


def _jaccard(one: frozenset[Hashable], other: frozenset[Hashable]) -> float:
    return len(one & other) / max(len(one | other), 1)
