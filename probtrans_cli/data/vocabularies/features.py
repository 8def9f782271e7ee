"""Features of the spelling of a word, as rows of a hashed table: affixes, character n-grams, shape.

A feature is a piece of text that says what it is: ``suffix:ing``, ``shape:Xx``. Feature ``f`` has row
``crc32(f) mod rows`` of the table that the model learns. Two features may share a row, as in every hashed model; the
hash is the same on every machine and in every version of Python. Features are those of the word as it is written: where
a vocabulary lower-cases its words, the shape still tells capitals.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from probtrans_cli.recipe.data import WordFeatures

_CACHE_SIZE = 200_000  # forms whose rows are remembered
_LONGEST = 64  # characters of a word that are read for n-grams; an address may have a thousand
_LONGEST_SHAPE = 8


class HashedFeatures:
    """The feature rows of words, as a recipe's ``data.vocabulary.features`` asks for them."""

    def __init__(self, section: WordFeatures) -> None:
        self.section = section
        self._rows: dict[str, tuple[int, ...]] = {}

    @property
    def size(self) -> int:
        """Number of rows of the table."""
        return self.section.rows

    def rows(self, word: str) -> tuple[int, ...]:
        """Return the rows of a word as it is written; each number is at least 0 and less than ``size``."""
        rows = self._rows.get(word)
        if rows is None:
            rows = tuple(crc32(name.encode("utf-8", "surrogatepass")) % self.size for name in self.names(word))
            if len(self._rows) >= _CACHE_SIZE:
                self._rows.clear()
            self._rows[word] = rows
        return rows

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
    runs = []
    for kind, run in groupby(map(_kind, word)):
        runs.append(kind * 2 if kind == "X" and len(list(run)) > 1 else kind)
    return "".join(runs)[:_LONGEST_SHAPE]


def _kind(character: str) -> str:
    if character.isupper():
        return "X"
    if character.isalpha():
        return "x"
    return "d" if character.isdigit() else character
