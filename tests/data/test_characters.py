"""Characters as the vocabulary: which entries there are, and training, scoring and parsing with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Invoke, workplace

from probtrans_cli.data.tokens import tokenize
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.pieces import Characters, Pieces
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import (
    CharacterVocabulary,
)


def test_characters() -> None:
    vocabulary = build_vocabulary(CharacterVocabulary(kind="char"), [["ab", "ba", "b", "<mask>"], ["ab", "c"]])
    assert isinstance(vocabulary, Characters)
    assert isinstance(vocabulary, Pieces)
    entries = ["<pad>", "<unk>", "<mask>", "▁b", "▁a", "▁c", "b", "a", "c"]
    assert [vocabulary.decode(id) for id in range(vocabulary.size)] == entries
    encoded = vocabulary.encode_words(["cab", "b", "x", "axb", "", "<mask>", "<Mask>"])
    assert [vocabulary.decode(id) for id in encoded.ids] == [
        *("▁c", "a", "b"), "▁b", "<unk>", *("▁a", "<unk>", "b"), "<unk>", "<unk>", *("<unk>", "<unk>", "a", "<unk>"),
        *("<unk>", "<unk>"),
    ]  # fmt: skip
    assert encoded.word_start == [0, 3, 4, 5, 8, 9, 10]
    assert [vocabulary.frequency(word) for word in ("ab", "b", "cab", "AB", "<mask>")] == [2, 1, 0, 0, 0]
    assert vocabulary.encode_words(["ab", "c"]).ids != vocabulary.encode_words(["abc"]).ids


def test_rare_characters_and_capitals() -> None:
    section = CharacterVocabulary(kind="char", lowercase=True, min_count=3)
    vocabulary = build_vocabulary(section, [["Aab", "bA", "c", "▁"], ["<PAD>"]])
    assert [vocabulary.decode(id) for id in range(3, vocabulary.size)] == ["▁a", "a"]
    assert vocabulary.encode_words(["AA", "b"]).ids == [3, 4, vocabulary.UNKNOWN]
    assert vocabulary.frequency("AAB") == 1
    with pytest.raises(DataError, match="no training character is frequent enough"):
        build_vocabulary(CharacterVocabulary(kind="char", min_count=9), [["Aab", "bA"]])
    with pytest.raises(DataError):
        build_vocabulary(CharacterVocabulary(kind="char"), [["<unk>"], ["<unk>", "<mask>"]])


# --- the command ------------------------------------------------------------------------------------------------------

CHARACTERS = "data.vocabulary={kind: char, lowercase: true}"
TRANSFORMER = "model={kind: transformer, width: 8, heads: 2, layers: 1, inner: 8}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workplace(tmp_path))
    return tmp_path


def test_prepare_counts_characters(here: Path, invoke: Invoke) -> None:
    prepare = ("prepare", "tiny.yaml", CHARACTERS, "data.prepared=one")
    ran = invoke(*prepare, "--check")
    assert ran.code == 0, ran.err
    assert "pieces" in ran.out
    assert invoke(*prepare).code == 0
    whole = json.loads((here / "one" / "manifest.json").read_text("utf-8"))["splits"]["train"]
    text = (here / "train.conllu").read_text("utf-8").splitlines()
    words = [line.split("\t")[1] for line in text if line[:1].isdigit()]
    assert (whole["words"], whole["tokens"]) == (len(words), sum(map(len, words)))
    assert (whole["unknown"], whole["unseen"]) == (0.0, 0.0)
    assert "up to date" in invoke(*prepare).out


@pytest.mark.parametrize(
    "overrides",
    [
        ["task={kind: tagging, column: xpos, word_dropout: 1.0}", "data.longest=20", "data.too_long=window"],
        ["task.output=tied", TRANSFORMER, "data.longest=20", "data.too_long=cut"],
    ],
    ids=["tagging", "transformer"],
)
def test_train_eval_parse_and_export(overrides: list[str], here: Path, invoke: Invoke) -> None:
    ran = invoke("train", "tiny.yaml", CHARACTERS, *overrides, "--run", "run", "--json")
    assert ran.code == 0, ran.err
    again = invoke("eval", "run", "--json", "--baselines")
    assert again.code == 0, again.err
    assert again.json["scores"]["test"] == ran.json["test"]
    text = "the fox don't sleep , İzmir ▁ <mask> ."
    (here / "text.txt").write_text(f"{text}\n\nx\n", "utf-8")
    lines = invoke("parse", "run", "text.txt", "-f", "jsonl").out.splitlines()
    trees = [json.loads(line) for line in lines]
    assert [tree["words"] for tree in trees] == [tokenize(text), [], ["x"]]
    for tree in trees:
        assert len(tree["heads"]) == len(tree["words"])
        assert sorted(tree["heads"])[-1:] <= [len(tree["words"])]
    assert invoke("parse", "run", "text.txt", "-f", "conllu", "--prob").code == 0
    if TRANSFORMER not in overrides:
        assert invoke("parse", "run", "text.txt", "-f", "tree", "--labels").code == 0
    assert invoke("export", "run", "out").code == 0
    assert invoke("parse", "out", "text.txt", "-f", "jsonl").out.splitlines() == lines


def test_characters_are_learned(here: Path, invoke: Invoke) -> None:
    """Every word is one of two, so its other characters tell a hidden one."""
    (here / "two.txt").write_text("abc xyz abc\nxyz abc\nabc abc xyz xyz\n" * 8, "utf-8")
    data = "data={train: two.txt, dev: two.txt, test: two.txt, vocabulary: {kind: char}}"
    ran = invoke("train", "tiny.yaml", data, "train.epochs=12", "optim.lr=0.1", "eval.every_steps=100", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["test"]["perplexity"] < 4.0  # of six entries, all of them as frequent
