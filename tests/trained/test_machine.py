"""What a recipe's ``runtime`` section does to a process."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from probtrans_cli import __main__, load
from probtrans_cli.models import arithmetic
from probtrans_cli.recipe.training import Runtime
from probtrans_cli.trained import machine
from probtrans_cli.trained.machine import Machine

TENSOR = 2**26  # bytes; more than the 32 MB from which the GNU C library always asks the kernel for a mapping

HELD = """
import ctypes, sys, torch
from probtrans_cli.recipe.training import Runtime
from probtrans_cli.trained.machine import Machine

class Mallinfo2(ctypes.Structure):  # of malloc.h
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    _fields_ = [(name, ctypes.c_size_t) for name in names]

mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Mallinfo2
Machine(Runtime(allocator=sys.argv[1]))
before = mallinfo2()
tensor = torch.ones(2**24)
mapped = mallinfo2().hblkhd - before.hblkhd
del tensor
print(mapped, mallinfo2().arena - before.arena)
"""


def mapped_and_kept(allocator: str) -> tuple[int, int]:
    """Bytes that are mapped apart for a tensor of ``TENSOR`` bytes, and those that the heap keeps once it is gone."""
    found = subprocess.run([sys.executable, "-c", HELD, allocator], capture_output=True, text=True, check=True)
    mapped, kept = map(int, found.stdout.split())
    return mapped, kept


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs the GNU C library 2.33 or later")
def test_memory_that_is_let_go_of_can_be_kept() -> None:
    mapped, kept = mapped_and_kept("keep")
    assert mapped < TENSOR / 64
    assert kept > TENSOR / 2
    mapped, kept = mapped_and_kept("system")
    assert mapped >= TENSOR
    assert kept < TENSOR / 64


def test_another_c_library_is_told(monkeypatch, capsys) -> None:
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda name: object())
    Machine(Runtime(allocator="keep"))
    assert "warning: runtime.allocator: keep needs the GNU C library" in capsys.readouterr().err
    Machine(Runtime())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("fast", [True, False])
def test_bfloat16_is_used_where_it_is_faster(fast: bool, monkeypatch, capsys) -> None:
    seconds = {torch.float32: 2.0, torch.bfloat16: 1.0 if fast else 60.0}
    monkeypatch.setattr(arithmetic, "seconds_of_a_product", lambda product, dtype=torch.float32: seconds[dtype])
    monkeypatch.setattr(arithmetic, "onednn_is_wider", lambda: False)
    monkeypatch.setattr(machine, "bfloat16_is_faster", arithmetic.bfloat16_is_faster.__wrapped__)
    asked = Machine(Runtime(device="cpu", precision="bfloat16"))
    assert asked.bfloat16 == fast
    assert ("bfloat16" if fast else "float32") in asked.describe()
    assert ("warning: this processor is slow in bfloat16" in capsys.readouterr().err) == (not fast)
    assert not Machine(Runtime(device="cpu")).bfloat16


def test_answers_in_another_precision_than_the_training(trained: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(machine, "bfloat16_is_faster", lambda: True)
    monkeypatch.chdir(trained)
    assert not load("runs/tagger").machine.bfloat16
    assert load("runs/tagger", precision="bfloat16").machine.bfloat16
    probabilities = {}
    for precision in ("float32", "bfloat16"):
        options = ["-f", "jsonl", "--trees", "no", "--prob", "--precision", precision]
        assert __main__.run(["parse", "runs/tagger", "test.conllu", *options]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        probabilities[precision] = torch.tensor([p for row in rows for p in row["tag_probability"]])
        assert __main__.run(["eval", "runs/tagger", "--precision", precision]) == 0
        capsys.readouterr()
    assert 0 < (probabilities["bfloat16"] - probabilities["float32"]).abs().max() < 0.05
