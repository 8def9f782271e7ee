"""probtrans: train, evaluate and read probabilistic transformers (Wu & Tu, Findings of ACL 2023)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probtrans_cli.imports import quickly
from probtrans_cli.version import __version__

if TYPE_CHECKING:
    from probtrans_cli.recipe.training import Precision
    from probtrans_cli.trained.model import Model

__all__ = ["__version__", "load"]


def load(checkpoint: str, *, threads: int | None = None, precision: Precision | None = None) -> Model:
    """Return the trained model of a run folder (its best checkpoint), RUN@last, RUN@2000, a checkpoint, an exported
    folder, or an installed model; ``precision``: that of its products, by default as in its training.

    Raises:
        CheckpointError: there is none, it is damaged, or it was written by another version of the format.
    """
    with quickly(compiles=True):
        from probtrans_cli.trained.model import Model  # noqa: PLC0415  (imports torch)
    return Model.load(checkpoint, threads=threads, precision=precision)
