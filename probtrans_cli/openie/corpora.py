"""Corpora of open information extraction: sentences with their tuples as rows of labels.

Files have different forms, and the first line that is not blank tells which a file has:

- rows of labels, whose sentences end in ``[unused1] [unused2] [unused3]`` (:mod:`probtrans_cli.openie.label_rows`);
- CaRB's gold lines, which LSOIE's science part has as well, tuple lines of AllenNLP, and JSON lines
  (:mod:`probtrans_cli.openie.tuple_files`). In JSON lines a tuple may also say which words it has, ``"words": {"arg1":
  [0], "rel": [1], "arg2": [2, 3]}`` with ``"location_time": [3]`` for those of arg2 that say where or when and
  ``"added": ["is", "of"]`` for words of the relation that the sentence lacks, as `parse -f jsonl` writes it; and a line
  may have the words of its sentence, ``"words"``, and their universal parts of speech, ``"upos"``;
- output of OpenIE-4, columns separated by tabs: the confidence, an empty column or a context, the first argument, the
  relation, further arguments, the sentence. A part is ``Relation(text,List([begin, end), ...))`` with the characters of
  the sentence that it covers, where ``{begin}`` is a single one; arguments are a ``SimpleArgument``, a
  ``SpatialArgument`` or a ``TemporalArgument``, and several stand in one column with ``; `` between them. ``[is]
  president [of]`` is a relation whose words in brackets the sentence lacks;
- LSOIE with positions: the sentence, then ``('text', [word numbers])`` for the relation and for every argument;
- supervised-oie (Stanovsky et al. 2018), a block for each tuple, with a line for each word. Its columns are the word's
  number, the word, the predicate, its words' numbers, the number of its head, the sentence, the run, and the label:
  ``P-B`` and ``P-I`` of the predicate, ``A0-B`` to ``A5-I`` of arguments, ``O``. Blank lines stand between blocks; the
  first line may name the columns. Neighbouring blocks of the same words are one sentence, and of several blocks of a
  predicate (several answers to a question) the first one counts.

Where a file does not say which words a tuple has, they are looked for (:mod:`probtrans_cli.openie.alignment`).
Arguments stay in the order of the file.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

from probtrans_cli.data.files import begin
from probtrans_cli.data.readers.lines import json_object
from probtrans_cli.data.sentence import Sentence, extra_words
from probtrans_cli.data.tokens import are_words, tokenize, words_of
from probtrans_cli.errors import DataError
from probtrans_cli.openie.alignment import CORPUS_SHARE, TupleWords, align
from probtrans_cli.openie.extractions import TAGS, Extraction, rows_to_tuples, tuple_to_row
from probtrans_cli.openie.label_rows import read_blocks
from probtrans_cli.openie.scores import TupleText
from probtrans_cli.openie.tuple_files import EXAMPLE, read_gold, tuples_of_record
from probtrans_cli.openie.writing import FileSentence, FileTuple
from probtrans_cli.recipe.data import Data
from probtrans_cli.text import printable


def read_extractions(lines: Iterable[str], name: str, data: Data) -> Iterator[Sentence]:
    """Yield the sentences of a file, each with its extra words behind it.

    ``form`` has all tuples of a sentence as texts, ``grid`` the rows of those that are kept, at most ``data.rows`` of
    them, and ``counts`` how many these are, and why others were dropped.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    extra = data.extra_words
    for sentence in read_file(lines, name, data):
        places = places_of(sentence, extra, data.rows)
        yield Sentence(
            words=[*sentence.words, *extra_words(len(extra))],
            tags={column: [*tags, *["_"] * len(extra)] for column, tags in sentence.tags.items()},
            grid=[tuple_to_row(place, len(sentence.words), extra) for place in places if place is not None],
            extra=len(extra),
            form=json.dumps([file_tuple.texts for file_tuple in sentence.tuples], ensure_ascii=False),
            where=sentence.where,
            counts=sentence.counts,
        )


