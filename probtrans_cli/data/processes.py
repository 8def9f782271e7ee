"""Processes of our own that do one task after the other, each with one thread, as long as somebody tells them which.

They are started afresh, not forked, and end with whoever started them: then there is nobody to tell. What they say goes
through pipes as JSON.
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
from multiprocessing.context import SpawnProcess
from typing import Any

from probtrans_cli import console, errors
from probtrans_cli.text import from_json

_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
FEWER = "memory may have run out: give fewer processes, or shorter sentences"

Do = Callable[[int], Any]
Begin = Callable[..., Do]
"""Called once in a process: returns what does a task by its number, and what is told of it."""


@dataclass
class _Process:
    process: SpawnProcess
    connection: Connection
    task: int | None = None
    """What it does."""


@dataclass
class Pool:
    """``number`` processes, each of which calls ``begin(*given)`` first."""

    number: int
    begin: Begin
    given: tuple[Any, ...]
    died: Callable[[int, str], Any] | None = None
    """What is told of a task whose process died, from the task and how it ended; another process goes on with the
    others. None: that is an error."""
    _at_work: dict[Connection, _Process] = field(default_factory=dict)

    def each(self, tasks: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Do tasks, in any order; yields each with what was told of it, as soon as it is done.

        Raises:
            ProbtransError, OSError: what a process cannot go on with.
            OutOfMemoryError: a process died, which is no such.
        """
        waiting = deque(tasks)
        try:
            for _ in range(min(self.number, len(tasks))):
                self._start()
            while self._at_work:
                for connection in wait(list(self._at_work)):
                    one = self._at_work[connection]  # type: ignore[index]
                    told = _told(one)
                    if told is None:
                        told = {"done": self._bury(one)}
                    alive = one.process.is_alive()
                    if one.task is not None:
                        yield one.task, told["done"]
                    one.task = waiting.popleft() if waiting and alive else None
                    if one.task is not None:
                        try:
                            one.connection.send_bytes(str(one.task).encode())
                            continue
                        except ConnectionError:  # it died just now, without having begun
                            waiting.appendleft(one.task)
                    del self._at_work[one.connection]
                    _end(one)
                    if waiting:
                        self._start()
        finally:
            for one in self._at_work.values():
                one.process.terminate()
                _end(one)
            self._at_work.clear()

    def _start(self) -> None:
        """Start one more process. It reads the number of threads from its environment, before anything else."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        before = {name: os.environ.get(name) for name in _ONE_THREAD}
        os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
        try:
            process = context.Process(target=_work, args=(theirs, self.begin, self.given), daemon=True)
            process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        theirs.close()
        self._at_work[ours] = _Process(process, ours)

    def _bury(self, one: _Process) -> Any:
        """What is told of the task of a process that died.

        Raises:
            OutOfMemoryError: it had not even begun, and others would not, either.
        """
        how = _how(one.process.exitcode or 0)
        if one.task is None or self.died is None:
            raise errors.OutOfMemoryError(f"a process {how}", hint=FEWER)
        return self.died(one.task, how)


def _told(one: _Process) -> dict[str, Any] | None:
    """What a process tells; None: it died.

    Raises:
        ProbtransError, OSError: what it cannot go on with.
    """
    try:
        told: dict[str, Any] = from_json(one.connection.recv_bytes())
    except (EOFError, ConnectionError):
        one.process.join()
        return None
    if "fault" in told:
        raise _fault(told["fault"])
    return told


def _end(one: _Process) -> None:
    one.connection.close()
    one.process.join()


def _how(code: int) -> str:
    """How a process ended, in words."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _fault(told: dict[str, Any]) -> Exception:
    if told["kind"] == "OSError":
        return OSError(told["errno"], told["message"], told["file"])
    kind = getattr(errors, told["kind"], errors.ProbtransError)
    fault: errors.ProbtransError = kind(told["message"], hint=told["hint"])
    return fault


# --- the other side ---------------------------------------------------------------------------------------------------


def _work(connection: Connection, begin: Begin, given: tuple[Any, ...]) -> None:
    """Do one task after the other, until there is nobody to ask for a number."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started it
    console.STATE.level = console.QUIET
    try:
        do = begin(*given)
        _tell(connection, {"done": None})
        while True:
            task = int(connection.recv_bytes())
            _tell(connection, {"done": do(task)})
    except errors.ProbtransError as error:
        fault = {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
        _tell(connection, {"fault": fault})
    except (EOFError, ConnectionError):  # it has been told all, or who started it is gone
        pass
    except OSError as error:
        name = None if error.filename is None else str(error.filename)
        _tell(connection, {"fault": {"kind": "OSError", "errno": error.errno, "message": error.strerror, "file": name}})


def _tell(connection: Connection, what: dict[str, Any]) -> None:
    connection.send_bytes(json.dumps(what).encode())
