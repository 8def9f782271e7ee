"""The store and the batch plan: what a sentence has is read as it was stored, in shards or not; each sentence once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import values_of

from probtrans_cli.data.corpus import batches, store
from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.data.corpus.store import PUNCTUATION, Split, encode_table, table_of_rows, write_split
from probtrans_cli.data.sentence import MOST_ROWS, Sentence, pack_rows, unpack_rows
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import WordFeatures, WordVocabulary

AB = Words(["a", "b"], [9, 4], lowercase=False, digits=False)


def vocabulary_of(corpus: list[Sentence], **options: Any) -> Vocabulary:
    return build_vocabulary(WordVocabulary(**options), (sentence.words for sentence in corpus))


# --- sentences --------------------------------------------------------------------------------------------------------

LABELS = {"label": ["good", "bad"], "tag": ["O", "B-X"], "case": []}
WORDS = st.lists(
    st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=5
)


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    """With a label or none, known or not; with tags, parents, a grid, a form, or none."""
    words = draw(WORDS)
    n = len(words)

    def maybe(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | st.lists(values, min_size=n, max_size=n))

    label, tags = draw(st.sampled_from([None, "good", "bad", "neither"])), maybe(st.sampled_from(["O", "B-X", "I-Y"]))
    rows = st.lists(st.lists(st.integers(0, 7), min_size=n, max_size=n), max_size=MOST_ROWS)
    return Sentence(
        words=words,
        labels={} if label is None else {"label": label},
        tags={} if tags is None else {"tag": tags},
        parents=maybe(st.integers(-1, 4)),
        grid=draw(st.none() | rows),
        form=draw(st.none() | st.text(st.characters(exclude_categories=["Cs"]))),
    )


@given(st.lists(sentences(), min_size=1, max_size=4))
def test_what_is_stored_is_read(corpus: list[Sentence]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.arrow"
        write_split(path, encode_table(corpus, vocabulary_of(corpus), LABELS))
        split = Split(path)
        assert split.has("label") == any(sentence.labels for sentence in corpus)
        assert split.has("tag") == any(sentence.tags for sentence in corpus)
        for name in ("parents", "grid", "form"):
            assert split.has(name) == any(getattr(sentence, name) is not None for sentence in corpus)
        assert split.has("spelling") == split.has("form")
        assert not split.has("case")
        for index, sentence in enumerate(corpus):
            n = len(sentence.words)
            if split.has("label"):
                label = [{"good": 0, "bad": 1}.get(sentence.labels["label"], -1)] if sentence.labels else [-1] * n
                assert split.row("label", index).tolist() == label
            if split.has("tag"):
                tags = [{"O": 0, "B-X": 1}.get(tag, -1) for tag in sentence.tags.get("tag", [""] * n)]
                assert split.row("tag", index).tolist() == tags
            if split.has("parents"):
                parents = [-2] * n if sentence.parents is None else sentence.parents
                assert split.row("parents", index).tolist() == parents
            if split.has("grid"):
                rows = sentence.grid or []
                assert unpack_rows(split.row("grid", index), len(rows)).tolist() == rows
                padded = unpack_rows(split.padded("grid", np.arange(len(corpus)), 0)[index], MOST_ROWS)
                assert padded[: len(rows), :n].tolist() == rows
                assert not padded[len(rows) :].any()
                assert not padded[:, n:].any()
            if split.has("form"):
                assert split.text("form", index) == (sentence.form or "")
                assert split.text("spelling", index) == ("" if sentence.form is None else " ".join(sentence.words))


def test_grids_are_numbers() -> None:
    assert pack_rows([[1, 2, 0], [0, 5, 3]], 3) == [1, 2 + 8 * 5, 8 * 3]
    assert unpack_rows(np.array([1, 42, 24]), 3).tolist() == [[1, 2, 0], [0, 5, 3], [0, 0, 0]]
    assert pack_rows([], 2) == [0, 0]
    packed = np.array([pack_rows([[7, 1]] * MOST_ROWS, 2)] * 2, dtype=np.int64)
    assert unpack_rows(packed, MOST_ROWS).tolist() == [[[7, 1]] * MOST_ROWS] * 2
    for rows, words in [([[0]] * 21, "21 rows"), ([[0, 0]], "row 0"), ([[1], [8]], "row 1"), ([[-1]], "row 0")]:
        with pytest.raises(ValueError, match=words):
            pack_rows(rows, 1)
    with pytest.raises(ValueError, match="21 rows"):
        unpack_rows(np.zeros(3, dtype=np.int64), 21)
    corpus = [Sentence(words=["a", "b"]), Sentence(words=["a"], grid=[[1], [7]])]
    assert values_of(Split.encode(corpus, AB, {}), "grid").tolist() == [0, 0, 1 + 8 * 7]


def test_encoding_sentences() -> None:
    corpus = [
        Sentence(words=["a", "c", "b"], tags={"upos": ["X", "PUNCT", "SYM"], "xpos": ["x", "_", "y"]}, heads=[2, 0, 1]),
        Sentence(words=["b"], labels={"label": "bad"}),
    ]
    split = Split.encode(corpus, AB, {"upos": ["X"], "xpos": ["y", "x"], "label": ["good", "bad"]})
    assert not split.has("first")
    for name, fill, expected in [
        ("ids", 0, [[3, 1, 4], [4, 0, 0]]),
        ("frequency", -7, [[9, 0, 4], [4, -7, -7]]),
        ("upos", -1, [[0, -1, -1], [-1, -1, -1]]),
        ("xpos", -1, [[1, -1, 0], [-1, -1, -1]]),
        ("heads", -1, [[2, 0, 1], [-1, -1, -1]]),
        ("punct", True, [[False, True, True], [False, True, True]]),
        ("label", -1, [[-1, -1, -1], [1, -1, -1]]),
    ]:
        assert split.padded(name, np.array([0, 1]), fill).tolist() == expected, name
    assert split.padded("label", np.array([1, 1]), -1).tolist() == [[1], [1]]
    # Scores of trees leave out both, as the tables of others do.
    assert sorted(PUNCTUATION) == ["PUNCT", "SYM"]


def test_a_tree_that_is_too_large_is_an_error() -> None:
    long = Sentence(words=["a"] * 40000, heads=list(range(40000)), where="x.conllu:7")
    with pytest.raises(DataError, match=r"^x.conllu:7: too large"):
        Split.encode([long], AB, {})
    long.heads = None
    assert Split.encode([long], AB, {}).lengths.tolist() == [40000]


@st.composite
def rows_of_a_table(draw: st.DrawFn) -> list[dict[str, Any]]:
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
@given(rows_of_a_table(), st.data())
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
            plain = [row[name] if row[name] is not None else [-1] * len(row["frequency"]) for row in rows]
            assert [split.row(name, i).tolist() for i in range(len(rows))] == plain
            assert values_of(split, name).tolist() == [value for values in plain for value in values]
            padded = split.padded(name, chosen, fill=0)
            width = max((len(plain[i]) for i in chosen), default=0)
            assert padded.tolist() == [plain[i] + [0] * (width - len(plain[i])) for i in chosen]
            assert padded.dtype == (np.bool_ if name == "punct" else np.int64)
            assert padded.shape == (len(chosen), width)


def test_damaged_splits_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "train.arrow"
    with pytest.raises(DataError, match=r"train.arrow: not a readable Arrow file"):
        Split(path)
    write_split(path, table_of_rows([{"ids": list(range(50)), "frequency": [1] * 50}] * 20))
    whole = path.read_bytes()
    parts = [whole[:size] for size in range(0, len(whole) - 1, 97)]
    for content in (b"ARROW1\0\0 and no more", b"x" * 500, *parts):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"train.arrow: not a readable Arrow file"):
            Split(path)


# --- shards -----------------------------------------------------------------------------------------------------------

LABELS_OF_SHARDS = {"upos": ["N", "V"], "label": ["good"]}


def sentences_of_shards() -> list[Sentence]:
    """Some with tags, heads, a label or a form, at first none; so shards have different columns."""
    random = np.random.default_rng(0)
    corpus = []
    for number in range(60):
        n = int(random.integers(1, 7))
        sentence = Sentence([f"w{random.integers(9)}" for _ in range(n)])
        if number > 20 and number % 3:
            sentence.tags["upos"] = ["N"] * n
            sentence.heads = [0] * n
        if number > 30:
            sentence.labels["label"] = "good"
            sentence.parents = [-1] * n
        if number > 45:
            sentence.form = f"form {number}"
        corpus.append(sentence)
    return corpus


@pytest.fixture
def both(tmp_path: Path) -> tuple[Split, Split]:
    """The same sentences in one file and in nine."""
    corpus = sentences_of_shards()
    vocabulary = vocabulary_of(corpus, features=WordFeatures(rows=64))
    write_split(tmp_path / "all.arrow", encode_table(corpus, vocabulary, LABELS_OF_SHARDS))
    paths = []
    for begin in range(0, 60, 7):
        paths.append(tmp_path / f"{begin}.arrow")
        write_split(paths[-1], encode_table(corpus[begin : begin + 7], vocabulary, LABELS_OF_SHARDS))
    return Split(tmp_path / "all.arrow"), Split(*paths)


COLUMNS = ("ids", "frequency", "heads", "parents", "upos", "label", "punct", "widths", "features", "form", "spelling")


def test_shards_have_what_one_file_has(both: tuple[Split, Split], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEPT", 15)
    whole, many = both
    assert len(many) == len(whole) == 60
    assert len(many.bounds) == 10
    np.testing.assert_array_equal(many.lengths, whole.lengths)
    np.testing.assert_array_equal(many.words, whole.words)
    random = np.random.default_rng(1)
    for name in COLUMNS:
        assert whole.has(name), name
        assert many.has(name), name
        if name != "label":  # without a label there are as many -1 as words, of which only the first is ever looked at
            np.testing.assert_array_equal(values_of(many, name), values_of(whole, name), name)
        for index in random.permutation(60).tolist():
            np.testing.assert_array_equal(many.row(name, index), whole.row(name, index), name)
        for _ in range(5):
            indices = random.integers(0, 60, size=8)
            np.testing.assert_array_equal(*(split.padded(name, indices, -9) for split in both), name, strict=True)
    indices = random.permutation(60)[:20]
    for of_many, of_whole in zip(many.features(indices), whole.features(indices), strict=True):
        np.testing.assert_array_equal(of_many, of_whole)
    values = random.random(int(whole.lengths.sum()))
    np.testing.assert_array_equal(*(split.padded_values(values, indices, 2.0) for split in both))
    selected = [split.select(indices) for split in both]
    for name in COLUMNS:
        for index in range(20):
            np.testing.assert_array_equal(*(split.row(name, index) for split in selected), name)
    contents = [[number] * int(n) for number, n in enumerate(whole.words)]
    completed = [split.with_column("content", contents) for split in both]
    np.testing.assert_array_equal(*(split.padded("content", indices, -1) for split in completed))
    assert not many.has("nonsense")
    for split in both:
        with pytest.raises(KeyError):
            split.padded("nonsense", indices, 0)
        with pytest.raises(KeyError):
            split.columns("nonsense")


def test_a_damaged_shard_is_named(both: tuple[Split, Split], tmp_path: Path) -> None:
    (tmp_path / "7.arrow").write_bytes(b"ARROW1")
    with pytest.raises(DataError, match=r"7\.arrow: not a readable Arrow file"):
        Split(tmp_path / "0.arrow", tmp_path / "7.arrow")


# --- the plan ---------------------------------------------------------------------------------------------------------

LENGTHS = st.lists(st.integers(0, 60), max_size=80).map(lambda lengths: np.array(lengths, dtype=np.int64))


@settings(max_examples=150, deadline=None)
@given(
    LENGTHS, st.integers(1, 200), st.integers(0, 99), st.integers(0, 99), st.none() | st.integers(1, 9), st.booleans()
)
def test_a_plan_has_each_sentence_once_within_bounds(
    lengths: np.ndarray, words: int, seed: int, epoch: int, sentences: int | None, shuffle: bool
) -> None:
    made = plan(lengths, words, seed, epoch, sentences=sentences, shuffle=shuffle)
    flat = [int(index) for batch in made for index in batch]
    assert sorted(flat) == list(np.flatnonzero(lengths))
    for batch in made:
        assert len(batch) >= 1
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= words
        assert sentences is None or len(batch) <= sentences
    again = plan(lengths.copy(), words, seed, epoch, sentences=sentences, shuffle=shuffle)
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in made]
    if not shuffle:
        assert np.all(np.diff(lengths[flat]) >= 0)
        assert [b.tolist() for b in plan(lengths, words, seed + 1, epoch + 1, sentences=sentences, shuffle=False)] == [
            batch.tolist() for batch in made
        ]


def test_epochs_and_seeds_differ_in_order_and_in_batch_mates() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, 1000)

    def mates(seed: int, epoch: int) -> set[frozenset[int]]:
        return {frozenset(batch.tolist()) for batch in plan(lengths, 500, seed, epoch)}

    first = mates(0, 0)
    for seed, epoch in ((0, 1), (1, 0), (1, 1)):
        assert len(first & mates(seed, epoch)) < 0.1 * len(first)
    order = [int(lengths[batch].max()) for batch in plan(lengths, 500, 0, 0)]
    assert order != sorted(order)


def test_batches_are_filled() -> None:
    lengths = np.random.default_rng(0).geometric(0.06, 5000)
    made = plan(lengths, 2048, 0, 0)
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in made)
    assert lengths.sum() / padded > 0.9
    assert padded / len(made) > 0.85 * 2048


def test_impossible_bounds() -> None:
    for words, sentences in [(0, None), (-1, None), (5, 0)]:
        with pytest.raises(ValueError, match="at least one"):
            plan(np.ones(3, dtype=np.int64), words, 0, 0, sentences=sentences)


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    window=st.integers(1, 30),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
)
def test_windows_have_every_sentence_once(sizes: list[int], window: int, epoch: int, shuffle: bool) -> None:
    bounds = np.cumsum([0, *sizes])
    lengths = np.random.default_rng(3).integers(0, 6, size=bounds[-1]).astype(np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "WINDOW", window)
        windows = plan(lengths, 12, 5, epoch, bounds=bounds, shuffle=shuffle, sentences=4)
        again = plan(lengths, 12, 5, epoch, bounds=bounds, shuffle=shuffle, sentences=4)
        every = [batch.tolist() for batch in windows]
        assert every == [batch.tolist() for batch in again]
        assert [windows[i].tolist() for i in range(len(windows))] == every
        assert [batch.tolist() for batch in windows[1:4]] == every[1:4]
        assert [batch.tolist() for batch in reversed(windows)] == every[::-1]
    assert sorted(index for batch in every for index in batch) == np.flatnonzero(lengths).tolist()
    for batch in every:
        assert len(batch) <= 4
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= 12
    # Sentences of one window come before those of the next, and a window is as large as it may be.
    owner = {index: np.searchsorted(bounds, index, side="right") - 1 for batch in every for index in batch}
    if bounds[-1] > window and len(sizes) > 1:
        places: dict[int, list[int]] = {}
        for at, batch in enumerate(every):
            for index in batch:
                places.setdefault(owner[index], []).append(at)
        for at in range(len(every)):
            inside = [shard for shard, of_shard in places.items() if of_shard[0] <= at <= of_shard[-1]]
            assert sum(sizes[shard] for shard in inside) <= max(window, *sizes)


def test_small_corpora_have_the_plan_that_they_had() -> None:
    """Whether they lie in shards or not."""
    lengths = np.random.default_rng(0).integers(1, 40, size=500)
    bounds = np.array([0, 100, 350, 500])
    for shuffle in (False, True):
        whole = plan(lengths, 256, 7, 2, shuffle=shuffle)
        in_shards = plan(lengths.astype(np.int32), 256, 7, 2, shuffle=shuffle, bounds=bounds)
        assert [batch.tolist() for batch in whole] == [batch.tolist() for batch in in_shards]


def test_another_epoch_shuffles_shards_and_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "WINDOW", 200)
    lengths, bounds = np.ones(1000, dtype=np.int32), np.arange(0, 1001, 50)
    first, second = (np.concatenate(list(plan(lengths, 10, 1, epoch, bounds=bounds))) for epoch in (0, 1))
    assert sorted(first) == sorted(second)
    assert (first == second).mean() < 0.05
    of_window = [set((first[begin : begin + 200] // 50).tolist()) for begin in range(0, 1000, 200)]
    assert all(len(owners) == 4 for owners in of_window)
    assert any(max(owners) - min(owners) > 3 for owners in of_window)  # not neighbours
