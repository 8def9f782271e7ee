"""What a launcher says of this process in its environment, checked: which of how many it is, and where they meet.
Imports no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass

from probtrans_cli.errors import UsageError
from probtrans_cli.text import printable

LARGEST_WORLD = 2**20
LARGEST_PORT = 2**16 - 1
HINT = "start it by --nproc, torchrun, or a launcher that sets them all (docs/processes.md); a process alone has none"


@dataclass(frozen=True)
class Launched:
    """This process among several."""

    rank: int
    world: int
    local: int
    address: str
    port: int
    attempt: int
    """How often `torchrun --max-restarts` has started all processes anew."""

    @property
    def meeting_place(self) -> str:
        """Where the processes meet."""
        return f"{self.address}:{self.port} (MASTER_ADDR, MASTER_PORT)"


def launched() -> Launched | None:
    """This process as one of several that a launcher has started; None: it is alone.

    Raises:
        UsageError: a variable is missing, or is not such a number; it is named.
    """
    given = {name: value for name in ("RANK", "WORLD_SIZE") if (value := os.environ.get(name))}
    if not given:
        return None
    world = _number("WORLD_SIZE", 1, LARGEST_WORLD) if "WORLD_SIZE" in given else None
    rank = _number("RANK", 0, LARGEST_WORLD) if "RANK" in given else None
    if rank is not None and world is not None and rank >= world:
        raise UsageError(f"RANK is {rank}, but WORLD_SIZE is {world}: ranks are 0 to {world - 1}", hint=HINT)
    if world == 1:
        return None
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing or rank is None or world is None:
        there = " and ".join(f"{name} is {value}" for name, value in given.items())
        raise UsageError(f"{there}, but there is no {', no '.join(missing)} in the environment", hint=HINT)
    local = _number("LOCAL_RANK", 0, LARGEST_WORLD) if os.environ.get("LOCAL_RANK") else 0
    return Launched(rank, world, local, os.environ["MASTER_ADDR"], _number("MASTER_PORT", 1, LARGEST_PORT), attempts())


def attempts() -> int:
    """How often `torchrun --max-restarts` has started all processes anew, after one of them had died.

    Raises:
        UsageError: TORCHELASTIC_RESTART_COUNT is no such number.
    """
    name = "TORCHELASTIC_RESTART_COUNT"
    return _number(name, 0, LARGEST_WORLD) if os.environ.get(name) else 0


def _number(name: str, least: int, most: int) -> int:
    text = os.environ[name]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not least <= number <= most:
        raise UsageError(f"{name} is '{printable(text, 100)}': not a whole number from {least} to {most}", hint=HINT)
    return number
