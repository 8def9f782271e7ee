"""The table of an attack, and how a fault is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from .place import STOPPED


@dataclass(frozen=True)
class Tried:
    """What came of one input."""

    group: str
    seed: int
    index: int
    codes: tuple[int, ...]
    """Exit codes of its commands."""
    seconds: float
    """The longest that a command took."""
    work: float
    """Seconds that they took of a processor."""
    memory: int
    """Bytes, the most that a command held."""
    faults: tuple[str, ...]
    kept: str | None
    """The folder with its files, where something is wrong."""


@dataclass
class Row:
    """What came of a group."""

    inputs: int = 0
    killed: int = 0
    """Commands that a signal has ended, or made to save and stop."""
    codes: Counter[int] = field(default_factory=Counter)
    tracebacks: int = 0
    hangs: int = 0
    lost: int = 0
    others: int = 0
    memory: int = 0
    seconds: float = 0.0

    def add(self, one: Tried) -> None:
        """Count one more input."""
        self.inputs += 1
        self.killed += sum(code < 0 or code in STOPPED for code in one.codes)
        self.codes.update(one.codes)
        for fault in one.faults:
            self.tracebacks += fault.startswith(("traceback", "exit code 1\n"))
            self.hangs += fault.startswith("hang")
            self.lost += fault.startswith(("lost", "changed"))
            self.others += not fault.startswith(("traceback", "exit code 1\n", "hang", "lost", "changed"))
        self.memory = max(self.memory, one.memory)
        self.seconds = max(self.seconds, one.seconds)


HEADER = (
    "group", "inputs", "commands", "killed", "tracebacks", "hangs", "lost files", "others", "largest MB", "slowest s",
    "exit codes",
)  # fmt: skip


def table(every: Iterable[Tried]) -> str:
    """One line a group, and one for all."""
    rows: dict[str, Row] = {}
    for one in every:
        rows.setdefault(one.group, Row()).add(one)
        rows.setdefault("all", Row()).add(one)
    rows["all"] = rows.pop("all", Row())  # the last line
    lines = [HEADER, *(_cells(name, row) for name, row in rows.items())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ""
    for first, *numbers, codes in lines:
        shown = [number.rjust(width) for number, width in zip(numbers, widths[1:-1], strict=True)]
        text += "  ".join([first.ljust(widths[0]), *shown, codes]) + "\n"
    return text


def _cells(name: str, row: Row) -> tuple[str, ...]:
    codes = " ".join(f"{code}:{count:,}" for code, count in sorted(row.codes.items()))
    commands, megabytes = sum(row.codes.values()), row.memory // 2**20
    numbers = (row.inputs, commands, row.killed, row.tracebacks, row.hangs, row.lost, row.others, megabytes)
    return (name, *(f"{number:,}" for number in numbers), f"{row.seconds:.1f}", codes)


def told(one: Tried) -> str:
    """A fault in words, with the command that repeats it."""
    again = f"python -m tests.hostile --only {one.group} --seed {one.seed} --index {one.index}"
    lines = [f"{one.group}, input {one.index}: {again}", *(f"  {fault}" for fault in one.faults)]
    return "\n".join([*lines, f"  its files: {one.kept}\n"])
