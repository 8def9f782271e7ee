"""Whole words: ids, counts, options."""

from __future__ import annotations

import pytest

from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import MASK, PAD, UNKNOWN, normalise
from probtrans_cli.recipe.data import WordVocabulary

CORPUS = [
    line.split() for line in ["the cat saw the dog", "the Dog saw 3 cats in 1,234.5 days", "a cat <unk> <mask> <pad>"]
]


def test_words_are_ordered_by_count_then_alphabet() -> None:
    words = build_vocabulary(WordVocabulary(), CORPUS)
    assert [words.decode(id) for id in range(7)] == ["<pad>", "<unk>", "<mask>", "the", "cat", "saw", "1,234.5"]
    assert words.size == 3 + 11
    assert words.encode_words(["the", "zebra", "cat"])[:2] == ([3, UNKNOWN, 4], [0, 1, 2])
    assert words.encode_words([]) == ([], [], 0, None)
    assert [words.frequency(word) for word in ("the", "saw", "dog", "zebra", "")] == [3, 2, 1, 0, 0]
    assert (words.PAD, words.UNKNOWN, words.MASK) == (PAD, UNKNOWN, MASK) == (0, 1, 2)


def test_options() -> None:
    words = build_vocabulary(WordVocabulary(lowercase=True, digits=True, min_count=2), CORPUS)
    assert [words.decode(id) for id in range(3, words.size)] == ["the", "N", "cat", "dog", "saw"]
    assert words.encode_words(["THE", "77", "in"]).ids == [3, 4, UNKNOWN]
    assert [words.frequency(word) for word in ("DOG", "1.5", "in")] == [2, 2, 0]
    assert build_vocabulary(WordVocabulary(max_size=2), CORPUS).size == 5


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("1,234.5", "N"),
        ("3rd", "Nrd"),
        ("a1b22", "aNbN"),
        ("-7", "-N"),
        ("10/12", "N/N"),
        ("5.", "N."),
        ("٣", "N"),
        ("x", "x"),
    ],
)
def test_digits(word: str, expected: str) -> None:
    assert normalise(word, digits=True) == expected
    assert normalise(word) == word