def read_file(lines: Iterable[str], name: str, data: Data) -> Iterator[FileSentence]:
    """Yield the sentences of a file with all tuples that it has; :func:`places_of` tells which of them are rows."""
    first, lines = begin(lines)
    fields = first.split("\t")
    is_openie4 = any(column.startswith("Relation(") for column in fields)
    if first.startswith("{") and not is_openie4:
        return _json_lines(lines, name)
    if len(fields) == 1:
        return _label_rows(lines, name, data)
    if fields[0] == _FIRST_COLUMN or (len(fields) == _COLUMNS and fields[0].isdecimal() and fields[-1] in _LABELS):
        return _supervised_oie(lines, name)
    if is_openie4:
        return _grouped(_of_columns(lines, name, -1, _openie4))
    if fields[1].startswith(("('", '("')):
        return _grouped(_of_columns(lines, name, 0, _lsoie))
    texts = ((sentence, text, where) for sentence, text, where in read_gold(lines, name) if text is not None)
    return _grouped((words_of(sentence), where, _tuple_of_text(text, words_of)) for sentence, text, where in texts)


def places_of(sentence: FileSentence, names: Sequence[str], rows: int | None) -> list[Extraction | None]:
    """Return the words of every tuple of a sentence; None: it is no row of labels.

    How many are ``kept``, and why others are not, is added to ``sentence.counts``.
    """
    words, counts = sentence.words, sentence.counts
    places: list[Extraction | None] = []
    keys: set[str] = set()
    for file_tuple in sentence.tuples:
        place, notes, reason = file_tuple.place, Counter({"kept": 1}), ""
        if isinstance(place, str):
            extraction, reason = None, place
        elif isinstance(place, Extraction):
            extraction = place
        else:
            extraction, notes = align(words, place, extra_words=names, share=CORPUS_SHARE)
            reason = "" if extraction else next(iter(notes))
        if extraction is not None:
            texts, added = extraction.texts(words), extraction.added
            if added and (added[0] not in names[:1] or any(word not in names[1:] for word in added[1:])):
                reason = "extra word"
            elif not (texts.arg1 and texts.relation):
                reason = "incomplete"
            elif texts.key in keys:
                reason = "repeated"
            else:
                keys.add(texts.key)
                reason = "too many" if counts["kept"] == rows else ""
        counts.update({reason: 1} if reason else notes)
        places.append(None if reason else extraction)
    return places


def _located(
    parts: Sequence[Sequence[int]], location_time: Collection[int] = (), added: tuple[str, ...] = ()
) -> Extraction | str:
    relation, arg1, *further = (sorted(set(part)) for part in (*parts, []))
    arg2 = sorted({i for part in further for i in part})
    positions = [*relation, *arg1, *arg2, *location_time]
    if len(positions) != len(set(positions)):
        return "overlapping"
    return Extraction(tuple(arg1), tuple(relation), tuple(arg2), tuple(sorted(location_time)), added)


def _label_rows(lines: Iterable[str], name: str, data: Data) -> Iterator[FileSentence]:
    names = data.extra_words
    for block in read_blocks(lines, name, TAGS, fix=data.grid.fix_lengths):
        words = block.words
        sentence = FileSentence(words, block.where, counts=block.counts)
        for row in block.rows:
            behind = row[len(words) :]
            if any(behind[len(names) :]):
                sentence.counts["extra word"] += 1
                continue
            labels = [*row[: len(words)], *behind[: len(names)], *[0] * (len(names) - len(behind))]
            for extraction in rows_to_tuples(words, [labels], extra_words=names, dropped=sentence.counts):
                arg1, relation, arg2 = extraction.texts(words)  # of this row, or there is none
                sentence.tuples.append(FileTuple([relation, arg1, *([arg2] if arg2 else [])], extraction))
        yield sentence


# --- tuples whose words are to be looked for --------------------------------------------------------------------------


