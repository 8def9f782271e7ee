"""Signals that ask a training to save and stop: SIGTERM, SIGUSR1, SIGHUP, SIGQUIT, Ctrl-C. Imports no torch."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

from probtrans_cli.errors import StoppedError

NUMBERS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)


class StopRequest:
    """The signal that asked to stop; 0 = none. A second one acts as usual.

    ``several``: of several processes it is ignored: a scheduler and a launcher may both send one.
    """

    def __init__(self, notify: Callable[[], None], *, several: bool) -> None:
        self.signal = 0
        self.notify, self.several = notify, several

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
        raise StoppedError(f"stopped by {signal.Signals(number).name} {moment}", hint=hint)

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
