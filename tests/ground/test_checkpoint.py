"""Checkpoints: damage is refused by name, a full disk loses nothing, and nothing is ever unpickled."""

from __future__ import annotations

import errno
import json
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from support import ROOT, Invoke, refused

from probtrans_cli import atomic, checkpoint
from probtrans_cli.errors import CheckpointError

MODEL_FILES = [
    "config.json", "eval.json", "labels.json", "model.safetensors", "recipe.yaml", "vocabulary.json", "README.md",
]  # fmt: skip
TRAINING_FILES = ["training/optimizer.safetensors", "training/state.json"]
RESUME = ["train", "runs/tiny", "--resume"]


@pytest.fixture
def best(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The best checkpoint of a copy of the tiny run, which is also its last one."""
    shutil.copytree(trained, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path / "copy")
    last = checkpoint.locate("runs/tiny@last")
    checkpoint.link(last, "best")
    return last


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, alter, Path.unlink], ids=["truncated", "altered", "missing"])
@pytest.mark.parametrize("name", [*MODEL_FILES, *TRAINING_FILES])
def test_every_damaged_file_is_refused_by_name(name: str, damage: Any, best: Path, invoke: Invoke) -> None:
    damage(best / name)
    of_model = [["eval", "runs/tiny@last"], ["parse", "runs/tiny", "dev.conllu"]]
    commands = [RESUME] if name in TRAINING_FILES else [*of_model, RESUME]
    for command in commands[: 3 if name == "model.safetensors" else 1]:
        refused(invoke(*command), 4, name)


def test_a_model_can_be_used_where_only_its_training_state_is_damaged(best: Path, invoke: Invoke) -> None:
    truncate(best / "training/state.json")
    assert invoke("eval", "runs/tiny", "--json").code == 0


def test_a_damaged_list_of_checksums_is_refused(best: Path, invoke: Invoke) -> None:
    sums = best / checkpoint.SUMS
    whole = sums.read_bytes()
    for damaged, words in (
        (b"", "damaged: it does not list "),
        (whole[: len(whole) // 2], ""),
        (whole[: whole[:-1].rindex(b"\n") + 1], ""),
        (b"\xff\xfe", "missing or unreadable"),
        (b"a  b\0c\n", "missing from the checkpoint"),
        (b"\n", "damaged: a line without a file"),
        (whole[:20], f"{checkpoint.SUMS}: damaged: a line without a file"),
        (whole + b"0  ../../../tiny.yaml\n", "names a file outside the checkpoint"),
        (None, f"{checkpoint.SUMS}: missing or unreadable"),
    ):
        if damaged is None:
            sums.unlink()
        else:
            sums.write_bytes(damaged)
        refused(invoke("eval", "runs/tiny"), 4, words)


def test_half_written_folders_are_never_chosen_and_removed(best: Path) -> None:
    checkpoints = best.parent
    half = checkpoints / ".step-000099.partial"
    shutil.copytree(best, half)
    (checkpoints / ".last.partial").symlink_to("step-000099")
    assert "99" not in dict(checkpoint.steps(checkpoints))
    assert checkpoint.locate("runs/tiny@last") == best
    with pytest.raises(CheckpointError, match="99"):
        checkpoint.locate("runs/tiny@99")
    atomic.recover(checkpoints)
    assert not half.exists()
    assert not list(checkpoints.glob(".*"))


def test_a_folder_whose_replacement_was_cut_off_comes_back(best: Path) -> None:
    best.rename(best.with_name(f".{best.name}.replaced"))
    atomic.recover(best.parent)
    assert checkpoint.verify(checkpoint.locate("runs/tiny@last"), training=True).files
    shutil.copytree(best, best.with_name(f".{best.name}.replaced"))
    atomic.recover(best.parent)
    assert not list(best.parent.glob(".*"))


@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left on device"), SafetensorError("I/O error: No space left on device")]
)
def test_a_full_disk_loses_no_checkpoint(
    failure: Exception, best: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    before = {path.name: checkpoint.verify(path, training=True) for _, path in checkpoint.steps(best.parent)}

    def full(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
        path.write_bytes(b"half")
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", full)
        # The final phase writes the best checkpoint again.
        refused(invoke(*RESUME), 3, "No space left", "--resume")
        assert invoke("train", "tiny.yaml", "--run", "runs/new").code == 3
    after = {path.name: checkpoint.verify(path, training=True) for _, path in checkpoint.steps(best.parent)}
    assert after == before
    assert not list(best.parent.glob(".*"))
    assert invoke(*RESUME).code == 0


@pytest.mark.usefixtures("best")
def test_nothing_is_unpickled(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("unpickled")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    for command in (
        ["eval", "runs/tiny", "--json"],
        ["parse", "runs/tiny", "dev.conllu"],
        RESUME,
        ["export", "runs/tiny", "out"],
        ["train", "tiny.yaml", "--run", "runs/new", "train.epochs=1"],
    ):
        assert invoke(*command).code == 0, command


def test_the_source_has_no_way_to_run_what_it_reads() -> None:
    forbidden = re.compile(
        r"\b(pickle|torch\.load|shell=True|os\.system|yaml\.load|np\.load)\b|(?<![\w.])(eval|exec)\("
    )
    # The older weights of others hold nothing but tensors, or are refused by an error of that module.
    harmless = re.compile(r"torch\.load\([^()]*, weights_only=True\)|^import pickle$|except pickle\.UnpicklingError:")
    for path in (ROOT / "probtrans_cli").rglob("*.py"):
        for number, text in enumerate(path.read_text("utf-8").splitlines(), start=1):
            line = harmless.sub("", text) if path == ROOT / "probtrans_cli/hf/tensors.py" else text
            assert not forbidden.search(line), f"{path}:{number}: {line}"


@pytest.mark.usefixtures("best")
def test_a_newer_format_is_refused(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "FORMAT", checkpoint.FORMAT + 1)
    refused(invoke("eval", "runs/tiny"), 4, "format")


def test_pruning_keeps_best_last_and_the_newest(tmp_path: Path) -> None:
    for step in range(1, 7):
        checkpoint.write(tmp_path / f"step-{step:06d}", {"config.json": "{}"}, {})
    checkpoint.link(tmp_path / "step-000002", "best")
    checkpoint.link(tmp_path / "step-000006", "last")
    checkpoint.prune(tmp_path, 1)
    assert [step for step, _ in checkpoint.steps(tmp_path)] == [2, 5, 6]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(("kind", "hint"), [("bert", "--init-from"), ("probtrans", "exported from")])
def test_a_folder_of_transformers_is_no_checkpoint(kind: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}, indent=2), encoding="utf-8")
    with pytest.raises(CheckpointError, match="form of Hugging Face's") as caught:
        checkpoint.locate(str(tmp_path))
    assert hint in (caught.value.hint or "")
