"""The contract of every kind of vocabulary: whatever a word or a text is, ids, words and characters belong together."""

from __future__ import annotations

import importlib
import json
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from probtrans_cli.data.tokens import token_spans, tokenize
from probtrans_cli.data.vocabularies import VOCABULARIES, build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.base import MASK, PAD, UNKNOWN, Enclosed, Vocabulary
from probtrans_cli.data.vocabularies.pieces import Characters, Subwords
from probtrans_cli.data.vocabularies.words import Words, is_word
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import VOCABULARIES as vocabularies_of_recipes
from probtrans_cli.recipe.data import (
    CharacterVocabulary,
    SubwordVocabulary,
    VocabularySection,
    WordPieceVocabulary,
    WordVocabulary,
)

CORPUS = [
    line.split() for line in ("the unaffable café was closed .", "İzmir 's 12 cafés , and ▁ no one", "Noone ran !")
]
SECTIONS: dict[str, VocabularySection] = {
    "words": WordVocabulary(lowercase=True, digits=True),
    "unread": WordVocabulary(punctuation=False),
    "unigram": SubwordVocabulary(kind="sentencepiece", size=34, lowercase=True),
    "bpe": SubwordVocabulary(kind="sentencepiece", size=44, algorithm="bpe"),
    "wordpiece": WordPieceVocabulary(kind="wordpiece", size=80),
    "char": CharacterVocabulary(kind="char"),
    "lower": CharacterVocabulary(kind="char", lowercase=True, min_count=2),
}
KINDS = [*SECTIONS, "enclosed words", "enclosed unigram"]
SPECIALS = ["<mask>", "<pad>", "<unk>", "<MASK>", "<cls>", "<sep>", "[MASK]", "[CLS]", "[PAD]"]
PARTS = [*"aefnortTIİßΣςé\u0301'.,!▁<> \t\n\u00a0\u3000\u0085", "n't", "中", "\U0001f600", "\0", "\ufeff", "...", "the"]
TEXTS = some.lists(some.sampled_from([*PARTS, *SPECIALS]) | some.text(max_size=4), max_size=10).map("".join)


@cache
def made(kind: str) -> Vocabulary:
    if kind.startswith("enclosed "):
        return Enclosed(made(kind.removeprefix("enclosed ")))
    if kind == "wordpiece":
        pytest.importorskip("tokenizers")
    return build_vocabulary(SECTIONS[kind], CORPUS * 3)


