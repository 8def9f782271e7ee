"""Files of tuples of open information extraction: gold tuples and the predictions of any system.

So `score` reads them; as corpora, :mod:`probtrans_cli.openie.corpora` reads these and more. A file has one of
three forms, which its first line tells:

- CaRB's lines: gold is ``sentence TAB relation TAB arg1 TAB arg2 ...``, a prediction has its confidence behind the
  sentence. As in CaRB's own readers, white space at the ends of a line is no part of it, so that empty arguments at the
  end of a line are as if they were not written; gold arguments with ``C:`` in them (context) do not count. Predictions
  without a column of confidences, for which there is a default, are lines of gold; the first line that has something
  behind the sentence tells whether a file has the column.
- Tuple lines of AllenNLP: ``sentence TAB <arg1> A </arg1> <rel> R </rel> <arg2> B </arg2> TAB confidence``.
- JSON lines: an object a sentence, ``{"text": ..., "tuples": [{"arg1": ..., "rel": ..., "arg2": ..., "confidence":
  ...}]}``; ``words`` may stand for ``text``.

In the last two a tuple always has a second argument, which may be empty.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from probtrans_cli.errors import DataError
from probtrans_cli.openie.tuple_texts import TupleText
from probtrans_cli.text import from_json, printable

_TAGS = {name: re.compile(f"<{name}>(.*?)</{name}>") for name in ("arg1", "rel", "arg2")}
_CONTEXT = "C: "
_REMEDY = "every prediction needs a finite number; --default-confidence X is taken where there is none"


class SentenceTuple(NamedTuple):
    """A tuple of a file, or only a sentence of JSON lines where ``parts`` is None."""

    sentence: str
    parts: TupleText | None
    where: str


def read_gold(lines: Iterable[str], name: str) -> Iterator[SentenceTuple]:
    """Yield the tuples of a gold file.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    for fields, where in _lines(lines, name):
        if isinstance(fields, _Json):
            yield from tuples_of_record(fields.record, where, 1.0)
        elif fields[1:2] and _is_tagged(fields[1]):
            has_confidence = math.isfinite(_number(" ".join(fields[2:3])) or math.nan)
            yield _from_tags(fields if has_confidence else fields[:2], where, 1.0)
        else:
            yield _from_gold(fields, where, 1.0, "gold tuple")


def read_predictions(
    lines: Iterable[str], name: str, default_confidence: float | None = None
) -> Iterator[SentenceTuple]:
    """Yield the tuples of a file of predictions.

    Args:
        lines: of the file.
        name: how messages call it.
        default_confidence: of tuples that have none or NaN; None: that is an error.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    given, told = _lines(lines, name), True
    if default_confidence is not None:
        told, given = _has_column(given)
    for fields, where in given:
        if isinstance(fields, _Json):
            yield from tuples_of_record(fields.record, where, default_confidence)
        elif fields[1:2] and _is_tagged(fields[1]):
            yield _from_tags(fields, where, default_confidence)
        elif default_confidence is None or (told and _may_be_confidence(fields)):
            yield _from_fields(fields, where, default_confidence)
        else:
            yield _from_gold(fields, where, default_confidence, "prediction")


class _Json(NamedTuple):
    record: Mapping[str, Any]


def _lines(lines: Iterable[str], name: str) -> Iterator[tuple[list[str] | _Json, str]]:
    """The fields of every line that is not blank, or the object that it is; and where it stands."""
    is_json: bool | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        if is_json is None:
            is_json = line.lstrip().startswith("{") and "\t" not in line.strip()
        yield _Json(_record(line, where)) if is_json else line.strip().split("\t"), where


def records(lines: Iterable[str], name: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the object of every line of JSON lines that is not blank, and where it stands.

    Raises:
        DataError: a line is none; the message begins with ``name:line:``.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _record(line, f"{name}:{number}"), f"{name}:{number}"


def _record(line: str, where: str) -> Mapping[str, Any]:
    try:
        record = from_json(line)
    except ValueError as error:
        raise DataError(f"{where}: not JSON ({error})", hint="one object a line") from None
    if not isinstance(record, dict):
        raise DataError(f"{where}: not a JSON object", hint='a line is {"text": "...", "tuples": [...]}')
    return record


def _is_tagged(field: str) -> bool:
    return "<arg1>" in field or "<rel>" in field


def _has_column(given: Iterator[tuple[list[str] | _Json, str]]) -> tuple[bool, Iterator[tuple[list[str] | _Json, str]]]:
    """Whether lines of CaRB have a column of confidences, which the first one that is not empty there tells; and all
    lines."""
    seen: list[tuple[list[str] | _Json, str]] = []
    for fields, where in given:
        seen.append((fields, where))
        if isinstance(fields, _Json) or (fields[1:2] and fields[1].strip()):
            return isinstance(fields, list) and _may_be_confidence(fields), chain(seen, given)
    return True, iter(seen)


def _may_be_confidence(fields: Sequence[str]) -> bool:
    """Whether what stands behind the sentence is a number, or nothing."""
    return len(fields) > 1 and (not fields[1].strip() or _number(fields[1]) is not None)


def _from_gold(fields: Sequence[str], where: str, confidence: float, what: str) -> SentenceTuple:
    """A line of CaRB's gold; ``what``: it is in messages."""
    if len(fields) < 2:
        hint = "a line is: sentence TAB relation TAB arg1 TAB arg2 ..."
        raise DataError(f"{where}: a {what} without a relation: the line has one field", hint=hint)
    arguments = tuple(one.strip() for one in fields[2:] if _CONTEXT not in one)
    return SentenceTuple(fields[0], TupleText(fields[1].strip(), arguments, confidence), where)


