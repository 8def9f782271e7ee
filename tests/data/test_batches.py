"""The batch plan and the store: every sentence once, within bounds, repeatable; gathering equals plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.data.corpus.store import Split, table_of_rows, write_split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.errors import DataError

LENGTHS = st.lists(st.integers(0, 60), max_size=80).map(lambda lengths: np.array(lengths, dtype=np.int64))


@settings(max_examples=150, deadline=None)
@given(
    LENGTHS, st.integers(1, 200), st.integers(0, 99), st.integers(0, 99), st.none() | st.integers(1, 9), st.booleans()
)
def test_a_plan_has_each_sentence_once_within_bounds(
    lengths: np.ndarray, words: int, seed: int, epoch: int, sentences: int | None, shuffle: bool
) -> None:
    batches = plan(lengths, words, seed, epoch, sentences=sentences, shuffle=shuffle)
    flat = [int(index) for batch in batches for index in batch]
    assert sorted(flat) == list(np.flatnonzero(lengths))
    for batch in batches:
        assert len(batch) >= 1
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= words
        assert sentences is None or len(batch) <= sentences
    again = plan(lengths.copy(), words, seed, epoch, sentences=sentences, shuffle=shuffle)
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in batches]
    if not shuffle:
        assert np.all(np.diff(lengths[flat]) >= 0)
        assert [b.tolist() for b in plan(lengths, words, seed + 1, epoch + 1, sentences=sentences, shuffle=False)] == [
            batch.tolist() for batch in batches
        ]


def test_epochs_and_seeds_differ_in_order_and_in_batch_mates() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, 1000)

    def mates(seed: int, epoch: int) -> set[frozenset[int]]:
        return {frozenset(batch.tolist()) for batch in plan(lengths, 500, seed, epoch)}

    first = mates(0, 0)
    for other in (mates(0, 1), mates(1, 0), mates(1, 1)):
        assert len(first & other) < 0.1 * len(first)
    order = [int(lengths[batch].max()) for batch in plan(lengths, 500, 0, 0)]
    assert order != sorted(order)


def test_batches_are_filled() -> None:
    lengths = np.random.default_rng(0).geometric(0.06, 5000)
    batches = plan(lengths, 2048, 0, 0)
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    assert lengths.sum() / padded > 0.9
    assert padded / len(batches) > 0.85 * 2048


def test_impossible_bounds() -> None:
    for words, sentences in [(0, None), (-1, None), (5, 0)]:
        with pytest.raises(ValueError, match="at least one"):
            plan(np.ones(3, dtype=np.int64), words, 0, 0, sentences=sentences)


# --- the store --------------------------------------------------------------------------------------------------------


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    result = []
    for _ in range(draw(st.integers(1, 8))):
        n = draw(st.integers(0, 6))

        def values(low: int, high: int, n: int = n) -> list[int]:
            return draw(st.lists(st.integers(low, high), min_size=n, max_size=n))

        row: dict[str, Any] = {"ids": draw(st.lists(st.integers(0, 2**31 - 1), min_size=n, max_size=2 * n))}
        row |= {"first": values(0, 50), "frequency": values(0, 10**6)}
        row |= {"upos": values(-1, 32767), "heads": draw(st.none() | st.just(values(0, 32767)))}
        row |= {"xpos": None, "punct": [bool(v) for v in values(0, 1)]}
        result.append(row)
    return result


@settings(max_examples=60, deadline=None)
@given(rows(), st.data())
def test_gathering_equals_plain_loops(tmp_path_factory: pytest.TempPathFactory, rows: list[Any], data: Any) -> None:
    table = table_of_rows(rows)
    path = tmp_path_factory.mktemp("store") / "x.arrow"
    write_split(path, table)
    chosen = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6)), dtype=np.int64)
    for split in (Split(table), Split(path)):
        assert len(split) == len(rows)
        assert split.lengths.tolist() == [len(row["ids"]) for row in rows]
        assert split.words.tolist() == [len(row["frequency"]) for row in rows]
        assert split.lengths.dtype == np.int32  # what is held of every sentence
        assert not split.has("xpos")
        assert split.has("heads") == any(row["heads"] is not None for row in rows)
        for name in ("ids", "first", "frequency", "upos", "heads", "punct"):
            if not split.has(name):
                continue
            missing = [-1] * 6
            plain = [row[name] if row[name] is not None else missing[: len(row["frequency"])] for row in rows]
            assert [split.row(name, i).tolist() for i in range(len(rows))] == plain
            assert split.column(name).tolist() == [value for values in plain for value in values]
            padded = split.padded(name, chosen, fill=0)
            width = max((len(plain[i]) for i in chosen), default=0)
            assert padded.tolist() == [plain[i] + [0] * (width - len(plain[i])) for i in chosen]
            assert padded.dtype == (np.bool_ if name == "punct" else np.int64)
            assert padded.shape == (len(chosen), width)


def test_encoding_sentences() -> None:
    words = Words(["a", "b"], [9, 4], lowercase=False, digits=False)
    sentences = [
        Sentence(words=["a", "c", "b"], tags={"upos": ["X", "PUNCT", "SYM"], "xpos": ["x", "_", "y"]}, heads=[2, 0, 1]),
        Sentence(words=["b"]),
    ]
    split = Split.encode(sentences, words, {"upos": ["X"], "xpos": ["y", "x"]})
    assert not split.has("first")
    both = np.array([0, 1])
    assert split.padded("ids", both, 0).tolist() == [[3, 1, 4], [4, 0, 0]]
    assert split.padded("frequency", both, -7).tolist() == [[9, 0, 4], [4, -7, -7]]
    assert split.padded("upos", both, -1).tolist() == [[0, -1, -1], [-1, -1, -1]]
    assert split.padded("xpos", both, -1).tolist() == [[1, -1, 0], [-1, -1, -1]]
    assert split.padded("heads", both, -1).tolist() == [[2, 0, 1], [-1, -1, -1]]
    assert split.padded("punct", both, True).tolist() == [[False, True, True], [False, True, True]]


def test_a_tree_that_is_too_large_is_an_error() -> None:
    words = Words(["a"], [1], lowercase=False, digits=False)
    long = Sentence(words=["a"] * 40000, heads=list(range(40000)), where="x.conllu:7")
    with pytest.raises(DataError, match=r"^x.conllu:7: too large"):
        Split.encode([long], words, {})
    long.heads = None
    assert Split.encode([long], words, {}).lengths.tolist() == [40000]


@pytest.mark.parametrize("content", [None, b"", b"ARROW1\0\0 and no more", b"x" * 500])
def test_damaged_splits_are_refused_by_name(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "train.arrow"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"train.arrow: not a readable Arrow file"):
        Split(path)


def test_truncated_splits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.arrow"
    write_split(path, table_of_rows([{"ids": list(range(50)), "frequency": [1] * 50}] * 20))
    whole = path.read_bytes()
    for size in range(0, len(whole) - 1, 97):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"train.arrow"):
            Split(path)
