"""Sentences with a label each: tables of text and label, and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Keys, Table

LABEL = "label"  # the column


def read_table(lines: Iterable[str], name: str, table: Table) -> Iterator[Sentence]:
    """Yield a sentence for every line that is not blank: its text, split at spaces, and its label.

    Raises:
        DataError: a line has too few columns, or no label; the message names it.
    """
    last = max(table.text, table.label)
    for number, raw in enumerate(lines, start=1):
        line = raw.removesuffix("\r")
        if not line.strip() or (table.header and number == 1):
            continue
        columns = line.split(table.separator, last)
        if len(columns) <= last:
            hint = "see data.table: which column is text, which label, and what separates them"
            raise DataError(f"{name}:{number}: {len(columns)} of {last + 1} columns", hint=hint)
        yield _sentence(_words(columns[table.text]), columns[table.label], f"{name}:{number}")


def read_jsonl(lines: Iterable[str], name: str, keys: Keys) -> Iterator[Sentence]:
    """Yield a sentence for every line that is not blank, a JSON object each.

    Raises:
        DataError: a line is no JSON object, or lacks a key, or has a value of another type; the message names it.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error})", hint="one object a line") from None
        if "\\u" in line and not _printable(values):
            raise DataError(f"{where}: an escape of half a character", hint="\\ud800 to \\udfff stand in pairs alone")
        if not isinstance(values, dict):
            raise DataError(f"{where}: not a JSON object", hint='a line is for example {"text": "...", "label": "..."}')
        text, label = _value(values, keys.text, "text", where), _value(values, keys.label, "label", where)
        if isinstance(text, list) and all(isinstance(word, str) and word.strip() for word in text):
            words = list(text)
        elif isinstance(text, str):
            words = _words(text)
        else:
            raise DataError(f"{where}: {keys.text} is neither text nor a list of words", hint="see data.jsonl")
        if not isinstance(label, str | int):  # a truth value is a whole number
            raise DataError(f"{where}: {keys.label} is no label", hint="text, a whole number or a truth value")
        yield _sentence(words, label if isinstance(label, str) else json.dumps(label), where)


def _printable(values: Any) -> bool:
    """Whether it can be written as UTF-8; JSON's escapes may be halves of a character."""
    try:
        return bool(json.dumps(values, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        return False


def _words(text: str) -> list[str]:
    return [word for word in text.split(" ") if word]  # no other white space: corpora use it inside of words


def _sentence(words: list[str], label: str, where: str) -> Sentence:
    if not words:
        raise DataError(f"{where}: a label without a sentence", hint="remove the line")
    if not label.strip():
        raise DataError(f"{where}: a sentence without a label", hint="remove the line, or say in data where labels are")
    return Sentence(words=words, labels={LABEL: label.strip()}, where=where)


def _value(values: dict[str, Any], key: str, role: str, where: str) -> Any:
    if key not in values:
        there = ", ".join(sorted(values)) or "none"
        raise DataError(f"{where}: no key {key!r}", hint=f"there are: {there}; set data.jsonl.{role}")
    return values[key]
