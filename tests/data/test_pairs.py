"""Instances of pretraining against a plain reading of their description, on random corpora."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probtrans_cli.data.corpus.documents import Corpus, Instance, Kind, enclosed, instances, require_both
from probtrans_cli.errors import DataError

CORPORA = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=8), min_size=2, max_size=6)


def corpus(lengths: list[list[int]]) -> Corpus:
    """Documents whose sentences have these lengths."""
    tokens = [0, *itertools.accumulate(length for document in lengths for length in document)]
    return Corpus(tokens, [0, *itertools.accumulate(map(len, lengths))])


def made(lengths: list[list[int]], seed: int = 0, **options: Any) -> list[Instance]:
    return list(instances(corpus(lengths), np.random.default_rng(seed), **options))


def size(instance: Instance) -> int:
    return sum(end - begin for begin, end in instance[:2] if instance is not None)


def document_of(found: Corpus, position: int) -> int:
    return max(d for d, start in enumerate(found.sentences[:-1]) if found.tokens[start] <= position)


@settings(deadline=None)
@given(CORPORA, st.sampled_from(["nsp", "sop", "none"]), st.integers(8, 40), st.floats(0, 1), st.integers(0, 99))
def test_instances_fit_and_are_whole(
    lengths: list[list[int]], kind: Kind, longest: int, short: float, seed: int
) -> None:
    found, ids = corpus(lengths), list(range(sum(map(sum, lengths))))
    for one in made(lengths, seed, kind=kind, max_length=longest, short=short):
        sequence, segments = enclosed(one, ids, -1, -2)
        assert len(sequence) == len(segments) <= longest
        assert (one.second is None) == (one.label is None) == (kind == "none")
        for stretch in one[:2]:
            if isinstance(stretch, tuple):
                begin, end = stretch
                assert begin < end
                assert document_of(found, begin) == document_of(found, end - 1)
        ends = [position for position, id in enumerate(sequence) if id == -2]
        assert sequence.count(-1) == 1 == 1 + sequence.index(-1)
        assert ends == [
            position for position in range(len(segments)) if segments[position : position + 2] in ([0, 1], [0], [1])
        ]


@settings(deadline=None)
@given(CORPORA, st.integers(8, 60), st.integers(0, 99))
def test_next_and_random_seconds_are_what_they_are_called(lengths: list[list[int]], longest: int, seed: int) -> None:
    found, starts = corpus(lengths), set(corpus(lengths).tokens)
    for one in made(lengths, seed, kind="nsp", max_length=longest):
        assert one.second is not None
        whole = size(one) < longest - 3  # nothing was cut
        if one.label == 0:
            assert document_of(found, one.first[0]) == document_of(found, one.second[0])
            assert one.first[1] <= one.second[0]
            assert not whole or one.first[1] == one.second[0] in starts
        elif len(lengths) > 4:
            # Ten draws that all hit the document at hand are not seen in a test.
            assert document_of(found, one.first[0]) != document_of(found, one.second[0])
        if whole:
            assert {one.first[0], one.second[0], *one.first[1:], *one.second[1:]} <= starts


@settings(deadline=None)
@given(CORPORA, st.integers(0, 99))
def test_without_truncation_nothing_is_lost_or_doubled(lengths: list[list[int]], seed: int) -> None:
    """Firsts and next seconds, one behind the other, are the corpus; sop leaves out what is alone; none nothing."""
    longest = 1000
    every = sum(map(sum, lengths))
    seen: list[int] = []
    for one in made(lengths, seed, kind="nsp", max_length=longest):
        seen += range(*one.first)
        seen += range(*one.second) if one.label == 0 and one.second is not None else []
    assert seen == list(range(every))
    alone = {len(document) for document in lengths} == {1}
    ordered = made(lengths, seed, kind="sop", max_length=longest, short=0.0)
    assert len(ordered) == sum(len(document) > 1 for document in lengths)
    assert alone == (not ordered)
    for one in ordered:
        assert one.second is not None
        begin, end = (one.first, one.second) if one.label == 0 else (one.second, one.first)
        assert begin[1] == end[0]
    for longest in (8, 20):
        pieces = made(lengths, seed, kind="none", max_length=longest)
        assert [token for one in pieces for token in range(*one.first)] == list(range(every))


def plainly_truncated(a: int, b: int, usable: int) -> tuple[int, int]:
    while a + b > usable:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    return a, b


@given(st.integers(1, 40), st.integers(1, 40), st.integers(8, 40), st.integers(0, 99))
def test_the_longer_stretch_loses_tokens_one_by_one(a: int, b: int, longest: int, seed: int) -> None:
    for one in made([[a, b], [1]], seed, kind="sop", max_length=longest, short=0.0):
        assert one.second is not None
        lengths = tuple(end - begin for begin, end in (one.first, one.second))
        assert lengths == plainly_truncated(*((a, b) if one.label == 0 else (b, a)), longest - 3)


def test_tokens_are_lost_in_front_and_behind() -> None:
    generator = np.random.default_rng(0)
    fronts = []
    for _ in range(2000):
        [one] = instances(corpus([[40, 2], [1]]), generator, kind="sop", max_length=25, short=0.0)
        long = one.first if one.label == 0 else one.second
        assert long is not None
        assert long[1] - long[0] == 20
        fronts.append(long[0])
    assert np.mean(fronts) == pytest.approx(10, abs=4 * np.sqrt(5 / 2000))
    assert np.var(fronts) == pytest.approx(5, rel=0.15)


def test_labels_are_balanced_and_short_targets_as_many_as_asked() -> None:
    lengths = [[5] * 40 for _ in range(60)]
    for kind in ("nsp", "sop"):
        labels = Counter(one.label for one in made(lengths, 1, kind=kind, max_length=64, short=0.1))
        share = labels[1] / labels.total()
        # Of nsp a sentence that ends its document alone is always random, and adds to that class.
        assert 0.46 < share < (0.6 if kind == "nsp" else 0.54)
    whole = [[1] * 400 for _ in range(1000)]
    longest = [max(map(size_of_none, group)) for group in by_document(whole, made(whole, kind="none", max_length=66))]
    assert np.mean([one < 64 for one in longest]) == pytest.approx(0.1 * 62 / 63, abs=0.04)
    assert min(longest) < 8


def size_of_none(instance: Instance) -> int:
    return instance.first[1] - instance.first[0]


def by_document(lengths: list[list[int]], found: list[Instance]) -> list[list[Instance]]:
    documents = np.cumsum([sum(document) for document in lengths])
    groups: list[list[Instance]] = [[] for _ in lengths]
    for one in found:
        groups[int(np.searchsorted(documents, one.first[0], side="right"))].append(one)
    return groups


def test_documents_of_one_sentence() -> None:
    lengths = [[4], [5], [6]]
    assert {one.label for one in made(lengths, kind="nsp", max_length=32, copies=5)} == {1}
    assert made(lengths, kind="sop", max_length=32) == []
    with pytest.raises(DataError, match="of 15 pairs none is next"):
        require_both([1] * 15, "nsp")
    with pytest.raises(DataError, match="no document with two sentences"):
        require_both([], "sop")
    require_both([0, 1], "sop")


def test_a_single_document_has_no_random_pair() -> None:
    with pytest.raises(DataError, match="1 document where two are needed"):
        made([[3, 4, 5]], kind="nsp", max_length=32)
    assert made([[3, 4, 5]], kind="sop", max_length=32)


def test_copies_differ_and_seeds_repeat() -> None:
    lengths = [[3, 4, 5, 2], [6, 2, 2, 8], [5, 5, 5]]
    two = made(lengths, 7, kind="nsp", max_length=24, copies=2)
    assert two == made(lengths, 7, kind="nsp", max_length=24, copies=2)
    assert made(lengths, 7, kind="nsp", max_length=24) == two[: len(made(lengths, 7, kind="nsp", max_length=24))]
    assert two != made(lengths, 8, kind="nsp", max_length=24, copies=2)


def test_an_instance_as_ids() -> None:
    ids = [10, 11, 12, 13, 14]
    assert enclosed(Instance((0, 2), (3, 5), 0), ids, 1, 2) == ([1, 10, 11, 2, 13, 14, 2], [0, 0, 0, 0, 1, 1, 1])
    assert enclosed(Instance((1, 4)), ids, 1, 2) == ([1, 11, 12, 13, 2], [0] * 5)
