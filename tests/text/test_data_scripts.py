"""The toy corpora are what their scripts write, and the treebank is valid."""

from __future__ import annotations

import gzip
import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support import ROOT, TOY

from probtrans_cli.data.readers import read_corpus
from probtrans_cli.recipe.data import Data
from probtrans_cli.trees.score import floors

SPLITS = ("train", "dev", "test")


def load(name: str) -> ModuleType:
    """A script as a module."""
    folder = str(ROOT / "data_scripts")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


@pytest.fixture(scope="module")
def toy() -> ModuleType:
    return load("make_toy_treebank")


def text_of(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def shipped(split: str) -> Path:
    return TOY / (f"{split}.conllu.gz" if split == "train" else f"{split}.conllu")


def sentences(text: str) -> Iterator[list[list[str]]]:
    for block in text.removesuffix("\n\n").split("\n\n"):
        yield [line.split("\t") for line in block.split("\n") if not line.startswith("#")]


# --- toy treebank -----------------------------------------------------------------------------------------------------


def test_shipped_files_are_the_scripts_output(toy: ModuleType, tmp_path: Path) -> None:
    assert toy.main(["--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in TOY.iterdir()) == sorted(path.name for path in tmp_path.iterdir())
    for split in SPLITS:
        # The text, not the archive: another zlib may pack it otherwise.
        assert text_of(shipped(split)) == text_of(tmp_path / shipped(split).name)


def test_shipped_tuples_are_the_script_s_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load("make_toy_tuples")
    monkeypatch.setattr("sys.argv", ["make_toy_tuples.py", "--out", str(tmp_path)])
    assert script.main() == 0
    for part in ("train", "dev"):
        made = (tmp_path / f"{part}.jsonl").read_text("utf-8")
        assert made == (script.TOY / f"{part}.jsonl").read_text("utf-8")
    data = Data(train="x", format="extractions")
    given = list(read_corpus(script.TOY / "train.jsonl", "extractions", data=data))
    assert len(given) == 400
    assert all(one.grid for one in given if one.form != "[]")  # every tuple can be labelled


def test_scripts_know_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["make_toy_tuples.py", "--out=~/toy", "--train", "4", "--dev", "2"])
    assert load("make_toy_tuples").main() == 0
    assert (tmp_path / "toy/train.jsonl").is_file()


def test_shipped_files_are_small() -> None:
    assert sum(path.stat().st_size for path in TOY.iterdir()) <= 300_000


def test_archive_has_no_time_or_name_inside() -> None:
    header = shipped("train").read_bytes()[:10]
    assert header[3] == 0  # no flags: no file name
    assert header[4:8] == bytes(4)  # no time


@pytest.mark.parametrize("split", SPLITS)
def test_toy_trees_are_valid(split: str) -> None:
    for rows in sentences(text_of(shipped(split))):
        assert [row[0] for row in rows] == [str(i) for i in range(1, len(rows) + 1)]
        assert all(len(row) == 10 and all(row) for row in rows)
        heads = [int(row[6]) for row in rows]
        assert heads.count(0) == 1
        assert all(0 <= head <= len(rows) and head != i for i, head in enumerate(heads, start=1))
        assert [row[7] == "root" for row in rows] == [head == 0 for head in heads]
        for start in range(1, len(rows) + 1):
            path, word = [], start
            while word:
                assert word not in path, "a circle"
                path.append(word)
                word = heads[word - 1]
        arcs = [tuple(sorted((i, head))) for i, head in enumerate(heads, start=1) if head]
        assert not any(a < c < b < d for a, b in arcs for c, d in arcs), "crossing arcs"


def test_subjects_agree_with_their_verbs() -> None:
    """The number of the subject shows on the finite verb or auxiliary, relative clauses in between or not."""
    checked = 0
    for rows in sentences(text_of(shipped("test"))):
        for subject in (row for row in rows if row[7] == "nsubj" and row[4] in ("NN", "NNS")):
            finite = [row for row in rows if row[0] == subject[6] or (row[6] == subject[6] and row[7] == "aux")]
            for tag in (row[4] for row in finite if row[4] in ("VBZ", "VBP")):
                assert tag == ("VBP" if subject[4] == "NNS" else "VBZ")
                checked += 1
    assert checked > 50


def test_splits_share_no_sentence() -> None:
    texts = [line for split in SPLITS for line in text_of(shipped(split)).split("\n") if line.startswith("# text = ")]
    assert len(texts) == len(set(texts))


def test_floors_of_the_toy_treebank_are_low() -> None:
    """Neither position nor frequency gives the trees away, and a few test words are new."""
    parsed = {split: list(sentences(text_of(shipped(split)))) for split in SPLITS}
    count = Counter(row[1] for rows in parsed["train"] for row in rows)
    forms = [[row[1] for row in rows] for rows in parsed["test"]]
    gold = [np.array([int(row[6]) for row in rows]) for rows in parsed["test"]]
    of_rules = floors(gold, None, [np.array([count[word] for word in words]) for words in forms])
    for rule in ("next_word", "nearest_rarer"):
        assert of_rules[rule]["with_punct"]["all"]["uuas"] <= 0.5
    unknown = sum(word not in count for words in forms for word in words) / sum(map(len, forms))
    assert 0.01 <= unknown <= 0.04


def test_seed_decides_the_text(toy: ModuleType) -> None:
    one, again, other = (toy.files(toy.generate(seed, 50, 10, 10)) for seed in (1, 1, 2))
    assert one == again
    assert all(one[name] != other[name] for name in one)


def test_test_set_does_not_depend_on_the_size_of_train(toy: ModuleType) -> None:
    small, large = (toy.files(toy.generate(1, train, 10, 10)) for train in (20, 60))
    assert small["test.conllu"] == large["test.conllu"]
    assert small["dev.conllu"] == large["dev.conllu"]


def test_check_prints_floors(toy: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert toy.main(["--out", str(tmp_path), "--train", "30", "--dev", "5", "--test", "5", "--check"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("nearest rarer") == len(SPLITS)
    assert "train: 30 sentences" in printed
