"""Documents from their lines to instances and the rows of a split, and the vocabularies that enclose texts."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import values_of

from probtrans_cli.data.corpus.encode import PAIR, Corpus, Instance, Kind, encode_corpus, instances
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
    assert [(sentence.words, sentence.begins, sentence.where) for sentence in read(lines)] == [
        (["a", "b"], True, "text:2"),
        (["c"], False, "text:3"),
        (["d", "e", "f"], True, "text:6"),
    ]


def test_headings_and_stops() -> None:
    lines = ["= One =", "a b . c ! d", "e .", "= = Two = =", "", "f . g = h"]
    plain = [" ".join(sentence.words) for sentence in read(lines)]
    assert plain == ["= One =", "a b . c ! d", "e .", "= = Two = =", "f . g = h"]
    cut = [(" ".join(part.words), part.begins) for part in read(lines, heading="=", stops=[".", "!"])]
    assert cut == [("a b .", True), ("c !", False), ("d", False), ("e .", False), ("f .", True), ("g = h", False)]


# --- what stands around texts -----------------------------------------------------------------------------------------


def test_a_vocabulary_gets_two_entries_behind_its_own(tmp_path: Path) -> None:
    for plain in vocabularies():
        outer = enclosing(plain)
        assert isinstance(outer, Enclosed)
        assert enclosing(outer) is outer
        assert outer.size == plain.size + 2
        assert [outer.decode(id) for id in range(outer.size)] == [*map(plain.decode, range(plain.size)), *ENDS]
        assert outer.specials == (*plain.specials, outer.FIRST, outer.LAST)
        ids, first, *_ = plain.encode_words(["rye", "bread"])
        enclosed = [outer.FIRST, *ids, outer.LAST], [place + 1 for place in first]
        assert outer.encode_words(["rye", "bread"])[:2] == enclosed
        assert outer.encode_words([])[:2] == ([outer.FIRST, outer.LAST], [])
        assert outer.frequency("rye") == plain.frequency("rye") > 0
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
    first, same, different = (encoded(sentences, vocabulary, seed=seed) for seed in (0, 0, 1))
    assert values_of(first, "ids").tolist() == values_of(same, "ids").tolist() != values_of(different, "ids").tolist()
    twice = encoded(sentences, vocabulary, training=True, copies=2)
    assert len(twice) > 1.5 * len(encoded(sentences, vocabulary, training=True))
    assert len(encoded(sentences, vocabulary, copies=2)) == len(first)


def test_documents_that_do_not_give_what_is_asked_for(vocabulary: EnclosingVocabulary) -> None:
    with pytest.raises(DataError, match=r"^text: 1 document where two are needed"):
        encoded(read(["a b", "c d"]), vocabulary)
    alone = read(["a b", "", "c d", "", "e"])
    with pytest.raises(DataError, match="of 3 pairs none is next"):
        encoded(alone, vocabulary, training=True)
    with pytest.raises(DataError, match="no document with two sentences"):
        encoded(alone, vocabulary, training=True, pairs="sop")
    assert len(encoded(alone, vocabulary, training=True, pairs="none")) == 3
    assert set(values_of(encoded(alone, vocabulary), PAIR)) == {1}


def test_features_are_not_for_documents() -> None:
    """The recipe refuses them; what stands around a text would have none."""
    assert enclosing(build_vocabulary(WordVocabulary(features=WordFeatures()), [WORDS])).features is None


CORPORA = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=8), min_size=2, max_size=6)


def corpus(lengths: list[list[int]]) -> Corpus:
    tokens = [0, *itertools.accumulate(length for document in lengths for length in document)]
    return Corpus(tokens, [0, *itertools.accumulate(map(len, lengths))])


def made(lengths: list[list[int]], seed: int = 0, **options: Any) -> list[Instance]:
    return list(instances(corpus(lengths), np.random.default_rng(seed), **options))


def document_of(documents: Corpus, position: int) -> int:
    return max(d for d, start in enumerate(documents.sentences[:-1]) if documents.tokens[start] <= position)


@settings(deadline=None)
@given(CORPORA, st.sampled_from(["nsp", "sop", "none"]), st.integers(8, 40), st.floats(0, 1), st.integers(0, 99))
def test_instances_fit_and_are_whole(
    lengths: list[list[int]], kind: Kind, longest: int, short: float, seed: int
) -> None:
    documents = corpus(lengths)
    for first, second, label in made(lengths, seed, kind=kind, max_length=longest, short=short):
        assert (second is None) == (label is None) == (kind == "none")
        stretches = [first] if second is None else [first, second]
        assert 1 + sum(end - begin + 1 for begin, end in stretches) <= longest
        for begin, end in stretches:
            assert begin < end
            assert document_of(documents, begin) == document_of(documents, end - 1)


@settings(deadline=None)
@given(CORPORA, st.integers(8, 60), st.integers(0, 99))
def test_next_and_random_seconds_are_what_they_are_called(lengths: list[list[int]], longest: int, seed: int) -> None:
    documents, starts = corpus(lengths), set(corpus(lengths).tokens)
    for first, second, label in made(lengths, seed, kind="nsp", max_length=longest):
        whole = first[1] - first[0] + second[1] - second[0] < longest - 3  # nothing was cut
        if label == 0:
            assert document_of(documents, first[0]) == document_of(documents, second[0])
            assert first[1] <= second[0]
            assert not whole or first[1] == second[0] in starts
        elif len(lengths) > 4:
            # Ten draws that all hit the document at hand are not seen in a test.
            assert document_of(documents, first[0]) != document_of(documents, second[0])
        if whole:
            assert {*first, *second} <= starts


@settings(deadline=None)
@given(CORPORA, st.integers(0, 99))
def test_without_truncation_nothing_is_lost_or_doubled(lengths: list[list[int]], seed: int) -> None:
    """Firsts and next seconds, one behind the other, are the corpus; sop leaves out what is alone; none nothing."""
    longest = 1000
    every = sum(map(sum, lengths))
    seen: list[int] = []
    for first, second, label in made(lengths, seed, kind="nsp", max_length=longest):
        seen += range(*first)
        seen += range(*second) if label == 0 and second is not None else []
    assert seen == list(range(every))
    alone = {len(document) for document in lengths} == {1}
    ordered = made(lengths, seed, kind="sop", max_length=longest, short=0.0)
    assert len(ordered) == sum(len(document) > 1 for document in lengths)
    assert alone == (not ordered)
    for first, second, label in ordered:
        before, after = (first, second) if label == 0 else (second, first)
        assert before[1] == after[0]
    for longest in (8, 20):
        pieces = made(lengths, seed, kind="none", max_length=longest)
        assert [token for piece in pieces for token in range(*piece.first)] == list(range(every))


def plainly_truncated(a: int, b: int, usable: int) -> tuple[int, int]:
    while a + b > usable:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    return a, b


@given(st.integers(1, 40), st.integers(1, 40), st.integers(8, 40), st.integers(0, 99))
def test_the_longer_stretch_loses_tokens_one_by_one(a: int, b: int, longest: int, seed: int) -> None:
    for first, second, label in made([[a, b], [1]], seed, kind="sop", max_length=longest, short=0.0):
        lengths = first[1] - first[0], second[1] - second[0]
        assert lengths == plainly_truncated(*((a, b) if label == 0 else (b, a)), longest - 3)


def test_tokens_are_lost_in_front_and_behind() -> None:
    generator = np.random.default_rng(0)
    fronts = []
    for _ in range(2000):
        [pair] = instances(corpus([[40, 2], [1]]), generator, kind="sop", max_length=25, short=0.0)
        long = pair.first if pair.label == 0 else pair.second
        assert long[1] - long[0] == 20
        fronts.append(long[0])
    assert np.mean(fronts) == pytest.approx(10, abs=4 * np.sqrt(5 / 2000))
    assert np.var(fronts) == pytest.approx(5, rel=0.15)


def test_labels_are_balanced_and_short_targets_as_many_as_asked() -> None:
    lengths = [[5] * 40 for _ in range(60)]
    for kind in ("nsp", "sop"):
        labels = Counter(pair.label for pair in made(lengths, 1, kind=kind, max_length=64, short=0.1))
        share = labels[1] / labels.total()
        # Of nsp a sentence that ends its document alone is always random, and adds to that class.
        assert 0.46 < share < (0.6 if kind == "nsp" else 0.54)
    longest = [0] * 1000  # of the stretches of each document
    for (begin, end), *_ in made([[1] * 400] * len(longest), kind="none", max_length=66):
        longest[begin // 400] = max(longest[begin // 400], end - begin)
    assert np.mean([length < 64 for length in longest]) == pytest.approx(0.1 * 62 / 63, abs=0.04)
    assert min(longest) < 8


def test_documents_of_one_sentence_and_one_document() -> None:
    lengths = [[4], [5], [6]]
    assert {pair.label for pair in made(lengths, kind="nsp", max_length=32, copies=5)} == {1}
    assert made(lengths, kind="sop", max_length=32) == []
    assert made([[3, 4, 5]], kind="sop", max_length=32)


def test_copies_differ_and_seeds_repeat() -> None:
    lengths = [[3, 4, 5, 2], [6, 2, 2, 8], [5, 5, 5]]
    two = made(lengths, 7, kind="nsp", max_length=24, copies=2)
    assert two == made(lengths, 7, kind="nsp", max_length=24, copies=2)
    assert made(lengths, 7, kind="nsp", max_length=24) == two[: len(made(lengths, 7, kind="nsp", max_length=24))]
    assert two != made(lengths, 8, kind="nsp", max_length=24, copies=2)
