"""What vocabularies that divide words share: every word is one piece or more, and its first piece represents it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

from probtrans_cli.data.tokens import token_spans
from probtrans_cli.data.vocabularies.base import (
    SPECIALS,
    UNKNOWN,
    EncodedText,
    EncodedWords,
    Vocabulary,
    no_extra_word,
    normalise,
    one_after_the_other,
)

LONGEST_WORD = 1000
"""Characters; a longer word is not divided, but unknown. Whole sentences without spaces fit."""
_CACHE_SIZE = 200_000  # words whose pieces are remembered


class Pieces(Vocabulary):
    """A vocabulary that divides every word by itself.

    A word that is spelled as a special, is too long, or has no piece at all is one unknown piece.
    """

    def __init__(self, counts: Mapping[str, int], *, lowercase: bool) -> None:
        """``counts``: training counts of whole words, normalised."""
        self.counts = dict(counts)
        self.lowercase = lowercase
        self._pieces: dict[str, list[int]] = {}

    def encode_words(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        """Return the ids of all pieces, and for each word the position of its first; it has no extra words."""
        if extra:
            raise no_extra_word(words[-extra])
        return one_after_the_other(map(self._segment, words))

    def encode_text(self, text: str) -> EncodedText:
        """Return the ids of the tokens of a text, and the characters of each piece."""
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        for start, end in token_spans(text):
            ids += self._segment(text[start:end])
            offsets += [(start + begin, start + stop) for begin, stop in self._spans(text[start:end])]
        return EncodedText(ids, offsets, [0] * len(ids))

    def normalise(self, word: str) -> str:
        """Return the word with the options applied."""
        return normalise(word, lowercase=self.lowercase)

    def frequency(self, word: str) -> int:
        """Return the training count of the whole word after normalisation; 0 if it was not seen."""
        return self.counts.get(self.normalise(word), 0)

    @abstractmethod
    def _divide(self, word: str) -> list[int]:
        """The ids of a normalised word."""

    @abstractmethod
    def _lengths(self, word: str) -> Iterable[int]:
        """The number of characters of each piece of a normalised word, without a blank."""

    def _segment(self, word: str) -> list[int]:
        pieces = self._pieces.get(word)
        if pieces is None:
            normal = self.normalise(word)
            pieces = (self._divide(normal) if _divisible(normal) else []) or [UNKNOWN]
            if len(self._pieces) >= _CACHE_SIZE:
                self._pieces.clear()
            self._pieces[word] = pieces
        return pieces

    def _spans(self, word: str) -> list[tuple[int, int]]:
        """The characters ``[begin, end)`` of each piece in the word as it is written."""
        normal = self.normalise(word)
        lengths = list(self._lengths(normal)) if _divisible(normal) else []
        if not lengths:
            return [(0, len(word))]
        # Some characters become two in lower case (`İ`). For each character in lower case: its place in the word.
        places = enumerate(word)
        written = [place for place, letter in places for _ in (letter.lower() if self.lowercase else letter)]
        written.append(len(word))
        return [
            (written[start], written[end - 1] + 1 if end > start else written[start])
            for start, end in pairwise(accumulate(lengths, initial=0))
        ]


def _divisible(word: str) -> bool:
    return word not in SPECIALS and len(word) <= LONGEST_WORD
