"""The table of an attack, and how a fault is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


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
    memory: int
    """Bytes, the most that a command held."""
    faults: tuple[str, ...]
    kept: str | None
    """The folder with its files, where something is wrong."""


@dataclass
class Row:
    """What came of a group."""

    inputs: int = 0
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
        self.codes.update(one.codes)
        for fault in one.faults:
            self.tracebacks += fault.startswith(("traceback", "exit code 1\n"))
            self.hangs += fault.startswith("hang")
            self.lost += fault.startswith(("lost", "changed"))
            self.others += not fault.startswith(("traceback", "exit code 1\n", "hang", "lost", "changed"))
        self.memory = max(self.memory, one.memory)
        self.seconds = max(self.seconds, one.seconds)


HEADER = (
    "group",
    "inputs",
    "commands",
    "tracebacks",
    "hangs",
    "lost files",
    "others",
    "largest MB",
    "slowest s",
    "exit codes",
)


def table(every: Iterable[Tried]) -> str:
    """One line a group, and one for all."""
    rows: dict[str, Row] = {}
    for one in every:
        rows.setdefault(one.group, Row()).add(one)
        rows.setdefault("all", Row()).add(one)
    rows["all"] = rows.pop("all", Row())
    lines = [HEADER]
    for name, row in rows.items():
        codes = " ".join(f"{code}:{count:,}" for code, count in sorted(row.codes.items()))
        numbers = (
            row.inputs,
            sum(row.codes.values()),
            row.tracebacks,
            row.hangs,
            row.lost,
            row.others,
            row.memory // 2**20,
        )
        lines.append((name, *(f"{number:,}" for number in numbers), f"{row.seconds:.1f}", codes))
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    aligned = [
        [
            cell.ljust(width) if i in (0, len(HEADER) - 1) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    ]
    return "".join("  ".join(line).rstrip() + "\n" for line in aligned)


def told(one: Tried) -> str:
    """A fault in words, with the command that repeats it."""
    again = f"python -m tests.hostile --only {one.group} --seed {one.seed} --index {one.index}"
    return (
        f"{one.group}, input {one.index}: {again}\n"
        + "".join(f"  {fault}\n" for fault in one.faults)
        + f"  its files: {one.kept}\n"
    )
