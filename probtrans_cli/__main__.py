"""Entry point, and the one place where an error becomes an exit code."""

from __future__ import annotations

import io
import os
import sys
import traceback

from probtrans_cli.errors import OutOfMemoryError, ProbtransError

BUG, INTERRUPTED, READER_GONE = 1, 130, 141


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exits the process with a code of the table in `docs/command-line.md`."""
    for stream in (sys.stdout, sys.stderr):  # UTF-8 whatever the locale
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace" if stream is sys.stderr else "strict")
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    # Large tensors on huge pages: a training step of the full model was a fifth faster on the CPU (read by torch).
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    try:
        from probtrans_cli.cli.application import application  # noqa: PLC0415

        code = application(arguments)
        sys.stdout.flush()
    except ProbtransError as error:
        report(error)
        return error.exit_code
    except BrokenPipeError:
        # The reader of stdout has enough; without this, Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except Exception as error:
        # torch's own errors, without its import: on the CPU it raises a plain RuntimeError.
        unallocated = isinstance(error, RuntimeError) and "allocate memory" in str(error)
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or unallocated:
            hint = "lower eval.batch_words, or give shorter sentences"
            report(OutOfMemoryError(f"out of memory: {error}", hint=hint))
            return OutOfMemoryError.exit_code
        traceback.print_exc()
        sys.stderr.write("\nThis is a bug in probtrans. Please report it with the lines above and the command.\n")
        return BUG
    return code


def report(error: ProbtransError) -> None:
    """Say what is wrong and what to do, on stderr."""
    lines = [f"error: {error.message}"]
    if error.hint:
        lines += [f"  -> {line}" for line in error.hint.splitlines()]
    sys.stderr.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
