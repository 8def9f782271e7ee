"""Splits as Arrow files: whatever a sentence has is read as it was stored."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.corpus.store import Split, encode_table, write_split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.recipe.data import WordVocabulary

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
        split = Split.open(Path(folder) / "x.arrow")
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
