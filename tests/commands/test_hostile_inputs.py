"""The attack on the command line, `python -m tests.hostile`: what it judges, and a small part of all of it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hostile.mutations import json_mutated, mutated, tensors_mutated
from hostile.place import CODES, MEMORY, Place, judged
from hostile.process import Ended, start
from support import ROOT, environment


def ended(
    code: int = 0, out: str = "", err: str = "", memory: int = 0, hung: bool = False, verb: str = "eval"
) -> Ended:
    return Ended((verb,), code, out, err, 0.1, 0.1, memory, hung)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (ended(), None),
        (ended(3, err="error: no such file\n  -> check the path\n"), None),
        (ended(3), "exit code 3 without a message"),
        (ended(1, err="error: x"), "exit code 1"),
        (ended(-11), "exit code -11"),
        (ended(err="Exception in thread\nTraceback (most recent call last):\n"), "traceback"),
        (ended(err="a.py:3: UserWarning: x"), "traceback"),
        (ended(err="\x1b[31m"), "control characters: \\x1b on stderr"),
        (ended(out="a\u202eb"), "control characters: \\u202e on stdout"),
        (ended(out="a\u202eb", verb="parse"), None),
        (ended(memory=MEMORY + 1), "memory: 2.00 GB"),
        (ended(-9, hung=True), "hang: killed after the limit"),
    ],
)
def test_what_is_wrong_with_how_a_command_ended(given: Ended, fault: str | None) -> None:
    assert judged(given, CODES) == ([] if fault is None else [fault])


def test_a_child_is_watched(tmp_path: Path) -> None:
    def fails() -> int:
        raise RuntimeError("planted")

    failed = start(("load",), tmp_path, tmp_path / "one", function=fails).wait()
    assert judged(failed, CODES) == ["exit code 1", "traceback"]
    assert "planted" in failed.err
    assert failed.memory > 2**20
    slept = start(("load",), tmp_path, tmp_path / "two", function=lambda: time.sleep(60) or 0).wait(limit=0.2)
    assert judged(slept, CODES) == ["hang: killed after the limit"]
    assert slept.seconds < 30


def test_files_that_are_lost_or_changed_are_told(tmp_path: Path) -> None:
    place = Place("scored", 0, 0, tmp_path, tmp_path / "place")
    for name in ("kept.txt", "lost.txt", "changed.txt", "ours/any.txt"):
        place.write(name, "text")
    place.guard("ours/")

    def loses() -> int:
        for name in ("lost.txt", "ours/any.txt"):
            Path(name).unlink()
        Path("changed.txt").write_text("other", "utf-8")
        return 0

    place.run("load", function=loses)
    assert [fault.split("\n")[0] for fault in place.faults] == ["changed file: 'changed.txt'", "lost file: 'lost.txt'"]


def test_mutations_are_those_of_the_seed() -> None:
    content = (ROOT / "probtrans_cli/embedded/toy/dev.conllu").read_bytes()[:2000]
    every = [mutated(random.Random(seed), content) for seed in range(300)]
    assert every == [mutated(random.Random(seed), content) for seed in range(300)]
    assert len(set(every)) > 250
    changed = [json_mutated(random.Random(seed), b'{"a": [1, {"b": "c"}]}') for seed in range(300)]
    valid = [json.loads(one) for one in changed if not one.startswith(b'{"a":{"a":')]
    assert sum(one != {"a": [1, {"b": "c"}]} for one in valid) > 200
    header = json.dumps({"a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}}).encode()
    weights = len(header).to_bytes(8, "little") + header + bytes(8)
    assert len({tensors_mutated(random.Random(seed), weights) for seed in range(300)}) > 20


@pytest.mark.slow
def test_a_hundredth_of_the_attack(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.hostile", "--kept", str(tmp_path / "kept"), "--scale", "0.005"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "kept").exists()
    groups = {line.split()[0] for line in done.stdout.splitlines()[1:-1]}
    assert groups == {
        "recipe", "override", "arguments", "corpus", "evaluated", "parsed", "scored", "extracted", "pieces", "tabled",
        "continued", "converted", "prepared", "folder", "checkpoint", "special", "linked", "kill", "race", "all",
    }  # fmt: skip
