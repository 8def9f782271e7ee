"""The example beside a graph: short, and quiet, whatever the task and the vocabulary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from export_graphs import graph_of, run_alone
from made_tasks import EVERY, Made, read
from run_of_every_task import OVERRIDES, TUPLES
from support import Invoke, workplace

from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.enclosed import enclosing
from probtrans_cli.export.example import OPENED, example_files
from probtrans_cli.recipe.data import CharacterVocabulary, WordPieceVocabulary, WordVocabulary

pytestmark = pytest.mark.usefixtures("quick")

LONGEST, WIDEST = 30, 120
FEATURES: Any = {"features": {"ngrams": 3}, "lowercase": True}
VOCABULARIES = {
    "words": WordVocabulary(min_count=1, digits=True, **FEATURES),
    "characters": CharacterVocabulary(kind="char"),
    "pieces": WordPieceVocabulary(kind="wordpiece", size=120, **FEATURES),
}


@EVERY
@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_example_is_short(name: str, kind: str, number: int) -> None:
    """With arcs where there are some, and features of the words' spelling."""
    made = Made(kind, number)
    sentences = read(kind)
    if sentences[0].extra and name == "characters":
        pytest.skip("such a vocabulary has no extra words")
    vocabulary = build_vocabulary(VOCABULARIES[name], [one.words for one in sentences], sentences[0].extra)
    vocabulary = enclosing(vocabulary) if kind == "pretrain" else vocabulary
    plan = graph_of(made, arcs=made.network.encoder.section.kind == "probabilistic").plan
    first = {"first"} if vocabulary.divides and plan.words else set()
    features = {"features"} if vocabulary.features is not None else set()
    plan = replace(plan, inputs=tuple({*plan.inputs} | first | features))
    model: Any = SimpleNamespace(
        vocabulary=vocabulary, task=made.task, network=made.network, recipe=SimpleNamespace(name=kind),
        reading=SimpleNamespace(channel="mean"),
    )  # fmt: skip
    for form in OPENED:
        text = example_files(model, plan, form)["example.py"]
        compile(text, "example.py", "exec")
        lines = text.splitlines()
        assert len(lines) <= LONGEST, text
        assert max(map(len, lines)) <= WIDEST, text


def test_an_example_says_nothing_beside_its_results(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what onnxruntime thinks of the graph; and a word that is alone has no head where there is no root."""
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(workplace(tmp_path))
    monkeypatch.setattr("probtrans_cli.export.difference.SENTENCES", 3)
    monkeypatch.setattr("probtrans_cli.export.difference.SPEED_SECONDS", 0.0)
    Path("tuples.jsonl").write_text(TUPLES * 4, "utf-8")
    assert invoke("train", "tiny.yaml", *OVERRIDES["openie"], "--run", "run").code == 0
    assert invoke("export", "run", "out", "--format", "onnx", "--arcs").code == 0
    assert "farmers/ARG1" in run_alone(Path("out").absolute(), "farmers fold two")
    assert invoke("train", "tiny.yaml", *OVERRIDES["tagging"], "--run", "alone").code == 0
    assert invoke("export", "alone", "one", "--format", "pt2", "--arcs").code == 0
    assert "<-" not in run_alone(Path("one").absolute(), "x")
