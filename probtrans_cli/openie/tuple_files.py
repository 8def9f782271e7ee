"""Files of tuples of open information extraction, gold tuples and the predictions of any system, and their scores.

So `score` reads them; as corpora, :mod:`probtrans_cli.openie.corpora` reads these and more. A file has one of three
forms, which its first line tells:

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

from probtrans_cli.data.files import display_name, find, open_lines
from probtrans_cli.data.readers.lines import json_object
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.openie.coordination_files import read_coordinations
from probtrans_cli.openie.scores import (
    Compat,
    Tuples,
    TupleText,
    carb_scores,
    coordination_counts,
    coordination_scores,
    sentence_key,
    tuple_statistics,
    wire57_scores,
)
from probtrans_cli.reports.scorers import side_by_side
from probtrans_cli.text import printable

_TAGS = {name: re.compile(f"<{name}>(.*?)</{name}>") for name in ("arg1", "rel", "arg2")}
_TAGGED = re.compile("<arg1>|<rel>")  # in the second field of a tuple line of AllenNLP
Record = Mapping[str, Any]
EXAMPLE = '{"text": "...", "tuples": [...]}'


class SentenceTuple(NamedTuple):
    """A tuple of a file, or only a sentence of JSON lines where ``text`` is None."""

    sentence: str
    text: TupleText | None
    where: str


def read_gold(lines: Iterable[str], name: str) -> Iterator[SentenceTuple]:
    """Yield the tuples of a gold file."""
    for fields, where in _lines(lines, name):
        if isinstance(fields, Mapping):
            yield from tuples_of_record(fields, where, 1.0)
        elif _TAGGED.search("".join(fields[1:2])):
            confidence = _number(" ".join(fields[2:3]))
            has_confidence = confidence is not None and math.isfinite(confidence)
            yield _from_tags(fields if has_confidence else fields[:2], where, 1.0)
        else:
            yield _from_gold(fields, where, 1.0, "gold tuple")


def read_predictions(
    lines: Iterable[str], name: str, default_confidence: float | None = None
) -> Iterator[SentenceTuple]:
    """Yield the tuples of a file of predictions.

    Args:
        default_confidence: of tuples that have none or NaN; None: that is an error.
    """
    rows = _lines(lines, name)
    has_column = True
    if default_confidence is not None:
        start: list[tuple[list[str] | Record, str]] = []
        for fields, where in rows:
            start.append((fields, where))
            if isinstance(fields, Mapping) or (fields[1:2] and fields[1].strip()):
                has_column = isinstance(fields, list) and _may_be_confidence(fields)
                break
        rows = chain(start, rows)
    for fields, where in rows:
        if isinstance(fields, Mapping):
            yield from tuples_of_record(fields, where, default_confidence)
        elif _TAGGED.search("".join(fields[1:2])):
            yield _from_tags(fields, where, default_confidence)
        elif default_confidence is not None and not (has_column and _may_be_confidence(fields)):
            yield _from_gold(fields, where, default_confidence, "prediction")
        elif len(fields) < 3:
            hint = "a line is: sentence TAB confidence TAB relation TAB arg1 TAB arg2 ..."
            raise DataError(f"{where}: not a prediction: the line has {len(fields)} of at least 3 fields", hint=hint)
        else:
            confidence = _confidence(fields[1], where, default_confidence)
            yield SentenceTuple(fields[0], TupleText(fields[2], tuple(fields[3:]), confidence), where)


def _lines(lines: Iterable[str], name: str) -> Iterator[tuple[list[str] | Record, str]]:
    is_json: bool | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        if is_json is None:
            is_json = line.lstrip().startswith("{") and "\t" not in line.strip()
        yield json_object(line, where, EXAMPLE) if is_json else line.strip().split("\t"), where


def _may_be_confidence(fields: Sequence[str]) -> bool:
    return len(fields) > 1 and (not fields[1].strip() or _number(fields[1]) is not None)


def _from_gold(fields: Sequence[str], where: str, confidence: float, title: str) -> SentenceTuple:
    if len(fields) < 2:
        hint = "a line is: sentence TAB relation TAB arg1 TAB arg2 ..."
        raise DataError(f"{where}: a {title} without a relation: the line has one field", hint=hint)
    arguments = tuple(argument.strip() for argument in fields[2:] if "C: " not in argument)  # C: is a context
    return SentenceTuple(fields[0], TupleText(fields[1].strip(), arguments, confidence), where)


def _from_tags(fields: Sequence[str], where: str, default: float | None) -> SentenceTuple:
    parts = {name: tag.search(fields[1]) for name, tag in _TAGS.items()}
    missing = [name for name in ("arg1", "rel") if parts[name] is None]
    if missing:
        hint = "a tuple is <arg1> A </arg1> <rel> R </rel> <arg2> B </arg2>"
        raise DataError(f"{where}: no <{missing[0]}> ... </{missing[0]}>", hint=hint)
    arg1, relation, arg2 = ("" if part is None else part[1].strip() for part in parts.values())
    confidence = _confidence(fields[2] if len(fields) > 2 else "", where, default)
    return SentenceTuple(fields[0], TupleText(relation, (arg1, arg2), confidence), where)


def tuples_of_record(record: Record, where: str, default: float | None) -> Iterator[SentenceTuple]:
    """Yield the tuples of an object, or its sentence if it has none.

    ``default``: the confidence of tuples that have none; None: that is an error.
    """
    text, words, tuples = record.get("text"), record.get("words"), record.get("tuples")
    if not isinstance(text, str):
        if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise DataError(f"{where}: neither text nor words", hint='a line is {"text": "...", "tuples": [...]}')
        text = " ".join(words)
    if not (isinstance(tuples, list) and all(isinstance(entry, dict) for entry in tuples)):
        raise DataError(f"{where}: no list of tuples", hint='"tuples": [{"arg1": "...", "rel": "...", ...}]')
    if not tuples:
        yield SentenceTuple(text, None, where)
    for number, entry in enumerate(tuples, start=1):
        parts = (entry.get("arg1"), entry.get("rel"), entry.get("arg2", ""))
        for key, value in zip(("arg1", "rel", "arg2"), parts, strict=True):
            if not isinstance(value, str):
                raise DataError(f"{where}: tuple {number}: {key} is no text", hint='"arg1", "rel" and "arg2" are text')
        confidence = _confidence(entry.get("confidence"), f"{where}: tuple {number}", default)
        arg1, relation, arg2 = map(str, parts)
        yield SentenceTuple(text, TupleText(relation, (arg1, arg2), confidence), where)


def _confidence(value: Any, where: str, default: float | None) -> float:
    missing = value is None or value == ""
    number = _number(value)
    if number is not None and math.isfinite(number):
        return number
    if default is not None and (missing or (number is not None and math.isnan(number))):
        return default
    message = "no confidence" if missing else f"{printable(str(value))!r} is no confidence"
    hint = "every prediction needs a finite number; --default-confidence X is taken where there is none"
    raise DataError(f"{where}: {message}", hint=hint)


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (OverflowError, TypeError, ValueError):
        return None


def score_carb(
    predictions: str, gold: str | None, *, single_match: bool = False, default_confidence: float | None = None
) -> dict[str, Any]:
    """Return CaRB's scores of a file, and how many tuples there are."""
    right, predicted = _read_both("carb", predictions, gold, default_confidence)
    return _reported(vars(carb_scores(right, predicted, single_match=single_match)), right, predicted)


