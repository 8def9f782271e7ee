"""Named entities from column files, end to end: trained, evaluated, and what is said of their tags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_entities import DEV, TRAIN
from support import Invoke

from probtrans_cli.reports.scores import flattened

RECIPE = """\
name: names
data: {train: train.txt, dev: dev.txt, test: dev.txt, format: columns, columns: {entities: bioes}}
task: {kind: ner}
model: {labels: 6, channels: 2, iterations: 2}
optim: {lr: 0.05}
train: {steps: 2}
runtime: {device: cpu, threads: 1}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "none"))
    (tmp_path / "r.yaml").write_text(RECIPE)
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "dev.txt").write_text(f"-DOCSTART- O\n\n{DEV}")
    (tmp_path / "other.txt").write_text("Wim B-PER\nVos I-PER\n")
    return tmp_path


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["data.columns.entities=iob2", "task.loss=sentences", "task.word_dropout=0.5"],
        ["data.vocabulary={kind: sentencepiece, size: 40, algorithm: bpe}"],
        ["model={kind: transformer, width: 8, inner: 8, heads: 2, layers: 1}"],
    ],
    ids=["bioes", "iob2", "pieces", "transformer"],
)
def test_train_and_eval(overrides: list[str], here: Path, invoke: Invoke) -> None:
    ran = invoke("train", "r.yaml", *overrides, "--json")
    assert ran.code == 0, ran.err
    test = ran.json["test"]
    assert test.keys() >= {"f1", "f1_strict", "precision", "recall", "accuracy", "loss", "f1_PER", "f1_PRIZE"}
    again = invoke("eval", "runs/names", "--json", "--require", "f1>=0", "--require", "f1_PRIZE == 0")
    assert again.code == 0, again.err
    assert flattened(again.json["scores"]["test"]) == pytest.approx(flattened(test))
    assert invoke("eval", "runs/names", "--require", "f1>=1.5").code == 7
    other = invoke("eval", "runs/names", "other.txt")
    assert other.code == 0, other.err
    for name in ("f1", "f1_strict", "precision", "recall", "f1_PER"):
        assert f" {name} " in other.out
    assert other.out.count(" %") == len(other.out.split(", ")) - 1  # all but the loss


