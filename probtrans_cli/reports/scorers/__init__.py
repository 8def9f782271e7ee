"""The scorers of `score`, for files of any system: a row each, and a file of the same name that scores.

A new one is a row of :data:`SCORERS` and a module ``reports/scorers/NAME.py`` with a function ``score(predictions,
gold)``, which returns scores by name. The table is read for `--help`, so it imports neither torch nor numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from probtrans_cli.errors import DataError


@dataclass(frozen=True)
class Scorer:
    """What files can be scored as."""

    name: str
    help: str
    """What is in the files."""
    options: tuple[str, ...] = ()
    """The options that its function takes by name, as in the command line but for underscores."""
    place: str = ""
    """``module:function`` of what scores, where it is not the function ``score`` of the module with its name."""

    def score(self, predictions: str, gold: str | None, **options: Any) -> dict[str, Any]:
        """Return the scores of a file against another, or against the gold that it holds itself.

        The options are those that the row names.

        Raises:
            DataError: a file cannot be read, or the two are not of the same sentences.
            UsageError: a gold file is needed.
        """
        function = resolve_name(self.place or f"{__name__}.{self.name}:score")
        return cast(dict[str, Any], function(predictions, gold, **options))


_ROWS = (
    Scorer(
        "entities",
        "columns, a word a line, its tag in the last one; without --gold, the gold tag before that",
        ("comments",),
    ),
    Scorer("trees", "CoNLL-U"),
    Scorer(
        "calibration",
        "CoNLL-U or JSON lines of parse, with the probabilities of tags, labels or arcs",
        ("column", "comments"),
    ),
    Scorer(
        "carb",
        "tuples as lines of CaRB or AllenNLP, or as JSON lines",
        ("single_match", "default_confidence"),
        "probtrans_cli.openie.scorers:score_carb",
    ),
    Scorer("wire57", "the same files, by the Wire57-C score", place="probtrans_cli.openie.scorers:score_wire57"),
    Scorer(
        "coordination",
        "rows of labels as in OpenIE6, or JSON lines",
        ("compat",),
        "probtrans_cli.openie.scorers:score_coordinations",
    ),
    Scorer(
        "pairs",
        "minimal pairs as JSON lines of BLiMP, with the surprisal of both sentences or by --model",
        ("model",),
        "probtrans_cli.trained.surprisal:score_pairs",
    ),
)
SCORERS: Mapping[str, Scorer] = {row.name: row for row in _ROWS}

if TYPE_CHECKING:
    ScorerName = str
else:
    ScorerName = Literal[tuple(SCORERS)]
    """The names, as the command line takes them."""


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

    Raises:
        DataError: the files have no sentence, or one has fewer than the other, or two are not the same.
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
