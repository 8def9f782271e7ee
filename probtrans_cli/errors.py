"""What can go wrong, one class per exit code of the command line.

A mistake of the user raises a :class:`ProbtransError`: ``message`` says what is wrong and where (file, line, column or
key), ``hint`` says what to do next. Everything else that reaches ``__main__`` is a bug and exits 1.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any


class ProbtransError(Exception):
    """Base of every error that is shown to the user without a traceback; ``exit_code`` is the process's exit status."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ProbtransError):
    """The command line is wrong: a missing file argument, contradicting options, a run folder in the way."""


class OutputError(ProbtransError):
    """Standard output cannot be written."""


class RecipeError(ProbtransError):
    """One or more faults of a recipe; the message lists all of them, one a line."""


class DataError(ProbtransError):
    """A corpus cannot be read, or does not hold what the recipe asks for."""

    exit_code = 3


class NothingToScoreError(DataError):
    """A corpus holds nothing that the task is scored by."""


class CheckpointError(ProbtransError):
    """A checkpoint is missing, damaged, or of another model."""

    exit_code = 4


class NotFiniteError(ProbtransError):
    """The loss or a gradient became NaN or infinite."""

    exit_code = 5


class OutOfMemoryError(ProbtransError):
    """A batch did not fit into memory."""

    exit_code = 6


class RequirementNotMetError(ProbtransError):
    """``eval --require`` was not fulfilled."""

    exit_code = 7


class LostError(ProbtransError):
    """Of several processes that train together, one died or does not come."""

    exit_code = 8


class ToldElsewhereError(ProbtransError):
    """Another one of several processes prints the error; this one ends in silence with the same exit code."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("printed by another process")
        self.exit_code = exit_code


class StoppedError(ProbtransError):
    """A training was stopped by a signal other than Ctrl-C after its state was saved, or with nothing to save."""

    exit_code = 75
    received: tuple[int, Callable[..., Any]] | None = None
    """The signal's number and its handler, where the handler raised this."""


class InterruptedTrainingError(ProbtransError):
    """Training was stopped by Ctrl-C after its state was saved."""

    exit_code = 130


# --- errors of the operating system -----------------------------------------------------------------------------------

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""No room: on the disk, within a quota, or within the largest size of a file."""
_UNWRITTEN = {*FULL, errno.EROFS, errno.EIO}
_NAMES = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.EPERM}


def reason(error: OSError) -> str:
    """Say what is wrong, as part of a message."""
    return "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)


def unwritten(
    name: str,
    error: OSError,
    kind: type[ProbtransError] = DataError,
    *,
    hint: str = "make room, or allow writing there",
    full: str = "make room, and give the same command again",
) -> ProbtransError:
    """Return the error of a file that cannot be written: a ``kind`` with its ``hint``, or, where there is no room, a
    :class:`DataError` with the hint ``full``. Neither hint may give up what is written already."""
    message = f"{name}: cannot be written: {reason(error)}"
    return DataError(message, hint=full) if error.errno in FULL else kind(message, hint=hint)


def without_room(error: Exception) -> OSError | None:
    """Return the system's error behind that of a library which writes files by itself, if there was no room."""
    if isinstance(error, OSError):
        return error if error.errno in FULL else None
    number = next((number for number in FULL if os.strerror(number) in str(error)), None)
    return None if number is None else OSError(number, os.strerror(number))


def of_the_system(error: OSError) -> ProbtransError | None:
    """Return an error of the system as one for the user: a full disk, a name that no file can have; else None."""
    if error.errno in _UNWRITTEN:
        return unwritten(str(error.filename or "a file"), error)
    if error.errno in _NAMES and error.filename is not None:
        return UsageError(f"{error.filename}: {reason(error)}", hint="check the path")
    return None
