"""What every vocabulary gives: ids, with the words of a sentence or the characters of a text that they are of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple


class EncodedWords(NamedTuple):
    """The ids of a sentence of words."""

    ids: list[int]
    word_start: list[int]
    """For each word the position of its first id; of a word that is not read, of the id that stands for it."""
    end: int
    """The position behind the last word's last id: of `[SEP]` where there is one, else the number of ids."""
    read: Sequence[int] | None = None
    """The words that have an id, from 0, where not all have; each of them has one. None = all."""

    @property
    def word_of_piece(self) -> list[int]:
        """For each id the word that it was made of, from 0; -1 = of none, as `[CLS]` and `[SEP]`."""
        if self.read is not None:
            return list(self.read)
        words = [-1] * len(self.ids)
        for word, (start, end) in enumerate(pairwise([*self.word_start, self.end])):
            words[start:end] = [word] * (end - start)
        return words

    def between(self, first: int, last: int) -> EncodedWords:
        """The same words with one id in front of them and one behind."""
        assert self.read is None, "a recipe that leaves words out has nothing around its sentences"
        start = [position + 1 for position in self.word_start]
        return EncodedWords([first, *self.ids, last], start, self.end + 1)


class EncodedText(NamedTuple):
    """The ids of running text."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    """For each id its characters ``[begin, end)`` of the text as it was given. ``(0, 0)``: of `[CLS]` and `[SEP]`; of a
    mark without a character the two are equal; two ids that one character became have the same."""
    segments: list[int]
    """For each id 0, or 1 in the second of two texts."""


def one_after_the_other(pieces: Iterable[list[int]]) -> EncodedWords:
    """The ids of a sentence from those of each of its words."""
    ids: list[int] = []
    first: list[int] = []
    for of_word in pieces:
        first.append(len(ids))
        ids += of_word
    return EncodedWords(ids, first, len(ids))
