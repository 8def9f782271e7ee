"""`log.tensorboard`: TensorBoard shows what metrics.jsonl has, also after a kill and where the package is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from small_trainings import metrics
from support import Invoke

from probtrans_cli.reports.scores import flattened
from probtrans_cli.training.loop import Trainer

pytestmark = pytest.mark.usefixtures("place")
Shown = dict[str, list[tuple[int, float]]]


def shown(run: str) -> Shown:
    """What TensorBoard shows of a run, by name: steps and values."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(f"{run}/tensorboard")
    events.Reload()
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def told(run: str) -> Shown:
    """The same from metrics.jsonl."""
    found: Shown = {}
    for line in metrics(run):
        for name, value in line.items():
            if name not in ("step", "split"):
                found.setdefault(f"{line['split']}/{name}", []).append((line["step"], value))
    return found


def as_told(values: Shown) -> Any:
    return {name: [(step, pytest.approx(value, rel=1e-6)) for step, value in pairs] for name, pairs in values.items()}


def test_it_has_what_metrics_has_and_the_final_scores(invoke: Invoke) -> None:
    ran = invoke("train", "tiny.yaml", "log.tensorboard=true", "--json")
    assert ran.code == 0, ran.err
    curves = shown("runs/tiny")
    final = {name: curves.pop(name) for name in list(curves) if name.startswith("final/")}
    assert curves == as_told(told("runs/tiny"))
    step = ran.json["step"]
    assert final == as_told(
        {
            f"final/{split}/{name}": [(step, value)]
            for split in ("dev", "test", "arc_temperature")
            for name, value in flattened(ran.json[split]).items()
        }
    )


def test_a_resumed_run_shows_no_update_twice(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped between two checkpoints, so that updates are repeated."""
    report = Trainer._report

    def dies(self: Trainer, *given: Any) -> None:
        report(self, *given)
        if self.state.step == 7:
            self.metrics.board.flush()
            raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_report", dies)
        assert invoke("train", "tiny.yaml", "log.tensorboard=true", "save.every_steps=4").code == 1
    assert max(step for step, _ in shown("runs/tiny")["train/loss"]) == 7
    ran = invoke("train", "runs/tiny", "--resume")
    assert ran.code == 0, ran.err
    curves = {name: pairs for name, pairs in shown("runs/tiny").items() if not name.startswith("final/")}
    assert curves == as_told(told("runs/tiny"))
    steps = [step for step, _ in curves["train/loss"]]
    assert steps == sorted(set(steps)) == list(range(1, len(steps) + 1))


def test_its_folder_belongs_to_the_run(invoke: Invoke) -> None:
    assert invoke("train", "tiny.yaml", "log.tensorboard=true", "train.epochs=1").code == 0
    assert invoke("train", "tiny.yaml", "train.epochs=1", "--overwrite").code == 0
    assert not Path("runs/tiny/tensorboard").exists()
    assert invoke("train", "tiny.yaml", "log.tensorboard=true", "train.epochs=1", "--overwrite").code == 0
    Path("runs/tiny/tensorboard/mine.txt").write_text("mine", encoding="utf-8")
    ran = invoke("train", "tiny.yaml", "train.epochs=1", "--overwrite")
    assert ran.code == 2
    assert "tensorboard/mine.txt" in ran.err
    assert Path("runs/tiny/tensorboard/mine.txt").read_text("utf-8") == "mine"


def test_a_missing_package_is_told_before_anything_is_done(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke("train", "tiny.yaml", "train.epochs=1").code == 0
    before = Path("runs/tiny/metrics.jsonl").read_bytes()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    ran = invoke("train", "tiny.yaml", "log.tensorboard=true", "train.epochs=1", "--overwrite")
    assert ran.code == 2
    assert "package tensorboard" in ran.err
    assert "pip install 'probtrans[tensorboard]'" in ran.err
    assert Path("runs/tiny/metrics.jsonl").read_bytes() == before
