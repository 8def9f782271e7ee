"""Lines of tuples that say where in their sentence the words of a tuple stand.

- Output of OpenIE-4, columns separated by tabs: the confidence, an empty column or a context, the first argument, the
  relation, further arguments, the sentence. A part is ``Relation(text,List([begin, end), ...))`` with the characters of
  the sentence that it covers, where ``{begin}`` is a single one; arguments are a ``SimpleArgument``, a
  ``SpatialArgument`` or a ``TemporalArgument``, and several stand in one column with ``; `` between them. ``[is]
  president [of]`` is a relation whose words in brackets the sentence lacks.
- LSOIE with positions: the sentence, then ``('text', [word numbers])`` for the relation and for every argument.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from probtrans_cli.data.tokens import words_of
from probtrans_cli.errors import DataError
from probtrans_cli.openie.extraction_rows import TupleWords
from probtrans_cli.openie.extractions import Extraction
from probtrans_cli.openie.tuple_groups import GivenSentence, GivenTuple, extraction_of, group
from probtrans_cli.text import printable

RELATION = "Relation("
_LIST = ",List("
_ARGUMENTS = ("SimpleArgument", "SpatialArgument", "TemporalArgument")
_SPAN = re.compile(r"\[(\d{1,9}), (\d{1,9})\)|\{(\d{1,9})\}")
_SPANS = re.compile(rf"((?:(?:{_SPAN.pattern})(?:, )?)*)\)\)")
_NUMBER = re.compile(r"\d{1,9}")
_HINT_OPENIE4 = "a line is: confidence TAB TAB SimpleArgument(text,List([0, 4))) TAB Relation(...) TAB ... TAB sentence"
_HINT_POSITIONS = "a line is: sentence TAB ('relation', [1]) TAB ('arg1', [0]) TAB ..."


# --- OpenIE-4 ---------------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    kind: str
    text: str
    spans: tuple[tuple[int, int], ...]


def read_openie4(lines: Iterable[str], name: str) -> Iterator[GivenSentence]:
    """Yield the sentences of a file of OpenIE-4's output.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    found = ((words_of(fields[-1]), fields, where) for fields, where in _fields(lines, name))
    return group((words, where, _openie4(fields, words, where)) for words, fields, where in found)


def _openie4(fields: Sequence[str], words: Sequence[str], where: str) -> GivenTuple:
    parts = [part for field in fields[2:-1] for part in _parts(field, where)]
    relations = [part for part in parts if part.kind == "Relation"]
    arguments = [part for part in parts if part.kind in _ARGUMENTS]
    if len(relations) != 1 or not arguments or parts.index(arguments[0]) > parts.index(relations[0]):
        raise DataError(f"{where}: not an argument and its relation", hint=_HINT_OPENIE4)
    relation, begin, end = _without_brackets(words_of(relations[0].text))
    texts = [" ".join(relation), *(part.text.strip() for part in arguments)]
    added = tuple(word for word in (begin, end) if word)
    begins = list(accumulate((len(word) + 1 for word in words), initial=0))  # of each word, with blanks between them
    place_of = {part: _touched(part, begins, words, where) for part in (*relations, *arguments)}
    others = [part for part in arguments[1:] if part.kind == _ARGUMENTS[0]]
    marked = [part for part in arguments[1:] if part.kind != _ARGUMENTS[0]]
    found: Extraction | TupleWords | str = extraction_of(
        [place_of[part] for part in (relations[0], arguments[0], *others)],
        [i for part in marked for i in place_of[part]],
        added,
    )
    if isinstance(found, str):  # overlapping: what a relation covers may have an argument in it, which its text lacks
        arg1, arg2, place = (
            [word for part in these for word in words_of(part.text)] for these in (arguments[:1], others, marked)
        )
        found = TupleWords(arg1, words_of(relations[0].text), arg2, location=place)
    return GivenTuple(texts, found, _confidence(fields[0]))


def _confidence(field: str) -> float:
    """The number in the first column; 1 where there is none."""
    try:
        return float(field) if math.isfinite(float(field)) else 1.0
    except ValueError:
        return 1.0


def _parts(field: str, where: str) -> Iterator[_Part]:
    start = 0
    while field[start : start + 1].strip():
        bracket, behind = field.find("(", start), field.find(_LIST, start)
        spans = _SPANS.match(field, behind + len(_LIST))
        if not start <= bracket < behind or spans is None:
            message = f"{where}: not the parts of a tuple: {printable(field, 60)!r}"
            raise DataError(message, hint=_HINT_OPENIE4)
        found = _SPAN.findall(spans[1])
        characters = tuple((int(begin or one), int(end or int(one) + 1)) for begin, end, one in found)
        yield _Part(field[start:bracket], field[bracket + 1 : behind], characters)
        start = spans.end() + 2 * field.startswith("; ", spans.end())


def _touched(part: _Part, begins: Sequence[int], words: Sequence[str], where: str) -> list[int]:
    """The words that spans of characters touch."""
    found: set[int] = set()
    for begin, end in part.spans:
        if not begin < end < begins[-1]:
            message = f"{where}: characters {begin} to {end} are not of the sentence, which has {begins[-1] - 1}"
            raise DataError(message, hint="words of the sentence are separated by single blanks")
        first, last = bisect_right(begins, begin) - 1, bisect_left(begins, end) - 1
        first += begin >= begins[first] + len(words[first])  # it begins at a blank
        found.update(range(first, last + 1))
    return sorted(found)


def _without_brackets(relation: Sequence[str]) -> tuple[list[str], str, str]:
    """The words of a relation, and those at its begin and end that were in brackets, empty if they were not."""
    begin, end = (_in_brackets(word) for word in (relation[0], relation[-1])) if relation else ("", "")
    words = list(relation)
    if begin:
        words[0] = begin
    if end and len(words) > 1:
        words[-1] = end
    return words, begin, end if len(words) > 1 else ""


def _in_brackets(word: str) -> str:
    return word[1:-1] if word.startswith("[") and word.endswith("]") else ""


# --- LSOIE with positions ---------------------------------------------------------------------------------------------


def read_positions(lines: Iterable[str], name: str) -> Iterator[GivenSentence]:
    """Yield the sentences of a file of LSOIE with the numbers of words; arguments stay in their order.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    found = ((words_of(fields[0]), fields, where) for fields, where in _fields(lines, name))
    return group((words, where, _positions(fields[1:], words, where)) for words, fields, where in found)


def _positions(fields: Sequence[str], words: Sequence[str], where: str) -> GivenTuple:
    parts = []
    for field in fields:
        _, bracket, numbers = field.rpartition("[")
        if not (field.startswith(("('", '("')) and field.endswith("])") and bracket):
            message = f"{where}: not a text with its word numbers: {printable(field, 60)!r}"
            raise DataError(message, hint=_HINT_POSITIONS)
        part = [int(number) for number in _NUMBER.findall(numbers)]
        if any(number >= len(words) for number in part):
            message = f"{where}: word {max(part)} of a sentence of {len(words)} words"
            raise DataError(message, hint="words are counted from 0 and separated by blanks")
        parts.append(part)
    if not parts:
        raise DataError(f"{where}: a tuple without a relation", hint=_HINT_POSITIONS)
    return GivenTuple([" ".join(words[i] for i in part) for part in parts], extraction_of([*parts, []]))


def _fields(lines: Iterable[str], name: str) -> Iterator[tuple[list[str], str]]:
    """The columns of every line that is not blank, and where it stands."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield line.removesuffix("\r").rstrip("\t").split("\t"), f"{name}:{number}"
