"""The extra words of open information extraction: an entry of its own for each, which no text can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.corpus.tally import Tally, shortened
from probtrans_cli.data.sentence import Sentence, character_spans, extra_words
from probtrans_cli.data.vocabularies import build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.base import Vocabulary, enclosing
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import CharacterVocabulary, Data, SubwordVocabulary, WordPieceVocabulary, WordVocabulary

EXTRA = extra_words(3)
SENTENCES = [[*line.split(), *EXTRA] for line in ("a hen sat", "a hen ran off", "a [unused1] x")]
SECTIONS = [
    WordVocabulary(),
    WordVocabulary(min_count=3, max_size=1, lowercase=True, digits=True),
    WordVocabulary(punctuation=False),
    WordPieceVocabulary(kind="wordpiece", size=60),
]


def made(section: Any, sentences: list[list[str]] = SENTENCES) -> Vocabulary:
    if section.kind == "wordpiece":
        pytest.importorskip("tokenizers")
    return build_vocabulary(section, iter(sentences), 3)


def test_how_they_are_spelled() -> None:
    assert EXTRA == ["[unused1]", "[unused2]", "[unused3]"]
    assert extra_words(0) == []


@pytest.mark.parametrize("section", SECTIONS, ids=["words", "few", "unread", "wordpiece"])
def test_each_has_one_entry_that_no_text_has(section: Any, tmp_path: Path) -> None:
    vocabulary = made(section)
    encoded = vocabulary.encode_words(["a", "[unused1]", "[UNUSED1]", "[unused9]", *EXTRA], 3)
    assert encoded.sizes[-3:] == [1, 1, 1]
    ids = [encoded.ids[start] for start in encoded.word_start[-3:]]
    assert [vocabulary.decode(id) for id in ids] == EXTRA
    assert len({*ids, *vocabulary.specials}) == 3 + len(vocabulary.specials)
    others = [encoded.ids[i] for i, word in enumerate(encoded.word_of_piece) if 0 <= word < 4]
    assert not {*ids} & {*others}
    assert not {*ids} & {*vocabulary.encode_text("a [unused1] [unused2] b").ids}
    assert [vocabulary.frequency(name) for name in EXTRA[1:]] == [3, 3]
    vocabulary.save(tmp_path)
    again = load_vocabulary(tmp_path)
    assert again.encode_words(["a", *EXTRA], 3) == vocabulary.encode_words(["a", *EXTRA], 3)
    assert again.encode_words(["a", *EXTRA]) == vocabulary.encode_words(["a", *EXTRA])


def test_frequency_and_size_of_a_word_vocabulary() -> None:
    vocabulary = made(WordVocabulary(max_size=1))
    assert vocabulary.size == 3 + 1 + 3
    assert vocabulary.encode_words(["a", *EXTRA], 3).ids == [3, 4, 5, 6]
    assert vocabulary.encode_words(EXTRA).ids == [vocabulary.UNKNOWN] * 3
    assert list(vocabulary.entry_counts or ()) == [3, 3, 3, 3]


def test_what_has_no_entry_is_refused() -> None:
    vocabulary = made(WordVocabulary())
    with pytest.raises(DataError, match=r"no entry \[unused4\] for an extra word"):
        vocabulary.encode_words(["a", *extra_words(4)], 4)
    characters = build_vocabulary(CharacterVocabulary(kind="char"), [["a"]])
    with pytest.raises(DataError, match=r"no entry \[unused1\] for an extra word") as raised:
        characters.encode_words(["a", "[unused1]"], 1)
    assert raised.value.hint is not None
    assert "data.grid.extra_words=[]" in raised.value.hint


@pytest.mark.parametrize("text", [None, "Say  [unused1]!"])
def test_they_have_no_place_in_the_text(text: str | None) -> None:
    sentence = Sentence(words=["Say", "[unused1]", "!", *EXTRA], text=text, extra=3)
    found, spans = character_spans(sentence)
    assert found == (text or "Say [unused1] !")
    assert [found[begin:end] for begin, end in spans] == ["Say", "[unused1]", "!"]


def test_which_vocabularies_can_have_them() -> None:
    sections = [*SECTIONS, CharacterVocabulary(kind="char"), SubwordVocabulary(kind="sentencepiece")]
    assert [one.has_extra_words for one in sections] == [True] * 4 + [False] * 2


def test_a_folder_must_have_them(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "[unused2]", "a", "hen"]
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    section = WordPieceVocabulary(kind="wordpiece", folder=str(tmp_path))
    with pytest.raises(DataError, match=rf"{tmp_path}: the vocabulary has no piece \[unused3\] for an extra word"):
        made(section)
    without = build_vocabulary(section, iter([words[:-1] for words in SENTENCES]), 2)
    assert without.encode_words(["a", "hen", *EXTRA[:2]], 2).ids == [2, 7, 8, 5, 6, 3]
    assert without.encode_words(["[unused1]"]).sizes == [3]
    with pytest.raises(DataError, match=r"no entry \[unused3\]"):
        without.encode_words(EXTRA, 3)


@pytest.mark.parametrize("section", [SECTIONS[0], SECTIONS[-1]], ids=["words", "wordpiece"])
def test_the_store_and_the_lengths_know_them(section: Any) -> None:
    vocabulary = enclosing(made(section))
    sentence = Sentence(words=["a", "[unused1]", *EXTRA], extra=3)
    row = Split.encode([sentence], vocabulary, {}).row("ids", 0).tolist()
    assert row == vocabulary.encode_words(sentence.words, 3).ids
    assert row != vocabulary.encode_words(sentence.words).ids
    assert [vocabulary.decode(id) for id in row[-4:-1]] == EXTRA
    longest = {"train": "x", "longest": len(row)}
    assert list(shortened([sentence], vocabulary, Data.model_validate(longest), Tally("dev"))) == [sentence]
