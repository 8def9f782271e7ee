"""One writer at a time in a folder. The kernel holds the lock for a process and ends it with the process.

The lock is `flock` on a small hidden file that says who holds it: process, host and command. The file is removed when
the lock is given back. One that a kill has left locks nothing.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from probtrans_cli import console
from probtrans_cli.errors import UsageError
from probtrans_cli.text import from_json, printable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".probtrans.lock"
PATIENCE = 1.0  # seconds in which a new holder surely writes its name into the file
_LONGEST = 4096  # bytes of the name of a holder


def inside(folder: Path) -> Path:
    return folder / NAME


def beside(folder: Path) -> Path:
    folder = folder.absolute()
    return folder.with_name(f".{folder.name}{NAME}")


@contextmanager
def locked(file: Path, name: str, *, wait: bool = False, hint: str | None = None) -> Iterator[bool]:
    """Within: no other process has the same lock; or, where there are no locks, what is yielded is False.

    Where there are no locks (Windows, some network file systems) it goes on with a warning. A missing parent folder is
    made; it is removed again if it stays empty.

    Args:
        wait: wait for the end of the other process, and say so, instead of refusing.
        hint: what to do where it is refused.

    Raises:
        UsageError: another process has the lock; the message names it and its host.
    """
    new = [parent for parent in file.parents if not parent.exists()]
    handle = _acquired(file, name, wait, hint)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            with suppress(OSError):
                if _is_at(handle, file):
                    file.unlink()
            os.close(handle)
        for parent in new:
            with suppress(OSError):  # it has something in it
                parent.rmdir()


@contextmanager
def held_for_a_moment(folder: Path) -> Iterator[None]:
    """Let one process at a time rename or open what is in a folder; for moments only, so nobody is named."""
    with ExitStack() as stack:
        with suppress(OSError):  # no such folder yet, or a file system without locks: go on without
            handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
            stack.callback(os.close, handle)
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _acquired(file: Path, name: str, wait: bool, hint: str | None) -> int | None:
    while True:
        handle: int | None = None
        try:
            handle = _opened(file)
            if not _flock(handle, wait=False):
                if not wait:
                    raise UsageError(f"{name} is in use by {_holder(handle)}", hint=hint)
                console.log(f"{name} is in use by {_holder(handle)}: waiting for its end")
                _flock(handle, wait=True)
            if _is_at(handle, file):
                who = {"process": os.getpid(), "host": socket.gethostname(), "command": " ".join(sys.argv)[:1000]}
                with suppress(OSError):  # a full disk: it is locked all the same
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, json.dumps(who).encode(), 0)
                return handle
        except OSError as error:
            if handle is not None:
                os.close(handle)
                with suppress(OSError):
                    file.unlink()
            reason = error.strerror or error
            console.log(f"warning: {name} cannot be locked ({reason}): let no second process write there")
            return None
        except BaseException:  # refused, or Ctrl-C while waiting
            if handle is not None:
                os.close(handle)
            raise
        os.close(handle)  # its holder removed the file in the meantime: another one counts now


def _opened(file: Path) -> int:
    """Open the lock file; make it, and its folder, where they are missing. What is no file, or has a second name
    elsewhere, is none of ours, and loses its name here: nothing may be written into it."""
    for _ in range(100):
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            status = file.lstat()  # a single look: in the next moment it may be the lock of another process
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                file.unlink()
        with suppress(FileNotFoundError):  # another process has just removed the empty folder
            return os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    raise OSError("its folder does not stay")


def _flock(handle: int, *, wait: bool) -> bool:
    """Lock an open file; False: another process has it. An OSError: there are no locks here."""
    if fcntl is None:
        raise OSError("this system has none")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _is_at(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), file.lstat())
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(ValueError, KeyError, TypeError):  # the holder is just about to write it
            who = from_json(os.pread(handle, _LONGEST, 0))
            return f"process {int(who['process'])} on {printable(str(who['host']))}"
        time.sleep(0.01)
    return "another process"
