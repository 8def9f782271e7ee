"""What a recipe's ``runtime`` section does to a process."""

from __future__ import annotations

import subprocess
import sys

from probtrans_cli.recipe.training import Runtime
from probtrans_cli.trained import machine
from probtrans_cli.trained.machine import Machine

FAULTS = """
import resource, sys, torch
from probtrans_cli.recipe.training import Runtime
from probtrans_cli.trained.machine import Machine
Machine(Runtime(allocator=sys.argv[1]))
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    torch.ones(2**24)
before = faults()
for _ in range(10):
    torch.ones(2**24)
print(faults() - before)
"""


def pages_touched_anew(allocator: str) -> int:
    """By ten tensors of 64 MB, one after the other."""
    found = subprocess.run([sys.executable, "-c", FAULTS, allocator], capture_output=True, text=True, check=True)
    return int(found.stdout)


def test_memory_that_is_let_go_of_can_be_kept() -> None:
    assert pages_touched_anew("keep") < pages_touched_anew("system") / 2


def test_another_c_library_is_told(monkeypatch, capsys) -> None:
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda name: object())
    Machine(Runtime(allocator="keep"))
    assert "warning: runtime.allocator: keep needs the GNU C library" in capsys.readouterr().err
    Machine(Runtime())
    assert capsys.readouterr().err == ""
