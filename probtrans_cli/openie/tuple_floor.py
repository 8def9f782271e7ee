"""Tuples without learning, the floor of open information extraction: a sentence is cut at its verbs.

At every auxiliary or word in "-ed" stands a relation: this word and the auxiliaries, words in "-ed" and adverbs right
behind it. All that stands before it is the first argument, all behind it the second, without the final mark. The n-th
tuple of a sentence has the confidence 1 / n. CaRB is generous to such tuples, since one of them may serve as the best
prediction for several gold tuples.
"""

from __future__ import annotations

from collections.abc import Sequence

from probtrans_cli.openie.extractions import Extraction

AUXILIARIES = frozenset(
    ("am", "are", "be", "been", "being", "can", "could", "did", "do", "does", "had", "has", "have", "is", "may",
     "might", "must", "shall", "should", "was", "were", "will", "would")
)  # fmt: skip
_ADVERBS = frozenset(("not", "also"))
_MARKS = frozenset((".", "!", "?"))


def floor_tuples(words: Sequence[str]) -> list[Extraction]:
    """The tuples of a sentence; its first word begins none."""
    end = len(words) - (bool(words) and words[-1] in _MARKS)
    found: list[Extraction] = []
    i = 1
    while i < end:
        if not _is_verb(words[i]):
            i += 1
            continue
        behind = i + 1
        while behind < end and (_is_verb(words[behind]) or _is_adverb(words[behind])):
            behind += 1
        relation, second = tuple(range(i, behind)), tuple(range(behind, end))
        found.append(Extraction(tuple(range(i)), relation, second, confidence=1 / (len(found) + 1)))
        i = behind
    return found


def _is_verb(word: str) -> bool:
    return word.lower() in AUXILIARIES or word.lower().endswith("ed")


def _is_adverb(word: str) -> bool:
    return word.lower() in _ADVERBS or word.lower().endswith("ly")
