"""Entry point, and the one place where an error becomes an exit code."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from threading import Timer
from typing import NoReturn

from probtrans_cli import console, server
from probtrans_cli.console import is_narrow, wrapped
from probtrans_cli.errors import (
    OutOfMemoryError,
    OutputError,
    ProbtransError,
    StoppedError,
    ToldElsewhereError,
    UsageError,
    of_the_system,
)
from probtrans_cli.text import harmless, printable

BUG, INTERRUPTED, READER_GONE = 1, 130, 141
AGAIN = 0.05  # seconds until a signal that was dropped is sent again


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exits the process with a code of the table in `docs/command-line.md`."""
    console.set_up()
    arguments = sys.argv[1:] if arguments is None else arguments
    code = server.answered(arguments)
    leave(run(arguments) if code is None else code)


def leave(code: int) -> NoReturn:
    """End the process."""
    if "RANK" in os.environ:  # one of several processes
        # A thread of torch that still puts away what it has exchanged would abort the process while Python ends.
        sys.stderr.flush()
        os._exit(code)
    # At its end Python would look through all objects of torch for garbage: a quarter of the time of a short command.
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line, flush what it has written, and return its exit code."""
    # Python looks for garbage after 700 new objects: among the hundred thousands that are kept, that takes time.
    gc.set_threshold(20_000, *gc.get_threshold()[1:])
    # Large tensors on huge pages: a training step of the full model was a fifth faster on the CPU (read by torch).
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    sys.unraisablehook = send_again
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except OutputError as error:
        report(error)
        return code or error.exit_code
    except BrokenPipeError:
        return code or READER_GONE
    return code


def send_again(dropped: sys.UnraisableHookArgs) -> None:
    """Send a signal again whose exception Python has dropped, as it does while it destroys a generator or an object."""
    error = dropped.exc_value
    received = error.received if isinstance(error, StoppedError) else None
    if isinstance(error, KeyboardInterrupt):
        received = signal.SIGINT, signal.default_int_handler
    if received is None:
        sys.__unraisablehook__(dropped)
        return
    number, handler = received
    signal.signal(number, handler)
    Timer(AGAIN, os.kill, (os.getpid(), number)).start()


def _run(arguments: list[str]) -> int:
    try:
        for argument in arguments:  # such could not be written into recipes, reports and messages
            try:
                argument.encode("utf-8")
            except UnicodeEncodeError:
                hint = "rename the file, or name it through a link whose name is UTF-8"
                raise UsageError(f"the argument '{printable(argument, 200)}' is not UTF-8", hint=hint) from None
        from probtrans_cli.cli import application  # noqa: PLC0415

        return application(arguments, run)
    except ToldElsewhereError as error:
        return error.exit_code
    except ProbtransError as error:
        report(error)
        return error.exit_code
    except BrokenPipeError:  # the reader of stdout has enough
        return READER_GONE
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except Exception as error:
        if (fault := _fault_of(error, arguments)) is not None:
            report(fault)
            return fault.exit_code
        sys.stderr.write(harmless(traceback.format_exc()))
        sys.stderr.write("\nThis is a bug in probtrans. Please report it with the lines above and the command.\n")
        return BUG


def _fault_of(error: Exception, arguments: list[str]) -> ProbtransError | None:
    """Return an error of Python, torch or the system as one for the user; None: it is a bug."""
    if isinstance(error, ModuleNotFoundError) and not (error.name or "probtrans_cli").startswith("probtrans_cli"):
        hint = "install probtrans with all that it needs: pip install . in its folder (docs/install.md)"
        return UsageError(f"the package {error.name} is not installed", hint=hint)
    # torch's own errors, without its import: on the CPU it raises a plain RuntimeError.
    unallocated = isinstance(error, RuntimeError) and "allocate memory" in str(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or unallocated:
        hint = "lower eval.batch_words, or give shorter sentences" if "train" in arguments else "give shorter sentences"
        return OutOfMemoryError(f"out of memory: {str(error) or type(error).__name__}", hint=hint)
    return of_the_system(error) if isinstance(error, OSError) else None


def report(error: ProbtransError) -> None:
    lines = [f"error: {error.message}"]
    if error.hint:
        lines += [f"  -> {line}" for line in error.hint.splitlines()]
    text = harmless("\n".join(lines))
    sys.stderr.write((wrapped(text, indent="    ") if is_narrow(sys.stderr) else text) + "\n")


if __name__ == "__main__":
    main()
