"""Readers of a sentence a line: text, documents, and tables or JSON lines with a label for each sentence."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import listed, words_of
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Documents, Keys, Table
from probtrans_cli.text import from_json

LABEL = "label"  # the column of the label of a sentence
_LONGEST_SHOWN = 60
_LEAST_QUOTED = 5  # texts that show how a file is written
_NO_QUOTES = "data.table.quoting=false takes quotes for characters like others"
_QUOTES = f'a column that begins with " ends with ", and a " in it is written twice; {_NO_QUOTES}'
_CSV_ERRORS = {
    "unexpected end of data": "a quote that is not closed",
    "new-line character": "a line that ends in \\r alone",
}
"""What the errors of Python's reader begin with, and what they mean."""


def read_text(lines: Iterable[str], name: str, *, keep_empty: bool = False) -> Iterator[Sentence]:
    """Yield a sentence for each line, its tokens separated by white space (a no-break space does not separate).

    Blank lines are skipped, or with ``keep_empty`` give a sentence without words.
    """
    for number, line in enumerate(lines, start=1):
        words = words_of(line)
        if words or keep_empty:
            yield Sentence(words=words, where=f"{name}:{number}")


def read_documents(lines: Iterable[str], name: str, documents: Documents) -> Iterator[Sentence]:
    """Yield the sentences of documents; the first of each is marked. A blank line or a heading separates documents.

    A line is a sentence, or several where ``documents.stops`` names the tokens that end a sentence.
    """
    begins, stops = True, set(documents.stops or ())
    for number, line in enumerate(lines, start=1):
        tokens = words_of(line)
        if not tokens or tokens[0] == documents.heading:
            begins = True
            continue
        ends = [position for position, token in enumerate(tokens[:-1], start=1) if token in stops]
        for start, end in pairwise([0, *ends, len(tokens)]):
            yield Sentence(words=tokens[start:end], begins=begins, where=f"{name}:{number}")
            begins = False


def labelled(text: str | list[str], label: str, where: str) -> Sentence:
    """Return the sentence of a text, or of a list of words, with its label, without white space around it."""
    words = words_of(text) if isinstance(text, str) else listed(text)
    if not words:
        raise DataError(f"{where}: a label without a sentence", hint="remove the line")
    if not label.strip():
        raise DataError(f"{where}: a sentence without a label", hint="remove the line, or say in data where labels are")
    return Sentence(words=words, labels={LABEL: label.strip()}, where=where)


# --- JSON lines -------------------------------------------------------------------------------------------------------


