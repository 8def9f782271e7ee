"""`export --format pt2` and `onnx` through the command: folder, report, and the example without this package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from export_graphs import run_alone
from support import Invoke, workplace

from probtrans_cli.trained.model import Model

pytestmark = pytest.mark.usefixtures("quick")

TEXTS = "Two cheap farmers fold every shirt.", "We sing"
PIECES = "data.vocabulary={kind: wordpiece, size: 120, lowercase: true}"
LAYERS = "{kind: transformer, width: 8, heads: 2, inner: 12, layers: 1, dropout: 0.0}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workplace as the current folder; graphs are measured over small batches."""
    monkeypatch.chdir(workplace(tmp_path))
    monkeypatch.setattr("probtrans_cli.export.measure.SENTENCES", 9)
    monkeypatch.setattr("probtrans_cli.export.measure.SPEED_SECONDS", 0.0)
    return tmp_path


def exported(invoke: Invoke, *options: str, train: tuple[str, ...] = ()) -> dict[str, Any]:
    """Train for a moment and export to `out`; the report."""
    assert invoke("train", "tiny.yaml", "train.steps=6", "optim.lr=0.05", *train, "--run", "run").code == 0
    ran = invoke("export", "run", "out", "--json", *options)
    assert ran.code == 0, ran.err
    assert json.loads(Path("out/EXPORT.json").read_text("utf-8")) == ran.json
    report: dict[str, Any] = ran.json
    return report


def expected_tags() -> Iterator[str]:
    """What the run says of the words."""
    for text in TEXTS:
        for analysis in Model.load("run").analyze([text], trees=False):
            assert analysis.prediction is not None
            yield from map("\t".join, zip(analysis.words, analysis.prediction["tags"], strict=True))


def test_a_tagger_with_arcs_for_torch(place: Path, invoke: Invoke) -> None:
    task = ("task={kind: tagging, column: xpos}", "model.distance=1", "model.iterations=1")
    report = exported(invoke, "--format", "pt2", "--arcs", "--dtype", "bfloat16", train=task)
    assert report["inputs"] == {"ids": ["batch", "tokens"], "mask": ["batch", "tokens"]}
    assert report["outputs"]["arcs"] == ["batch", 2, "tokens", "tokens"]
    assert report["words_per_second"].keys() == {"eager", "torch.export"}
    assert 0.0 < report["largest_relative_difference"] <= report["largest_difference"] < 0.1, "the weights are rounded"
    score = report["score"]
    assert score["metric"] == "accuracy"
    assert score["change"] == score["dev_exported"] - score["dev"]
    evaluated = invoke("eval", "run", "--split", "dev", "--json").json
    assert score["dev"] == pytest.approx(evaluated["scores"]["dev"]["accuracy"], abs=1e-9)
    said = run_alone(Path("out").absolute(), *TEXTS).splitlines()
    assert [line for line in said if "<-" not in line] == list(expected_tags())
    assert sum(" <- " in line for line in said) == 9
    assert not run_alone(Path("out").absolute(), "").strip(), "there is nothing to say of no words"
    assert str(Path.cwd()).encode() not in Path("out/model.pt2").read_bytes(), "no file of this machine is named"


def test_hidden_words_with_arcs(place: Path, invoke: Invoke) -> None:
    """A line for every [MASK], those of another text notwithstanding."""
    exported(invoke, "--format", "pt2", "--arcs", "--dtype", "float32")
    texts = ("the [MASK] sees [MASK] dogs", "we sing", "", "[MASK]")
    said = run_alone(Path("out").absolute(), *texts).splitlines()
    hidden = [line for line in said if "<-" not in line]
    assert [line[: len(texts[0])] for line in hidden] == [texts[0], texts[0], hidden[2][: len(texts[0])]]
    assert hidden[2].startswith("[MASK] ")
    assert len(said) == len(hidden) + sum(len(text.split()) for text in texts if " " in text), "a head is another word"


def test_a_transformer_of_pieces_in_8_bits_for_onnxruntime(place: Path, invoke: Invoke) -> None:
    pytest.importorskip("onnxruntime")
    task = ("task={kind: tagging, column: xpos}", f"model={LAYERS}", PIECES)
    report = exported(invoke, "--format", "onnx", "--dtype", "int8", train=task)
    assert report["inputs"].keys() == {"ids", "mask", "first"}
    assert report["words_per_second"].keys() == {"eager", "onnxruntime"}
    assert report["score"]["metric"] == "accuracy"
    assert b"MatMulInteger" in Path("out/model.onnx").read_bytes()
    assert len(run_alone(Path("out").absolute(), *TEXTS).splitlines()) == 9


def test_what_is_for_another_format_is_refused(place: Path, invoke: Invoke) -> None:
    assert invoke("train", "tiny.yaml", "train.steps=1", "model.heads=tree", "--run", "run").code == 0
    for options, message, hint in (
        (("--arcs",), "--arcs is for --format pt2 or onnx", "leave it out"),
        (("--format", "pt2", "--dtype", "int8"), "--dtype int8 is for --format onnx", "leave it out"),
        (("--format", "pt2"), "--format pt2: model.heads: tree has no form in a graph", "model.heads=independent"),
    ):
        ran = invoke("export", "run", "out", *options)
        assert ran.code == 2
        assert message in ran.err
        assert hint in ran.err
        assert not Path("out").exists()


def test_a_dev_corpus_that_is_gone_is_said(place: Path, invoke: Invoke) -> None:
    pytest.importorskip("onnxruntime")
    task = ("task={kind: tagging, column: xpos}", f"model={LAYERS}")
    assert invoke("train", "tiny.yaml", "train.steps=1", *task, "--run", "run").code == 0
    Path("dev.conllu").unlink()
    ran = invoke("export", "run", "out", "--format", "pt2", "--dtype", "float16", "--json")
    assert ran.code == 0
    assert ran.json["score"] is None
    assert "the score on dev was not measured" in ran.err


VOCABULARIES = {
    "words": ("{kind: words, lowercase: true, digits: true, features: {ngrams: 3}}", {"ids", "mask", "features"}),
    "sentencepiece": ("{kind: sentencepiece, size: 120}", {"ids", "mask", "first"}),
    "characters": ("{kind: char}", {"ids", "mask", "first"}),
    "pieces with features": (
        "{kind: wordpiece, size: 120, lowercase: true, features: {}}", {"ids", "mask", "first", "features"},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", VOCABULARIES)
def test_examples_look_words_up_as_the_model_does(name: str, place: Path, invoke: Invoke) -> None:
    vocabulary, inputs = VOCABULARIES[name]
    task = ("task={kind: tagging, column: xpos}", f"model={LAYERS}", f"data.vocabulary={vocabulary}")
    report = exported(invoke, "--format", "pt2", train=task)
    assert report["inputs"].keys() == inputs
    found = run_alone(Path("out").absolute(), *TEXTS).splitlines()
    assert found == list(expected_tags())
