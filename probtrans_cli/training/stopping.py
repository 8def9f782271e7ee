"""Signals that ask a training to save and stop: SIGTERM, SIGUSR1, Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Which signal asked to stop; 0 = none. A second one is not caught."""

    def __init__(self) -> None:
        self.asked = 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Remember the signal, and let the next one act as usual."""
        del frame
        self.asked = number
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """Within: SIGTERM, SIGUSR1 and Ctrl-C ask the loop to save and stop after the current update."""
    request = StopRequest()
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
    before = [signal.signal(number, request.handle) for number in numbers]
    try:
        yield request
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
