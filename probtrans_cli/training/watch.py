"""A process among several: which one it is, a thread that notices when another one is lost, and signals. No torch.

The launcher says in the environment which of how many a process is, and where they meet. A process that dies or hangs
leaves the others waiting. Whoever waits too long, or loses a connection, calls the roll through the store. The threads
of all processes answer within a second and say what theirs is doing, also where it hangs; so a process that does not
answer is dead or stopped, and one that does not wait is the one that the others wait for. One of them reports it, and
all of them end.

There is one voice in the same way: a process that ends with an error says so in the store first, and only the first one
prints its error.

Signals that ask a training to save and stop are here, too: SIGTERM, SIGUSR1, SIGHUP, SIGQUIT, Ctrl-C.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from types import FrameType
from typing import Any, NoReturn

from probtrans_cli.errors import LostError, ProbtransError, StoppedError, UsageError
from probtrans_cli.text import from_json, harmless, printable

LARGEST_WORLD = 2**20
LARGEST_PORT = 2**16 - 1
HINT = "start it by --nproc, torchrun, or a launcher that sets them all (docs/processes.md); a process alone has none"
PERIOD = 0.3  # seconds between two checks
ANSWER = 4.0  # seconds in which every process that runs answers a roll-call
PATIENCE = 6.0
"""Seconds after a signal to stop before the roll is called: a launcher sends the signal, too, when a process dies."""
LEISURELY = 9.0  # seconds for answers then: a process may be busy with saving
HEARING = 5.0  # seconds for the others to hear of an error, before the process that holds the store goes
AT_THE_SAME_TIME, HEARD_AT_LAST = 1.5, 60.0
"""Seconds that another process waits for the first one to speak of the same error, and until it has spoken."""
SPEAKING = 3.0  # seconds in which the one voice speaks, where the launcher ends all processes as soon as one ends
TOLD = "PROBTRANS_TOLD"  # names the file in which the process that prints an error notes it, for `train --nproc`


@dataclass(frozen=True)
class Launched:
    """A process among several; ``local``: its number on its machine."""

    rank: int
    world: int
    local: int
    address: str
    port: int
    attempt: int  # how often `torchrun --max-restarts` has started all processes anew, after one of them had died


def launched() -> Launched | None:
    """Read from the environment which of several processes this is; None: it is alone."""
    values = {name: value for name in ("RANK", "WORLD_SIZE") if (value := os.environ.get(name))}
    if not values:
        return None
    world = _number("WORLD_SIZE", 1, LARGEST_WORLD)
    rank = _number("RANK", 0, LARGEST_WORLD)
    if rank is not None and world is not None and rank >= world:
        raise UsageError(f"RANK is {rank}, but WORLD_SIZE is {world}: ranks are 0 to {world - 1}", hint=HINT)
    if world == 1:
        return None
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing or rank is None or world is None:
        there = " and ".join(f"{name} is {value}" for name, value in values.items())
        raise UsageError(f"{there}, but there is no {', no '.join(missing)} in the environment", hint=HINT)
    local, port = _number("LOCAL_RANK", 0, LARGEST_WORLD), _number("MASTER_PORT", 1, LARGEST_PORT)
    assert port is not None, "it is not missing"
    attempt = _number("TORCHELASTIC_RESTART_COUNT", 0, LARGEST_WORLD)
    return Launched(rank, world, local or 0, os.environ["MASTER_ADDR"], port, attempt or 0)


def _number(name: str, least: int, most: int) -> int | None:
    """Return a number of the environment; None where it is not set, or empty."""
    if not (text := os.environ.get(name)):
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not least <= number <= most:
        raise UsageError(f"{name} is '{printable(text, 100)}': not a whole number from {least} to {most}", hint=HINT)
    return number


@dataclass(frozen=True)
class Fault:
    """The error that ends all processes."""

    code: int
    message: str


@dataclass(frozen=True)
class Place:
    """What a process is doing since when; ``waits``: for the others."""

    work: str
    waits: bool
    since: float


class Watch:
    """The thread of one process."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self.store, self.rank, self.world = store, rank, world
        self.timeout = float("inf")
        self.signalled: float | None = None
        """When a signal asked this process to stop."""
        self.on_fault: Callable[[ProbtransError], None] = lambda _: None
        """What the first process notes in the run folder when all ends from here."""
        self.hint: str | None = None
        """What a user can do after a loss."""
        self._place = Place("at the start", waits=False, since=time.monotonic())
        self._lost: str | None = None
        self._answered = 0
        self._spoken = False
        self._ended = Event()
        self.store.set(f"who/{rank}", f"process {os.getpid()} on {socket.gethostname()}".encode())
        self.thread = Thread(target=self._run, name="watch", daemon=True)
        self.thread.start()

    # --- called by the process ----------------------------------------------------------------------------------------

    def note(self, work: str, *, waits: bool = False) -> None:
        self._place = Place(work, waits, time.monotonic())

    def lost(self, why: str) -> NoReturn:
        """Let the watch find out whose connection broke, and wait for the end."""
        self._lost = why
        while True:
            time.sleep(1.0)

    def claim(self) -> bool:
        """Return True if this process is to print the error: the first one that asks is."""
        if not self._spoken:
            self._spoken = int(self.store.add("voices", 1)) == 1
        return self._spoken

    def tell(self, fault: Fault) -> int | None:
        """End all processes with an error. Return None if this one is to print it, else the exit code of the one that
        does; of an error that all of them meet at the same time, that is the first one."""
        if self.rank:
            self._heard_within(AT_THE_SAME_TIME)
        if not self.claim():
            heard = self._heard_within(HEARD_AT_LAST)
            _let_it_speak()
            return Fault(**from_json(self.store.get("fault"))).code if heard else fault.code
        self._publish(fault, self.world - 1)
        return None

    def end(self) -> None:
        self._ended.set()
        self.thread.join()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended.wait(PERIOD):
            try:
                self._look()
            except RuntimeError as error:  # those of torch.distributed are such
                if self._ended.wait(1.0):
                    return
                # With the store, the process, or the launcher, that held it is gone.
                if self._spoken:
                    continue
                if self.rank == min(1, self.world - 1):
                    self._print_error(f"rank 0, or the launcher beside it, is gone ({error})")
                self._leave(LostError("the store of the processes is gone"))

    def _look(self) -> None:
        if not self._spoken and self.store.check(["fault"]):
            self.store.add("heard", 1)
            fault = Fault(**from_json(self.store.get("fault")))
            error = LostError(fault.message)
            error.exit_code = fault.code
            if self.rank == 0:  # it may hold the store
                self._wait_for(self.world - 1)
            _let_it_speak()
            self._leave(error)
        self._answer()
        waited = time.monotonic() - self._place.since
        if self._lost is not None:
            self._call(ANSWER, self._lost)
        elif self._place.waits and waited > self.timeout:
            self._call(ANSWER, None)
        elif self.signalled is not None and time.monotonic() - self.signalled > PATIENCE:
            self.signalled = float("inf")
            self._call(LEISURELY, None, only_dead=True)

    def _answer(self) -> None:
        calls = int(self.store.add("calls", 0))
        while self._answered < calls:
            self._answered += 1
            self.store.set(f"answer/{self._answered}/{self.rank}", json.dumps(asdict(self._place)).encode())

    def _call(self, patience: float, why: str | None, *, only_dead: bool = False) -> None:
        """Call the roll, and end all processes with a verdict; ``only_dead``: not if all answer."""
        number = int(self.store.add("calls", 1))
        until = time.monotonic() + patience
        answers: dict[int, Place] = {}
        while len(answers) < self.world and time.monotonic() < until:
            time.sleep(PERIOD)
            self._answer()
            for rank in range(self.world):
                key = f"answer/{number}/{rank}"
                if rank not in answers and self.store.check([key]):
                    answers[rank] = Place(**from_json(self.store.get(key)))
        if self.store.check(["fault"]) or (only_dead and len(answers) == self.world):
            return
        message = self._verdict(answers, why)
        if self.claim():
            error = LostError(message, hint=self.hint)
            self._print_error(message)
            self._publish(Fault(error.exit_code, message), listeners=len(answers) - 1)
            self._leave(error)

    def _verdict(self, answers: dict[int, Place], why: str | None) -> str:
        gone = [rank for rank in range(self.world) if rank not in answers]
        if gone:
            who = ", ".join(map(self._named, gone))
            return f"{who} {'does' if len(gone) == 1 else 'do'} not answer: killed, stopped, or its machine is gone"
        late = {rank: place for rank, place in answers.items() if not place.waits}
        if late and why is None:
            who = ", ".join(f"{self._named(rank)}, which is at: {place.work}" for rank, place in late.items())
            seconds = time.monotonic() - self._place.since
            return f"{self._place.work}: the others have waited {seconds:,.0f} s for {who}"
        cause = f"{self._place.work}: waited {self.timeout:,.0f} s (runtime.timeout)" if why is None else why
        return f"the processes have lost each other: {cause}"

    def _named(self, rank: int) -> str:
        key = f"who/{rank}"
        who = self.store.get(key).decode() if self.store.check([key]) else "never seen"
        return f"rank {rank} of {self.world} ({who})"

    # --- one voice ----------------------------------------------------------------------------------------------------

    def _print_error(self, message: str) -> None:
        sys.stderr.write(harmless(f"error: {message}" + (f"\n  -> {self.hint}" if self.hint else "")) + "\n")

    def _publish(self, fault: Fault, listeners: int) -> None:
        if path := os.environ.get(TOLD):
            Path(path).write_text(json.dumps(asdict(fault)), encoding="utf-8")
        self.store.set("fault", json.dumps(asdict(fault)).encode())
        self._wait_for(listeners)

    def _wait_for(self, listeners: int) -> None:
        until = time.monotonic() + HEARING
        with suppress(RuntimeError):
            while time.monotonic() < until and int(self.store.add("heard", 0)) < listeners:
                time.sleep(0.05)

    def _heard_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.store.check(["fault"]):
                return True
            time.sleep(0.05)
        return False

    def _leave(self, error: ProbtransError) -> NoReturn:
        if self.rank == 0:
            self.on_fault(error)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(error.exit_code)