def score_wire57(predictions: str, gold: str | None) -> dict[str, Any]:
    """Return the Wire57-C scores of a file. Confidences do not matter, and may be missing."""
    right, predicted = _read_both("wire57", predictions, gold, 1.0)
    return _reported(wire57_scores(right, predicted), right, predicted)


def score_coordinations(predictions: str, gold: str | None, *, compat: Compat | None = None) -> dict[str, Any]:
    """Return the scores of a file of coordinations; the main scores are those of the criterion "exact"."""
    if gold is None:
        raise UsageError("score coordination needs the gold coordinations", hint="add --gold FILE")
    counts = coordination_counts({}, {})
    sentences = 0
    guesses, golds = (read_coordinations(open_lines(find(name)), display_name(name)) for name in (predictions, gold))
    for predicted, right in side_by_side(guesses, golds, predictions, gold):
        counts.update(coordination_counts(right.coordinations, predicted.coordinations, compat))
        sentences += 1
    criteria = coordination_scores(counts)
    return {
        **criteria["exact"],
        **{f"f1_{name}": scores["f1"] for name, scores in criteria.items() if name != "exact"},
        "sentences": sentences,
        "gold_coordinations": counts["gold"],
        "coordinations": counts["predicted"],
        "criteria": criteria,
    }


def _read_both(
    name: str, predictions: str, gold: str | None, default_confidence: float | None
) -> tuple[Tuples, Tuples]:
    if gold is None:
        raise UsageError(f"score {name} needs the gold tuples", hint="add --gold FILE")
    right = _by_sentence(read_gold(open_lines(find(gold)), display_name(gold)))
    if not any(right.values()):
        raise DataError(f"{gold}: there is no tuple in it", hint="check the file")
    lines = open_lines(find(predictions, once=True))
    predicted = _by_sentence(read_predictions(lines, display_name(predictions), default_confidence))
    if not predicted:
        hint = "did the command that wrote it fail? JSON lines can say that a sentence has no tuple"
        raise DataError(f"{display_name(predictions)}: there is nothing in it to score", hint=hint)
    return right, predicted


def _by_sentence(tuples: Iterable[SentenceTuple]) -> dict[str, list[TupleText]]:
    sentences: dict[str, list[TupleText]] = {}
    for sentence, text, _ in tuples:
        of_sentence = sentences.setdefault(sentence_key(sentence), [])
        if text is not None:
            of_sentence.append(text)
    return sentences


def _reported(scores: Mapping[str, float], gold: Tuples, predicted: Tuples) -> dict[str, float]:
    """Return rounded scores; how many gold tuples there are; of the predictions for their sentences what
    :func:`tuple_statistics` says; and how many predictions are for other sentences, which do not count."""
    elsewhere = sum(len(tuples) for key, tuples in predicted.items() if key not in gold)
    numbers = tuple_statistics(
        [set(" ".join((text.relation, *text.arguments)).split()) for text in predicted.get(key, ())] for key in gold
    )
    rounded = {name: round(value, 4) for name, value in scores.items()}
    return {**rounded, "gold_tuples": sum(map(len, gold.values())), **numbers, "not_in_gold": elsewhere}
