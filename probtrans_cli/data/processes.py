"""Processes that share work: those that do numbered tasks for their parent, and those of a training.

A :class:`Pool` has processes of one thread each, for as long as their parent hands tasks out. They are started afresh,
or are copies of their parent with all that it has loaded, and end with their parent. Reports go through pipes as JSON.

A process of a training has a *rank*, a number from 0; the number of all processes is the *world*. :class:`Ranks` says
which share of the work each does, and how results are combined. Here is the process that is alone, which does all of
the work; several processes are a :class:`probtrans_cli.training.group.Group`. Imports no torch.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from probtrans_cli import console, errors
from probtrans_cli.errors import ProbtransError
from probtrans_cli.text import from_json

if TYPE_CHECKING:
    from torch import Tensor

    from probtrans_cli.recipe.training import Runtime

_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
FEWER = "memory may have run out: give fewer processes, or shorter sentences"

Do = Callable[[int], Any]
Begin = Callable[..., Do]
"""Called once in a process: returns a function that does a task, by its number, and returns a report of it."""


@dataclass
class _Process:
    process: BaseProcess
    connection: Connection
    task: int | None = None  # the task that it is doing


@dataclass
class Pool:
    """``number`` processes, each of which calls ``begin(*arguments)`` first."""

    number: int
    begin: Begin
    arguments: tuple[Any, ...]
    died: Callable[[int, str], Any] | None = None
    """Called with a task whose process died and how it ended; returns the report of the task. Another process goes on
    with the remaining tasks. None: a death is an error."""
    forked: bool = False
    """Whether the processes are copies of this one, which must not have used a GPU or more than one thread."""
    _at_work: dict[Connection, _Process] = field(default_factory=dict)

    def each(self, tasks: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Do tasks, in any order; yield each with its report, as soon as it is done.

        Raises:
            ProbtransError, OSError: a process cannot go on.
            OutOfMemoryError: a process died without such an error.
        """
        waiting = deque(tasks)
        try:
            for _ in range(min(self.number, len(tasks))):
                self._start()
            while self._at_work:
                for connection in wait(list(self._at_work)):
                    worker = self._at_work[connection]  # type: ignore[index]
                    try:
                        message: dict[str, Any] = from_json(worker.connection.recv_bytes())
                    except (EOFError, ConnectionError):  # it died
                        worker.process.join()
                        code = worker.process.exitcode or 0
                        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
                        if worker.task is None or self.died is None:  # it had not begun, and others would not, either
                            raise errors.OutOfMemoryError(f"a process {how}", hint=FEWER) from None
                        message = {"done": self.died(worker.task, how)}
                    if (fault := message.get("fault")) is not None:
                        if fault["kind"] == "OSError":
                            raise OSError(fault["errno"], fault["message"], fault["file"])
                        kind = getattr(errors, fault["kind"], errors.ProbtransError)
                        raise kind(fault["message"], hint=fault["hint"])
                    alive = worker.process.is_alive()
                    if worker.task is not None:
                        yield worker.task, message["done"]
                    worker.task = waiting.popleft() if waiting and alive else None
                    if worker.task is not None:
                        try:
                            worker.connection.send_bytes(str(worker.task).encode())
                            continue
                        except ConnectionError:  # it died just now, without having begun
                            waiting.appendleft(worker.task)
                    del self._at_work[worker.connection]
                    worker.connection.close()
                    worker.process.join()
                    if waiting:
                        self._start()
        finally:
            for worker in self._at_work.values():
                worker.process.terminate()
                worker.connection.close()
                worker.process.join()
            self._at_work.clear()

    def _start(self) -> None:
        # A process reads the number of threads from its environment, before anything else.
        context = multiprocessing.get_context("fork" if self.forked else "spawn")
        ours, theirs = multiprocessing.Pipe()
        parents_ends = [*self._at_work, ours] if self.forked else []
        before = {name: os.environ.get(name) for name in _ONE_THREAD}
        os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
        try:
            process = context.Process(  # type: ignore[attr-defined]
                target=_work, args=(theirs, self.begin, self.arguments, parents_ends), daemon=True
            )
            process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        theirs.close()
        self._at_work[ours] = _Process(process, ours)


# --- in the process ---------------------------------------------------------------------------------------------------


def _work(connection: Connection, begin: Begin, arguments: tuple[Any, ...], parents_ends: Sequence[Connection]) -> None:
    for end in parents_ends:  # while a copy of it is open, nobody sees that the parent is gone
        end.close()

    def send(message: dict[str, Any]) -> None:
        connection.send_bytes(json.dumps(message).encode())

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    console.STATE.level = console.QUIET
    try:
        do = begin(*arguments)
        send({"done": None})
        while True:
            task = int(connection.recv_bytes())
            send({"done": do(task)})
    except errors.ProbtransError as error:
        send({"fault": {"kind": type(error).__name__, "message": error.message, "hint": error.hint}})
    except (EOFError, ConnectionError):  # there are no more tasks, or the parent is gone
        pass
    except OSError as error:
        name = None if error.filename is None else str(error.filename)
        send({"fault": {"kind": "OSError", "errno": error.errno, "message": error.strerror, "file": name}})


# --- the processes of a training --------------------------------------------------------------------------------------
# ruff: noqa: ARG002  (a process that is alone waits for nobody)

T = TypeVar("T")


class Ranks:
    """A process that is alone. In all methods, ``purpose`` says in words what is waited for."""

    rank: int = 0
    world: int = 1
    local: int | None = None  # the number of this process on its machine, and of its GPU; None: it may choose
    attempt: int = 0  # how often a launcher has started all processes anew

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
        self.largest(0, purpose)

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
