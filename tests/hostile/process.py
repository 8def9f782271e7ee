"""A warmed process that forks a child for each command: a start costs a fork, and time and memory are the child's own.

The parent runs no arithmetic, so that a child finds no thread pool half forked.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import pkgutil
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from support import counting

LIMIT = 20.0  # seconds; what takes longer hangs, unless the machine is busy: `--limit` sets it

# A function in place of the command, for what Python programs call themselves.
Function = Callable[[], int]


@dataclass(frozen=True)
class Signal:
    """A signal that a command sends to itself at a moment that does not depend on how fast the machine is."""

    number: signal.Signals
    at: int
    """Before this call of a Python function, or operation on a file; counted from 1."""
    counted: Literal["calls", "files"] = "calls"
    """``calls`` or ``files``."""


@dataclass
class Ended:
    arguments: Sequence[str]
    code: int
    """Its exit code; negative: the signal that ended it."""
    out: str
    err: str
    seconds: float
    work: float
    """Seconds of a processor."""
    memory: int
    """Bytes, the most it has held."""
    hung: bool = False
    counted: int = 0
    """Calls or operations of a command that was to count them and came to its end."""


@dataclass
class Running:
    arguments: Sequence[str]
    process: int
    streams: Path
    """The folder with its stdin, stdout and stderr."""
    began: float = field(default_factory=time.monotonic)

    def wait(self, limit: float | None = None) -> Ended:
        """Wait for the end; what takes longer than the limit (in seconds) is killed."""
        limit = LIMIT if limit is None else limit
        watched = os.pidfd_open(self.process)
        left = self.began + limit - time.monotonic()
        there, _, _ = select.select([watched], [], [], max(left, 0.0))
        os.close(watched)
        if not there:
            os.kill(self.process, signal.SIGKILL)
        _, status, usage = os.wait4(self.process, 0)
        out, err = ((self.streams / name).read_bytes().decode("utf-8", "backslashreplace") for name in ("out", "err"))
        counted = self.streams / "counted"
        return Ended(
            self.arguments, os.waitstatus_to_exitcode(status), out, err, time.monotonic() - self.began,
            usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, not there,
            int(counted.read_text()) if counted.exists() else 0,
        )  # fmt: skip


def warm() -> None:
    """Import everything that a command may import."""
    import torch._dynamo  # noqa: F401  (optimizers import it when they are made)

    import probtrans_cli

    for module in pkgutil.walk_packages(probtrans_cli.__path__, "probtrans_cli."):
        # No command imports adapters, nor, without a GPU, triton.
        if not module.name.startswith("probtrans_cli.adapters.") and ".triton_" not in module.name:
            importlib.import_module(module.name)
    from probtrans_cli.__main__ import run

    with redirect_stdout(io.StringIO()):  # what the first command makes once: signatures, checks of recipes
        assert run(["train", "quickstart", "--print"]) == 0
    gc.freeze()


def start(
    arguments: Sequence[str],
    folder: Path,
    streams: Path,
    *,
    stdin: bytes = b"",
    kill: Signal | None = None,
    function: Function | None = None,
    delay: float = 0.0,
) -> Running:
    """Start a command in a folder; its streams are files in another one."""
    streams.mkdir(parents=True, exist_ok=True)
    (streams / "in").write_bytes(stdin)
    process = os.fork()
    if process == 0:
        code = 1
        try:
            code = _child(arguments, folder, streams, kill, function, delay)
        except BaseException:  # a fault of the attack itself, not of what it attacks
            traceback.print_exc()
        finally:
            os._exit(code)
    return Running(arguments, process, streams)


def _child(
    arguments: Sequence[str], folder: Path, streams: Path, kill: Signal | None, function: Function | None, delay: float
) -> int:
    from probtrans_cli import console
    from probtrans_cli.__main__ import main

    os.chdir(folder)
    for number, name, mode in ((0, "in", os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
        opened = os.open(streams / name, mode | (os.O_CREAT | os.O_TRUNC if number else 0))
        os.dup2(opened, number)
        os.close(opened)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):  # nohup ignores some, for example
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.fsync = lambda handle: None  # guards against a loss of power, not against a kill, and costs most of the time
    sys.argv = ["probtrans", *arguments]
    time.sleep(delay)
    if function is not None:
        console.set_up()
        return function()
    count = None if kill is None else counting(kill.counted, kill.at, kill.number)
    try:
        main(list(arguments))
    except SystemExit as end:
        code = end.code
    sys.settrace(None)
    sys.stdout.flush()
    sys.stderr.flush()
    if count is not None:
        (streams / "counted").write_text(str(count()))
    return code if isinstance(code, int) else 1
