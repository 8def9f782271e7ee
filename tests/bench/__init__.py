"""Benchmarks: they print times and ratios of one run, and no test asserts one. What they share imports no torch."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "probtrans_cli")


def parser_of(name: str, text: str | None) -> argparse.ArgumentParser:
    """The parser of ``python -m tests.bench.NAME``, whose help begins with the text of the module."""
    return argparse.ArgumentParser(
        prog=f"python -m tests.bench.{name}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def environment(**more: str) -> dict[str, str]:
    """The variables of a process that imports this checkout."""
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path, **more}


def seconds_of(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long a call takes by a clock."""
    began = clock()
    work()
    return clock() - began


def memory_of(process: int | str = "self") -> dict[str, int]:
    """What the kernel says of the memory of a process, in bytes, by its names: `VmRSS` resident, `VmHWM` its peak,
    `RssAnon` of no file. Empty: the process has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text("utf-8").splitlines()
    except OSError:
        return {}
    values = (line.partition(":") for line in lines)
    return {name: 1024 * int(value.split()[0]) for name, _, value in values if value.endswith("kB")}


def say(line: str) -> None:
    """Tell on stderr what is being done."""
    print(line, file=sys.stderr, flush=True)


def row(*columns: str) -> str:
    """A row of a table in Markdown; what stands in a failed cell is an exception's text."""
    return "| " + " | ".join(column.replace("|", "\\|") for column in columns) + " |"
