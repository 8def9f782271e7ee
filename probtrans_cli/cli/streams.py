"""The three standard streams as they may be: closed, full, without a reader.

What cannot be written to standard output is an error with a message. What cannot be written to standard error is lost:
there is nobody to tell, and a training is worth more than its log lines.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable

from probtrans_cli.errors import FULL, DataError, OutputError, reason
from probtrans_cli.text import harmless

STDIN, STDOUT, STDERR = 0, 1, 2


def set_up() -> None:
    """Give the process its standard streams: in UTF-8 whatever the locale, and there even where they were closed."""
    for descriptor, mode in ((STDIN, os.O_WRONLY), (STDOUT, os.O_RDONLY), (STDERR, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            nowhere = os.open(os.devnull, mode)  # the lowest number that is free
            assert nowhere == descriptor, "the streams before it are open"
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(STDIN, closefd=False)))
    sys.stdout = _text(_Output(STDOUT), "strict", by_lines=os.isatty(STDOUT))
    sys.stderr = _text(_Errors(STDERR), "backslashreplace", by_lines=True)


def tell(show: Callable[..., None]) -> None:
    """Let something write to a file that it gets, and pass that on to standard error, made harmless."""
    text = io.StringIO()
    show(file=text)
    sys.stderr.write(harmless(text.getvalue()))


def abandon(descriptor: int) -> None:
    """Send what is still written to a stream nowhere: Python writes the rest of it when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _text(raw: io.RawIOBase, errors: str, *, by_lines: bool) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors=errors, line_buffering=by_lines)


class _Stream(io.RawIOBase):
    """The end of a stream that writes to a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.descriptor

    def isatty(self) -> bool:
        return os.isatty(self.descriptor)

    def write(self, data: object) -> int:
        while True:
            try:
                return os.write(self.descriptor, data)  # type: ignore[arg-type]
            except BlockingIOError:  # another process has set the terminal so
                select.select([], [self.descriptor], [])


class _Output(_Stream):
    def write(self, data: object) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:  # the reader has enough
            abandon(self.descriptor)
            raise
        except OSError as error:
            abandon(self.descriptor)
            hint = "write to a file on another disk, or into a pipe"
            fault = OutputError(f"standard output cannot be written: {reason(error)}", hint=hint)
            if error.errno in FULL:  # a full disk has one exit code, whatever was to be written there
                fault.exit_code = DataError.exit_code
            raise fault from None


class _Errors(_Stream):
    def write(self, data: object) -> int:
        try:
            return super().write(data)
        except OSError:
            abandon(self.descriptor)
            return memoryview(data).nbytes  # type: ignore[arg-type]
