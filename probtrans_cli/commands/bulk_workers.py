"""Several processes that do the blocks of a job, one thread each; a new one takes the place of one that dies.

A process with many threads parses more slowly than many processes with one: sentences are short. The processes are
started afresh, not forked, and told the number of a block at a time, so that none waits for another at the end.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from probtrans_cli import console, errors
from probtrans_cli.commands.bulk_blocks import BulkRequest, attempt
from probtrans_cli.commands.parse import Parsing
from probtrans_cli.data.blocks import Block
from probtrans_cli.folders.job import Job

_FEWER = "memory may have run out: give fewer --workers, or shorter sentences"
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass
class _Worker:
    process: SpawnProcess
    connection: Connection
    number: int | None = None
    """Of the block that it does."""


def attempted(request: BulkRequest, job: Job, blocks: Sequence[Block], missing: Sequence[int]) -> Iterator[int]:
    """Try the blocks that are missing; yields each of them once it is done or has failed.

    Raises:
        ProbtransError: what every worker says that cannot begin.
        OSError: the folder cannot be written.
    """
    waiting = deque(missing)
    workers: dict[Connection, _Worker] = {}
    try:
        for _ in range(min(request.workers, len(missing))):
            _start(request, job, blocks, workers)
        while workers:
            for connection in wait(list(workers)):
                worker = workers[connection]  # type: ignore[index]
                died = not _answered(worker)
                if died:
                    _bury(worker, job, blocks)
                if worker.number is not None:
                    yield worker.number
                worker.number = waiting.popleft() if waiting and not died else None
                if worker.number is not None:
                    worker.connection.send_bytes(str(worker.number).encode())
                    continue
                del workers[worker.connection]
                _end(worker)
                if waiting:
                    _start(request, job, blocks, workers)
    finally:
        for worker in workers.values():
            worker.process.terminate()
            _end(worker)


def _start(request: BulkRequest, job: Job, blocks: Sequence[Block], workers: dict[Connection, _Worker]) -> None:
    """Start one more worker. It reads the number of threads from its environment, before anything else."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        process = context.Process(target=work, args=(request, job, blocks, theirs), daemon=True)
        process.start()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    theirs.close()
    workers[ours] = _Worker(process, ours)


def _answered(worker: _Worker) -> bool:
    """Whether a worker is ready for the next block; False: it died.

    Raises:
        ProbtransError, OSError: what it cannot go on with.
    """
    try:
        told = json.loads(worker.connection.recv_bytes())
    except (EOFError, ConnectionError):
        worker.process.join()
        return False
    if "fault" in told:
        raise _fault(told["fault"])
    return True


def _bury(worker: _Worker, job: Job, blocks: Sequence[Block]) -> None:
    """Say of the block of a worker that died that it could not be done.

    Raises:
        OutOfMemoryError: it had not even begun, and others would not, either.
    """
    if worker.number is None:
        raise errors.OutOfMemoryError(f"a worker {_how(worker)} before it had begun", hint=_FEWER)
    if not job.is_done(worker.number):
        block = f"block {worker.number}: {blocks[worker.number - 1]}"
        job.fail(worker.number, f"the process {_how(worker)}\n{block}\n-> {_FEWER}")


def _end(worker: _Worker) -> None:
    worker.connection.close()
    worker.process.join()


def _how(worker: _Worker) -> str:
    """How a worker ended, in words."""
    code = worker.process.exitcode or 0
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _fault(told: dict[str, Any]) -> Exception:
    """What a worker could not go on with."""
    if told["kind"] == "OSError":
        return OSError(told["errno"], told["message"], told["file"])
    kind = getattr(errors, told["kind"], errors.ProbtransError)
    fault: errors.ProbtransError = kind(told["message"], hint=told["hint"])
    return fault


# --- a worker's side --------------------------------------------------------------------------------------------------


def work(request: BulkRequest, job: Job, blocks: Sequence[Block], connection: Connection) -> None:
    """Load the model, then do one block after the other, until there is nobody to ask for a number."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started it
    console.STATE.level = console.QUIET
    try:
        parsing = Parsing.of(request.parse)
        connection.send_bytes(b"{}")
        while number := int(connection.recv_bytes()):
            attempt(parsing, job, number, blocks[number - 1])
            connection.send_bytes(b"{}")
    except errors.ProbtransError as error:
        _tell(connection, {"kind": type(error).__name__, "message": error.message, "hint": error.hint})
    except (EOFError, ConnectionError):  # it has been told all, or who started it is gone
        pass
    except OSError as error:
        told = {"kind": "OSError", "errno": error.errno, "message": error.strerror, "file": error.filename}
        _tell(connection, told)


def _tell(connection: Connection, fault: dict[str, Any]) -> None:
    connection.send_bytes(json.dumps({"fault": fault}).encode())
