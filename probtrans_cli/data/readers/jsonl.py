"""JSON lines: one object a line, with a sentence and its label."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from probtrans_cli.data.readers.labelled import labelled
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Keys
from probtrans_cli.text import from_json


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
            values = from_json(line)
        except ValueError as error:
            raise DataError(f"{where}: not JSON ({error})", hint="one object a line") from None
        if "\\u" in line and not _printable(values):
            raise DataError(f"{where}: an escape of half a character", hint="\\ud800 to \\udfff stand in pairs alone")
        if not isinstance(values, dict):
            raise DataError(f"{where}: not a JSON object", hint='a line is for example {"text": "...", "label": "..."}')
        text, label = _value(values, keys.text, "text", where), _value(values, keys.label, "label", where)
        listed = isinstance(text, list) and all(isinstance(word, str) and word.strip() for word in text)
        if not (listed or isinstance(text, str)):
            raise DataError(f"{where}: {keys.text} is neither text nor a list of words", hint="see data.jsonl")
        if not isinstance(label, str | int):  # a truth value is a whole number
            raise DataError(f"{where}: {keys.label} is no label", hint="text, a whole number or a truth value")
        yield labelled(text, label if isinstance(label, str) else json.dumps(label), where)


def _printable(values: Any) -> bool:
    """Whether values can be written as UTF-8; the escapes of JSON may be halves of a character."""
    try:
        return bool(json.dumps(values, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        return False


def _value(values: dict[str, Any], key: str, role: str, where: str) -> Any:
    if key not in values:
        there = ", ".join(sorted(values)) or "none"
        raise DataError(f"{where}: no key {key!r}", hint=f"there are: {there}; set data.jsonl.{role}")
    return values[key]
