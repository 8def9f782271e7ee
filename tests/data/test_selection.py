"""`data.select`: which sentences of a recipe's files are read at all."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from probtrans_cli.data.corpus.prepared import Prepared, prepare
from probtrans_cli.errors import DataError, RecipeError
from probtrans_cli.recipe.source import load_recipe

LENGTHS = [3, 12, 5, 9, 1, 7, 30, 4, 6, 2]


@pytest.fixture
def prepared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Prepare sentences of known lengths, each of which names itself in its first word."""
    monkeypatch.chdir(tmp_path)
    lines = [" ".join([f"s{number}", *["w"] * (length - 1)]) for number, length in enumerate(LENGTHS)]
    Path("text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("recipe.yaml").write_text(
        "version: 1\nname: t\ntask: {kind: mlm}\ndata: {train: text.txt, dev: text.txt}\n", encoding="utf-8"
    )

    def run(*overrides: str) -> Prepared:
        return prepare(load_recipe("recipe.yaml", list(overrides)))

    return run


def first_words(prepared: Prepared, split: str) -> list[str]:
    one = prepared.splits[split]
    return [prepared.vocabulary.decode(int(one.row("ids", index)[0])) for index in range(len(one))]


def test_long_sentences_are_left_out_of_every_split_and_counted(prepared_with) -> None:
    prepared = prepared_with("data.select.words=9")
    kept = [f"s{number}" for number, length in enumerate(LENGTHS) if length <= 9]
    assert first_words(prepared, "train") == first_words(prepared, "dev") == kept
    assert prepared.manifest["notes"] == [
        "data.train: data.select leaves out 2 sentences of more than 9 words",
        "data.dev: data.select leaves out 2 sentences of more than 9 words",
    ]
    assert "s1" not in [prepared.vocabulary.decode(id) for id in range(prepared.vocabulary.size)]


def test_training_sentences_are_drawn_among_the_short_ones(prepared_with) -> None:
    prepared = prepared_with("data.select.words=9", "data.select.sentences=4", "data.select.seed=3")
    short = [f"s{number}" for number, length in enumerate(LENGTHS) if length <= 9]
    random.Random(3).shuffle(drawn := list(short))
    assert set(first_words(prepared, "train")) == set(drawn[:4])
    assert first_words(prepared, "dev") == [name if name in drawn[:4] else "<unk>" for name in short]
    assert "2 sentences of more than 9 words, and 4 others, as 4 were drawn" in prepared.manifest["notes"][0]


def test_each_selection_is_another_corpus(prepared_with) -> None:
    kinds = [
        (),
        ("data.select.words=9",),
        ("data.select.sentences=4",),
        ("data.select.sentences=4", "data.select.seed=1"),
    ]
    made = [prepared_with(*one) for one in kinds]
    assert len({one.folder for one in made}) == len({one.manifest["fingerprint"] for one in made}) == len(kinds)
    assert not prepared_with("data.select.sentences=4").fresh


def test_more_than_there_are_is_all(prepared_with) -> None:
    prepared = prepared_with("data.select.sentences=100")
    assert len(prepared.splits["train"]) == len(LENGTHS)
    assert prepared.manifest["notes"] == ["data.train: data.select.sentences is 100, 90 more than there are"]


def test_refusals(prepared_with) -> None:
    Path("text.txt").write_text("five words in this sentence\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"every sentence of data\.train has more than 2 words"):
        prepared_with("data.select.words=2")
    with pytest.raises(RecipeError, match="documents are read as a whole"):
        prepared_with("data.select.words=2", "data.format=documents", "task.kind=pretrain")
