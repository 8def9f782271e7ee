"""All inputs of all groups, in a few processes at once; the table of what came of them, and how a fault is repeated."""

from __future__ import annotations

import multiprocessing
import shutil
import stat
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from . import folders, inputs, kills, material, process, races
from .place import STOPPED, Group, Place


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
    again = f"python -m tests.hostile --only {one.group} --seed {one.seed} --index {one.index}"
    lines = [f"{one.group}, input {one.index}: {again}", *(f"  {fault}" for fault in one.faults)]
    return "\n".join([*lines, f"  its files: {one.kept}\n"])


GROUPS: dict[str, Group] = {group.name: group for module in (kills, races, folders, inputs) for group in module.GROUPS}


@dataclass(frozen=True)
class Input:
    """One input, and where it is tried."""

    group: str
    seed: int
    index: int
    folder: Path
    kept: Path

    def attempt(self) -> Tried:
        place = Place(
            self.group, self.seed, self.index, self.folder / "material", self.folder / f"{self.group}-{self.index}"
        )
        try:
            GROUPS[self.group].attack(place)
        except Exception:  # whatever it is: one attack that fails is a fault in the table, the others go on
            place.fault(f"the attack itself failed:\n{traceback.format_exc()}")
        kept = None
        if place.faults:
            kept = self.kept / f"{self.group}-{self.seed}-{self.index}"
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            shutil.copytree(place.folder, kept / "files", symlinks=True, ignore_dangling_symlinks=True, ignore=_special)
            if place.streams.exists():
                shutil.copytree(place.streams, kept / "streams")
        place.remove()
        return Tried(
            self.group, self.seed, self.index, tuple(one.code for one in place.ended),
            max((one.seconds for one in place.ended), default=0.0),
            sum(one.work for one in place.ended),
            max((one.memory for one in place.ended), default=0), tuple(place.faults),
            None if kept is None else str(kept),
        )  # fmt: skip


def _special(folder: str, names: list[str]) -> list[str]:
    """Of the names in a folder those of pipes, sockets and devices, which cannot be copied."""
    modes = {name: stat.S_IFMT(Path(folder, name).lstat().st_mode) for name in names}
    return [name for name, mode in modes.items() if mode not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)]


def attack(
    folder: Path, names: Sequence[str], seed: int, scale: float, index: int | None, jobs: int, kept: Path
) -> Iterator[Tried]:
    """Try the inputs of some groups in a folder; yields what came of each as it is done.

    Args:
        folder: an empty one, for material and places.
        names: of the groups.
        seed: of all random choices.
        scale: share of the inputs.
        index: only this input of each group.
        jobs: processes at once.
        kept: where files of faults go.
    """
    process.warm()
    material.make(folder / "material")
    before = material.checksums(folder / "material")
    every = [
        Input(name, seed, number, folder, kept.absolute())
        for name in names
        for number in (range(max(1, round(GROUPS[name].count * scale))) if index is None else [index])
    ]
    # Not a pool of daemons, whose children may have no workers.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        for future in as_completed([pool.submit(Input.attempt, one) for one in every]):
            yield future.result()
    changed = [name for name, sum in material.checksums(folder / "material").items() if before.get(name) != sum]
    if changed:
        yield Tried("all", seed, 0, (), 0.0, 0.0, 0, (f"changed file: of the material: {changed}",), None)
