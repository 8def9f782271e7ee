"""The verb `score`: the scorers alone, for files of any system, a row of :data:`SCORERS` each.

A row names a function of ``predictions`` and ``gold`` that returns scores by name. The table is read for `--help`, so
it imports neither torch nor numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from probtrans_cli.errors import DataError, UsageError


@dataclass(frozen=True)
class Scorer:
    """What files can be scored as."""

    name: str
    help: str
    """What is in the files."""
    place: str
    """``module:function`` of what scores. It takes the predictions, the gold file or None where the file holds the gold
    itself, and options."""
    options: tuple[str, ...] = ()
    """The options that it takes by name, as in the command line but for underscores."""


_ROWS = (
    Scorer(
        "entities",
        "columns, a word a line, its tag in the last one; without --gold, the gold tag before that",
        "probtrans_cli.reports.scorers.annotations:score_entities",
        ("comments",),
    ),
    Scorer("trees", "CoNLL-U", "probtrans_cli.reports.scorers.annotations:score_trees"),
    Scorer(
        "calibration",
        "CoNLL-U or JSON lines of parse, with the probabilities of tags, labels or arcs",
        "probtrans_cli.reports.scorers.calibration:score",
        ("column", "comments"),
    ),
    Scorer(
        "carb",
        "tuples as lines of CaRB or AllenNLP, or as JSON lines",
        "probtrans_cli.openie.tuple_files:score_carb",
        ("single_match", "default_confidence"),
    ),
    Scorer("wire57", "the same files, by the Wire57-C score", "probtrans_cli.openie.tuple_files:score_wire57"),
    Scorer(
        "coordination",
        "rows of labels as in OpenIE6, or JSON lines",
        "probtrans_cli.openie.tuple_files:score_coordinations",
        ("compat",),
    ),
    Scorer(
        "pairs",
        "minimal pairs as JSON lines of BLiMP, with the surprisal of both sentences or by --model",
        "probtrans_cli.trained.surprisal:score_pairs",
        ("model",),
    ),
)
SCORERS: Mapping[str, Scorer] = {row.name: row for row in _ROWS}

if TYPE_CHECKING:
    ScorerName = str
else:
    ScorerName = Literal[tuple(SCORERS)]
    """The names, as the command line takes them."""


def score(kind: ScorerName, predictions: str, gold: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Score a file; refuse options that its scorer does not take."""
    if predictions == gold == "-":
        raise UsageError("predictions and gold cannot both be standard input", hint="give a file for one of them")
    row = SCORERS[kind]
    options = {name: value for name, value in options.items() if value is not None}
    for name, value in options.items():
        if name not in row.options:
            option = f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
            raise UsageError(f"{option}: not of {row.name}", hint="leave it out")
    scores = resolve_name(row.place)(predictions, gold, **options)
    return {"kind": kind, "predictions": predictions, "gold": gold, "scores": scores}


class FileSentence(Protocol):
    """A sentence of a file: its words, and where it stands (`file:line`), as messages begin."""

    @property
    def words(self) -> Sequence[str]: ...

    @property
    def where(self) -> str: ...


Predicted = TypeVar("Predicted", bound=FileSentence)
Gold = TypeVar("Gold", bound=FileSentence)


def same_words(predicted: FileSentence, gold: FileSentence, *, same_tokens: bool = True) -> None:
    """Raise a DataError unless two sentences have the same words, or with ``same_tokens=False`` the same text.

    Texts are compared without white space, no-break spaces included: some tools cut words there and others do not.
    """
    texts = [
        list(sentence.words) if same_tokens else "".join("".join(sentence.words).split())
        for sentence in (predicted, gold)
    ]
    if texts[0] != texts[1]:
        raise DataError(f"{predicted.where}: other words than {gold.where}", hint="score the same sentences")


def side_by_side(
    predictions: Iterable[Predicted],
    golds: Iterable[Gold],
    predicted_file: str,
    gold_file: str,
    *,
    require_same: Callable[[Predicted, Gold], None] = same_words,
) -> Iterator[tuple[Predicted, Gold]]:
    """Yield every predicted sentence with the gold sentence in its place.

    ``require_same`` raises a DataError where two sentences cannot be compared.
    """
    count = 0
    for predicted, gold in zip_longest(predictions, golds):
        if predicted is None or gold is None:
            shorter, longer = (predicted_file, gold_file) if predicted is None else (gold_file, predicted_file)
            hint = "score the same sentences, in the same order"
            raise DataError(f"{shorter}: fewer sentences than {longer}", hint=hint)
        require_same(predicted, gold)
        count += 1
        yield predicted, gold
    if not count:
        raise DataError(f"{predicted_file}: there is no sentence in it", hint="check the file")