def test_every_kind_is_tested() -> None:
    assert {section.kind for section in SECTIONS.values()} == {*VOCABULARIES} == {*vocabularies_of_recipes}
    for name, kind in VOCABULARIES.items():
        assert vocabularies_of_recipes[name] is kind.section


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_vocabulary_says_of_itself(kind: str, tmp_path: Path) -> None:
    vocabulary, section = made(kind), SECTIONS[kind.removeprefix("enclosed ")]
    assert vocabulary.units == ("words" if section.kind == "words" else "pieces")
    assert vocabulary.omits is section.omits_words
    assert (vocabulary.features is not None) is section.has_features
    if not kind.startswith("enclosed "):
        assert (vocabulary.entry_counts is not None) is section.counts_words
    if vocabulary.entry_counts is not None:
        entries = [vocabulary.decode(id) for id in range(len(vocabulary.specials), vocabulary.size)]
        for entry, count in zip(entries, vocabulary.entry_counts, strict=True):
            assert entry == "N" or vocabulary.frequency(entry) == count  # `N` is a number, and in lower case no more
    vocabulary.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"vocabulary.json", *VOCABULARIES[section.kind].files}


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=60)
@given(words=some.lists(some.sampled_from(SPECIALS) | TEXTS, max_size=6))
def test_every_word_has_its_ids(kind: str, words: list[str]) -> None:
    vocabulary = made(kind)
    encoded = vocabulary.encode_words(words)
    around = int(vocabulary.begins)
    assert len(encoded.word_of_piece) == len(encoded.ids)
    assert len(encoded.word_start) == len(words)
    assert encoded.end == len(encoded.ids) - around
    inside = slice(around, encoded.end)
    assert not set(encoded.ids[inside]) & (set(vocabulary.specials) - {vocabulary.UNKNOWN})
    assert all(0 <= id < vocabulary.size for id in encoded.ids)
    assert encoded.sizes == [encoded.word_of_piece.count(word) for word in range(len(words))]
    assert [size > 0 for size in encoded.sizes] == [not vocabulary.omits or is_word(word) for word in words]
    if vocabulary.omits:
        assert encoded.word_of_piece == [index for index, word in enumerate(words) if is_word(word)]
        assert all(encoded.word_start[index] == place for place, index in enumerate(encoded.word_of_piece))
        return
    assert encoded.word_of_piece[:around] == encoded.word_of_piece[encoded.end :] == [-1] * around
    for word, (start, end) in enumerate(pairwise([*encoded.word_start, encoded.end])):
        assert end > start
        assert encoded.word_of_piece[start:end] == [word] * (end - start)
    if words and not vocabulary.begins:  # a word's ids are its own, whatever stands beside it
        assert encoded.ids == [id for word in words for id in vocabulary.encode_words([word]).ids]
    if not vocabulary.divides:
        assert encoded.word_start == list(range(len(words)))


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=10)
@given(words=some.lists(TEXTS, max_size=6))
def test_a_saved_one_gives_the_same(kind: str, words: list[str]) -> None:
    vocabulary = made(kind)
    with TemporaryDirectory() as folder:
        vocabulary.save(Path(folder))
        again = load_vocabulary(Path(folder))
        before = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        again.save(Path(folder))
        assert before == {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    assert (type(again), again.size, again.specials) == (type(vocabulary), vocabulary.size, vocabulary.specials)
    assert again.encode_words(words) == vocabulary.encode_words(words)
    assert again.encode_text(" ".join(words)) == vocabulary.encode_text(" ".join(words))
    assert [again.decode(id) for id in range(again.size)] == [vocabulary.decode(id) for id in range(vocabulary.size)]
    for word in (*words, "the", "THE", "."):
        assert again.frequency(word) == vocabulary.frequency(word)


# --- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "wordpiece"])
@settings(deadline=None, max_examples=60)
@given(text=TEXTS)
def test_offsets_are_in_the_text(kind: str, text: str) -> None:
    """The ids are those of the text's tokens, and what an id is of lies within its token, one behind the other."""
    vocabulary = made(kind)
    ids, offsets, segments = vocabulary.encode_text(text)
    tokens = tokenize(text)
    encoded = vocabulary.encode_words(tokens)
    assert ids == encoded.ids
    assert len(offsets) == len(ids)
    assert segments == [0] * len(ids)
    spans, before = list(token_spans(text)), (0, 0)
    for word, (start, end) in zip(encoded.word_of_piece, offsets, strict=True):
        if word < 0:
            assert (start, end) == (0, 0)
            continue
        assert spans[word][0] <= start <= end <= spans[word][1]
        assert start >= before[1] or (start, end) == before
        before = start, end
    parts = [text[start:end] for start, end in dict.fromkeys(offsets)]
    if isinstance(vocabulary, Characters):  # `İ` is two in lower case, which have the same offsets
        assert "".join(parts) == "".join(text.split())
        assert all(len(part) == 1 or part.lower() in ("<mask>", "<pad>", "<unk>") for part in parts)
    elif isinstance(vocabulary, Words):
        assert parts == [token for token in tokens if not vocabulary.omits or is_word(token)]
    elif isinstance(vocabulary, Subwords) and "▁" not in text:  # of which the package drops some
        assert "".join(parts) == "".join(text.split())


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@settings(deadline=None, max_examples=150)
@given(word=TEXTS.filter(lambda text: " " not in text))
def test_offsets_are_those_of_the_package(kind: str, word: str) -> None:
    sentencepiece = importlib.import_module("sentencepiece")
    vocabulary = made(kind)
    processor = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.model)
    try:
        expected = processor.encode(word, return_type="offset_mapping")["offsets"]
    except (TypeError, ValueError):
        pytest.skip("a version that does not tell them so")
    ends = [0]
    for length in vocabulary._lengths(word):
        ends.append(ends[-1] + length)
    assert list(pairwise(ends)) == expected


