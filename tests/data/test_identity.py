"""What a prepared folder is called and was made from: the same as in earlier versions, so that folders stay in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from probtrans_cli.data.corpus.manifest import canonical, fingerprint, folder_of
from probtrans_cli.data.corpus.sources import find_sources
from probtrans_cli.recipe.schema import Recipe

WORDS = {"kind": "words", "min_count": 2, "features": {"ngrams": 3}, "punctuation": False}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    words = ("goat", "hen", "fox")
    (tmp_path / "train.conllu").write_text("".join(f"1\t{w}\t_\tNOUN\t_\t_\t0\t_\t_\t_\n\n" for w in words))
    (tmp_path / "train.txt").write_text("a goat sleeps\n\nthe fox\nthe hen\n")
    (tmp_path / "train.col").write_text("goat B-X\n\nfox O\n")
    (tmp_path / "train.tsv").write_text("a goat\t1\nfox\t0\n")
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("data", "task", "folder", "begins"),
    [
        ({}, "mlm", "x-edc3744a", "f58a8dbcaca7e4e8"),
        ({"vocabulary": WORDS}, "mlm", "x-57ad4f18", "ac3a505db839fbce"),
        (
            {"vocabulary": {"kind": "sentencepiece", "size": 20}, "longest": 9, "too_long": "cut"},
            "mlm",
            "x-a9dbc90d",
            "12ac8b3b09935ff4",
        ),
        ({"vocabulary": {"kind": "char"}, "extra": "train.conllu"}, "mlm", "x-f8be0f68", "bd49125a662ec5f7"),
        ({"vocabulary": {"kind": "wordpiece", "size": 90}}, "mlm", "x-95e0acd9", "89feb1d3840bff7f"),
        (
            {"train": "train.col", "format": "columns", "columns": {"entities": "bioes"}},
            "ner",
            "x-684c55e3",
            "173e87ca06744a42",
        ),
        (
            {"train": "train.col", "format": "columns", "columns": {"entities": "bioes", "strict": False}},
            "ner",
            "x-684c55e3",
            "173e87ca06744a42",
        ),
        ({"train": "train.tsv", "format": "table"}, "classification", "x-7f0c40c3", "f94a697b83dafc9d"),
        (
            {"train": "train.txt", "format": "documents", "documents": {"pairs": "sop", "seed": 3}},
            "pretrain",
            "x-08faa839",
            "511e3c0487cd4419",
        ),
    ],
)
def test_names_and_fingerprints_are_those_of_version_1(
    data: dict[str, Any], task: str, folder: str, begins: str
) -> None:
    """The values are those of the code before there were tables of formats and vocabularies (commit 1a04c22)."""
    recipe = Recipe.model_validate({"name": "x", "data": {"train": "train.conllu", **data}, "task": {"kind": task}})
    assert folder_of(recipe) == Path("prepared") / folder
    assert fingerprint(recipe.data, find_sources(recipe.data, {})).startswith(begins)


@pytest.mark.usefixtures("here")
def test_a_younger_key_that_asks_for_something_makes_another_folder() -> None:
    def made(strict: bool) -> tuple[Path, str]:
        columns = {"entities": "bioes", "strict": strict}
        data = {"train": "train.col", "format": "columns", "columns": columns}
        recipe = Recipe.model_validate({"name": "x", "data": data, "task": {"kind": "ner"}})
        return folder_of(recipe), fingerprint(recipe.data, find_sources(recipe.data, {}))

    (plain, of_plain), (strict, of_strict) = made(False), made(True)
    assert plain != strict
    assert of_plain != of_strict


def test_a_vocabulary_of_a_folder_is_its_content(here: Path) -> None:
    def described() -> Any:
        vocabulary = {"kind": "wordpiece", "folder": "bert"}
        data = {"train": "train.conllu", "vocabulary": vocabulary}
        return canonical(Recipe.model_validate({"name": "x", "data": data, "task": {"kind": "mlm"}}).data)["vocabulary"]

    (here / "bert").mkdir()
    (here / "bert" / "vocab.txt").write_text("[PAD]\n")
    before = described()
    assert before["folder"] != "bert"
    (here / "bert" / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    assert described()["folder"] != before["folder"]
