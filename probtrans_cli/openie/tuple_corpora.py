"""Tuples whose words are to be looked for in their sentence: lines of CaRB and AllenNLP, and JSON lines.

The forms are those of :mod:`probtrans_cli.openie.tuple_files`. In JSON lines a tuple may also say which words it has,
``"words": {"arg1": [0], "rel": [1], "arg2": [2, 3]}`` with ``"location_time": [3]`` for those of arg2 that say where or
when and ``"added": ["is", "of"]`` for words of the relation that the sentence lacks, as `parse -f jsonl` writes it; and
a line may have the words of its sentence, ``"words"``, and their universal parts of speech, ``"upos"``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from probtrans_cli.data.files import begin
from probtrans_cli.data.tokens import are_words, tokenize, words_of
from probtrans_cli.errors import DataError
from probtrans_cli.openie.extraction_rows import TupleWords
from probtrans_cli.openie.tuple_files import read_gold, records, tuples_of_record
from probtrans_cli.openie.tuple_groups import GivenSentence, GivenTuple, extraction_of, group
from probtrans_cli.openie.tuple_texts import TupleText

_MARKS = ("L: ", "T: ")
"""What CaRB puts in front of arguments that are a location or a time."""


def read_texts(lines: Iterable[str], name: str) -> Iterator[GivenSentence]:
    """Yield the sentences of a file.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    first, every = begin(lines)
    if first.startswith("{"):
        yield from (_of_record(record, where) for record, where in records(every, name))
        return
    found = ((words_of(one.sentence), one.where, one.parts) for one in read_gold(every, name))
    yield from group((words, where, _given(parts, words_of)) for words, where, parts in found if parts is not None)


def _given(parts: TupleText, divide: Callable[[str], Sequence[str]]) -> GivenTuple:
    """A tuple whose words are to be looked for; arguments behind the second one may be marked as location or time."""
    arg1, *others = parts.arguments or ("",)
    of_mark: dict[str, list[Sequence[str]]] = {mark: [] for mark in (*_MARKS, "")}
    for argument in others:
        mark = next(mark for mark in of_mark if argument.startswith(mark))
        of_mark[mark].append(divide(argument.removeprefix(mark)))
    location, time, (arg2, *further) = of_mark["L: "], of_mark["T: "], of_mark[""] or [[]]
    found = TupleWords(divide(arg1), divide(parts.relation), arg2, _joined(further), _joined(location), _joined(time))
    return GivenTuple([parts.relation, *parts.arguments], found, parts.confidence)


def _joined(parts: Iterable[Sequence[str]]) -> list[str]:
    return [word for part in parts for word in part]


def _of_record(record: Mapping[str, Any], where: str) -> GivenSentence:
    given = [one.parts for one in tuples_of_record(record, where, 1.0) if one.parts is not None]
    words, divide = _words(record, where)
    sentence = GivenSentence(words, where)
    if "upos" in record:
        sentence.tags["upos"] = _texts(record, "upos", where)
        if len(sentence.tags["upos"]) != len(words):
            found = f"{len(sentence.tags['upos'])} values for {len(words)} words"
            raise DataError(f"{where}: upos has {found}", hint="one for each word")
    for number, (parts, one) in enumerate(zip(given, record["tuples"], strict=True), start=1):
        made = _given(parts, divide)
        if "words" in one:
            made.found = _found(one, len(words), f"{where}: tuple {number}")
        sentence.tuples.append(made)
    return sentence


def _words(record: Mapping[str, Any], where: str) -> tuple[list[str], Callable[[str], Sequence[str]]]:
    """The words of a sentence, and how the texts of its tuples are divided."""
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        hint = "\\ud800 to \\udfff stand in pairs alone"
        raise DataError(f"{where}: an escape of half a character", hint=hint) from None
    if "words" in record:
        return _texts(record, "words", where), words_of
    return tokenize(record["text"]), tokenize


def _texts(record: Mapping[str, Any], key: str, where: str) -> list[str]:
    values = record[key]
    if not are_words(values):
        raise DataError(f"{where}: {key} is no list of words without white space", hint=f'"{key}": ["...", "..."]')
    return list(values)


def _found(one: Mapping[str, Any], length: int, where: str) -> Any:
    """The words that a tuple says it has."""
    hint = '"words": {"arg1": [0], "rel": [1], "arg2": [2, 3]} with positions from 0, "location_time": [3] of arg2, '
    hint += '"added": ["is", "of"]'
    places, apart, added = one["words"], one.get("location_time", []), one.get("added", [])
    parts = [places.get(key, []) for key in ("rel", "arg1", "arg2")] if isinstance(places, dict) else None
    if parts is None or not all(isinstance(part, list) for part in [*parts, apart, added]):
        raise DataError(f"{where}: words, location_time or added are not lists", hint=hint)
    if not all(type(i) is int and 0 <= i < length for part in parts for i in part):
        raise DataError(f"{where}: words are not positions in a sentence of {length} words", hint=hint)
    if not all(isinstance(word, str) for word in added):
        raise DataError(f"{where}: added is no list of words", hint=hint)
    relation, arg1, second = parts
    if not all(type(i) is int and i in second for i in apart):
        raise DataError(f"{where}: location_time has other words than arg2", hint=hint)
    return extraction_of([relation, arg1, [i for i in second if i not in apart]], set(apart), tuple(added))
