"""Typographic marks of raw text: curly quotes, dashes, the ellipsis, which corpora of plain marks do not have.

A word that the vocabulary does not know is looked up in a plain spelling, if it knows that one: `“` as `"` or as the
Penn Treebank's two grave accents, `n’t` as `n't`, `…` as `...`, `–` as `--` or `-`. Known words stay as they are, and
what is written of a sentence keeps its own spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probtrans_cli.data.vocabularies.base import Vocabulary

_SAME = {"…": "...", "‐": "-", "‑": "-", "\u00ad": "", "′": "'", "″": '"'}
_QUOTES = (
    {**dict.fromkeys("“”„‟«»", '"'), **dict.fromkeys("‘’‚‛", "'")},
    {**dict.fromkeys("“„‟«", "``"), **dict.fromkeys("”»", "''"), **dict.fromkeys("‘‚‛", "`"), "’": "'"},
)
"""Straight quotes, and those of the Penn Treebank."""
_DASHES = ({"–": "-", "—": "--"}, {"–": "--", "—": "-"})
_WAYS = [str.maketrans({**_SAME, **quotes, **dashes}) for quotes, dashes in product(_QUOTES, _DASHES)]
_MARK = re.compile(f"[{''.join({**_SAME, **_QUOTES[0], **_DASHES[0]})}]")


def looked_up(words: Sequence[str], vocabulary: Vocabulary) -> list[str] | None:
    """The words as they are looked up: unknown ones with typographic marks in the known plain spelling that is the most
    frequent in the training file; None where all stay as they are."""
    found = [_plain(word, vocabulary) if _MARK.search(word) else word for word in words]
    return None if found == list(words) else found


def _plain(word: str, vocabulary: Vocabulary) -> str:
    if _is_known(word, vocabulary):
        return word
    return max(_spellings(word, vocabulary), key=vocabulary.frequency, default=word)


def _spellings(word: str, vocabulary: Vocabulary) -> Iterator[str]:
    """The plain spellings that are known; of equally frequent ones the first counts."""
    for spelling in dict.fromkeys(word.translate(way) for way in _WAYS):
        if spelling and _is_known(spelling, vocabulary):
            yield spelling


def _is_known(word: str, vocabulary: Vocabulary) -> bool:
    return vocabulary.UNKNOWN not in vocabulary.encode_words([word]).ids
