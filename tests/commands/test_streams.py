"""Standard streams that are full, closed, or without a reader; disks that fill; signals that are ignored."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path

import pytest
from support import Invoke, shell

from probtrans_cli import atomic
from probtrans_cli.training.stopping import NUMBERS, stop_signals

pytestmark = pytest.mark.usefixtures("quick")

VERBS = [
    "--version", "--help", "parse --help", "--list", "--schema", "prepare tiny.yaml", "train tiny.yaml --print",
    "train tiny.yaml train.epochs=1 --run new", "train tiny.yaml train.epochs=1 --run new --json",
    "eval runs/tiny", "eval runs/tiny --json", "parse runs/tiny dev.conllu", "export runs/tiny out", "table runs/tiny",
    "score trees dev.conllu --gold dev.conllu",
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_stdout_exits_2_with_a_message(verb: str, copied: Path) -> None:
    done = shell(f"probtrans {verb} > /dev/full", copied)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("error: ") == 1
    assert "error: standard output cannot be written: No space left on device\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if verb.startswith("train tiny.yaml train"):
        assert json.loads((copied / "new/exit.json").read_text())["exit"] == 0, "the training is done"


@pytest.mark.parametrize("verb", ["--version", "--help", "eval runs/tiny", "parse runs/tiny dev.conllu"])
def test_a_closed_stdout_exits_2_with_a_message(verb: str, here: Path) -> None:
    done = shell(f"probtrans {verb} >&-", here)
    assert done.returncode == 2, done.stderr
    assert "error: standard output cannot be written: it is closed\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_stdin_is_told_where_it_is_needed(here: Path) -> None:
    done = shell("probtrans parse runs/tiny <&-", here)
    assert (done.returncode, done.stdout) == (3, "")
    assert "error: <stdin>: cannot be read: it is closed\n" in done.stderr
    done = shell("probtrans train - --dry-run <&-", here)
    assert (done.returncode, done.stdout) == (2, "")
    assert "standard input: it is closed" in done.stderr
    done = shell("probtrans parse runs/tiny dev.conllu <&- | tail -n 2 | head -n 1", here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\t") == 9


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["2>&-", "2> /dev/full", "2> >(head -n 1 > /dev/null)", "<&- 2>&-"])
def test_a_training_goes_on_without_stderr(sink: str, fresh: Path) -> None:
    done = shell(f"probtrans train tiny.yaml train.epochs=3 --json {sink}", fresh)
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["name"] == "tiny", "the result alone"
    assert json.loads((fresh / "runs/tiny/exit.json").read_text()) == {"exit": 0, "reason": "done"}
    log = (fresh / "runs/tiny/log.txt").read_text("utf-8").splitlines()
    assert all(line[:2] == "20" for line in log), log
    assert len(log) > 5


@pytest.mark.parametrize("sink", ["2>&-", "2> /dev/full"])
def test_an_error_without_stderr_has_its_code(sink: str, here: Path) -> None:
    done = shell(f"probtrans parse runs/nowhere dev.conllu {sink}", here)
    assert (done.returncode, done.stdout) == (4, "")
    done = shell(f"probtrans --nonsense {sink}", here)
    assert (done.returncode, done.stdout) == (2, "")


def test_both_streams_closed(here: Path) -> None:
    assert shell("probtrans eval runs/tiny >&- 2>&-", here).returncode == 2


# --- disks that fill --------------------------------------------------------------------------------------------------


def test_a_disk_that_fills_between_checkpoints_is_told_in_a_line(fresh: Path) -> None:
    assert shell("probtrans prepare tiny.yaml", fresh).returncode == 0
    more = "train.epochs=1000 eval.every_epochs=1000 log.every_steps=1"
    done = shell(f"ulimit -f 40; probtrans -q train tiny.yaml {more}", fresh)  # files of at most 40 KB
    assert done.returncode == 3, done.stderr
    first = done.stderr.splitlines()[0]
    assert first.startswith("error: runs/tiny/")
    assert "cannot be written: File too large" in first
    assert "Traceback" not in done.stderr
    assert json.loads((fresh / "runs/tiny/exit.json").read_text())["exit"] == 3


def test_a_note_that_cannot_be_written_leaves_the_old_one(
    copied: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (copied / "runs/tiny/exit.json").read_text()
    run = copied / "runs/tiny"

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "sync", full)
    recipe = (run / "recipe.yaml").read_text("utf-8")
    ran = invoke("train", "tiny.yaml", "--overwrite", "save.every_steps=4")
    assert ran.code == 3, ran.err
    assert "No space left on device" in ran.err
    assert "Traceback" not in ran.err
    monkeypatch.setattr(atomic, "sync", lambda path: None)
    assert invoke("train", "runs/tiny", "--resume").code == 0, "what was there is found again"
    assert (run / "recipe.yaml").read_text("utf-8").split("\n\n")[-1] == recipe.split("\n\n")[-1]
    assert json.loads(before)["exit"] == json.loads((run / "exit.json").read_text())["exit"] == 0


def test_eval_keeps_the_scores_that_it_cannot_replace(copied: Path) -> None:
    assert shell("probtrans eval runs/tiny", copied).returncode == 0
    found = [*(copied / "runs/tiny").rglob("eval-test.json")]
    assert len(found) == 1
    before = found[0].read_bytes()
    done = shell("ulimit -f 0; probtrans eval runs/tiny --masks 1", copied)
    assert done.returncode == 3, done.stderr
    assert f"{found[0].name}: cannot be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert found[0].read_bytes() == before
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
