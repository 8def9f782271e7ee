"""From words to ids: the table of the kinds of vocabularies, :data:`VOCABULARIES`.

A kind is one row: another package adds its kind with :func:`register`, and then `data.vocabulary.kind` may name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from probtrans_cli.data.vocabularies.base import WORDS_FILE, Enclosed, Saved, Sentences, Vocabulary, read_saved, reading
from probtrans_cli.data.vocabularies.pieces import (
    SUBWORDS_FILE,
    build_characters,
    build_subwords,
    load_characters,
    load_subwords,
)
from probtrans_cli.data.vocabularies.wordpiece import build_wordpieces, identity_of, load_wordpieces
from probtrans_cli.data.vocabularies.wordpiece_files import WORDPIECE_FILES
from probtrans_cli.data.vocabularies.words import build_words, identity_of_words, load_words
from probtrans_cli.recipe.base import Table
from probtrans_cli.recipe.data import VOCABULARIES as SECTIONS
from probtrans_cli.recipe.data import (
    CharacterVocabulary,
    SubwordVocabulary,
    VocabularySection,
    WordPieceVocabulary,
    WordVocabulary,
)

S = TypeVar("S", bound=VocabularySection)


@dataclass(frozen=True, slots=True)
class VocabularyKind(Generic[S]):
    """How the vocabularies of a kind are made, and read again."""

    section: type[S]  # its section of a recipe
    build: Callable[..., Vocabulary]
    """Builds a vocabulary from the section and the training sentences, which it reads once. Where these have extra
    words, which the section must allow (``has_extra_words``), a third argument gives their number."""
    load: Callable[[Path, Saved], Vocabulary]
    """Reads a vocabulary from the folder where ``save`` wrote it, with the content of its ``vocabulary.json``."""
    files: tuple[str, ...] = ()  # the files that ``save`` writes beside ``vocabulary.json``
    from_counts: bool = False
    """Whether ``build`` needs only how often each training word occurs, which several processes can count."""
    identity: Callable[[S], Mapping[str, Any]] = lambda _: {}
    """What stands for keys of a section in the description of a prepared folder, where their own values do not tell
    what the vocabulary is made of: for the name of a folder, its content."""


VOCABULARIES: Table[VocabularyKind[Any]] = Table("vocabulary")  # the kinds of vocabularies by name


def register(kind: VocabularyKind[S]) -> VocabularyKind[S]:
    """Add a kind of vocabulary to the table, and to what `data.vocabulary` may hold."""
    VOCABULARIES.enter(SECTIONS.name_of(kind.section), kind)
    return kind


register(VocabularyKind(WordVocabulary, build_words, load_words, from_counts=True, identity=identity_of_words))
register(VocabularyKind(SubwordVocabulary, build_subwords, load_subwords, (SUBWORDS_FILE,)))
register(
    VocabularyKind(
        WordPieceVocabulary, build_wordpieces, load_wordpieces, WORDPIECE_FILES, from_counts=True, identity=identity_of
    )
)
register(VocabularyKind(CharacterVocabulary, build_characters, load_characters, from_counts=True))


def build_vocabulary(section: VocabularySection, sentences: Sentences, extra: int = 0) -> Vocabulary:
    """Build the vocabulary of the training sentences (read once). The same sentences give the same vocabulary, and so
    do their counts where the kind needs no more.

    Raises:
        DataError: there is no word to learn from, or the folder of a vocabulary is not a vocabulary's.
        RecipeError: there cannot be as many, or as few, pieces as ``section.size`` of this corpus.
        UsageError: a package for this kind of vocabulary is not installed.
    """
    return VOCABULARIES[section.kind].build(section, sentences, *([extra] if extra else []))


def load_vocabulary(folder: Path) -> Vocabulary:
    """Load the vocabulary that ``save`` wrote into a folder.

    Raises:
        DataError: a file is missing or damaged.
    """
    with reading(folder / WORDS_FILE):
        saved = read_saved(folder)
        if saved.kind not in VOCABULARIES:
            raise ValueError(f"unknown kind {saved.kind!r}")
        vocabulary = VOCABULARIES[saved.kind].load(folder, saved)
    return Enclosed(vocabulary) if saved.enclosed else vocabulary
