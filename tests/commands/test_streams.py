"""Standard streams that are full, closed, or without a reader; disks that fill; signals that are ignored."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from threading import Thread

import pytest
from support import NO_ROOM, Forks, Invoke, raising, refused

from probtrans_cli import atomic
from probtrans_cli.training.watch import NUMBERS, stop_signals

VERBS = [
    "--version", "parse --help", "--schema", "train tiny.yaml train.steps=1 --run new --json", "eval runs/tiny",
    "parse runs/tiny dev.conllu",
]  # fmt: skip
NO_SPACE = "error: standard output cannot be written: No space left on device\n"


def test_a_full_or_closed_stdout_exits_3_or_2_with_a_message(copied: Path, forks: Forks) -> None:
    for verb in VERBS:
        ended = forks.run(verb.split(), copied, streams={"stdout": "/dev/full"})
        assert ended.code == 3, ended.stderr
        assert (ended.stderr.count("error: "), ended.stderr.count(NO_SPACE)) == (1, 1)
        assert "Traceback" not in ended.stderr
        assert "Exception ignored" not in ended.stderr
    assert json.loads((copied / "new/exit.json").read_text())["exit"] == 0, "the training is done"
    for verb in ("--help", "eval runs/tiny", "parse runs/tiny dev.conllu"):
        ended = forks.run(verb.split(), copied, streams={"stdout": None})
        assert ended.code == 2, ended.stderr
        assert "error: standard output cannot be written: it is closed\n" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_closed_stdin_is_reported_where_it_is_needed(copied: Path, forks: Forks) -> None:
    closed = {"stdin": None}
    ended = forks.run(["parse", "runs/tiny"], copied, streams=closed)
    assert (ended.code, ended.stdout) == (3, "")
    assert "error: <stdin>: cannot be read: it is closed\n" in ended.stderr
    ended = forks.run(["train", "-", "--dry-run"], copied, streams=closed)
    assert (ended.code, ended.stdout) == (2, "")
    assert "standard input: it is closed" in ended.stderr
    ended = forks.run(["parse", "runs/tiny", "dev.conllu"], copied, streams=closed)
    assert ended.code == 0, ended.stderr
    assert ended.stdout.splitlines()[-2].count("\t") == 9


def _read_a_line(path: Path) -> None:
    with path.open() as file:
        file.readline()


@pytest.mark.parametrize("sink", ["/dev/full", "a reader that leaves", None])
def test_a_training_goes_on_without_stderr(sink: str | None, fresh: Path, forks: Forks) -> None:
    streams = {"stderr": sink} if sink else {"stdin": None, "stderr": None}
    if sink == "a reader that leaves":
        os.mkfifo(fresh / sink)
        Thread(target=_read_a_line, args=(fresh / sink,), daemon=True).start()
    done = forks.run(["train", "tiny.yaml", "train.epochs=3", "--json"], fresh, streams=streams)
    assert done.code == 0, done.stdout
    assert json.loads(done.stdout)["name"] == "tiny", "the result alone"
    assert json.loads((fresh / "runs/tiny/exit.json").read_text()) == {"exit": 0, "reason": "done"}
    log = (fresh / "runs/tiny/log.txt").read_text("utf-8").splitlines()
    assert all(line[:2] == "20" for line in log), log
    assert len(log) > 5


def test_an_error_without_stderr_has_its_code(copied: Path, forks: Forks) -> None:
    for sink in (None, "/dev/full"):
        for command, code in (("parse runs/nowhere dev.conllu", 4), ("--nonsense", 2)):
            ended = forks.run(command.split(), copied, streams={"stderr": sink})
            assert (ended.code, ended.stdout) == (code, "")
    assert forks.run(["eval", "runs/tiny"], copied, streams={"stdout": None, "stderr": None}).code == 2


# --- disks that fill --------------------------------------------------------------------------------------------------


def test_a_disk_that_fills_between_checkpoints(fresh: Path, invoke: Invoke, forks: Forks) -> None:
    assert invoke("prepare", "tiny.yaml").code == 0
    more = ["train.epochs=1000", "eval.every_epochs=1000", "log.every_steps=1"]
    ended = forks.run(["-q", "train", "tiny.yaml", *more], fresh, streams={}, file_bytes=16 << 10)
    assert ended.code == 3, ended.stderr
    first = ended.stderr.splitlines()[0]
    assert first.startswith("error: runs/tiny/")
    assert "cannot be written: File too large" in first
    assert "Traceback" not in ended.stderr
    assert json.loads((fresh / "runs/tiny/exit.json").read_text())["exit"] == 3


def test_a_note_that_cannot_be_written_leaves_the_old_one(
    copied: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copied / "runs/tiny"
    before, recipe = (run / "exit.json").read_text(), (run / "recipe.yaml").read_text("utf-8")
    monkeypatch.setattr(atomic, "sync", raising(NO_ROOM))
    ran = invoke("train", "tiny.yaml", "--overwrite", "save.every_steps=4")
    refused(ran, 3, "No space left on device")
    monkeypatch.setattr(atomic, "sync", lambda path: None)
    assert invoke("train", "runs/tiny", "--resume").code == 0, "what was there is found again"
    assert (run / "recipe.yaml").read_text("utf-8").split("\n\n")[-1] == recipe.split("\n\n")[-1]
    assert json.loads(before)["exit"] == json.loads((run / "exit.json").read_text())["exit"] == 0


def test_eval_keeps_the_scores_that_it_cannot_replace(copied: Path, invoke: Invoke, forks: Forks) -> None:
    assert invoke("eval", "runs/tiny").code == 0
    (scores,) = (copied / "runs/tiny").rglob("eval-test.json")
    before = scores.read_bytes()
    sinks = {"stdout": "/dev/null", "stderr": "/dev/null"}
    assert forks.run(["eval", "runs/tiny", "--masks", "1"], copied, streams=sinks, file_bytes=0).code == 3
    assert scores.read_bytes() == before
    assert not [*copied.rglob("*.partial")]


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", NUMBERS)
def test_signals_ask_to_stop_unless_they_were_ignored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    try:
        signal.signal(number, signal.SIG_IGN)
        with stop_signals() as stop:
            os.kill(os.getpid(), number)
            assert stop.signal == 0
        assert signal.getsignal(number) is signal.SIG_IGN
        signal.signal(number, signal.SIG_DFL)
        with stop_signals() as stop:
            os.kill(os.getpid(), number)
            assert stop.signal == number
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
