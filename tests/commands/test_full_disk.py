"""A disk without room: exit code 3 from every verb that writes, and a hint that gives up nothing that is written."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from support import NO_ROOM, Invoke, raising, refused

from probtrans_cli import atomic
from probtrans_cli.errors import CheckpointError, DataError, UsageError, unwritten, without_room
from probtrans_cli.export import pt2
from probtrans_cli.folders import checkpoints

FULL = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG]
VERBS = {
    "train": ("train", "tiny.yaml", "train.steps=1", "--run", "new"),
    "eval": ("eval", "runs/tiny", "--masks", "1"),
    "eval --choose": ("eval", "runs/tiny", "--masks", "1", "--split", "dev", "--choose"),
    "eval --predictions": ("eval", "runs/tagger", "--predictions", "out"),
    "parse -o": ("parse", "runs/tiny", "dev.conllu", "-o", "out"),
    "parse --output-dir": ("parse", "runs/tiny", "dev.conllu", "--output-dir", "out"),
    "prepare": ("prepare", "tiny.yaml", "data.prepared=new"),
    "prepare in parts": ("prepare", "tiny.yaml", "data.prepared=new", "data.shard_sentences=3"),
    "export": ("export", "runs/tiny", "out"),
    "export hf": ("export", "runs/tiny", "out", "--format", "hf"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_it_is_exit_code_3(verb: str, copied: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    number = FULL[list(VERBS).index(verb) % len(FULL)]
    monkeypatch.setattr(atomic, "sync", raising(OSError(number, os.strerror(number))))
    ran = invoke(*VERBS[verb])
    refused(ran, 3, f"cannot be written: {os.strerror(number)}", "make room", "again")
    assert ran.err.count("error: ") == 1
    assert "choose another" not in ran.err
    assert not Path("out").is_file()


def test_blocks_that_are_done_stay(copied: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint says so, and the same command goes on with the others."""
    command = ("parse", "runs/tiny", "dev.conllu", "--output-dir", "out", "--block-size", "300")
    left = 8
    synced: Callable[[Path], None] = atomic.sync

    def full(path: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise NO_ROOM

    def made() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in Path("out/blocks").glob("*.done")}

    monkeypatch.setattr(atomic, "sync", full)
    refused(
        invoke(*command), 3, "No space left on device", "make room", "the same command", "blocks that are done stay"
    )
    before = made()
    assert before
    monkeypatch.setattr(atomic, "sync", synced)
    assert invoke(*command).code == 0
    assert before.items() < made().items()
    Path("out/job.json").write_text("")
    ran = invoke(*command)
    refused(ran, 2, "job.json: cannot be read", "blocks that are done stay")
    assert "choose another" not in ran.err


def test_a_graph_is_written_without_torch_s_own_writer(tmp_path: Path) -> None:
    """Which aborts the process."""
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    with pytest.raises(OSError, match="No space left on device"):
        pt2.save(None, program, Path("/dev/full"))  # type: ignore[arg-type]


def test_what_says_that_there_is_no_room() -> None:
    for number in FULL:
        error = OSError(number, os.strerror(number))
        assert without_room(error) is error
        for kind in (UsageError, CheckpointError, DataError):
            fault = unwritten("x", error, kind, hint="choose another", full="make room")
            assert (type(fault), fault.hint) == (DataError, "make room")
        told = without_room(SafetensorError(f"I/O error: {os.strerror(number)} (os error {number})"))
        assert told is not None
        assert told.errno == number
    denied = PermissionError(errno.EACCES, "Permission denied")
    assert without_room(denied) is None
    assert without_room(SafetensorError("not a tensor")) is None
    fault = unwritten("x", denied, UsageError, hint="choose another")
    assert (type(fault), fault.hint) == (UsageError, "choose another")


def test_a_link_of_a_run(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    best = checkpoints.locate("runs/tiny")
    monkeypatch.setattr(atomic, "link", raising(NO_ROOM))
    with pytest.raises(DataError, match="No space left") as caught:
        checkpoints.link(best, "last")
    assert "nothing saved before is lost" in (caught.value.hint or "")


def test_a_training_says_in_its_folder_how_it_ended(
    copied: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is room for that."""

    def full(path: Path) -> None:
        if "step" in path.name:
            raise NO_ROOM

    monkeypatch.setattr(atomic, "sync", full)
    refused(invoke("train", "tiny.yaml", "train.steps=1", "--run", "new"), 3, "--resume")
    assert json.loads(Path("new/exit.json").read_text())["exit"] == 3
