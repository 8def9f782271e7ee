"""Checks that several verbs share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from probtrans_cli.errors import UsageError, unwritten

if TYPE_CHECKING:
    from probtrans_cli.tasks.base import Splitter
    from probtrans_cli.trained.model import Model


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


def splitter_of(model: Model, coordination: str | None, *, rescore: bool, threads: int | None) -> Splitter | None:
    """Return the model of `--coordination` in front of a model of tuples; None where none is named.

    Raises:
        UsageError: it finds no coordinations, or ``model`` no tuples; or there is nothing to rescore.
        CheckpointError: it cannot be read.
    """
    if coordination is None:
        if rescore:
            raise UsageError("--rescore is about tuples of split sentences", hint="add --coordination CKPT")
        return None
    splitting = type(model).load(coordination, threads=threads)
    return splitting.task.splitter(splitting, model, rescore=rescore)