def test_offsets_where_lower_case_is_longer() -> None:
    offsets = made("lower").encode_text("aİn İ .").offsets
    assert offsets == [(0, 1), (1, 2), (1, 2), (2, 3), (4, 5), (4, 5), (6, 7)]
    for kind in ("unigram", "words"):
        offsets = made(kind).encode_text("aİn x").offsets
        assert (offsets[0][0], offsets[-1]) == (0, (4, 5))
    assert [character for character in map(chr, range(sys.maxunicode + 1)) if len(character.lower()) > 1] == ["İ"]


@pytest.mark.parametrize("kind", ["words", "unigram", "bpe", "char", "lower"])
def test_offsets_of_a_sentence(kind: str) -> None:
    text = "«The café wasn't closed», no one (said  <mask> )."
    ids, offsets, _ = made(kind).encode_text(text)
    words = ["«", "The", "café", "was", "n't", "closed", "»", ",", "no", "one", "(", "said", "<mask>", ")."]
    parts = [text[start:end] for start, end in offsets]
    assert "".join(parts) == "".join(words)
    if kind == "words":
        assert parts == words
    masked = [id for id, part in zip(ids, parts, strict=True) if part == "<mask>"]
    assert masked == [made(kind).UNKNOWN]


@pytest.mark.parametrize("kind", KINDS)
def test_halves_of_a_character(kind: str) -> None:
    """Which no file can hold, but a string of Python can."""
    encoded = made(kind).encode_words(["a\ud800b", "\udfff"])
    assert set(range(made(kind).size)) >= set(encoded.ids)
    assert len(made(kind).encode_text("a\ud800b \udfff").ids) <= len(encoded.ids)


# --- specials, and files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["words", "unigram", "lower"])
def test_specials_in_a_corpus_are_unknown(kind: str) -> None:
    vocabulary = build_vocabulary(SECTIONS[kind], [*CORPUS * 3, ["<unk>", "<mask>", "<pad>", "<MASK>"]])
    words = ["<unk>", "<mask>", "<pad>", "<UNK>", "<Mask>"]
    assert vocabulary.encode_words(words)[:2] == ([UNKNOWN] * 5, [0, 1, 2, 3, 4])
    assert [vocabulary.frequency(word) for word in words] == [0] * 5
    ids = vocabulary.encode_words(["x<mask>", "<pad>x", "▁<mask>", "\u2581"]).ids
    assert PAD not in ids
    assert MASK not in ids


@pytest.mark.parametrize(
    "section", [WordVocabulary(), WordVocabulary(min_count=5), SubwordVocabulary(kind="sentencepiece", size=32)]
)
def test_nothing_to_learn_from(section: WordVocabulary | SubwordVocabulary) -> None:
    with pytest.raises(DataError):
        build_vocabulary(section, [["<unk>"], ["<unk>", "<mask>"]])


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"vocabulary.json"):
        load_vocabulary(tmp_path)
    made("bpe").save(tmp_path)
    good = (tmp_path / "spm.model").read_bytes()
    for bad in (
        b"nothing of the kind",
        b"",
        good[:-7],
        good.replace("▁".encode(), b"\xe2\x96\xff", 1),  # a piece that is not UTF-8
        good.replace(b"<mask>", b"<mosk>"),
        good.replace(b"<pad>", b"<unk>"),
    ):
        assert bad != good
        (tmp_path / "spm.model").write_bytes(bad)
        with pytest.raises(DataError, match=r"spm.model: damaged vocabulary"):
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
