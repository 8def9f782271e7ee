"""The example beside a graph: short, quiet, and without this package, whatever the task and the vocabulary."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from export_graphs import run_alone
from made_tasks import Made
from run_of_every_task import OVERRIDES, TUPLES
from support import Invoke, workplace

from probtrans_cli.export.bundle import ALONE, EXAMPLE, PROGRAMS, alone, example_files

pytestmark = pytest.mark.usefixtures("quick")

LONGEST, WIDEST = 30, 120
OTHERS = {"numpy", "scipy", "sentencepiece", "tokenizers", "seqeval"}
"""What an example may import beside the standard library; all but the first inside of a function."""


@pytest.mark.parametrize("form", PROGRAMS)
def test_the_example_is_short(form: str) -> None:
    model: Any = SimpleNamespace(vocabulary=Made("tagging", 0).vocabulary, recipe=SimpleNamespace(name='a "b" \\c'))
    text = example_files(model, form)[EXAMPLE]
    compile(text, EXAMPLE, "exec")
    lines = text.splitlines()
    assert len(lines) <= LONGEST, text
    assert max(map(len, lines)) <= WIDEST, text


def test_what_the_example_imports_stands_beside_it() -> None:
    """No file of this package, and no package that is not named."""
    files = alone()
    names = {Path(name).stem for name in files}
    for name, text in files.items():
        tree = ast.parse(text)
        typing = {id(one) for block in ast.walk(tree) if isinstance(block, ast.If) for one in ast.walk(block)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.module in names, name
            elif isinstance(node, ast.ImportFrom | ast.Import) and id(node) not in typing:
                imported = [node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
                roots = {str(one).partition(".")[0] for one in imported}
                assert roots <= set(sys.stdlib_module_names) | OTHERS, (name, roots)
                assert node.col_offset or roots.isdisjoint(OTHERS - {"numpy"}), name


def test_the_modules_beside_it_can_be_imported_alone(tmp_path: Path) -> None:
    for name, text in alone().items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    script = f"import sys; sys.modules['probtrans_cli'] = None; sys.path.insert(0, '.'); import {ALONE}.export_answers"
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_an_example_says_nothing_beside_its_results(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what onnxruntime thinks of the graph; and a word that is alone has no head where there is no root."""
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(workplace(tmp_path))
    monkeypatch.setattr("probtrans_cli.export.measure.SENTENCES", 3)
    monkeypatch.setattr("probtrans_cli.export.measure.SPEED_SECONDS", 0.0)
    Path("tuples.jsonl").write_text(TUPLES * 4, "utf-8")
    assert invoke("train", "tiny.yaml", *OVERRIDES["openie"], "--run", "run").code == 0
    assert invoke("export", "run", "out", "--format", "onnx", "--arcs").code == 0
    assert "farmers/ARG1" in run_alone(Path("out").absolute(), "farmers fold two")
    assert invoke("train", "tiny.yaml", *OVERRIDES["tagging"], "--run", "alone").code == 0
    assert invoke("export", "alone", "one", "--format", "pt2", "--arcs").code == 0
    assert "<-" not in run_alone(Path("one").absolute(), "x")
