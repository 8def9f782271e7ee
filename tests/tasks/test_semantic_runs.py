"""COGS end to end: from forms and from labels, trained and evaluated, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from small_forms import BEYOND, LINES, NEW, ROWS, Parent
from support import Invoke, refused, values_of

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers.cogs import CASES, read_cogs
from probtrans_cli.recipe.task import LABELS_OF_COGS

RECIPE = """\
name: forms
data: {train: train.tsv, dev: dev.tsv, test: gen.tsv, format: cogs}
task: {kind: cogs}
model: {labels: 6, channels: 2, iterations: 2}
optim: {lr: 0.05}
train: {steps: 2}
runtime: {device: cpu, threads: 1}
"""


def as_labels(lines: list[str]) -> str:
    text = ""
    for example in read_cogs(lines, "x"):
        labels = example.analysis
        record = {
            "tokens": example.words, "parent": labels.parents, "role": labels.role, "category": labels.category,
            "noun_type": labels.noun_type, "verb_name": labels.verb_name, "distribution": example.distribution,
        }  # fmt: skip
        text += json.dumps(record) + "\n"
    return text


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "none"))
    (tmp_path / "r.yaml").write_text(RECIPE)
    for name, lines in (("train", LINES), ("dev", LINES[::2]), ("gen", [*LINES, BEYOND, NEW])):
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
        (tmp_path / f"{name}.jsonl").write_text(as_labels(lines))
    return tmp_path


COLUMN = {"relative": "offset", "absolute": "position", "category": "by_category", "attention": "parents"}


@pytest.mark.parametrize(
    ("parent", "overrides"),
    [
        ("relative", []),
        ("absolute", ["data.vocabulary={kind: sentencepiece, size: 40, algorithm: bpe}"]),
        ("attention", ["model={kind: transformer, width: 8, inner: 8, heads: 2, layers: 1}"]),
        ("relative", ["data={train: train.jsonl, dev: dev.jsonl, test: gen.jsonl, format: cogs}"]),
    ],
)
def test_train_and_eval(parent: Parent, overrides: list[str], here: Path, invoke: Invoke) -> None:
    ran = invoke("train", "r.yaml", f"task.parent={parent}", *overrides, "--json")
    assert ran.code == 0, ran.err
    test = ran.json["test"]
    columns = [f"exact_{name}" for name in (*LABELS_OF_COGS, COLUMN[parent])]
    forms = [] if "jsonl" in str(overrides) else ["form"]
    assert test.keys() == {*forms, "exact", *columns, "labels", "loss", "exact_interval", "cases"}
    again = invoke("eval", "runs/forms", "--json", "--require", "exact_role>=0", "--require", "labels>=0")
    assert again.code == 0, again.err
    scores = again.json["scores"]["test"]
    low, high = scores.pop("exact_interval")
    assert [low, high] == pytest.approx(test.pop("exact_interval"))
    assert low <= test["exact"] <= high
    cases, stored = scores.pop("cases"), test.pop("cases")
    assert cases == stored
    assert list(cases) == ["cp_recursion", "in_distribution", "obj_pp_to_subj_pp", "other", "primitive"]
    other = invoke("eval", "runs/forms", "dev.jsonl" if overrides and not forms else "dev.tsv")
    assert other.code == 0, other.err
    lines = re.sub(r",\n *", ", ", other.out).splitlines()
    assert lines[1].count(" %") == lines[1].count(", ") + 1  # all but the loss, and once for the interval
    rows = [line.split() for line in lines if line.split() and line.split()[0] in (*CASES, "other")]
    assert [row[0] for row in rows] == ["cp_recursion", "in_distribution", "other", "primitive"]
    assert all(row[2] == "%" for row in rows)
    assert invoke("eval", "runs/forms", "--require", "exact>=1.5").code == 7
    assert "names no extra file" in invoke("eval", "runs/forms", "--split", "extra").err


@pytest.mark.parametrize("lower", [pytest.param(6, marks=pytest.mark.slow), 8])
def test_verbs_and_categories_by_the_word_alone(lower: int, here: Path, invoke: Invoke) -> None:
    """The same in every sentence; scores and representations must have one width."""
    below, above = (f"{{kind: probabilistic, labels: {size}, channels: 1}}" for size in (lower, 6))
    stack = f"model={{kind: stacked, lower: {below}, upper: {above}}}"
    ran = invoke("train", "r.yaml", "task.verb=word", "task.category=word", stack, "train.steps=40")
    if lower == 8:
        assert ran.code == 2
        for key in ("verb", "category"):
            assert f"task.{key}: a word's unary scores are 8 numbers and its representation 6: choose" in ran.err
        return
    assert ran.code == 0, ran.err
    Path("sunk.txt").write_text("Wim sank .\notter kite sank the shelf sank otter\n")
    ran = invoke("parse", "runs/forms", "sunk.txt", "-f", "jsonl", "--input", "tokens", "--trees", "no")
    first, second = (json.loads(line) for line in ran.out.splitlines())
    assert {first["labels"]["verb_name"][1]} == {second["labels"]["verb_name"][i] for i in (2, 5)}
    assert {second["labels"]["category"][i] for i in (0, 6)} == {"CNOUN"}


@pytest.mark.slow
def test_corrected_and_original_rows_are_told_side_by_side(here: Path, invoke: Invoke) -> None:
    """`data.extra`: the same sentences, of one of which a role was another."""
    lines = as_labels(LINES).splitlines()
    record = json.loads(lines[0])
    record["role"] = ["theme" if role == "agent" else role for role in record["role"]]
    assert json.dumps(record) != lines[0]
    learn = ["train.steps=150", "data.extra=original.jsonl", "data.test=train.tsv"]
    learn += ["model={labels: 32, channels: 2, iterations: 2, dropout: 0.0, word_std: 1.0}", "optim.lr=0.02"]
    Path("original.jsonl").write_text("\n".join([json.dumps(record), *lines[1:]]) + "\n")
    ran = invoke("train", "r.yaml", *learn, "--seeds", "0,1", "--json")
    assert ran.code == 0, ran.err
    for run in ran.json["runs"]:
        assert run["test"]["exact"] - run["extra"]["exact"] == pytest.approx(1 / len(LINES))
    assert ran.json["extra"]["mean"]["exact"] < ran.json["mean"]["exact"]
    assert "form" not in ran.json["extra"]["mean"]
    shown = invoke("eval", "runs/forms-seed0", "--split", "extra", "--json")
    assert shown.json["scores"]["extra"] == ran.json["runs"][0]["extra"]
    table = invoke("table", "runs/forms-seed0", "runs/forms-seed1")
    assert "extra" in table.out.splitlines()[0]
    chosen = invoke("eval", "runs/forms-seed0", "--split", "extra", "--choose")
    assert "the test set chooses nothing" in chosen.err
    without = invoke("eval", "runs/forms-seed0", "--split", "dev")
    assert without.code == 0


def test_labels_alone_train_what_forms_do(here: Path, invoke: Invoke) -> None:
    for ending in ("tsv", "jsonl"):
        files = f"data={{train: train.{ending}, dev: dev.{ending}, format: cogs, prepared: {ending}}}"
        assert invoke("prepare", "r.yaml", files).code == 0
    assert Path("tsv/labels.json").read_text() == Path("jsonl/labels.json").read_text()
    first, second = (Split(Path(ending) / "train.arrow") for ending in ("tsv", "jsonl"))
    for name in ("ids", "role", "category", "noun_type", "verb_name", "offset", "position", "parents", "case"):
        assert np.array_equal(values_of(first, name), values_of(second, name))
    assert [first.text("form", index) for index in range(7)] == [row[1] for row in ROWS]
    assert [first.text("spelling", index) for index in range(7)] == [row[0] for row in ROWS]
    assert not second.has("form")


@pytest.mark.parametrize(
    ("ending", "line", "message"),
    [
        ("tsv", "Wim sank .", "train.tsv:8: 1 column instead of 3"),
        ("tsv", "Wim sank .\tsink . theme ( x _ 7 , Wim )\tx", "train.tsv:8: "),
        ("tsv", "", "train.tsv:8: 1 column instead of 3"),
        ("jsonl", '{"tokens": []}', "train.jsonl:8: parent: Field required"),
        ("jsonl", LINES[0], "train.jsonl:8: not JSON"),
    ],
)
def test_a_bad_line_is_named(ending: str, line: str, message: str, here: Path, invoke: Invoke) -> None:
    with (here / f"train.{ending}").open("a") as file:
        file.write(line + "\n")
    refused(invoke("prepare", "r.yaml", f"data.train=train.{ending}", "--check"), 3, message)


def test_prepare_shows_what_there_is(here: Path, invoke: Invoke) -> None:
    ran = invoke("prepare", "r.yaml", "--check")
    assert ran.code == 0, ran.err
    assert "case: 4 labels: in_distribution 2, primitive 2, cp_recursion 1" in ran.out
    assert "verb_name: 6 labels: none 24, sink 3," in ran.out
    (here / "train.tsv").write_text("")
    refused(invoke("prepare", "r.yaml", "--check"), 3, "train.tsv: no sentence in it")
