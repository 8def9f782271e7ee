"""Splits as Arrow files and in shards: whatever a sentence has is read as it was stored."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.corpus import batches, store
from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.data.corpus.store import Split, encode_table, is_punctuation, write_split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import WordFeatures, WordVocabulary

LABELS = {"label": ["good", "bad"], "tag": ["O", "B-X"], "case": []}
words = st.lists(
    st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=5
)


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    """With a label or none, known or not; with tags or none; with a form or none."""
    given = draw(words)
    label = draw(st.sampled_from([None, "good", "bad", "neither"]))
    tags = draw(st.none() | st.lists(st.sampled_from(["O", "B-X", "I-Y"]), min_size=len(given), max_size=len(given)))
    return Sentence(
        words=given,
        labels={} if label is None else {"label": label},
        tags={} if tags is None else {"tag": tags},
        parents=draw(st.none() | st.lists(st.integers(-1, 4), min_size=len(given), max_size=len(given))),
        form=draw(st.none() | st.text(st.characters(exclude_categories=["Cs"]))),
    )


@given(st.lists(sentences(), min_size=1, max_size=4))
def test_what_is_stored_is_read(corpus: list[Sentence]) -> None:
    vocabulary = build_vocabulary(WordVocabulary(), (one.words for one in corpus))
    with tempfile.TemporaryDirectory() as folder:
        write_split(Path(folder) / "x.arrow", encode_table(corpus, vocabulary, LABELS))
        split = Split(Path(folder) / "x.arrow")
        for name, there in (
            ("label", any(one.labels for one in corpus)),
            ("tag", any(one.tags for one in corpus)),
            ("parents", any(one.parents is not None for one in corpus)),
            ("form", any(one.form is not None for one in corpus)),
            ("spelling", any(one.form is not None for one in corpus)),
        ):
            assert split.has(name) == there
        assert not split.has("case")
        for index, one in enumerate(corpus):
            n = len(one.words)
            if split.has("label"):
                wanted = [{"good": 0, "bad": 1}.get(one.labels["label"], -1)] if one.labels else [-1] * n
                assert split.row("label", index).tolist() == wanted
            if split.has("tag"):
                wanted = [{"O": 0, "B-X": 1}.get(tag, -1) for tag in one.tags.get("tag", [""] * n)]
                assert split.row("tag", index).tolist() == wanted
            if split.has("parents"):
                assert split.row("parents", index).tolist() == ([-2] * n if one.parents is None else one.parents)
            if split.has("form"):
                assert split.text("form", index) == (one.form or "")
                assert split.text("spelling", index) == ("" if one.form is None else " ".join(one.words))


def test_labels_of_a_batch_are_a_column_of_it() -> None:
    corpus = [Sentence(["a", "b", "c"], labels={"label": "bad"}), Sentence(["a"], labels={"label": "good"})]
    split = Split.encode(corpus, build_vocabulary(WordVocabulary(), (one.words for one in corpus)), LABELS)
    assert split.padded("label", np.array([1, 0, 1]), -1).tolist() == [[0], [1], [0]]


LABELS_OF_SHARDS = {"upos": ["N", "V"], "label": ["good"]}


def sentences_of_shards() -> list[Sentence]:
    """Some with tags, heads, a label or a form, at first none; so shards have different columns."""
    random = np.random.default_rng(0)
    found = []
    for number in range(60):
        n = int(random.integers(1, 7))
        given = Sentence([f"w{random.integers(9)}" for _ in range(n)])
        if number > 20 and number % 3:
            given.tags["upos"] = ["N"] * n
            given.heads = [0] * n
        if number > 30:
            given.labels["label"] = "good"
            given.parents = [-1] * n
        if number > 45:
            given.form = f"form {number}"
        found.append(given)
    return found


@pytest.fixture
def both(tmp_path: Path) -> tuple[Split, Split]:
    """The same sentences in one file and in nine."""
    corpus = sentences_of_shards()
    vocabulary = build_vocabulary(WordVocabulary(features=WordFeatures(rows=64)), (one.words for one in corpus))
    write_split(tmp_path / "all.arrow", encode_table(corpus, vocabulary, LABELS_OF_SHARDS))
    paths = []
    for begin in range(0, 60, 7):
        paths.append(tmp_path / f"{begin}.arrow")
        write_split(paths[-1], encode_table(corpus[begin : begin + 7], vocabulary, LABELS_OF_SHARDS))
    return Split(tmp_path / "all.arrow"), Split(*paths)


COLUMNS = ("ids", "frequency", "heads", "parents", "upos", "label", "punct", "widths", "features", "form", "spelling")


def test_shards_have_what_one_file_has(both: tuple[Split, Split], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEPT", 15)
    one, many = both
    assert len(many) == len(one) == 60
    assert len(many.bounds) == 10
    for name in ("lengths", "words"):
        assert getattr(many, name).tolist() == getattr(one, name).tolist()
    random = np.random.default_rng(1)
    for name in COLUMNS:
        assert one.has(name), name
        assert many.has(name), name
        if name != "label":  # of one without there are as many -1 as words, and none but the first is ever looked at
            assert many.column(name).tolist() == one.column(name).tolist(), name
        for index in random.permutation(60):
            assert many.row(name, int(index)).tolist() == one.row(name, int(index)).tolist(), (name, index)
        for _ in range(5):
            indices = random.integers(0, 60, size=8)
            found, expected = (split.padded(name, indices, -9) for split in (many, one))
            assert found.dtype == expected.dtype
            assert found.tolist() == expected.tolist(), name
    indices = random.permutation(60)[:20]
    for found, expected in zip(many.features(indices), one.features(indices), strict=True):
        assert found.tolist() == expected.tolist()
    values = random.random(int(one.lengths.sum()))
    assert many.padded_values(values, indices, 2.0).tolist() == one.padded_values(values, indices, 2.0).tolist()
    some, wanted = many.select(indices), one.select(indices)
    for name in COLUMNS:
        assert [some.row(name, i).tolist() for i in range(20)] == [wanted.row(name, i).tolist() for i in range(20)]
    more = [[number] * int(n) for number, n in enumerate(one.words)]
    column = [split.with_column("content", more) for split in (many, one)]
    assert column[0].padded("content", indices, -1).tolist() == column[1].padded("content", indices, -1).tolist()
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
        found = plan(lengths, 12, 5, epoch, bounds=bounds, shuffle=shuffle, sentences=4)
        again = plan(lengths, 12, 5, epoch, bounds=bounds, shuffle=shuffle, sentences=4)
        every = [one.tolist() for one in found]
        assert every == [one.tolist() for one in again]
        assert [found[i].tolist() for i in range(len(found))] == every
        assert [one.tolist() for one in found[1:4]] == every[1:4]
        assert [one.tolist() for one in reversed(found)] == every[::-1]
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
            inside = [shard for shard, found_at in places.items() if found_at[0] <= at <= found_at[-1]]
            assert sum(sizes[shard] for shard in inside) <= max(window, *sizes)


def test_small_corpora_have_the_plan_that_they_had() -> None:
    """Whether they lie in shards or not."""
    lengths = np.random.default_rng(0).integers(1, 40, size=500)
    bounds = np.array([0, 100, 350, 500])
    for shuffle in (False, True):
        one = plan(lengths, 256, 7, 2, shuffle=shuffle)
        many = plan(lengths.astype(np.int32), 256, 7, 2, shuffle=shuffle, bounds=bounds)
        assert [batch.tolist() for batch in one] == [batch.tolist() for batch in many]


def test_another_epoch_shuffles_shards_and_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "WINDOW", 200)
    lengths, bounds = np.ones(1000, dtype=np.int32), np.arange(0, 1001, 50)
    first, second = (np.concatenate(list(plan(lengths, 10, 1, epoch, bounds=bounds))) for epoch in (0, 1))
    assert sorted(first) == sorted(second)
    assert (first == second).mean() < 0.05
    of_window = [set((first[begin : begin + 200] // 50).tolist()) for begin in range(0, 1000, 200)]
    assert all(len(owners) == 4 for owners in of_window)
    assert any(max(owners) - min(owners) > 3 for owners in of_window)  # not neighbours


def test_punctuation_are_two_universal_tags() -> None:
    """Scores of trees leave out both, as the tables of others do."""
    assert [tag for tag in ("PUNCT", "SYM", "NOUN", "punct", "_") if is_punctuation(tag)] == ["PUNCT", "SYM"]
