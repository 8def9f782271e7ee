"""The processes of one training: what each of them does of a whole, and how the parts become a whole again.

A process has a *rank*, a number from 0; the number of all processes is the *world*. Here is the one process that is
alone, for which every part is the whole; several are a :class:`probtrans_cli.training.group.Group`. Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from probtrans_cli.errors import ProbtransError
from probtrans_cli.text import from_json

if TYPE_CHECKING:
    from torch import Tensor

    from probtrans_cli.recipe.training import Runtime

T = TypeVar("T")


class Ranks:
    """One process that is alone."""

    rank: int = 0
    world: int = 1
    local: int | None = None
    """The number of this process on its machine, which is that of its GPU; None: it may choose."""

    def start(self, section: Runtime) -> None:
        """Be ready to exchange tensors, as the first run says."""
        del section

    @property
    def first(self) -> bool:
        """Whether this is the process that speaks, writes and draws."""
        return self.rank == 0

    @property
    def name(self) -> str:
        """For messages; nothing where there is one process."""
        return "" if self.world == 1 else f"rank {self.rank} of {self.world}"

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Those of the items that are this process's: the k-th is that of the rank ``k mod world``."""
        return items[self.rank :: self.world]

    def total(self, value: Tensor, purpose: str) -> Tensor:
        """The sum of a tensor over all processes, in place; ``purpose``: what is waited for, in words. So below."""
        del purpose
        return value

    def largest(self, number: int, purpose: str) -> int:
        """The largest of the numbers that the processes have."""
        del purpose
        return number

    def exchanged(self, content: bytes, purpose: str) -> list[bytes]:
        """What every process has, by rank."""
        del purpose
        return [content]

    def of_first(self, content: bytes, purpose: str) -> bytes:
        """What the first process has."""
        del purpose
        return content

    def meet(self, purpose: str) -> None:
        """Wait until all processes are here."""
        del purpose

    def done(self, name: str, answer: str = "") -> None:
        """Let the others go on that wait for this, by its name."""
        del name, answer

    def wait_for_first(self, name: str) -> str:
        """Wait until the first process has done something, and return what it answers."""
        del name
        return ""

    def of_run(self, run: str, note: Callable[[ProbtransError], None]) -> None:
        """Hear which run is trained, and how to note that another process has ended it."""
        del run, note

    def again(self, run: str) -> str:
        """What a user is told to do when a run has been stopped."""
        return f"continue with: probtrans train {run} --resume"

    def at(self, purpose: str) -> None:
        """Note what is being done, to be told where the others wait for it in vain."""
        del purpose

    def signalled(self) -> None:
        """Note that a signal asks to stop."""

    def waiting(self, purpose: str, *, really: bool = True) -> AbstractContextManager[None]:
        """Around what ends only when the other processes come, too; ``really``: or what does not wait this time."""
        del purpose, really
        return nullcontext()

    def claim(self) -> None:
        """Be the one that tells of what has gone wrong."""

    def together(self, arrays: Mapping[str, np.ndarray], purpose: str) -> list[Mapping[str, np.ndarray]]:
        """The arrays of every process, by rank."""
        if self.world == 1:
            return [arrays]
        from safetensors.numpy import load, save  # noqa: PLC0415

        plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return [load(part) for part in self.exchanged(save(plain), purpose)]

    def dealt_back(self, items: Sequence[tuple[np.ndarray, ...]], purpose: str) -> list[tuple[np.ndarray, ...]]:
        """What all processes made of their shares of some items, in the order of the items."""
        named = {f"{k} {part}": array for k, item in enumerate(items) for part, array in enumerate(item)}
        result: dict[int, dict[int, np.ndarray]] = {}
        for rank, arrays in enumerate(self.together(named, purpose)):
            for name, array in arrays.items():
                k, part = map(int, name.split())
                result.setdefault(k * self.world + rank, {})[part] = array
        return [tuple(parts[part] for part in sorted(parts)) for _, parts in sorted(result.items())]

    def summed(self, counts: Mapping[Hashable, float], purpose: str) -> Mapping[Hashable, float]:
        """Counts over all processes; the same to the bit in each."""
        if self.world == 1:
            return counts
        total: dict[Hashable, float] = {}
        for part in self.exchanged(_written(counts), purpose):
            for key, value in _read(part).items():
                total[key] = total.get(key, 0.0) + value
        return total


ALONE = Ranks()


def _written(counts: Mapping[Hashable, float]) -> bytes:
    return json.dumps([[key, value] for key, value in counts.items()], default=_plain).encode()


def _read(content: bytes) -> dict[Hashable, float]:
    return {_hashable(key): value for key, value in from_json(content)}


def _plain(value: Any) -> int | float | str:
    """A number of numpy's as one of Python's."""
    result: int | float | str = value.item()
    return result


def _hashable(key: Any) -> Hashable:
    """A key as it was before it was written: JSON has lists for tuples."""
    return tuple(map(_hashable, key)) if isinstance(key, list) else key
