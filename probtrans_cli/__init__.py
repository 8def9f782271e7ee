"""probtrans: train, evaluate and read probabilistic transformers (Wu & Tu, Findings of ACL 2023)."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from probtrans_cli.version import __version__

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model

__all__ = ["__version__", "load"]


def load(checkpoint: str, *, threads: int | None = None) -> Model:
    """Return the trained model of a run folder (its best checkpoint), RUN@last, RUN@2000, a checkpoint, an exported
    folder, or an installed model.

    Raises:
        CheckpointError: there is none, it is damaged, or it was written by another version of the format.
    """
    collects = gc.isenabled()
    gc.disable()  # looking for garbage in what the import of torch makes and keeps takes a tenth of a second
    try:
        from probtrans_cli.trained.model import Model  # noqa: PLC0415  (imports torch)
    finally:
        if collects:
            gc.enable()
    return Model.load(checkpoint, threads=threads)
