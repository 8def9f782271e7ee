"""Starting with the output layer of a grid: tuples and coordinations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_extractors import COORDINATED, RECIPE, TRANSFORMER, extags

from probtrans_cli.__main__ import run
from probtrans_cli.openie import coordinations, extractions
from probtrans_cli.trained.model import Model

KINDS = {"openie": "extractions", "coordination": "coordinations"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, form in KINDS.items():
        Path(f"{kind}.txt").write_text(extags() if kind == "openie" else COORDINATED, encoding="utf-8")
        text = RECIPE.format(name=kind, form=form, kind=kind, rows=2, model=TRANSFORMER, epochs=1, lr=0.01)
        Path(f"{kind}.yaml").write_text(text, encoding="utf-8")


def train(kind: str, name: str, *options: str) -> Model:
    assert run(["train", f"{kind}.yaml", f"name={name}", "runtime.device=cpu", *options, "--json"]) == 0
    return Model.load(f"runs/{name}")


def started(kind: str, name: str, *options: str) -> Model:
    """A run that starts with `runs/first` and does not move."""
    return train(kind, name, "--init-from", "runs/first", "optim.lr=1.0e-12", *options)


def tensors(model: Model) -> dict[str, torch.Tensor]:
    return {key: value for key, value in model.network.state_dict().items() if key.startswith("output.")}


def lines(message: str) -> dict[str, str]:
    parts = (line.strip().partition(": ") for line in message.splitlines())
    return {name: rest for name, _, rest in parts if name in ("not there, drawn at random", "left there")}


@pytest.mark.parametrize("kind", KINDS)
def test_the_output_layer_of_the_same_task_is_loaded(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    first = train(kind, "first", "task.decision_bias=-0.75")
    capfd.readouterr()
    second = started(kind, "second")
    message = capfd.readouterr().err
    assert lines(message) == {}
    assert "labels are" not in message
    ours, theirs = tensors(second), tensors(first)
    assert ours.keys() == theirs.keys() >= {"output.merge.weight", "output.label.weight", "output.table.weight"}
    for key in ours.keys() - {"output.none_bias"}:  # which dev chooses again
        torch.testing.assert_close(ours[key], theirs[key], rtol=0, atol=1e-6)


def test_the_bias_of_the_other_run_is_what_the_training_begins_with(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    train("openie", "first", "task.decision_bias=-0.75")
    monkeypatch.setattr("probtrans_cli.openie.tasks.BIASES", ())  # dev chooses nothing
    assert float(tensors(started("openie", "second"))["output.none_bias"]) == -0.75
    capfd.readouterr()
    third = started("openie", "third", "task.decision_bias=-0.25")  # what the recipe says, it says
    assert float(tensors(third)["output.none_bias"]) == -0.25
    assert lines(capfd.readouterr().err) == {"left there": "output.none_bias"}


def test_of_other_labels_those_with_the_same_name_are_taken(capfd: pytest.CaptureFixture[str]) -> None:
    first = train("coordination", "first")
    capfd.readouterr()
    second = started("openie", "second")
    message = capfd.readouterr().err
    assert f"5 of 6 labels are not there, drawn at random: {', '.join(extractions.LABELS[1:4])}" in message
    assert f"5 of its 6 labels are left there: {', '.join(coordinations.LABELS[1:4])}" in message
    ours, theirs = tensors(second), tensors(first)
    for name in ("merge.weight", "merge.bias"):
        torch.testing.assert_close(ours[f"output.{name}"], theirs[f"output.{name}"], rtol=0, atol=1e-6)
    for name in ("label.weight", "label.bias", "table.weight"):
        one, other = ours[f"output.{name}"], theirs[f"output.{name}"]
        torch.testing.assert_close(one[0], other[0], rtol=0, atol=1e-6)  # NONE
        assert not torch.isclose(one[1:], other[1:], rtol=0, atol=1e-6).any()


def test_a_layer_of_another_size_is_learned_afresh(capfd: pytest.CaptureFixture[str]) -> None:
    first = train("openie", "first", "task.merge_dim=8")
    capfd.readouterr()
    second = started("openie", "second", "task.merge_dim=12")
    message = capfd.readouterr().err
    assert "output.merge.weight is [8, 32] there, and [12, 32] here: its output layer is left there" in message
    names = [f"output.{name}" for name in ("merge.weight", "merge.bias", "label.weight", "label.bias", "table.weight")]
    assert lines(message) == {
        "not there, drawn at random": ", ".join(names),
        "left there": f"output.none_bias, {', '.join(names[:4])}, and 1 more",
    }
    assert not torch.equal(tensors(first)["output.table.weight"], tensors(second)["output.table.weight"])


def test_without_feedback_there_is_no_table_to_take(capfd: pytest.CaptureFixture[str]) -> None:
    train("openie", "first", "task.label_feedback=none")
    capfd.readouterr()
    started("openie", "second")
    assert lines(capfd.readouterr().err) == {"not there, drawn at random": "output.table.weight"}
