"""Vocabularies: ids, counts, options, specials, saving, and sentencepiece's limits as errors with a remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from probtrans_cli.data.vocabularies import build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.base import MASK, PAD, UNKNOWN, normalise
from probtrans_cli.data.vocabularies.sentencepiece import Subwords
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.errors import DataError, RecipeError
from probtrans_cli.recipe.data import CharacterVocabulary, SubwordVocabulary, VocabularySection, WordVocabulary

CORPUS = [
    line.split() for line in ["the cat saw the dog", "the Dog saw 3 cats in 1,234.5 days", "a cat <unk> <mask> <pad>"]
]
STEMS = [
    a + b + c for a in ("", "sla", "bro", "ti") for b in ("cat", "dog", "lar", "mon") for c in ("", "s", "ing", "ed")
]
LARGER = [["the", first, "saw", "a", second, "near"] for first in STEMS for second in STEMS]


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


@pytest.mark.parametrize(
    "section",
    [
        WordVocabulary(lowercase=True),
        SubwordVocabulary(kind="sentencepiece", size=32, lowercase=True),
        CharacterVocabulary(kind="char", lowercase=True),
    ],
)
def test_specials_in_a_corpus_are_unknown(section: VocabularySection) -> None:
    vocabulary = build_vocabulary(section, [*LARGER, ["<unk>", "<mask>", "<pad>", "<MASK>"]])
    words = ["<unk>", "<mask>", "<pad>", "<UNK>", "<Mask>"]
    assert vocabulary.encode_words(words)[:2] == ([UNKNOWN] * 5, [0, 1, 2, 3, 4])
    assert [vocabulary.frequency(word) for word in words] == [0] * 5
    ids = vocabulary.encode_words(["x<mask>", "<pad>x", "▁<mask>", "\u2581"]).ids
    assert PAD not in ids
    assert MASK not in ids


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_subwords(algorithm: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    section = SubwordVocabulary(kind="sentencepiece", size=32, algorithm=algorithm, lowercase=True)  # type: ignore[arg-type]
    subwords = build_vocabulary(section, iter(LARGER))
    assert isinstance(subwords, Subwords)
    assert subwords.size == 32
    assert [subwords.decode(id) for id in range(3)] == ["<pad>", "<unk>", "<mask>"]
    sentence = ["The", "catdog", "▁", "", "\u00a0", "🙂", "saw"]
    ids, first, *_ = subwords.encode_words(sentence)
    assert len(first) == len(sentence)
    assert first == sorted(set(first))
    assert first[-1] < len(ids)
    assert subwords.decode(ids[0]).startswith("▁t")
    pieces = "".join(subwords.decode(id) for id in ids[first[1] : first[2]])
    assert pieces == "▁catdog"
    assert subwords.frequency("NEAR") == len(LARGER)
    assert subwords.frequency("catdog") == 0
    assert len(subwords.encode_words(["x" * 1000]).ids) > 1
    the = subwords.encode_words(["the"]).ids
    assert subwords.encode_words(["the", "x" * 1_000_000])[:2] == ([*the, subwords.UNKNOWN], [0, len(the)])
    assert subwords.encode_text(f"the {'x' * 2000}").offsets[-1] == (4, 2004)
    again = build_vocabulary(section, iter(LARGER))
    assert isinstance(again, Subwords)
    assert again.model == subwords.model
    assert capfd.readouterr() == ("", "")
    subwords.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spm.model", "vocabulary.json"]


@pytest.mark.parametrize(
    "section",
    [
        WordVocabulary(digits=True),
        SubwordVocabulary(kind="sentencepiece", size=32),
        CharacterVocabulary(kind="char", min_count=2),
    ],
)
def test_saved_and_loaded(section: VocabularySection, tmp_path: Path) -> None:
    vocabulary = build_vocabulary(section, LARGER)
    vocabulary.save(tmp_path)
    loaded = load_vocabulary(tmp_path)
    assert type(loaded) is type(vocabulary)
    assert loaded.size == vocabulary.size
    for words in [*LARGER[:5], ["7", "unseen", "é", "<mask>"]]:
        assert loaded.encode_words(words) == vocabulary.encode_words(words)
        assert [loaded.frequency(word) for word in words] == [vocabulary.frequency(word) for word in words]
    (tmp_path / "two").mkdir()
    loaded.save(tmp_path / "two")
    for path in tmp_path.glob("*.*"):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_sizes_that_cannot_be(algorithm: str) -> None:
    def section(size: int) -> SubwordVocabulary:
        return SubwordVocabulary(kind="sentencepiece", size=size, algorithm=algorithm)  # type: ignore[arg-type]

    with pytest.raises(RecipeError, match=r"data.vocabulary.size: 8000 pieces are too many") as caught:
        build_vocabulary(section(8000), LARGER)
    largest = int((caught.value.hint or "").split("=")[1].split()[0])
    assert build_vocabulary(section(largest), LARGER).size == largest
    with pytest.raises(RecipeError, match="fewer than the characters") as caught:
        build_vocabulary(section(16), LARGER)
    smallest = int((caught.value.hint or "").split("=")[1].split()[0])
    assert build_vocabulary(section(smallest), LARGER).size == smallest


@pytest.mark.parametrize(
    "section", [WordVocabulary(), WordVocabulary(min_count=5), SubwordVocabulary(kind="sentencepiece", size=32)]
)
def test_nothing_to_learn_from(section: WordVocabulary | SubwordVocabulary) -> None:
    with pytest.raises(DataError):
        build_vocabulary(section, [["<unk>"], ["<unk>", "<mask>"]])


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"vocabulary.json"):
        load_vocabulary(tmp_path)
    build_vocabulary(SubwordVocabulary(kind="sentencepiece", size=32), LARGER).save(tmp_path)
    (tmp_path / "spm.model").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match=r"spm.model"):
        load_vocabulary(tmp_path)
    (tmp_path / "spm.model").unlink()
    with pytest.raises(DataError, match=r"spm.model"):
        load_vocabulary(tmp_path)
    Words(["a"], [1], lowercase=False, digits=False).save(tmp_path)
    good = json.loads((tmp_path / "vocabulary.json").read_text())
    for bad in (
        "",
        "[]",
        "{}",
        json.dumps({**good, "counts": []}),
        json.dumps({**good, "options": {"x": 1}}),
        json.dumps({**good, "kind": "new"}),
    ):
        (tmp_path / "vocabulary.json").write_text(bad)
        with pytest.raises(DataError, match=r"vocabulary.json"):
            load_vocabulary(tmp_path)
