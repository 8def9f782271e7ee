"""`prepare` is never half done: full disks, kills, several processes, and folders of others."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from small_treebank import TRAIN, names, recipe, treebank
from support import environment

from probtrans_cli import atomic
from probtrans_cli.data.corpus import parts
from probtrans_cli.data.corpus import prepared as module
from probtrans_cli.data.corpus.prepared import open_prepared, prepare
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.folders import lock


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("mine", "mine is not a prepared corpus: it holds thesis.tex"),
        (".", "is not a prepared corpus: it holds "),
        ("train.conllu", "train.conllu is a file, not a prepared corpus"),
    ],
)
def test_never_replaces_what_it_did_not_make(corpus: Path, target: str, fault: str) -> None:
    (corpus / "mine").mkdir()
    (corpus / "mine" / "thesis.tex").touch()
    with pytest.raises(UsageError, match=re.escape(fault)):
        prepare(recipe(prepared=target))
    assert (corpus / "mine" / "thesis.tex").exists()
    assert (corpus / "train.conllu").read_text() == TRAIN


def test_a_place_that_cannot_be_written(corpus: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        prepare(recipe(prepared="train.conllu/below"))


@pytest.mark.parametrize("step", ["sync", "write_split", "replace_folder"])
def test_a_full_disk_leaves_the_old_folder_and_nothing_else(
    corpus: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = prepare(recipe(prepared="here"))
    (corpus / "train.conllu").write_text(TRAIN + treebank("cat/NOUN/0"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(parts if step == "write_split" else atomic, step, full)
        with pytest.raises(DataError, match="No space left"):
            prepare(recipe(prepared="here"))
    assert names(corpus) == ["dev.conllu.gz", "here", "train.conllu"]
    assert open_prepared(made.folder).manifest == made.manifest


def test_a_failed_rename_brings_the_old_folder_back(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepare(recipe(prepared="here"))
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.suffix == ".partial":
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fails)
        with pytest.raises(KeyboardInterrupt):
            prepare(recipe(prepared="here"), force=True)
    assert names(corpus) == ["dev.conllu.gz", "here", "train.conllu"]
    assert open_prepared(made.folder).manifest == made.manifest


KILLED = """
import os, signal, sys
from pathlib import Path
from probtrans_cli.data.corpus import parts, prepared as module
from probtrans_cli.recipe.schema import Recipe
step = sys.argv[1]
place = parts if step == "write_split" else module
before = getattr(place, step)
def kill(*arguments):
    if step != "write_split":
        before(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(place, step, kill)
data = {"train": "train.conllu", "dev": "dev.conllu", "prepared": "here"}
module.prepare(Recipe.model_validate({"name": "x", "data": data, "task": {"kind": "mlm"}}))
"""


@pytest.mark.parametrize("step", ["write_split", "_fill"])
def test_killed_in_between_there_is_no_half_folder(corpus: Path, step: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, step], env=environment(), timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (corpus / "here").exists()
    (left,) = [name for name in names(corpus) if name.endswith(".partial")]
    assert prepare(recipe(prepared="here")).fresh
    os.utime(corpus / left, (0, 0))
    assert prepare(recipe(prepared="here"), force=True).fresh
    assert names(corpus) == ["dev.conllu.gz", "here", "train.conllu"]


TOGETHER = """
from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.recipe.schema import Recipe
data = {"train": "train.conllu", "dev": "dev.conllu", "prepared": "here"}
recipe = Recipe.model_validate({"name": "x", "data": data, "task": {"kind": "mlm"}})
for turn in range(4):
    assert prepare(recipe, force=turn % 3 == 2).vocabulary.size == 9
"""


@pytest.mark.slow
def test_several_processes_at_once(corpus: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", TOGETHER], env=environment()) for _ in range(3)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    assert names(corpus) == ["dev.conllu.gz", "here", "train.conllu"]


def test_the_second_waits_and_takes_what_the_first_has_made(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    encode_all, inside, waiting, messages = module.encode_all, Event(), Event(), []

    def encode(*arguments: Any) -> Any:
        inside.set()
        assert waiting.wait(timeout=60)
        return encode_all(*arguments)

    def log(message: str) -> None:
        messages.append(message)
        waiting.set()

    monkeypatch.setattr(module, "encode_all", encode)
    monkeypatch.setattr(lock.console, "log", log)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(prepare, recipe(prepared="here"))
        assert inside.wait(timeout=60)
        monkeypatch.setattr(module, "encode_all", lambda *_: pytest.fail("encoded twice"))
        second = threads.submit(prepare, recipe(prepared="here"))
        made, taken = first.result(timeout=60), second.result(timeout=60)
    assert (made.fresh, taken.fresh) == (True, False)
    assert messages == [f"here is in use by process {os.getpid()} on {socket.gethostname()}: waiting for its end"]
    assert names(corpus) == ["dev.conllu.gz", "here", "train.conllu"]


def test_what_is_up_to_date_is_used_while_another_process_makes_it_again(corpus: Path) -> None:
    prepare(recipe(prepared="here"))
    with lock.locked(lock.beside(Path("here")), "here"):
        assert not prepare(recipe(prepared="here")).fresh
        assert prepare(recipe(prepared="here"), check=True).fresh