def _let_it_speak() -> None:
    """Under `torchrun`, which sends signals to all once a process ends, wait until the one voice has spoken."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        time.sleep(SPEAKING)


# --- signals ----------------------------------------------------------------------------------------------------------

NUMBERS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)


@dataclass
class StopRequest:
    """The signal that asked to stop; 0 = none. A second one acts as usual.

    ``several``: of several processes it is ignored: a scheduler and a launcher may both send one.
    """

    notify: Callable[[], None]
    several: bool
    signal: int = 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Remember the signal, and let the next one act as usual."""
        del frame
        self.signal = number
        self.notify()
        if not self.several:
            signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)


@contextmanager
def stop_signals(notify: Callable[[], None] = lambda: None, *, several: bool = False) -> Iterator[StopRequest]:
    """Within: the signals ask the loop to save and stop after the current update; ``notify`` is called with each."""
    request = StopRequest(notify, several=several)
    with _handled(_heeded(NUMBERS), request.handle):
        yield request


@contextmanager
def stopped_at_once(moment: str, hint: str, *, several: bool = False) -> Iterator[None]:
    """Within: a signal ends the work, as there is nothing to save first. Ctrl-C does so anyway."""
    if current_thread() is not main_thread():  # only that one receives signals
        yield
        return
    heeded = _heeded([number for number in NUMBERS if number != signal.SIGINT])

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        for later in heeded:
            signal.signal(later, signal.SIG_IGN if several else signal.SIG_DFL)
        error = StoppedError(f"stopped by {signal.Signals(number).name} {moment}", hint=hint)
        error.received = number, handle
        raise error

    with _handled(heeded, handle):
        yield


def _heeded(numbers: Sequence[int]) -> list[int]:
    """Leave out ignored signals: `nohup` ignores SIGHUP, and a shell Ctrl-C for what it runs in the background."""
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def _handled(numbers: Sequence[int], handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = [signal.signal(number, handle) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
