"""Documents from their lines to the rows of a split, and the vocabularies around which something stands."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probtrans_cli.data.corpus.documents import PAIR
from probtrans_cli.data.corpus.encode import encode_corpus
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers.lines import read_documents
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.base import ENDS, Enclosed, EnclosingVocabulary, Vocabulary, enclosing
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import (
    CharacterVocabulary,
    Data,
    Documents,
    SubwordVocabulary,
    WordFeatures,
    WordPieceVocabulary,
    WordVocabulary,
)

WORDS = ["bread", "oven", "flour", "water", "salt", "crust", "rye", "seed", "rise", "bake", "slowly", "today"]


def text(documents: int = 12, sentences: int = 6) -> list[str]:
    """Lines of documents in which no two sentences are alike."""
    several = itertools.permutations(WORDS, 4)
    lines = []
    for _ in range(documents):
        lines += [" ".join(next(several)) for _ in range(sentences)] + [""]
    return lines


def read(lines: list[str], **options: Any) -> list[Sentence]:
    return list(read_documents(lines, "text", Documents(**options)))


def vocabularies() -> list[Vocabulary]:
    sentences = [sentence.words for sentence in read(text())]
    sections = (
        WordVocabulary(),
        SubwordVocabulary(kind="sentencepiece", size=30),
        CharacterVocabulary(kind="char"),
    )
    return [build_vocabulary(section, sentences) for section in sections]


@pytest.fixture(scope="module", params=[0, 1, 2, 3], ids=["words", "sentencepiece", "char", "wordpiece"])
def vocabulary(request: pytest.FixtureRequest) -> EnclosingVocabulary:
    if request.param < 3:
        return enclosing(vocabularies()[request.param])
    pytest.importorskip("tokenizers")
    section = WordPieceVocabulary(kind="wordpiece", size=60)
    return enclosing(build_vocabulary(section, [sentence.words for sentence in read(text())]))


def encoded(sentences: list[Sentence], vocabulary: Vocabulary, *, training: bool = False, **options: Any) -> Split:
    data = Data(train="x", format="documents", documents=Documents(**options))
    return Split(encode_corpus(data, sentences, vocabulary, {}, training=training))


# --- reading ----------------------------------------------------------------------------------------------------------


def test_blank_lines_separate_documents() -> None:
    lines = ["", "a b", "c", "", " ", "d e f", ""]
    found = [(one.words, one.begins, one.where) for one in read(lines)]
    assert found == [(["a", "b"], True, "text:2"), (["c"], False, "text:3"), (["d", "e", "f"], True, "text:6")]


def test_headings_and_stops() -> None:
    lines = ["= One =", "a b . c ! d", "e .", "= = Two = =", "", "f . g = h"]
    plain = [" ".join(one.words) for one in read(lines)]
    assert plain == ["= One =", "a b . c ! d", "e .", "= = Two = =", "f . g = h"]
    found = [(" ".join(one.words), one.begins) for one in read(lines, heading="=", stops=[".", "!"])]
    assert found == [("a b .", True), ("c !", False), ("d", False), ("e .", False), ("f .", True), ("g = h", False)]


# --- what stands around texts -----------------------------------------------------------------------------------------


def test_a_vocabulary_gets_two_entries_behind_its_own(tmp_path: Path) -> None:
    for inner in vocabularies():
        outer = enclosing(inner)
        assert isinstance(outer, Enclosed)
        assert enclosing(outer) is outer
        assert outer.size == inner.size + 2
        assert [outer.decode(id) for id in range(outer.size)] == [*map(inner.decode, range(inner.size)), *ENDS]
        assert outer.specials == (*inner.specials, outer.FIRST, outer.LAST)
        ids, first, *_ = inner.encode_words(["rye", "bread"])
        assert outer.encode_words(["rye", "bread"])[:2] == ([outer.FIRST, *ids, outer.LAST], [one + 1 for one in first])
        assert outer.encode_words([])[:2] == ([outer.FIRST, outer.LAST], [])
        assert outer.frequency("rye") == inner.frequency("rye") > 0
        outer.save(tmp_path)
        again = load_vocabulary(tmp_path)
        assert isinstance(again, Enclosed)
        assert again.encode_words(WORDS) == outer.encode_words(WORDS)


def test_words_of_a_corpus_are_never_what_stands_around() -> None:
    vocabulary = enclosing(build_vocabulary(WordVocabulary(), [["<cls>", "<sep>", "a"]]))
    ids = vocabulary.encode_part(["<cls>", "<sep>"]).ids
    assert not set(ids) & set(vocabulary.specials)


# --- instances --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", ["nsp", "sop", "none"])
def test_rows_are_instances(vocabulary: EnclosingVocabulary, pairs: str) -> None:
    """Every stretch is a piece of the text, of a document of its own or of the same one as the label says."""
    sentences = read(text())
    split = encoded(sentences, vocabulary, pairs=pairs, max_length=24)
    documents: list[list[int]] = []
    for sentence in sentences:
        if sentence.begins:
            documents.append([])
        documents[-1] += vocabulary.encode_part(sentence.words).ids
    assert len(split) >= 12
    assert split.has(PAIR) == (pairs != "none")
    for index in range(len(split)):
        ids, segments = split.row("ids", index).tolist(), split.row("segments", index).tolist()
        assert len(ids) == len(segments) <= 24
        assert ids[0] == vocabulary.FIRST
        assert ids[-1] == vocabulary.LAST
        middle = ids.index(vocabulary.LAST)
        assert segments == [0] * (middle + 1) + [1] * (len(ids) - middle - 1)
        stretches = [ids[1:middle], ids[middle + 1 : -1]][: 1 if pairs == "none" else 2]
        places = [{d for d, document in enumerate(documents) if inside(stretch, document)} for stretch in stretches]
        assert all(places)
        if pairs == "sop" or (pairs == "nsp" and split.row(PAIR, index).tolist() == [0]):
            assert places[0] & places[1]


def inside(piece: list[int], document: list[int]) -> bool:
    return any(document[start : start + len(piece)] == piece for start in range(len(document) - len(piece) + 1))


def test_words_and_their_frequencies(vocabulary: EnclosingVocabulary) -> None:
    """``first`` marks every word in a row; of one that was cut, at the end of a text, what is left of it."""
    split = encoded(read(text()), vocabulary, max_length=17)
    pieces = {word: vocabulary.encode_part([word]).ids for word in WORDS}
    for index in range(len(split)):
        ids, first = split.row("ids", index).tolist(), split.row("first", index).tolist()
        assert first[0] == 1
        assert first == sorted(set(first))
        assert len(first) == len(split.row("frequency", index))
        ends = {0, ids.index(vocabulary.LAST), len(ids) - 1}
        assert not ends & set(first)
        for start, frequency in zip(first, split.row("frequency", index).tolist(), strict=True):
            stop = min(position for position in (*first, *ends) if position > start)
            whole = start - 1 not in ends and stop not in ends
            fitting = [word for word in WORDS if whole and pieces[word] == ids[start:stop]]
            fitting += [word for word in WORDS if not whole and inside(ids[start:stop], pieces[word])]
            assert frequency in map(vocabulary.frequency, fitting)


def test_instances_follow_from_their_own_seed(vocabulary: EnclosingVocabulary) -> None:
    sentences = read(text())
    one, same, other = (encoded(sentences, vocabulary, seed=seed) for seed in (0, 0, 1))
    assert one.column("ids").tolist() == same.column("ids").tolist() != other.column("ids").tolist()
    twice = encoded(sentences, vocabulary, training=True, copies=2)
    assert len(twice) > 1.5 * len(encoded(sentences, vocabulary, training=True))
    assert len(encoded(sentences, vocabulary, copies=2)) == len(one)


def test_documents_that_do_not_give_what_is_asked_for(vocabulary: EnclosingVocabulary) -> None:
    with pytest.raises(DataError, match=r"^text: 1 document where two are needed"):
        encoded(read(["a b", "c d"]), vocabulary)
    alone = read(["a b", "", "c d", "", "e"])
    with pytest.raises(DataError, match="of 3 pairs none is next"):
        encoded(alone, vocabulary, training=True)
    with pytest.raises(DataError, match="no document with two sentences"):
        encoded(alone, vocabulary, training=True, pairs="sop")
    assert len(encoded(alone, vocabulary, training=True, pairs="none")) == 3
    assert set(np.asarray(encoded(alone, vocabulary).column(PAIR))) == {1}


def test_features_are_not_for_documents() -> None:
    """The recipe refuses them; what stands around a text would have none."""
    inner = build_vocabulary(WordVocabulary(features=WordFeatures()), [WORDS])
    assert enclosing(inner).features is None
