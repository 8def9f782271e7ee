"""The processes of a training: which share of the work each of them does, and how results are combined.

A process has a *rank*, a number from 0; the number of all processes is the *world*. Here is the process that is alone,
which does all of the work; several processes are a :class:`probtrans_cli.training.group.Group`. Imports no torch.
"""
# ruff: noqa: ARG002  (a process that is alone waits for nobody)

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
    """A process that is alone. In all methods, ``purpose`` says in words what is waited for."""

    rank: int = 0
    world: int = 1
    local: int | None = None  # the number of this process on its machine, and of its GPU; None: it may choose

    @property
    def first(self) -> bool:
        """Whether this is the process that speaks, writes and draws."""
        return self.rank == 0

    @property
    def name(self) -> str:
        """Its name in messages; empty for a process that is alone."""
        return "" if self.world == 1 else f"rank {self.rank} of {self.world}"

    # --- life: what several processes do at these moments ---

    def start(self, section: Runtime) -> None:
        """Get ready to exchange tensors, as the first run says."""

    def of_run(self, run: str, note: Callable[[ProbtransError], None]) -> None:
        """Note which run is trained, and how to record that another process has ended it."""

    def at(self, purpose: str) -> None:
        """Note what this process does, for the message if others wait for it in vain."""

    def signalled(self) -> None:
        """Note that a signal asks to stop."""

    def claim(self) -> None:
        """Be the process that reports the error."""

    def again(self, run: str) -> str:
        """Return the advice to the user when a run has been stopped."""
        return f"continue with: probtrans train {run} --resume"

    # --- waiting ---

    def meet(self, purpose: str) -> None:
        """Wait until all processes call this."""

    def done(self, name: str, answer: str = "") -> None:
        """Let the processes go on that wait for this event, by its name."""

    def wait_for_first(self, name: str) -> str:
        """Wait until the first process is done with something, and return its answer."""
        return ""

    def waiting(self, purpose: str, *, really: bool = True) -> AbstractContextManager[None]:
        """Enter around code that waits for the other processes; ``really=False``: it does not wait this time."""
        return nullcontext()

    # --- results ---

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Return the items of this process: the k-th is that of the rank ``k mod world``."""
        return items[self.rank :: self.world]

    def total(self, value: Tensor, purpose: str) -> Tensor:
        """Sum a tensor over all processes, in place."""
        return value

    def largest(self, number: int, purpose: str) -> int:
        """Return the largest of the processes' numbers."""
        return number

    def exchanged(self, content: bytes, purpose: str) -> list[bytes]:
        """Return the content of every process, by rank."""
        return [content]

    def of_first(self, content: bytes, purpose: str) -> bytes:
        """Return the content of the first process."""
        return content

    def together(self, arrays: Mapping[str, np.ndarray], purpose: str) -> list[Mapping[str, np.ndarray]]:
        """Return the arrays of every process, by rank."""
        if self.world == 1:
            return [arrays]
        from safetensors.numpy import load, save  # noqa: PLC0415

        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return [load(content) for content in self.exchanged(save(contiguous), purpose)]

    def dealt_back(self, results: Sequence[tuple[np.ndarray, ...]], purpose: str) -> list[tuple[np.ndarray, ...]]:
        """Return the results that all processes have for their shares of some items, in the order of the items."""
        named = {f"{k} {part}": array for k, result in enumerate(results) for part, array in enumerate(result)}
        in_order: dict[int, dict[int, np.ndarray]] = {}
        for rank, arrays in enumerate(self.together(named, purpose)):
            for name, array in arrays.items():
                k, part = map(int, name.split())
                in_order.setdefault(k * self.world + rank, {})[part] = array
        return [tuple(parts[part] for part in sorted(parts)) for _, parts in sorted(in_order.items())]

    def summed(self, counts: Mapping[Hashable, float], purpose: str) -> Mapping[Hashable, float]:
        """Sum counts over all processes; the sums are the same to the bit in each."""
        if self.world == 1:
            return counts

        def hashable(key: Any) -> Hashable:  # JSON has lists for tuples
            return tuple(map(hashable, key)) if isinstance(key, list) else key

        # Numbers of numpy become those of Python.
        content = json.dumps([[key, value] for key, value in counts.items()], default=lambda value: value.item())
        sums: dict[Hashable, float] = {}
        for part in self.exchanged(content.encode(), purpose):
            for key, value in from_json(part):
                sums[hashable(key)] = sums.get(hashable(key), 0.0) + value
        return sums


ALONE = Ranks()
