"""Grids of labels: packed into a number a word, stored, and unpacked again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.corpus.store import Split, encode_table, write_split
from probtrans_cli.data.sentence import MOST_ROWS, Sentence, pack_rows, unpack_rows
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.recipe.data import WordVocabulary

grids = st.integers(1, 6).flatmap(
    lambda length: st.lists(st.lists(st.integers(0, 7), min_size=length, max_size=length), max_size=MOST_ROWS).map(
        lambda rows: (rows, length)
    )
)


def test_a_number_has_the_labels_of_all_rows() -> None:
    assert pack_rows([[1, 2, 0], [0, 5, 3]], 3) == [1, 2 + 8 * 5, 8 * 3]
    assert unpack_rows(np.array([1, 42, 24]), 3).tolist() == [[1, 2, 0], [0, 5, 3], [0, 0, 0]]
    assert pack_rows([], 2) == [0, 0]


@given(grids)
def test_what_is_packed_is_unpacked(grid: tuple[list[list[int]], int]) -> None:
    rows, length = grid
    packed = np.array(pack_rows(rows, length), dtype=np.int64)
    assert unpack_rows(packed, len(rows)).tolist() == rows
    assert unpack_rows(packed, MOST_ROWS).tolist() == rows + [[0] * length] * (MOST_ROWS - len(rows))
    batch = np.stack([packed, packed])
    assert unpack_rows(batch, 4).shape == (2, 4, length)
    assert (unpack_rows(batch, 4)[1] == unpack_rows(packed, 4)).all()


@pytest.mark.parametrize(
    ("rows", "words"), [([[0]] * 21, "21 rows"), ([[0, 0]], "row 0"), ([[1], [8]], "row 1"), ([[-1]], "row 0")]
)
def test_what_has_no_number_is_refused(rows: list[list[int]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pack_rows(rows, 1)


def test_there_are_at_most_twenty_rows() -> None:
    with pytest.raises(ValueError, match="21 rows"):
        unpack_rows(np.zeros(3, dtype=np.int64), 21)


@given(st.lists(grids, min_size=1, max_size=4))
def test_grids_are_stored(given_grids: list[tuple[list[list[int]], int]]) -> None:
    corpus = [Sentence(words=["x"] * length, grid=rows) for rows, length in given_grids]
    vocabulary = build_vocabulary(WordVocabulary(), (one.words for one in corpus))
    with tempfile.TemporaryDirectory() as folder:
        write_split(Path(folder) / "x.arrow", encode_table(corpus, vocabulary, {}))
        split = Split(Path(folder) / "x.arrow")
        for index, (rows, _) in enumerate(given_grids):
            assert unpack_rows(split.row("grid", index), len(rows)).tolist() == rows
        padded = split.padded("grid", np.arange(len(corpus)), 0)
    assert padded.dtype == np.int64
    for index, (rows, length) in enumerate(given_grids):
        unpacked = unpack_rows(padded[index], MOST_ROWS)
        assert unpacked[: len(rows), :length].tolist() == rows
        assert not unpacked[:, length:].any()


def test_a_sentence_without_a_grid_has_no_labels_beside_one_that_has() -> None:
    corpus = [Sentence(words=["a", "b"]), Sentence(words=["a"], grid=[[1], [7]])]
    vocabulary = build_vocabulary(WordVocabulary(), (one.words for one in corpus))
    assert Split.encode(corpus, vocabulary, {}).column("grid").tolist() == [0, 0, 1 + 8 * 7]
    assert not Split.encode(corpus[:1], vocabulary, {}).has("grid")
