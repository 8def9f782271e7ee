"""The verb `prepare`: the corpora of a recipe, encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probtrans_cli.data.corpus import prepared as corpus
from probtrans_cli.recipe.source import get_ready, load_recipe
from probtrans_cli.reports.prepared import report
from probtrans_cli.training.stopping import stopped_at_once

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class PrepareRequest:
    """What `prepare` is asked for."""

    recipe: str
    """A file, a shipped recipe's name, a run folder, or ``-``."""
    overrides: Sequence[str] = ()
    """``KEY=VALUE``, in order."""
    check: bool = False
    """Read and count everything, write nothing."""
    force: bool = False
    """Encode again even if up to date."""
    jobs: int = 1
    """So many processes count and encode."""


@dataclass(frozen=True)
class PrepareResult:
    """The encoded corpus, and whether it was ``checked``, ``prepared`` or ``up to date``."""

    state: str
    prepared: corpus.Prepared

    def record(self) -> dict[str, Any]:
        """The result for JSON."""
        return {"state": self.state, "folder": str(self.prepared.folder), **self.prepared.manifest}

    def report(self) -> Group:
        """The result for people."""
        return report(self.prepared, self.state)


def prepare(request: PrepareRequest) -> PrepareResult:
    """Encode the corpora of a recipe, unless that is up to date.

    Raises:
        RecipeError, DataError, UsageError: as their readers and :func:`probtrans_cli.data.corpus.prepared.prepare` do.
        StoppedError: a signal such as SIGTERM came.
    """
    get_ready()
    with stopped_at_once("while preparing", "the same command goes on"):
        recipe = load_recipe(request.recipe, request.overrides)
        prepared = corpus.prepare(recipe, force=request.force, check=request.check, jobs=request.jobs)
    state = "checked" if request.check else "prepared" if prepared.fresh else "up to date"
    return PrepareResult(state, prepared)
