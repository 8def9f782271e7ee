"""Checks that several verbs share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from probtrans_cli.errors import UsageError


@contextmanager
def faults_of(output: Path | None, option: str) -> Iterator[None]:
    """Within: a file that cannot be written (no such folder, a full disk) is the user's matter, with its name."""
    try:
        yield
    except OSError as error:
        if output is None:
            raise
        name = error.filename or output
        raise UsageError(f"{name}: cannot be written: {error.strerror}", hint=f"choose another {option}") from None