def _from_fields(fields: Sequence[str], where: str, default: float | None) -> SentenceTuple:
    """A line of CaRB with a confidence."""
    if len(fields) < 3:
        hint = "a line is: sentence TAB confidence TAB relation TAB arg1 TAB arg2 ..."
        raise DataError(f"{where}: not a prediction: the line has {len(fields)} of at least 3 fields", hint=hint)
    confidence = _confidence(fields[1], where, default)
    return SentenceTuple(fields[0], TupleText(fields[2], tuple(fields[3:]), confidence), where)


def _from_tags(fields: Sequence[str], where: str, default: float | None) -> SentenceTuple:
    found = {name: tag.search(fields[1]) for name, tag in _TAGS.items()}
    missing = [name for name in ("arg1", "rel") if found[name] is None]
    if missing:
        hint = "a tuple is <arg1> A </arg1> <rel> R </rel> <arg2> B </arg2>"
        raise DataError(f"{where}: no <{missing[0]}> ... </{missing[0]}>", hint=hint)
    arg1, relation, arg2 = ("" if one is None else one[1].strip() for one in found.values())
    confidence = _confidence(fields[2] if len(fields) > 2 else "", where, default)
    return SentenceTuple(fields[0], TupleText(relation, (arg1, arg2), confidence), where)


def tuples_of_record(record: Mapping[str, Any], where: str, default: float | None) -> Iterator[SentenceTuple]:
    """The tuples of an object, or its sentence if it has none.

    ``default``: the confidence of tuples that have none; None: that is an error.

    Raises:
        DataError: it is no sentence with tuples; the message begins with ``where``.
    """
    text, words, tuples = record.get("text"), record.get("words"), record.get("tuples")
    if not isinstance(text, str):
        if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise DataError(f"{where}: neither text nor words", hint='a line is {"text": "...", "tuples": [...]}')
        text = " ".join(words)
    if not (isinstance(tuples, list) and all(isinstance(one, dict) for one in tuples)):
        raise DataError(f"{where}: no list of tuples", hint='"tuples": [{"arg1": "...", "rel": "...", ...}]')
    if not tuples:
        yield SentenceTuple(text, None, where)
    for number, one in enumerate(tuples, start=1):
        arg1, relation, arg2 = one.get("arg1"), one.get("rel"), one.get("arg2", "")
        for key, value in (("arg1", arg1), ("rel", relation), ("arg2", arg2)):
            if not isinstance(value, str):
                raise DataError(f"{where}: tuple {number}: {key} is no text", hint='"arg1", "rel" and "arg2" are text')
        confidence = _confidence(one.get("confidence"), f"{where}: tuple {number}", default)
        yield SentenceTuple(text, TupleText(str(relation), (str(arg1), str(arg2)), confidence), where)


def _confidence(value: Any, where: str, default: float | None) -> float:
    """A confidence; the default where there is none.

    Raises:
        DataError: it is none, and there is no default.
    """
    missing = value is None or value == ""
    number = _number(value)
    if number is not None and math.isfinite(number):
        return number
    if default is not None and (missing or (number is not None and math.isnan(number))):
        return default
    what = "no confidence" if missing else f"{printable(str(value))!r} is no confidence"
    raise DataError(f"{where}: {what}", hint=_REMEDY)


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (OverflowError, TypeError, ValueError):
        return None
