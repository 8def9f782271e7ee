"""Checks that several verbs share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from probtrans_cli.errors import UsageError, unwritten


@contextmanager
def faults_of(output: Path | None, option: str, *, kept: str = "") -> Iterator[None]:
    """Within: a file that cannot be written (no such folder, a full disk) is the user's matter, with its name.

    ``kept``: what lies in the folder ``output`` already, which nobody is told to give up.
    """
    try:
        yield
    except OSError as error:
        if output is None:
            raise
        again = f"and give the same command again{f'; {kept}' if kept else ''}"
        hint = f"allow writing there, {again}" if kept else f"choose another {option}"
        name = str(error.filename or output)
        raise unwritten(name, error, UsageError, hint=hint, full=f"make room, {again}") from None
