"""The forms of files of tuples and of coordinations that `convert` writes: the table :data:`WRITTEN`.

How their lines look is in :mod:`probtrans_cli.openie.tuple_writing`. The table is read for `--help`, so it imports
neither torch nor numpy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from probtrans_cli.data.sentence import extra_words
from probtrans_cli.openie import tuple_writing as lines
from probtrans_cli.openie.coordinations import TAGS, rows_to_coordinations
from probtrans_cli.openie.extractions import Extraction, tuple_to_row

LEAST_LEVELS = 3
"""So many rows of tags has a sentence with coordinations at least: OpenIE6 reads three."""


@dataclass(frozen=True)
class WrittenTuple:
    """A tuple of a file."""

    texts: Sequence[str]
    """The relation and its arguments."""
    place: Extraction | None
    """Which words of the sentence it has; None: that is not known, or it is no row of labels."""
    confidence: float = 1.0


@dataclass(frozen=True)
class SentenceWithTuples:
    """A sentence of a file, without extra words, and its tuples."""

    words: Sequence[str]
    tuples: Sequence[WrittenTuple]
    extra_words: Sequence[str]
    """What the extra words behind a sentence stand for."""
    upos: Sequence[str] | None = None

    @property
    def text(self) -> str:
        """The words with a space between two."""
        return " ".join(self.words)


Lines = list[str]


@dataclass(frozen=True)
class WrittenForm:
    """One form."""

    name: str
    help: str
    tuples: Callable[[SentenceWithTuples], Lines] | None = None
    """The lines of a sentence with tuples; None: it has no place for them."""
    coordinations: Callable[[Sequence[str], Sequence[Sequence[int]]], Lines] | None = None
    """The lines of a sentence with coordinations, of its words and rows of labels; None: it has no place for them."""
    by_words: bool = True
    """Of tuples: it says which words of the sentence a tuple has, so others are dropped; else it has their texts."""
    every_sentence: bool = False
    """It also has sentences without a tuple or coordination."""
    refuses: Callable[[Iterable[Extraction]], Iterable[str | None]] = lambda places: (None for _ in places)
    """Of the tuples of a sentence, why each cannot be written although its words are known; None: it can."""


def _added(places: Iterable[Extraction]) -> Iterable[str | None]:
    return ("with a word that the sentence lacks" if one.added else None for one in places)


def _of_columns(places: Iterable[Extraction]) -> Iterable[str | None]:
    """In the columns of supervised-oie, a predicate has one tuple, and is known by its first word."""
    heads: set[int] = set()
    for one, reason in zip(places := list(places), _added(places), strict=True):
        same = not reason and one.relation[0] in heads
        yield "of a predicate that has one" if same else reason
        if not reason:
            heads.add(one.relation[0])


# --- the lines of a sentence ------------------------------------------------------------------------------------------


def _places(one: SentenceWithTuples) -> list[tuple[Extraction, float]]:
    return [(each.place, each.confidence) for each in one.tuples if each.place is not None]


def _rows_of_tags(one: SentenceWithTuples) -> Lines:
    length, names = len(one.words), one.extra_words
    rows = [tuple_to_row(place, length, names) for place, _ in _places(one)]
    words = [*map(lines.without_blanks, one.words), *extra_words(len(names))]
    return lines.extraction_lines(words, rows or [[0] * len(words)])


def _rows_of_levels(words: Sequence[str], rows: Sequence[Sequence[int]]) -> Lines:
    """None where all words are tags, or there is none: such a line is no sentence."""
    if all(word in TAGS for word in words):
        return []
    return lines.coordination_lines([lines.without_blanks(word) for word in words], rows)


def _json(one: SentenceWithTuples) -> Lines:
    return [lines.tuples_json(one.words, [(each.texts, each.place, each.confidence) for each in one.tuples], one.upos)]


def _json_of_levels(words: Sequence[str], rows: Sequence[Sequence[int]]) -> Lines:
    found = [one for one in rows_to_coordinations(rows).values() if one is not None]
    return [lines.coordinations_json(words, found)]


def _columns(one: SentenceWithTuples) -> Lines:
    return [line for place, _ in _places(one) for line in lines.oie_conll_lines(one.words, place)]


_ROWS = (
    WrittenForm("extags", "rows of tags of tuples", _rows_of_tags, every_sentence=True),
    WrittenForm("cctags", "rows of tags of coordinations", coordinations=_rows_of_levels, every_sentence=True),
    WrittenForm(
        "tuples",
        "lines of AllenNLP",
        lambda one: [lines.allennlp_line(one.text, each.texts, each.confidence) for each in one.tuples],
        by_words=False,
    ),
    WrittenForm(
        "carb",
        "gold lines of CaRB",
        lambda one: [lines.carb_line(one.text, each.texts) for each in one.tuples],
        by_words=False,
    ),
    WrittenForm("conll", "the columns of supervised-oie", _columns, refuses=_of_columns),
    WrittenForm(
        "lsoie",
        "lines of LSOIE with positions",
        lambda one: [lines.lsoie_line(one.words, place) for place, _ in _places(one)],
        refuses=_added,
    ),
    WrittenForm(
        "openie4",
        "lines of OpenIE-4",
        lambda one: [lines.openie4_line(one.words, *each) for each in _places(one)],
    ),
    WrittenForm("jsonl", "JSON lines", _json, _json_of_levels, by_words=False, every_sentence=True),
)
WRITTEN: Mapping[str, WrittenForm] = {row.name: row for row in _ROWS}

if TYPE_CHECKING:
    WrittenName = str
else:
    WrittenName = Literal[tuple(WRITTEN)]
    """The names, as the command line takes them."""


# --- what is written of a sentence ------------------------------------------------------------------------------------


def without_what_is_refused(one: SentenceWithTuples, form: WrittenForm, counts: Counter[str]) -> SentenceWithTuples:
    """The sentence with the tuples that have a place in the form.

    ``counts``: what of the others was counted as ``kept`` is counted under the reason.
    """
    there = [each for each in one.tuples if each.place is not None]
    reasons = form.refuses(each.place for each in there if each.place is not None)
    kept = []
    for each, reason in zip(there, reasons, strict=True):
        if reason is None:
            kept.append(each)
        else:
            counts["kept"] -= 1
            counts[reason] += 1
    return SentenceWithTuples(one.words, kept, one.extra_words, one.upos)


def levels_of(rows: Sequence[Sequence[int]], least: int = LEAST_LEVELS) -> list[Sequence[int]]:
    """Rows of coordinations up to the last one with a label, ``least`` at least if there are so many."""
    used = max((i for i, row in enumerate(rows, start=1) if any(row)), default=0)
    return list(rows[: max(used, least)])