def _grouped(tuples: Iterable[tuple[list[str], str, FileTuple]]) -> Iterator[FileSentence]:
    sentences: dict[tuple[str, ...], FileSentence] = {}
    for words, where, file_tuple in tuples:
        sentences.setdefault(tuple(words), FileSentence(words, where)).tuples.append(file_tuple)
    yield from sentences.values()


def _tuple_of_text(text: TupleText, divide: Callable[[str], Sequence[str]]) -> FileTuple:
    """Return a tuple whose words are to be looked for; CaRB marks arguments behind the second as location or time."""
    arg1, *rest = text.arguments or ("",)
    of_mark: dict[str, list[Sequence[str]]] = {mark: [] for mark in ("L: ", "T: ", "")}
    for argument in rest:
        mark = next(mark for mark in of_mark if argument.startswith(mark))
        of_mark[mark].append(divide(argument.removeprefix(mark)))
    location, time, (arg2, *further) = of_mark["L: "], of_mark["T: "], of_mark[""] or [[]]
    extra, locations, times = ([word for part in parts for word in part] for parts in (further, location, time))
    words = TupleWords(divide(arg1), divide(text.relation), arg2, extra, locations, times)
    return FileTuple([text.relation, *text.arguments], words, text.confidence)


def _json_lines(lines: Iterable[str], name: str) -> Iterator[FileSentence]:
    for line_number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}:{line_number}"
        record = json_object(line, where, EXAMPLE)
        texts = [entry.text for entry in tuples_of_record(record, where, 1.0) if entry.text is not None]
        divide: Callable[[str], Sequence[str]] = words_of if "words" in record else tokenize
        words = _words_of_key(record, "words", where) if "words" in record else tokenize(record["text"])
        sentence = FileSentence(words, where)
        if "upos" in record:
            sentence.tags["upos"] = _words_of_key(record, "upos", where)
            if len(sentence.tags["upos"]) != len(words):
                message = f"{len(sentence.tags['upos'])} values for {len(words)} words"
                raise DataError(f"{where}: upos has {message}", hint="one for each word")
        for number, (text, entry) in enumerate(zip(texts, record["tuples"], strict=True), start=1):
            file_tuple = _tuple_of_text(text, divide)
            if "words" in entry:
                file_tuple.place = _place_of_entry(entry, len(words), f"{where}: tuple {number}")
            sentence.tuples.append(file_tuple)
        yield sentence


def _words_of_key(record: Mapping[str, Any], key: str, where: str) -> list[str]:
    if not are_words(values := record[key]):
        raise DataError(f"{where}: {key} is no list of words without white space", hint=f'"{key}": ["...", "..."]')
    return list(values)


def _place_of_entry(entry: Mapping[str, Any], length: int, where: str) -> Extraction | str:
    hint = '"words": {"arg1": [0], "rel": [1], "arg2": [2, 3]} with positions from 0, "location_time": [3] of arg2, '
    hint += '"added": ["is", "of"]'
    places, location_time, added = entry["words"], entry.get("location_time", []), entry.get("added", [])
    parts = [places.get(key, []) for key in ("rel", "arg1", "arg2")] if isinstance(places, dict) else None
    if parts is None or not all(isinstance(part, list) for part in [*parts, location_time, added]):
        raise DataError(f"{where}: words, location_time or added are not lists", hint=hint)
    if not all(type(i) is int and 0 <= i < length for part in parts for i in part):
        raise DataError(f"{where}: words are not positions in a sentence of {length} words", hint=hint)
    if not all(isinstance(word, str) for word in added):
        raise DataError(f"{where}: added is no list of words", hint=hint)
    relation, arg1, second = parts
    if not all(type(i) is int and i in second for i in location_time):
        raise DataError(f"{where}: location_time has other words than arg2", hint=hint)
    arg2 = [i for i in second if i not in location_time]
    return _located([relation, arg1, arg2], set(location_time), tuple(added))


