"""What the spelling of a word tells: features of a hashed table, and plain spellings of typographic marks.

A feature is a piece of text that says what it is: ``suffix:ing``, ``shape:Xx``. Feature ``f`` has row
``crc32(f) mod rows`` of the table that the model learns. Two features may share a row, as in every hashed model; the
hash is the same on every machine and in every version of Python. Features are those of the word as it is written: where
a vocabulary lower-cases its words, the shape still tells capitals.

Raw text has typographic marks that corpora of plain marks do not have: curly quotes, dashes, the ellipsis. A word that
the vocabulary does not know is looked up in a plain spelling, if it knows that: `“` as `"` or as the Penn Treebank's
two grave accents, `n’t` as `n't`, `…` as `...`, `–` as `--` or `-`. Known words stay as they are, and the output keeps
the spelling of the input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, product
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from probtrans_cli.recipe.data import WordFeatures

CACHE_SIZE = 200_000  # words whose features, or pieces, a vocabulary remembers
_LONGEST = 64  # characters of a word that are read for n-grams; an address may have a thousand
_LONGEST_SHAPE = 8


class HashedFeatures:
    """The feature rows of words, as ``data.vocabulary.features`` of a recipe describes them."""

    def __init__(self, section: WordFeatures) -> None:
        self.section = section
        self.size = section.rows  # the number of rows of the table
        self.rows = lru_cache(CACHE_SIZE)(self._rows_of)
        """Returns the rows of a word as it is written, a tuple of numbers from 0 to ``size - 1``."""

    def _rows_of(self, word: str) -> tuple[int, ...]:
        return tuple(crc32(name.encode("utf-8", "surrogatepass")) % self.size for name in self.names(word))

    def names(self, word: str) -> Iterator[str]:
        """Yield the features of a word as text. The whole word counts as its own prefix and suffix."""
        lower, section = word.lower(), self.section
        for length in range(1, min(section.prefixes, len(lower)) + 1):
            yield f"prefix:{lower[:length]}"
        for length in range(1, min(section.suffixes, len(lower)) + 1):
            yield f"suffix:{lower[-length:]}"
        if section.ngrams:
            marked = f"^{lower[:_LONGEST]}$"
            starts = range(len(marked) - section.ngrams + 1)
            yield from (f"ngram:{gram}" for gram in sorted({marked[i : i + section.ngrams] for i in starts}))
        if section.shape:
            yield f"shape:{shape(word)}"


def shape(word: str) -> str:
    """Return the pattern of a word's characters: X upper case, x other letters, d digits.

    A run of the same kind is written once, but for ``XX``, which stands for two capitals or more:
    ``Ms`` -> Xx, ``U.S.`` -> X.X., ``mid-1990s`` -> x-dx, ``USA`` -> XX.
    """

    def kind_of(character: str) -> str:
        if character.isupper():
            return "X"
        if character.isalpha():
            return "x"
        return "d" if character.isdigit() else character

    runs = []
    for kind, run in groupby(map(kind_of, word)):
        runs.append(kind * 2 if kind == "X" and len(list(run)) > 1 else kind)
    return "".join(runs)[:_LONGEST_SHAPE]


# --- typographic marks ------------------------------------------------------------------------------------------------

_SAME = {"…": "...", "‐": "-", "‑": "-", "\u00ad": "", "′": "'", "″": '"'}
_QUOTES = (
    {**dict.fromkeys("“”„‟«»", '"'), **dict.fromkeys("‘’‚‛", "'")},
    {**dict.fromkeys("“„‟«", "``"), **dict.fromkeys("”»", "''"), **dict.fromkeys("‘‚‛", "`"), "’": "'"},
)
"""Straight quotes, and those of the Penn Treebank."""
_DASHES = ({"–": "-", "—": "--"}, {"–": "--", "—": "-"})
_TABLES = [str.maketrans({**_SAME, **quotes, **dashes}) for quotes, dashes in product(_QUOTES, _DASHES)]
_MARK = re.compile(f"[{''.join({**_SAME, **_QUOTES[0], **_DASHES[0]})}]")


def looked_up(words: Sequence[str], knows: Callable[[str], bool], frequency: Callable[[str], int]) -> list[str] | None:
    """Respell unknown words with typographic marks in the known plain spelling that is most frequent in the training
    file; of equally frequent spellings the first counts.

    Returns:
        The words as they are looked up; None where all stay as they are.
    """
    spelled = list(words)
    for i, word in enumerate(words):
        if _MARK.search(word) and not knows(word):
            spellings = dict.fromkeys(word.translate(table) for table in _TABLES)
            spelled[i] = max((it for it in spellings if it and knows(it)), key=frequency, default=word)
    return None if spelled == list(words) else spelled