def json_object(line: str, where: str, example: str) -> dict[str, Any]:
    """Return the object of a line of JSON.

    Raises:
        DataError: the line is no JSON object, or has a key twice or half a character; ``example`` is what it should
            look like.
    """
    try:
        values = from_json(line, unique=True)
    except ValueError as error:
        raise DataError(f"{where}: not JSON ({error})", hint=f"one JSON object a line: {example}") from None
    if not isinstance(values, dict):
        raise DataError(f"{where}: not a JSON object", hint=f"a line is for example {example}")
    if "\\u" in line:
        try:
            json.dumps(values, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            hint = "\\ud800 to \\udfff stand in pairs alone"
            raise DataError(f"{where}: an escape of half a character", hint=hint) from None
    return values


def read_jsonl(lines: Iterable[str], name: str, keys: Keys) -> Iterator[Sentence]:
    """Yield a sentence for every line that is not blank, a JSON object each.

    Raises:
        DataError: a line is no JSON object, or lacks a key, or has a value of another type; the message names it.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        values = json_object(line, where, '{"text": "...", "label": "..."}')
        for key, role, without in ((keys.text, "text", ""), (keys.label, "label", " (null: texts without labels)")):
            if key is not None and key not in values:
                there = ", ".join(sorted(values)) or "none"
                raise DataError(f"{where}: no key {key!r}", hint=f"there are: {there}; set data.jsonl.{role}{without}")
        text = values[keys.text]
        are_words = isinstance(text, list) and all(isinstance(word, str) and word.strip() for word in text)
        if not (are_words or isinstance(text, str)):
            raise DataError(f"{where}: {keys.text} is neither text nor a list of words", hint="see data.jsonl")
        if keys.label is None:
            if words := words_of(text) if isinstance(text, str) else listed(text):
                yield Sentence(words=words, where=where)
            continue
        label = values[keys.label]
        if not isinstance(label, str | int):  # a truth value is a whole number
            raise DataError(f"{where}: {keys.label} is no label", hint="text, a whole number or a truth value")
        yield labelled(text, label if isinstance(label, str) else json.dumps(label), where)


# --- tables -----------------------------------------------------------------------------------------------------------


def read_table(lines: Iterable[str], name: str, table: Table) -> Iterator[Sentence]:
    """Yield a sentence for every row that is not blank: the words of its text, and its label.

    Raises:
        DataError: a row has too few columns, or too many, no label, or a label that holds the separator, or a quote is
            not closed; the message names the line where the row begins.
    """
    first, last = True, table.width - 1
    if table.quoted:
        rows = _quoted_rows(lines, name, table)
    else:
        # The text of the last column may hold spaces.
        splits = last if table.separator == " " and table.text == last else -1
        rows = enumerate((line.removesuffix("\r").split(table.separator, splits) for line in lines), start=1)
        if table.quoting is None:
            rows = _check_quotes(rows, name, table)
    for number, columns in rows:
        if not any(map(str.strip, columns)):
            continue
        is_first, first = first, False
        if is_first and table.header:
            continue
        where = f"{name}:{number}"
        if len(columns) < table.width:
            hint = "see data.table: which column is text, which label, how many there are, and what separates them"
            raise DataError(f"{where}: {len(columns)} of {table.width} columns", hint=hint)
        label = columns[table.label]
        shown = f"the label {label[:_LONGEST_SHOWN]!r} holds"
        if "\r" in label.strip():
            raise DataError(f"{where}: {shown} a line end", hint="lines end in \\n or \\r\\n: write them so")
        if any(map(str.strip, columns[table.width :])):
            problem = f"{len(columns)} columns instead of {table.width}"
            if table.label == last:
                behind = table.separator.join(columns[table.label :])
                problem = f"the label {behind[:_LONGEST_SHOWN]!r} holds the separator: {problem}"
            hint = f"data.table.columns={len(columns)} allows for so many; a sentence that holds the separator stands "
            hint += "in double quotes" if table.quoted else "in double quotes, with data.table.quoting=true"
            raise DataError(f"{where}: {problem}", hint=hint)
        for mark, called in ((table.separator, "the separator"), ("\n", "a line end")):
            if mark in label.strip():
                hint = f"give the class a name without it; {_QUOTES}"
                raise DataError(f"{where}: {shown} {called}", hint=hint)
        sentence = labelled(columns[table.text], label, where)
        sentence.may_be_header = is_first
        yield sentence


def _quoted_rows(lines: Iterable[str], name: str, table: Table) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line and the columns of every row of CSV."""
    read: list[str] = []  # the lines of a row
    labels: set[str | None] = set()
    several: list[tuple[int, int, set[str | None]]] = []  # rows of several lines, and the labels of these lines
    separator = table.separator

    def recorded() -> Iterator[str]:
        for line in lines:
            read.append(line)
            yield f"{line}\n"

    rows = csv.reader(recorded(), delimiter=separator, skipinitialspace=separator != " ", strict=True)
    while True:
        number = rows.line_num + 1
        try:
            columns = next(rows, None)
        except csv.Error as error:
            reason = next((text for begin, text in _CSV_ERRORS.items() if str(error).startswith(begin)), str(error))
            up_to = f" (read up to line {rows.line_num})" if rows.line_num > number else ""
            raise DataError(f"{name}:{number}: not CSV: {reason}{up_to}", hint=_QUOTES) from None
        if columns is None:
            break
        labels.update(map(str.strip, columns[table.label : table.label + 1]))
        if len(read) > 1:  # all lines of the text, but for the line that has the label of this row, too
            within = read[1:] if table.label < table.text else read[:-1]
            # Each may be a row by itself, if quotes are characters like others.
            alone = [line.split(separator) for line in within if line.strip()]
            of_lines = {row[table.label].strip() if len(row) == table.width else None for row in alone}
            several.append((number, rows.line_num, of_lines))
        read.clear()
        yield number, columns
    for number, last, within_labels in several:
        if within_labels and within_labels <= labels:
            reason = f"a quote is not closed before line {last}, and each line up to there is a row with a label"
            raise DataError(f"{name}:{number}: {reason}", hint=_QUOTES)


def _check_quotes(rows: Iterable[tuple[int, list[str]]], name: str, table: Table) -> Iterator[tuple[int, list[str]]]:
    """Yield rows in which quotes are characters; a label, a text with doubled quotes in it, or every text of a file in
    double quotes looks like CSV, which is an error."""
    hint = f"data.table.quoting=true takes them away; {_NO_QUOTES}"
    texts = quoted = 0
    for number, columns in rows:
        if len(columns) >= table.width:
            text, label = columns[table.text].strip(), columns[table.label].strip()
            for value, doubled, called in ((label, "", "label"), (text, '""', "text")):
                in_quotes = len(value) > 2 and value[0] == value[-1] == '"'
                if in_quotes and doubled in value[1:-1]:
                    shown = f"the {called} {value[:_LONGEST_SHOWN]!r} stands in double quotes, as in CSV"
                    raise DataError(f"{name}:{number}: {shown}", hint=hint)
            texts += 1
            quoted += in_quotes  # the text
        yield number, columns
    if texts == quoted >= _LEAST_QUOTED:
        raise DataError(f"{name}: all {texts} texts stand in double quotes, as in CSV", hint=hint)
