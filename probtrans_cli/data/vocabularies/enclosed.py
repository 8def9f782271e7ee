"""A vocabulary to which `<cls>` and `<sep>` are added, the entries that stand in front of a text and behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from probtrans_cli.data.vocabularies.base import (
    EnclosingVocabulary,
    EncodedText,
    EncodedWords,
    Vocabulary,
    read_saved,
    write_saved,
)

ENDS = ("<cls>", "<sep>")


class Enclosed(EnclosingVocabulary):
    """Another vocabulary with these two entries added; the ids of the other vocabulary stay as they are."""

    def __init__(self, inner: Vocabulary) -> None:
        self.inner = inner
        self.units = inner.units
        self.PAD, self.UNKNOWN, self.MASK = inner.PAD, inner.UNKNOWN, inner.MASK
        self.FIRST, self.LAST = inner.size, inner.size + 1
        self.specials: tuple[int, ...] = (*inner.specials, self.FIRST, self.LAST)

    @property
    def size(self) -> int:
        """Number of ids, specials included."""
        return self.inner.size + len(ENDS)

    def encode_part(self, words: Sequence[str]) -> EncodedWords:
        """Return the ids of words within a longer text, without those around it."""
        return self.inner.encode_words(words)

    def encode_words(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        """Return the ids of a sentence, `<cls>` and `<sep>` around it, and the position of each word's first id."""
        return self.inner.encode_words(words, extra).between(self.FIRST, self.LAST)

    def encode_text(self, text: str) -> EncodedText:
        """Return the ids of running text, `<cls>` and `<sep>` around it, and each one's characters in it."""
        ids, offsets, segments = self.inner.encode_text(text)
        return EncodedText([self.FIRST, *ids, self.LAST], [(0, 0), *offsets, (0, 0)], [0, *segments, 0])

    def decode(self, id: int) -> str:
        """Return the word or piece of an id (0 <= id < size)."""
        return self.inner.decode(id) if id < self.FIRST else ENDS[id - self.FIRST]

    def normalise(self, word: str) -> str:
        """Return the word as it is looked up and counted."""
        return self.inner.normalise(word)

    def frequency(self, word: str) -> int:
        """Return how often the word, after normalisation, occurs in the training file; 0 if it is not known."""
        return self.inner.frequency(word)

    def save(self, folder: Path) -> None:
        """Write the other vocabulary's files, and note in ``vocabulary.json`` that the two entries are added."""
        self.inner.save(folder)
        write_saved(folder, read_saved(folder)._replace(enclosed=True))


def enclosing(vocabulary: Vocabulary) -> EnclosingVocabulary:
    """The vocabulary itself if its sentences have such entries around them, else the vocabulary with them added."""
    return cast(EnclosingVocabulary, vocabulary) if vocabulary.begins else Enclosed(vocabulary)
