"""Where one input is tried: a folder with its files, the commands that are run there, and what is judged of them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from . import process
from .process import Ended, Function, Running, Signal, start

MEMORY = 2 * 1024**3  # bytes that no command may exceed
CODES = frozenset({0, 2, 3, 4, 5, 6, 7})
"""Exit codes of `docs/command-line.md`, but for a bug and for what signals and closed pipes give."""
STOPPED = frozenset({75, 130})
_BUG = re.compile(
    r"Traceback \(most recent|This is a bug in probtrans|Exception ignored|Fatal Python|\.py:\d+: \w*Warning"
)
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_FREE = {"parse", "convert", "load"}  # their stdout keeps every character where it is no terminal


@dataclass(frozen=True)
class Group:
    name: str
    count: int
    """Inputs of a whole attack."""
    attack: Callable[[Place], None]


@dataclass
class Place:
    """One input: its folder, its random choices, what was run and what is wrong."""

    group: str
    seed: int
    index: int
    material: Path
    folder: Path
    """Where commands run; removed if nothing is wrong."""
    chance: random.Random = field(init=False)
    ended: list[Ended] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    guarded: dict[str, str] = field(default_factory=dict)
    """Files that no command may touch, and the checksums of their content."""

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.seed} {self.group} {self.index}")
        self.folder.mkdir(parents=True)
        self.streams = self.folder.with_name(f"{self.folder.name}-streams")

    # --- files --------------------------------------------------------------------------------------------------------

    def copy(self, *names: str) -> None:
        for name in names:
            source, target = self.material / name, self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True)
            else:
                shutil.copyfile(source, target)

    def write(self, name: str, content: bytes | str) -> str:
        """Write a file; returns its name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return name

    def guard(self, *ours: str) -> None:
        """From now on, nothing that is in the folder may be changed; but for what begins with one of ``ours``."""
        found = {path: _checksum(self.folder / path) for path in _files(self.folder)}
        self.guarded.update({path: sum for path, sum in found.items() if not path.startswith(ours)} if ours else found)

    def guard_one(self, name: str) -> None:
        self.guarded[name] = _checksum(self.folder / name)

    # --- commands -----------------------------------------------------------------------------------------------------

    def start(
        self, *arguments: str, stdin: bytes = b"", kill: Signal | None = None, delay: float = 0.0,
        function: Function | None = None,
    ) -> Running:  # fmt: skip
        streams = self.streams / f"{len(list(self.streams.glob('*'))) if self.streams.exists() else 0}"
        return start(arguments, self.folder, streams, stdin=stdin, kill=kill, delay=delay, function=function)

    def wait(self, running: Running, allowed: Collection[int] = CODES) -> Ended:
        """Wait for a command and judge it."""
        started_afresh = {"--workers", "--jobs"} & set(running.arguments)  # which imports torch in each process
        ended = running.wait(process.LIMIT * (4 if started_afresh else 1))
        self.ended.append(ended)
        for fault in [*judged(ended, allowed), *self._lost()]:
            self.fault(fault, ended)
        return ended

    def run(
        self, *arguments: str, stdin: bytes = b"", kill: Signal | None = None, allowed: Collection[int] = CODES,
        function: Function | None = None,
    ) -> Ended:  # fmt: skip
        return self.wait(self.start(*arguments, stdin=stdin, kill=kill, function=function), allowed)

    # --- what is judged -----------------------------------------------------------------------------------------------

    def fault(self, text: str, ended: Ended | None = None) -> None:
        if ended is not None:
            command = " ".join(map(shlex.quote, ended.arguments))[:500]
            text += f"\n    probtrans {command}\n    " + "\n    ".join(ended.err.splitlines()[-12:])[-3000:]
        self.faults.append(text)

    def require(self, condition: object, text: str, ended: Ended | None = None) -> bool:
        """Note what is wrong unless a condition holds; whether it does."""
        if not condition:
            self.fault(text, ended)
        return bool(condition)

    def _lost(self) -> list[str]:
        lost = []
        for name, checksum in list(self.guarded.items()):
            path = self.folder / name
            if not os.path.lexists(path):
                lost.append(f"lost file: {name!r}")
            elif _checksum(path) != checksum:
                lost.append(f"changed file: {name!r}")
            else:
                continue
            del self.guarded[name]  # told once
        return lost

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.streams, ignore_errors=True)


def judged(ended: Ended, allowed: Collection[int]) -> list[str]:
    """What is wrong with how a command ended."""
    faults = []
    if ended.hung:
        return ["hang: killed after the limit"]
    if ended.code not in allowed:
        faults.append(f"exit code {ended.code}")
    if _BUG.search(ended.err):
        faults.append("traceback")
    if ended.memory > MEMORY:
        faults.append(f"memory: {ended.memory / 1024**3:.2f} GB")
    shown = [("stderr", ended.err)]
    if ended.arguments and ended.arguments[0] not in _FREE:
        shown.append(("stdout", ended.out))
    faults += [f"control characters: {wild} on {name}" for name, text in shown if (wild := controls(text))]
    if ended.code in CODES - {0} and not re.search(r"^(error: |Usage|Error)", ended.err, re.MULTILINE):
        faults.append(f"exit code {ended.code} without a message")
    if ended.code == 0 and "--json" in ended.arguments and "--print" not in ended.arguments:
        try:
            json.loads(ended.out, parse_constant=_no_number)
        except ValueError as error:
            faults.append(f"stdout is not JSON: {error}")
    return faults


def killed_by(number: signal.Signals) -> frozenset[int]:
    """How a command may end that got a signal: by it, with a saved training, or before the signal came."""
    return CODES | STOPPED | {-number}


def controls(text: str) -> str:
    """The first characters that a terminal would obey, as they are spelled in Python; "" where there is none."""
    wild = [one for one in text if one != "\n" and (unicodedata.category(one) == "Cc" or _DIRECTIONS.match(one))]
    return "".join(wild[:5]).encode("unicode_escape").decode()


def _no_number(name: str) -> None:
    raise ValueError(name)


def _files(folder: Path) -> list[str]:
    found = []
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        found += [str(Path(parent, name).relative_to(folder)) for name in (*files, *links)]
    return sorted(found)


def _checksum(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"
