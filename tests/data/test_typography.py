"""Typographic marks of raw text, looked up in their plain spelling."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.data.vocabularies.pieces import build_characters
from probtrans_cli.data.vocabularies.spelling import looked_up
from probtrans_cli.data.vocabularies.wordpiece import WordPieces
from probtrans_cli.data.vocabularies.words import Words, build_words
from probtrans_cli.recipe.data import CharacterVocabulary, WordVocabulary

TEXT = ["“", "It", "’s", "don’t", "n’t", "…", "–", "—", "‘", "”", "well‑known", "«"]


def spelled(words: Sequence[str], vocabulary: Vocabulary) -> list[str] | None:
    return looked_up(words, vocabulary.knows, vocabulary.frequency)


def words(text: str) -> Words:
    return build_words(WordVocabulary(), [text.split()])


def test_of_the_penn_treebank() -> None:
    vocabulary = words("`` It 's n't ... -- ` '' well-known")
    expected = ["``", "It", "'s", "don’t", "n't", "...", "--", "--", "`", "''", "well-known", "``"]
    assert spelled(TEXT, vocabulary) == expected


def test_of_straight_quotes() -> None:
    vocabulary = words("\" It 's - ' '")
    expected = ['"', "It", "'s", "don’t", "n’t", "…", "-", "-", "'", '"', "well‑known", '"']
    assert spelled(TEXT, vocabulary) == expected


def test_of_several_spellings_the_most_frequent_one() -> None:
    assert spelled(["“"], words('`` `` "')) == ["``"]
    assert spelled(["“"], words('`` " "')) == ['"']
    assert spelled(["“"], words('`` "')) == ['"']


def test_known_words_stay_as_they_are() -> None:
    assert spelled(["“", "It"], words('“ It "')) is None
    assert spelled(["It", '"', "unknown"], words("It ``")) is None
    assert spelled(["“"], words("It")) is None
    assert spelled([], words("It")) is None


def test_of_vocabularies_with_pieces() -> None:
    characters = build_characters(CharacterVocabulary(kind="char"), [["don't", '"']])
    assert spelled(["don’t", "“", "…"], characters) == ["don't", '"', "…"]
    pytest.importorskip("tokenizers")
    pieces = WordPieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "“", ".", "'"])
    assert spelled(["“", "…", "’"], pieces) == ["“", "...", "'"]
