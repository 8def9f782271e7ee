"""The temperature that every training with labels finds on dev, stores, and uses where the recipe says so."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from support import workplace

import probtrans_cli
from probtrans_cli import atomic
from probtrans_cli.commands import train as runs
from probtrans_cli.commands.eval import EvalRequest, evaluate
from probtrans_cli.folders.checkpoints import locate

pytestmark = pytest.mark.usefixtures("quick")
TAGGING = ("task={kind: tagging, column: xpos}", "optim.lr=0.1", "train.epochs=3")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new workplace as the current folder."""
    monkeypatch.setattr(atomic, "sync", lambda path: None)
    monkeypatch.chdir(workplace(tmp_path))
    return tmp_path


def train(*overrides: str, run: str = "runs/one") -> dict[str, Any]:
    return runs.train(runs.TrainRequest("tiny.yaml", overrides, run=Path(run)))


def stored(run: str, name: str) -> Any:
    return json.loads((locate(run) / name).read_text("utf-8"))


def test_it_is_found_on_dev_and_stored() -> None:
    result = train(*TAGGING)
    found = result["temperature"]
    assert 0.25 < found["value"] < 8.0
    assert found["nll"] == pytest.approx(result["dev"]["loss"], rel=1e-5)
    assert found["nll_tempered"] < found["nll"]
    assert stored("runs/one", "config.json")["temperature"] == found["value"]
    assert stored("runs/one", "eval.json")["temperature"] == found
    assert probtrans_cli.load("runs/one").temperature == found["value"]
    assert f"temperature {found['value']:.4g}: dev nll" in Path("runs/one/log.txt").read_text("utf-8")
    assert "temperature" in runs.training_report(result)


def test_it_is_used_where_the_recipe_says_so() -> None:
    """The same training, and other probabilities: dev's loss is what was found with it, and the tags are the same."""
    plain, tempered = train(*TAGGING), train(*TAGGING, "predict.temperature=true", run="runs/two")
    assert tempered["temperature"] == plain["temperature"]
    assert tempered["dev"]["loss"] == pytest.approx(plain["temperature"]["nll_tempered"], rel=1e-4)
    for split in ("dev", "test"):
        assert tempered[split]["accuracy"] == plain[split]["accuracy"]
    again, _ = evaluate(EvalRequest("runs/two", threads=1))
    assert again["scores"]["test"]["loss"] == pytest.approx(tempered["test"]["loss"], rel=1e-6)
    assert plain["test"]["loss"] != pytest.approx(tempered["test"]["loss"], rel=1e-6)
    models = [probtrans_cli.load(name) for name in ("runs/one", "runs/two")]
    one, two = (next(iter(model.analyze(["the farmers fold a shirt"]))).prediction for model in models)
    assert one is not None
    assert two is not None
    assert one["tags"] == two["tags"]
    assert one["tag_probability"] != two["tag_probability"]


def test_classes_have_one_and_words_behind_masks_have_none(folder: Path) -> None:
    rows = [f"{word} goat runs\t{label}" for word, label in (("big", "x"), ("small", "y"), ("old", "x")) for _ in "ab"]
    (folder / "rows.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    data = "data={train: rows.tsv, dev: rows.tsv, format: table}"
    result = train(
        data, "task={kind: classification}", "model={root: {labels: 4}}", "train.epochs=2", run="runs/classes"
    )
    assert math.isfinite(result["temperature"]["value"])
    assert "temperature" not in train("train.epochs=1", run="runs/words")
    assert "temperature" not in stored("runs/words", "config.json")


def test_without_dev_there_is_none() -> None:
    result = train("data={train: train.conllu, test: test.conllu}", *TAGGING, "predict.temperature=true")
    assert "temperature" not in result
    assert probtrans_cli.load("runs/one").temperature is None