# --- lines that say where the words of a tuple stand ------------------------------------------------------------------


def _of_columns(
    lines: Iterable[str],
    name: str,
    column: int,
    parse: Callable[[Sequence[str], Sequence[str], str], FileTuple],
) -> Iterator[tuple[list[str], str, FileTuple]]:
    """Yield the tuple of each line, which has its sentence in a column; ``parse`` makes it of the columns, the words of
    the sentence, and the place of the line."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            fields, where = line.removesuffix("\r").rstrip("\t").split("\t"), f"{name}:{number}"
            words = words_of(fields[column])
            yield words, where, parse(fields, words, where)


class _Part(NamedTuple):
    kind: str
    text: str
    spans: tuple[tuple[int, int], ...]


_ARGUMENTS = ("SimpleArgument", "SpatialArgument", "TemporalArgument")
_SPAN = re.compile(r"\[(\d{1,9}), (\d{1,9})\)|\{(\d{1,9})\}")
_SPANS = re.compile(rf"((?:(?:{_SPAN.pattern})(?:, )?)*)\)\)")


def _openie4(fields: Sequence[str], words: Sequence[str], where: str) -> FileTuple:
    hint = "a line is: confidence TAB TAB SimpleArgument(text,List([0, 4))) TAB Relation(...) TAB ... TAB sentence"
    parts: list[_Part] = []
    for column in fields[2:-1]:
        start = 0
        while column[start : start + 1].strip():
            bracket, behind = column.find("(", start), column.find(",List(", start)
            spans = _SPANS.match(column, behind + len(",List("))
            if not start <= bracket < behind or spans is None:
                raise DataError(f"{where}: not the parts of a tuple: {printable(column, 60)!r}", hint=hint)
            numbers = _SPAN.findall(spans[1])
            characters = tuple((int(first or only), int(end or int(only) + 1)) for first, end, only in numbers)
            parts.append(_Part(column[start:bracket], column[bracket + 1 : behind], characters))
            start = spans.end() + 2 * column.startswith("; ", spans.end())
    relations = [part for part in parts if part.kind == "Relation"]
    arguments = [part for part in parts if part.kind in _ARGUMENTS]
    if len(relations) != 1 or not arguments or parts.index(arguments[0]) > parts.index(relations[0]):
        raise DataError(f"{where}: not an argument and its relation", hint=hint)
    relation = list(words_of(relations[0].text))
    added = []
    for end in dict.fromkeys((0, len(relation) - 1) if relation else ()):
        word = relation[end]
        if word.startswith("[") and word.endswith("]") and len(word) > 2:
            relation[end] = word[1:-1]
            added.append(word[1:-1])
    begins = list(accumulate((len(word) + 1 for word in words), initial=0))  # of each word, with blanks between them
    places = {part: _touched(part, begins, words, where) for part in (*relations, *arguments)}
    further = [part for part in arguments[1:] if part.kind == _ARGUMENTS[0]]
    marked = [part for part in arguments[1:] if part.kind != _ARGUMENTS[0]]
    place: Extraction | TupleWords | str = _located(
        [places[part] for part in (relations[0], arguments[0], *further)],
        [i for part in marked for i in places[part]],
        tuple(added),
    )
    if isinstance(place, str):  # overlapping: what a relation covers may have an argument in it, which its text lacks
        arg1, arg2, location = (
            [word for part in group for word in words_of(part.text)] for group in (arguments[:1], further, marked)
        )
        place = TupleWords(arg1, words_of(relations[0].text), arg2, location=location)
    try:
        confidence = float(fields[0])
    except ValueError:
        confidence = math.nan
    texts = [" ".join(relation), *(part.text.strip() for part in arguments)]
    return FileTuple(texts, place, confidence if math.isfinite(confidence) else 1.0)


def _touched(part: _Part, begins: Sequence[int], words: Sequence[str], where: str) -> list[int]:
    touched: set[int] = set()
    for start, end in part.spans:
        if not start < end < begins[-1]:
            message = f"{where}: characters {start} to {end} are not of the sentence, which has {begins[-1] - 1}"
            raise DataError(message, hint="words of the sentence are separated by single blanks")
        first, last = bisect_right(begins, start) - 1, bisect_left(begins, end) - 1
        first += start >= begins[first] + len(words[first])  # it begins at a blank
        touched.update(range(first, last + 1))
    return sorted(touched)


def _lsoie(fields: Sequence[str], words: Sequence[str], where: str) -> FileTuple:
    hint = "a line is: sentence TAB ('relation', [1]) TAB ('arg1', [0]) TAB ..."
    parts = []
    for column in fields[1:]:
        _, bracket, numbers = column.rpartition("[")
        if not (column.startswith(("('", '("')) and column.endswith("])") and bracket):
            raise DataError(f"{where}: not a text with its word numbers: {printable(column, 60)!r}", hint=hint)
        part = [int(number) for number in re.findall(r"\d{1,9}", numbers)]
        if any(number >= len(words) for number in part):
            message = f"{where}: word {max(part)} of a sentence of {len(words)} words"
            raise DataError(message, hint="words are counted from 0 and separated by blanks")
        parts.append(part)
    if not parts:
        raise DataError(f"{where}: a tuple without a relation", hint=hint)
    return FileTuple([" ".join(words[i] for i in part) for part in parts], _located([*parts, []]))


# --- supervised-oie ---------------------------------------------------------------------------------------------------

_FIRST_COLUMN, _COLUMNS = "word_id", 8
_WORD, _HEAD, _LABEL = 1, 4, 7
_PARTS = ("P", *(f"A{i}" for i in range(6)))
_LABELS = ("O", *(f"{part}-{side}" for part in _PARTS for side in "BI"))


def _supervised_oie(lines: Iterable[str], name: str) -> Iterator[FileSentence]:
    rows: list[tuple[list[str], str]] = []
    sentence: FileSentence | None = None
    heads: set[str] = set()
    for number, line in enumerate(chain(lines, [""]), start=1):
        fields, where = line.strip().split("\t"), f"{name}:{number}"
        if fields == [""] and rows:  # a block ends, which is a tuple of the sentence before it, or of a new one
            columns = list(zip(*(row for row, _ in rows), strict=True))
            words, head, labels = list(columns[_WORD]), columns[_HEAD][0], columns[_LABEL]
            if sentence is None or sentence.words != words:
                if sentence is not None:
                    yield sentence
                sentence, heads = FileSentence(words, rows[0][1]), set()
            if head in heads:
                sentence.counts["of a predicate that has one"] += 1
            else:
                heads.add(head)
                parts = [[i for i, label in enumerate(labels) if label.partition("-")[0] == part] for part in _PARTS]
                texts = [" ".join(words[i] for i in part) for part in parts]
                sentence.tuples.append(FileTuple([*texts[:2], *filter(None, texts[2:])], _located(parts)))
            rows = []
        elif fields[0] not in ("", _FIRST_COLUMN):
            if len(fields) != _COLUMNS:
                hint = "word_id, word, pred, pred_id, head_pred_id, sent_id, run_id, label, separated by tabs"
                raise DataError(f"{where}: {len(fields)} of {_COLUMNS} columns", hint=hint)
            if fields[_LABEL] not in _LABELS:
                message = f"{where}: unknown label {printable(fields[_LABEL])!r}"
                raise DataError(message, hint=f"labels are {', '.join(_LABELS)}")
            if not are_words([fields[_WORD]]):
                message = f"white space in the word {fields[_WORD]!r}" if fields[_WORD].strip() else "an empty word"
                raise DataError(f"{where}: {message}", hint="the second column is the word")
            rows.append((fields, where))
    if sentence is not None:
        yield sentence
