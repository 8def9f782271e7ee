"""Several processes that train one model, and what they exchange.

They are started by anything that gives each of them `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT` in its
environment: ``probtrans train --nproc N``, `torchrun`, or a shell with `srun`. They find each other through a store at
that address, and exchange tensors by gloo (CPU) and nccl (GPU).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Timer

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, TCPStore, rendezvous  # type: ignore[attr-defined]

from probtrans_cli import console
from probtrans_cli.data.processes import Ranks
from probtrans_cli.errors import LostError, OutOfMemoryError, ProbtransError, ToldElsewhereError, UsageError
from probtrans_cli.recipe.training import Runtime
from probtrans_cli.training.watch import TOLD, Fault, Launched, Watch

SPARE = 300.0
"""Seconds after `runtime.timeout` in which the watch says who is missing, before the library gives up by itself."""
_MINUTES = 30
MEETING = timedelta(minutes=_MINUTES)  # how long processes wait for each other at the start
LONG = 10.0  # seconds of waiting at the start, after which a line says so


class Group(Ranks):
    """This process among several. Start it with :func:`joined`.

    Raises:
        LostError: the others do not come.
        UsageError: the processes cannot meet where they were told to.
    """

    def __init__(self, place: Launched) -> None:
        self.rank, self.world, self.local, self.attempt = place.rank, place.world, place.local, place.attempt
        self.meeting_place = f"{place.address}:{place.port} (MASTER_ADDR, MASTER_PORT)"
        try:
            with self._long_waits_reported():
                store, _, _ = next(rendezvous("env://", self.rank, self.world, timeout=MEETING))
        except dist.DistError as error:
            line = str(error).split("\n", 1)[0]
            message = f"{self.name}: the processes do not meet at {self.meeting_place}: {line}"
            if "timed out" in message.lower():
                raise LostError(message, hint=f"start all of them within {_MINUTES} minutes") from None
            raise UsageError(message, hint="name the machine of rank 0, and a port that is free there") from None
        # `torchrun` starts processes again at the same store, where the addresses of those before still stand.
        self.store = PrefixStore(f"probtrans/{place.attempt}", store)
        # The thread that watches has a connection to the store of its own.
        second = TCPStore(
            place.address, place.port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=60)
        )
        self.watch = Watch(PrefixStore(f"probtrans/watch/{place.attempt}", second), self.rank, self.world)

    @contextmanager
    def _long_waits_reported(self) -> Iterator[None]:
        words = f"{self.name}: waiting for the others at {self.meeting_place}, for at most {_MINUTES} minutes"
        timer = Timer(LONG, console.log, [words])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def start(self, section: Runtime) -> None:
        """Get ready to exchange tensors, once a process, as the recipe of the first run says."""
        if dist.is_initialized():
            return
        self.watch.timeout = section.timeout
        wait = timedelta(seconds=section.timeout + SPARE)
        cuda = section.device == "cuda" or (section.device == "auto" and torch.cuda.is_available())
        backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
        with self.waiting("the others at the start"), self._long_waits_reported():
            dist.init_process_group(backend, store=self.store, rank=self.rank, world_size=self.world, timeout=wait)

    def of_run(self, run: str, note: Callable[[ProbtransError], None]) -> None:
        self.watch.on_fault = note
        self.watch.hint = f"continue with the same command and --resume (the run is {run})"

    def again(self, run: str) -> str:
        if TOLD in os.environ:  # by `train --nproc`
            return f"{super().again(run)} --nproc {self.world}"
        return f"continue with the same command and --resume (the run is {run})"

    # --- what the processes exchange ----------------------------------------------------------------------------------

    @contextmanager
    def waiting(self, purpose: str, *, really: bool = True) -> Iterator[None]:
        if not really:
            yield
            return
        self.watch.note(purpose, waits=True)
        try:
            yield
        except RuntimeError as error:
            # Errors of the connection are those of another process; the rest are this one's.
            signs = ("gloo", "Gloo", "NCCL", "Connection closed by peer", "Socket Timeout")
            if not (isinstance(error, dist.DistError) or any(sign in str(error) for sign in signs)):
                raise
            self.watch.lost(f"{purpose}: {error}")
        finally:
            self.watch.note(f"after {purpose}")

    def signalled(self) -> None:
        self.watch.signalled = self.watch.signalled or time.monotonic()

    def at(self, purpose: str) -> None:
        self.watch.note(purpose)

    def total(self, value: Tensor, purpose: str) -> Tensor:
        with self.waiting(purpose):
            dist.all_reduce(value)
        return value

    def largest(self, number: int, purpose: str) -> int:
        largest = torch.tensor(number)
        with self.waiting(purpose):
            dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest)

    def exchanged(self, content: bytes, purpose: str) -> list[bytes]:
        sizes = [torch.zeros((), dtype=torch.int64) for _ in range(self.world)]
        with self.waiting(purpose):
            dist.all_gather(sizes, torch.tensor(len(content)))
            longest = max(1, *map(int, sizes))
            padded = torch.frombuffer(bytearray(content.ljust(longest, b"\0")), dtype=torch.uint8)
            parts = [torch.empty_like(padded) for _ in range(self.world)]
            dist.all_gather(parts, padded)
        return [bytes(part.numpy()[: int(size)]) for part, size in zip(parts, sizes, strict=True)]

    def of_first(self, content: bytes, purpose: str) -> bytes:
        size = torch.tensor(len(content) if self.first else 0)
        with self.waiting(purpose):
            dist.broadcast(size, 0)
            buffer = content if self.first else bytes(int(size))
            tensor = torch.frombuffer(bytearray(buffer or b"\0"), dtype=torch.uint8)
            dist.broadcast(tensor, 0)
        return bytes(tensor.numpy()[: int(size)])

    # --- what the first process does alone, however long it takes -----------------------------------------------------

    def done(self, name: str, answer: str = "") -> None:
        self.store.set(f"done/{name}", answer)

    def wait_for_first(self, name: str) -> str:
        """Wait until the first process has done something, and return what it answers."""
        self.watch.note(f"until rank 0 has done this: {name}")
        while not self.store.check([f"done/{name}"]):
            time.sleep(0.1)
        return self.store.get(f"done/{name}").decode()

    # --- the end ------------------------------------------------------------------------------------------------------

    def claim(self) -> None:
        self.watch.claim()

    def end(self, error: BaseException | None) -> BaseException | None:
        """Part from the other processes. Return the error to raise: ``error`` itself, or silence if another process
        prints it."""
        result = None
        if error is None:
            self.meet("the others at the end")
        else:
            if isinstance(error, MemoryError | torch.OutOfMemoryError):
                error = OutOfMemoryError(f"{self.name}: out of memory", hint="lower eval.batch_words")
            if isinstance(error, ProbtransError):
                if not (self.first or self.name in error.message):
                    error.message = f"{self.name}: {error.message}"
                fault = Fault(error.exit_code, error.message)
            else:
                code = 130 if isinstance(error, KeyboardInterrupt) else 1
                fault = Fault(code, str(error) or type(error).__name__)
            elsewhere = self.watch.tell(fault)
            result = error if elsewhere is None else ToldElsewhereError(elsewhere)
        self.watch.end()
        if dist.is_initialized() and (error is None or dist.get_backend() == "gloo"):  # nccl would wait for the others
            dist.destroy_process_group()
        return result


@contextmanager
def joined(place: Launched) -> Iterator[Group]:
    """Within: this process is one of several. An error in one ends all of them, and is printed once."""
    group = Group(place)
    try:
        yield group
    except BaseException as error:
        raised = group.end(error)
        if raised is error:
            raise
        assert raised is not None, "an error stays one"
        raise raised from None
    else:
        group.end(None)