def test_the_tags_of_columns_without_entities(here: Path, invoke: Invoke) -> None:
    tagging = ["task={kind: tagging, column: tag}", "data.columns={word: 0, tag: 1}"]
    ran = invoke("train", "r.yaml", *tagging, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(Path("runs/names/checkpoints/best/labels.json").read_text())["tag"][0] == "O"
    ran = invoke("train", "r.yaml", *tagging, "task.column=pos", "--overwrite")
    assert ran.code == 3
    assert "task.column: the data has no column 'pos'" in ran.err
    assert "set task.column=tag" in ran.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("alone", "train.txt:21: 1 column, so that the word (column 0) and the tag (column -1) are the same"),
        ("x\t", "train.txt:21: the tag (column -1 of 2) is empty"),
        ("x I-PER", "train.txt:21: I-PER after I-SHIP; in iob2 I-PER comes only after B-PER or I-PER"),
        ("x PER", "train.txt:21: 'PER' is no tag of iob2 (O, B-TYPE, I-TYPE)"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str, here: Path, invoke: Invoke) -> None:
    with (here / "train.txt").open("a") as file:
        file.write(f"{line}\n\ny I-LOC\nz B-LOC\n")
    ran = invoke("prepare", "r.yaml", "--check", "data.columns.strict=true")
    assert ran.code == 3
    assert message in ran.err
    assert "data.columns.scheme" in ran.err or "columns count from 0" in ran.err
    assert "bioes" not in ran.err, "of the scheme that fits longest alone"


def test_tags_of_another_scheme_than_the_recipe_says(here: Path, invoke: Invoke) -> None:
    ran = invoke("prepare", "r.yaml", "data.columns.scheme=bioes", "data.columns.strict=true")
    assert ran.code == 3
    assert "train.txt:3: O after I-PER; in bioes only I-PER or E-PER follows it" in ran.err
    assert "the tags are read as bioes" in ran.err
    (here / "train.txt").write_text("Wim U-PER\n")
    ran = invoke("prepare", "r.yaml", "data.columns.scheme=bioes")
    assert ran.code == 3
    assert "train.txt:1: 'U-PER' is no tag of bioes" in ran.err


CONLL = """\
-DOCSTART- -X- -X- O

The DT I-NP O
Atlanta NNP I-NP B-MISC
Games NNPS I-NP I-MISC
were VBD I-VP O
in IN I-PP O
Atlanta NNP I-NP I-LOC

Urdu-speaking JJ I-NP B-MISC
people NNS I-NP O
of IN I-PP O
Lahore NNP I-NP I-LOC
Karachi NNP I-NP B-LOC

Baku NNP I-NP I-LOC
"""
OF_CONLL = ["data.columns={word: 0, tag: 3, entities: bioes}", "data.dev=null", "data.test=null"]


@pytest.mark.parametrize(
    ("scheme", "refused"),
    [("auto", "train.txt:8: I-LOC after O; in iob2 "), ("iob1", "train.txt:4: B-MISC after O; in iob1 ")],
)
def test_a_tag_whose_meaning_is_clear_is_read_and_told_once(
    scheme: str, refused: str, here: Path, invoke: Invoke
) -> None:
    """As if the file were right, and with a warning."""
    (here / "train.txt").write_text(CONLL.replace("B-MISC", "I-MISC"))
    right = invoke("prepare", "r.yaml", *OF_CONLL)
    assert (right.code, right.err) == (0, "")
    (here / "train.txt").write_text(CONLL)
    for state in ("prepared", "up to date"):
        ran = invoke("prepare", "r.yaml", *OF_CONLL, f"data.columns.scheme={scheme}")
        assert ran.code == 0, ran.err
        assert ran.out.splitlines()[-1].startswith(state)
        assert ran.out.splitlines()[:-1] == right.out.splitlines()[:-1]
        assert ran.err == (
            "warning: train.txt:4: B-MISC after O; in iob1 B-MISC comes only after B-MISC or I-MISC. "
            "2 such tags in this file are read as conlleval reads them; data.columns.strict=true refuses them\n"
        )
    ran = invoke("prepare", "r.yaml", *OF_CONLL, f"data.columns.scheme={scheme}", "data.columns.strict=true")
    assert ran.code == 3
    assert refused in ran.err


def test_a_tag_that_no_scheme_can_mean_is_refused(here: Path, invoke: Invoke) -> None:
    (here / "train.txt").write_text(CONLL.replace("Lahore NNP I-NP I-LOC", "Lahore NNP I-NP X-PER"))
    ran = invoke("prepare", "r.yaml", *OF_CONLL)
    assert ran.code == 3
    assert "train.txt:13: 'X-PER' is no tag of iob2 (O, B-TYPE, I-TYPE)" in ran.err
    assert "warning" not in ran.err


def test_eval_tells_of_tags_that_are_read_all_the_same(here: Path, invoke: Invoke) -> None:
    assert invoke("train", "r.yaml").code == 0
    (here / "other.txt").write_text("Wim I-PER\nVos I-PER\nin O\nElst B-LOC\nsank B-LOC\n")
    ran = invoke("eval", "runs/names", "other.txt", "--json")
    assert ran.code == 0, ran.err
    assert ran.err.count("warning: other.txt") == 1
    first = "I-PER at the start; in iob2 I-PER comes only after B-PER or I-PER"
    assert f"warning: other.txt:1: {first}. This tag is read as conlleval reads it" in ran.err


@pytest.mark.parametrize("scheme", ["auto", "bilou"])
def test_every_scheme_that_is_found_can_be_named(scheme: str, here: Path, invoke: Invoke) -> None:
    (here / "train.txt").write_text("Wim B-PER\nVos L-PER\nsails O\n\nElst U-LOC\n")
    ran = invoke("prepare", "r.yaml", "data.dev=null", "data.test=null", f"data.columns.scheme={scheme}")
    assert ran.code == 0, ran.err
    assert "tag  4 labels: B-PER 1, E-PER 1, O 1, S-LOC 1" in ran.out


def test_labels_that_train_lacks_and_a_train_without_entities_are_told_of(here: Path, invoke: Invoke) -> None:
    ran = invoke("prepare", "r.yaml", "data.columns.entities=iob2")
    wrong = "counted as wrong, left out of the loss"
    message = f"5 of 16 labels in column tag are not in train: {wrong}: B-PRIZE (2), I-PRIZE (2), I-LOC (1)\n"
    assert ran.err == f"warning: data.dev: {message}warning: data.test: {message}"
    (here / "train.txt").write_text("Wim O\nsails O\n\nrain O\n")
    ran = invoke("prepare", "r.yaml", "data.dev=null", "data.test=null")
    assert (ran.code, ran.err) == (
        0,
        "warning: data.train: all labels are the same (tag O): there is nothing to learn\n",
    )


def test_lines_of_different_columns(here: Path, invoke: Invoke) -> None:
    """Counted from the end, the tag may stand behind any number of others."""
    (here / "train.txt").write_text("Wim NNP x B-PER\nsails VB O\n\nrain\tO\n")
    ran = invoke("prepare", "r.yaml", "--check")
    assert ran.code == 0, ran.err
    assert "tag  2 labels: O 2, S-PER 1" in ran.out
    ran = invoke("prepare", "r.yaml", "data.columns.tag=2")
    assert ran.code == 3
    assert "train.txt:4: 2 columns, but the tag is column 2" in ran.err
