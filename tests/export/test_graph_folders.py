"""`export --format pt2` and `onnx` through the command: folder, report, and the example, which answers as `parse` does.

The example runs in a process that cannot import this package.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from export_graphs import CASES, ENTITIES, LAYERS, NASTY, TAGGING, fitting, run_alone, vocabulary
from made_tasks import Made
from run_of_every_task import OVERRIDES
from support import Invoke, Stdin, refused

from probtrans_cli.export.bundle import ALONE, EXAMPLE, PROGRAMS, alone, example_files
from probtrans_cli.export.measure import alike
from probtrans_cli.trained.model import Model

TEXTS = "Two cheap farmers fold every shirt.", "We sing"
FIELD = ("model.distance=1", "model.iterations=1")
SHORT = ("train={steps: 40, batch_words: 60}", "optim.lr=0.05")


def exported(invoke: Invoke, *options: str, train: tuple[str, ...] = ()) -> dict[str, Any]:
    """Train for a moment and export to `out`; return the report."""
    ran = invoke("train", "tiny.yaml", "train.steps=6", "optim.lr=0.05", *train, "--run", "run").ok
    ran = invoke("export", "run", "out", "--json", *options).ok
    assert json.loads(Path("out/EXPORT.json").read_text("utf-8")) == ran.json
    report: dict[str, Any] = ran.json
    return report


# --- the example ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", PROGRAMS)
def test_the_example_is_short(form: str) -> None:
    made, recipe = Made("lm", 0), SimpleNamespace(name='a "b" \\c')
    model: Any = SimpleNamespace(vocabulary=made.vocabulary, task=made.task, recipe=recipe)
    text = example_files(model, form)[EXAMPLE]
    compile(text, EXAMPLE, "exec")
    lines = text.splitlines()
    assert len(lines) <= 30, text
    assert max(map(len, lines)) <= 120, text


def test_what_the_example_imports_stands_beside_it(tmp_path: Path) -> None:
    """No file of this package, and no package beside numpy but within functions; the files can be imported."""
    files, optional = alone(), {"scipy", "sentencepiece", "tokenizers"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
        tree = ast.parse(text)
        typing = {id(node) for block in ast.walk(tree) if isinstance(block, ast.If) for node in ast.walk(block)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert f"{ALONE}/{node.module}.py" in files, name
            elif isinstance(node, ast.ImportFrom | ast.Import) and id(node) not in typing:
                imported = [node.module] if isinstance(node, ast.ImportFrom) else [it.name for it in node.names]
                roots = {str(it).partition(".")[0] for it in imported}
                assert roots <= set(sys.stdlib_module_names) | {"numpy"} | optional, (name, roots)
                assert node.col_offset or roots.isdisjoint(optional), name
    script = "import sys; sys.modules['probtrans_cli'] = None; sys.path.insert(0, '.'); import alone.export_answers"
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


# --- folders ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_tagger_with_arcs_for_torch(place: Path, invoke: Invoke) -> None:
    report = exported(invoke, "--format", "pt2", "--arcs", "--dtype", "bfloat16", train=(*TAGGING, *FIELD))
    assert report["inputs"] == {"ids": ["batch", "tokens"], "mask": ["batch", "tokens"]}
    assert report["outputs"]["arcs"] == ["batch", 2, "tokens", "tokens"]
    assert report["words_per_second"].keys() == {"eager", "torch.export"}
    assert 0.0 < report["largest_relative_difference"] <= report["largest_difference"] < 0.1, "the weights are rounded"
    score = report["score"]
    assert score["metric"] == "accuracy"
    assert score["change"] == score["dev_exported"] - score["dev"]
    evaluated = invoke("eval", "run", "--split", "dev", "--json").json
    assert score["dev"] == pytest.approx(evaluated["scores"]["dev"]["accuracy"], abs=1e-9)
    lines = run_alone(Path("out").absolute(), *TEXTS, "", "x").splitlines()
    expected = []
    for analysis in Model.load("run").analyze([*TEXTS, "x"], trees=False):
        assert analysis.prediction is not None
        expected += map("\t".join, zip(analysis.words, analysis.prediction["tags"], strict=True))
    assert [line for line in lines if "<-" not in line] == expected
    assert sum(" <- " in line for line in lines) == 9, "a word that is alone has no head where there is no root"
    assert str(Path.cwd()).encode() not in Path("out/model.pt2").read_bytes(), "no file of this machine is named"


@pytest.mark.slow
def test_hidden_words_with_arcs(place: Path, invoke: Invoke) -> None:
    """A line for every [MASK], those of another text notwithstanding."""
    exported(invoke, "--format", "pt2", "--arcs", "--dtype", "float32", train=FIELD)
    texts = ("the [MASK] sees [MASK] dogs", "we sing", "", "[MASK]")
    lines = run_alone(Path("out").absolute(), *texts).splitlines()
    hidden = [line for line in lines if "<-" not in line]
    assert [line[: len(texts[0])] for line in hidden] == [texts[0], texts[0], hidden[2][: len(texts[0])]]
    assert hidden[2].startswith("[MASK] ")
    assert len(lines) == len(hidden) + sum(len(text.split()) for text in texts if " " in text), "heads are other words"


@pytest.mark.slow
def test_a_transformer_of_pieces_in_8_bits_for_onnxruntime(place: Path, invoke: Invoke) -> None:
    pytest.importorskip("onnxruntime")
    pieces = vocabulary("kind: wordpiece, size: 120, lowercase: true", *TAGGING)
    report = exported(invoke, "--format", "onnx", "--dtype", "int8", train=pieces)
    assert report["inputs"].keys() == {"ids", "mask", "first"}
    assert report["words_per_second"].keys() == {"eager", "onnxruntime"}
    assert report["score"]["metric"] == "accuracy"
    assert b"MatMulInteger" in Path("out/model.onnx").read_bytes()
    assert len(run_alone(Path("out").absolute(), *TEXTS).splitlines()) == 9


def test_what_is_for_another_format_is_refused(place: Path, invoke: Invoke) -> None:
    assert invoke("train", "tiny.yaml", "train.steps=1", "model.heads=tree", "--run", "run").code == 0
    parser = "data.format=treebank", "task={kind: parsing, heads: tree}"
    assert invoke("train", "tiny.yaml", "train.steps=1", *parser, "--run", "parser").code == 0
    for run, options, message, hint in (
        ("run", ("--arcs",), "--arcs is for --format pt2 or onnx", "leave it out"),
        ("run", ("--format", "pt2", "--dtype", "int8"), "--dtype int8 is for --format onnx", "leave it out"),
        ("parser", ("--format", "onnx"), "task.heads: tree has no form in a graph", "task.heads=independent"),
        (
            "run",
            ("--format", "pt2"),
            "--format pt2: model.heads: tree has no form in a graph",
            "model.heads=independent",
        ),
    ):
        refused(invoke("export", run, "out", *options), 2, message, hint)
        assert not Path("out").exists()


@pytest.mark.slow
def test_a_dev_corpus_that_is_gone_is_reported(place: Path, invoke: Invoke) -> None:
    train = (*TAGGING, f"model={LAYERS}", "train.steps=1")
    assert invoke("train", "tiny.yaml", *train, "--run", "run").code == 0
    Path("dev.conllu").unlink()
    ran = invoke("export", "run", "out", "--format", "pt2", "--dtype", "float16", "--json")
    assert ran.code == 0
    assert ran.json["score"] is None
    assert "the score on dev was not measured" in ran.err


def end_to_end(invoke: Invoke, form: str, *train: str, texts: Sequence[str] = NASTY) -> None:
    """Train and export; compare the example and `parse` on the lines of a file."""
    if form == "onnx":
        pytest.importorskip("onnxruntime")
    report = exported(invoke, "--format", form, train=(*train, *SHORT))
    assert report["compared"]["texts"] == report["compared"]["same"] > 0
    assert report["left_out"]
    texts = fitting(texts, report["longest"])
    Path("texts").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    parsed = invoke(
        "parse", "run", "texts", "--input", "text", "--no-split", "--trees", "no", "-f", "jsonl"
    ).out.splitlines()
    lines = run_alone(Path("out").absolute(), "--json", "--file", str(Path("texts").absolute())).splitlines()
    assert len(lines) == len(texts)
    for text, line, expected in zip(texts, lines, parsed, strict=True):
        assert alike(json.loads(expected), json.loads(line)), (text, expected, line)


@pytest.mark.parametrize(
    ("form", "options"),
    [
        pytest.param("pt2", (*ENTITIES, f"model={LAYERS}"), marks=pytest.mark.slow),
        ("onnx", vocabulary("kind: char", *TAGGING)),
    ],
    ids=["pt2", "onnx"],
)
def test_a_folder_answers_as_parse_does(form: str, options: tuple[str, ...], place: Path, invoke: Invoke) -> None:
    end_to_end(invoke, form, *options)


@pytest.mark.slow
@pytest.mark.parametrize("form", PROGRAMS)
def test_a_language_model_is_a_step(form: str, place: Path, invoke: Invoke, stdin: Stdin) -> None:
    """By which the example gives surprisals, and goes on with texts as `generate` does."""
    sizes = "{causal: true, chain: true, labels: 8, channels: 2, iterations: 1, distance: 1}"
    few = [text for text in NASTY if len(text.split()) < 99]  # over so many words, rounding adds up
    end_to_end(invoke, form, "task={kind: lm}", f"model={sizes}", texts=few)
    texts = "two cheap", "", "Aardvarks fold"
    for options in (("--temperature", "0.0"), ("--seed", "3", "--top-k", "9", "--top-p", "0.9")):
        out = run_alone(Path("out").absolute(), "--words", "5", *options, *texts)
        stdin("".join(f"{text}\n" for text in texts).encode())
        assert invoke("generate", "run", "--words", "5", *options).out == out
    folder = Path("out").absolute()
    failed = subprocess.run(
        [sys.executable, folder / "example.py", "--top-p", "2", "two"], capture_output=True, text=True, timeout=60
    )
    assert (failed.returncode, failed.stderr) == (2, "error: top_p 2.0: is out of range\n")


PAIRS = list(zip((kind for kind in OVERRIDES if kind != "lm"), cycle(["pt2", "onnx"]), strict=False))


@pytest.mark.parametrize(
    ("kind", "form"),
    [pytest.param(*pair, marks=(pytest.mark.slow, pytest.mark.exhaustive)[k // 2 % 2]) for k, pair in enumerate(PAIRS)],
)
def test_a_folder_of_every_task_answers_as_parse_does(kind: str, form: str, place: Path, invoke: Invoke) -> None:
    """With a transformer, which is traced in a moment."""
    end_to_end(invoke, form, *OVERRIDES[kind], f"model={LAYERS}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", ["pt2", "onnx"])
@pytest.mark.parametrize("name", CASES)
def test_every_folder_answers_as_parse_does(name: str, form: str, place: Path, invoke: Invoke) -> None:
    end_to_end(invoke, form, *CASES[name])
