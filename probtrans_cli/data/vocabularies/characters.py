"""Characters as the vocabulary: a word is as many pieces as it has characters, and the first represents it.

A character has two entries: one at the beginning of a word, written with sentencepiece's `▁` in front, and one within a
word. So `no one` and `noone` differ, though no piece stands between words. A separate mark in front of every word would
do the same, but it would say nothing about the word that it represents, and it would make sentences longer.

A character is a code point as the corpus has it: `é` may be one code point or, decomposed, two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import repeat
from pathlib import Path

from probtrans_cli.data.vocabularies.base import (
    SPECIALS,
    UNKNOWN,
    Saved,
    SavedOptions,
    Sentences,
    count_words,
    ordered,
    write_saved,
)
from probtrans_cli.data.vocabularies.pieces import Pieces
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import CharacterVocabulary

BEGINNING = "▁"


class Characters(Pieces):
    """Characters. Ids are the specials, then all characters at the beginning of a word, then all within one, each by
    falling training count, equal counts by code point."""

    def __init__(self, characters: str, counts: Mapping[str, int], *, lowercase: bool) -> None:
        """``characters``, each once, in the order of their ids; ``counts`` of whole words."""
        super().__init__(counts, lowercase=lowercase)
        self.characters = characters
        self._first = {character: id for id, character in enumerate(characters, start=len(SPECIALS))}
        behind = len(SPECIALS) + len(characters)
        self._within = {character: id for id, character in enumerate(characters, start=behind)}

    @property
    def size(self) -> int:
        """Number of ids, specials included."""
        return len(SPECIALS) + 2 * len(self.characters)

    def decode(self, id: int) -> str:
        """Return the character of an id (0 <= id < size); `▁` in front marks the beginning of a word."""
        if id < len(SPECIALS):
            return SPECIALS[id]
        within, number = divmod(id - len(SPECIALS), len(self.characters))
        return self.characters[number] if within else BEGINNING + self.characters[number]

    def save(self, folder: Path) -> None:
        """Write ``vocabulary.json``."""
        options = {"lowercase": self.lowercase, "characters": self.characters}
        write_saved(folder, Saved("char", options, list(self.counts), list(self.counts.values())))

    def _divide(self, word: str) -> list[int]:
        ids = [self._within.get(character, UNKNOWN) for character in word]
        ids[:1] = [self._first.get(character, UNKNOWN) for character in word[:1]]
        return ids

    def _lengths(self, word: str) -> Iterable[int]:
        return repeat(1, len(word))


class _Options(SavedOptions):
    """What ``save`` keeps beside the words."""

    lowercase: bool
    characters: str


def build_characters(section: CharacterVocabulary, sentences: Sentences) -> Characters:
    """The characters of the training sentences (read once) that are frequent enough.

    Raises:
        DataError: there is none.
    """
    of_words = dict(ordered(count_words(sentences, lowercase=section.lowercase)))
    of_characters: Counter[str] = Counter()
    for word, count in of_words.items():
        for character in word:
            of_characters[character] += count
    kept = [character for character, count in ordered(of_characters) if count >= section.min_count]
    if not kept:
        hint = f"lower data.vocabulary.min_count (it is {section.min_count}) or give a larger training file"
        raise DataError("the vocabulary is empty: no training character is frequent enough", hint=hint)
    return Characters("".join(kept), of_words, lowercase=section.lowercase)


def load_characters(folder: Path, saved: Saved) -> Characters:  # noqa: ARG001
    """The characters that ``save`` wrote."""
    return Characters(counts=saved.count_of, **dict(saved.options_of(_Options)))
