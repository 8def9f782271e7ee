"""Processes that do numbered tasks, each with one thread, for as long as their parent hands tasks out.

They are started afresh, or are copies of their parent with all that it has loaded, and end with their parent. Reports
go through pipes as JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from probtrans_cli import console, errors
from probtrans_cli.text import from_json

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

    def receive(self) -> dict[str, Any] | None:
        try:
            message: dict[str, Any] = from_json(self.connection.recv_bytes())
        except (EOFError, ConnectionError):
            self.process.join()
            return None
        if (fault := message.get("fault")) is None:
            return message
        if fault["kind"] == "OSError":
            raise OSError(fault["errno"], fault["message"], fault["file"])
        kind = getattr(errors, fault["kind"], errors.ProbtransError)
        raise kind(fault["message"], hint=fault["hint"])

    def end(self) -> None:
        self.connection.close()
        self.process.join()


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
                    message = worker.receive()
                    if message is None:
                        code = worker.process.exitcode or 0
                        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
                        if worker.task is None or self.died is None:  # it had not begun, and others would not, either
                            raise errors.OutOfMemoryError(f"a process {how}", hint=FEWER)
                        message = {"done": self.died(worker.task, how)}
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
                    worker.end()
                    if waiting:
                        self._start()
        finally:
            for worker in self._at_work.values():
                worker.process.terminate()
                worker.end()
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
