"""The scorers of `score`, for files of any system: a row each, and a file of the same name that scores.

A new one is a row of :data:`SCORERS` and a module ``reports/scorers/NAME.py`` with a function ``score(predictions,
gold)``, which returns scores by name. The table is read for `--help`, so it imports neither torch nor numpy.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast


@dataclass(frozen=True)
class Scorer:
    """What files can be scored as."""

    name: str
    help: str
    """What is in the files."""
    options: tuple[str, ...] = ()
    """The options that its function takes by name, as in the command line but for underscores."""

    def module(self) -> Scoring:
        """The module that scores."""
        return cast(Scoring, importlib.import_module(f"{__name__}.{self.name}"))


class Scoring(Protocol):
    """What the module of a scorer has."""

    def score(self, predictions: str, gold: str | None, **options: Any) -> dict[str, Any]:
        """Scores of a file against another, or against the gold that it holds itself where there is no other; the
        options are those that the row names.

        Raises:
            DataError: a file cannot be read, or the two are not of the same sentences.
            UsageError: a gold file is needed.
        """


_ROWS = (
    Scorer(
        "entities",
        "columns, a word a line, its tag in the last one; without --gold, the gold tag before that",
        ("comments",),
    ),
    Scorer("trees", "CoNLL-U"),
    Scorer(
        "calibration",
        "CoNLL-U or JSON lines of parse, with the probabilities of tags or labels",
        ("column", "comments"),
    ),
    Scorer("carb", "tuples as lines of CaRB or AllenNLP, or as JSON lines", ("single_match", "default_confidence")),
    Scorer("wire57", "the same files, by the Wire57-C score"),
    Scorer("coordination", "rows of labels as in OpenIE6, or JSON lines", ("compat",)),
)
SCORERS: Mapping[str, Scorer] = {row.name: row for row in _ROWS}

if TYPE_CHECKING:
    ScorerName = str
else:
    ScorerName = Literal[tuple(SCORERS)]
    """The names, as the command line takes them."""
