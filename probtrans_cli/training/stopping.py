"""Signals that ask a training to save and stop: SIGTERM, SIGUSR1, SIGHUP, SIGQUIT, Ctrl-C. Imports no torch."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

from probtrans_cli.errors import StoppedError

NUMBERS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)


class StopRequest:
    """Which signal asked to stop; 0 = none. A second one is not caught.

    ``several``: of several processes it is, and nothing comes of it: a scheduler and a launcher may both send one.
    """

    def __init__(self, heard: Callable[[], None], *, several: bool) -> None:
        self.asked = 0
        self.heard, self.several = heard, several

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Remember the signal, and let the next one act as usual."""
        del frame
        self.asked = number
        self.heard()
        if self.several:
            return
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)

    def agreed(self, number: int) -> bool:
        """Whether all stop now: ``number`` is the signal of one of them, or 0. Nothing is written back for 0, so that a
        signal which came since it was read stays asked for."""
        if number:
            self.asked = number
        return bool(number)


@contextmanager
def stop_signals(heard: Callable[[], None] = lambda: None, *, several: bool = False) -> Iterator[StopRequest]:
    """Within: the signals ask the loop to save and stop after the current update.

    ``heard`` is called with each; ``several``: see :class:`StopRequest`.

    A signal that was ignored stays so: `nohup` ignores SIGHUP, and a shell Ctrl-C for what it runs in the background.
    """
    request = StopRequest(heard, several=several)
    heeded = [number for number in NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]
    before = [signal.signal(number, request.handle) for number in heeded]
    try:
        yield request
    finally:
        for number, handler in zip(heeded, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def stopped_at_once(what: str, hint: str, *, several: bool = False) -> Iterator[None]:
    """Within: a signal ends what is being done, as there is nothing that must be saved first. Ctrl-C does so anyway.

    A second signal acts as usual; ``several``: of several processes none does, see :class:`StopRequest`. ``what``: how
    the message goes on, such as "while preparing".

    Raises:
        StoppedError: a signal came.
    """
    if current_thread() is not main_thread():  # only that one hears signals
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        for one in heeded:
            signal.signal(one, signal.SIG_IGN if several else signal.SIG_DFL)
        raise StoppedError(f"stopped by {signal.Signals(number).name} {what}", hint=hint)

    numbers = [number for number in NUMBERS if number != signal.SIGINT]
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = [signal.signal(number, handle) for number in heeded]
    try:
        yield
    finally:
        for number, handler in zip(heeded, before, strict=True):
            signal.signal(number, handler)
