"""YAML text to plain values and the place of each, and plain values back to YAML text.

Recipes are written in a small part of YAML 1.2: mappings, lists and the scalars of its core schema.

* A number with an integral value is an integer however it is written (``1e2`` is 100), since a float key takes integers
  as well. ``1e-3``, ``.5`` and ``0x1F`` are numbers; ``1_000``, ``yes`` and ``on`` are text.
* ``010`` is refused: it is 8 to YAML 1.1 and 10 to YAML 1.2.
* Refused because a recipe never needs them: tags, anchors, aliases and merges, several documents, keys that are not
  text, a key given twice, more than :data:`DEEPEST` levels, and texts above :data:`LARGEST` bytes.

PyYAML composes nodes with their marks; its constructor is never called.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from probtrans_cli.text import escaped, printable

DEEPEST = 16
"""Levels of nesting; the schema itself has four."""
LARGEST = 256 * 1024
"""Bytes of one recipe."""

Key = tuple[str, ...]
"""The path of a key, outermost section first; items of a list by number."""

_WORDS: dict[str, bool | None] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(("false", "False", "FALSE"), False)
_AMBIGUOUS = re.compile(r"[-+]?0[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SYNTAX_HINTS = {
    "'\\t' that cannot start": "; indent with spaces",
    "mapping values are not allowed": "; check the indentation, and quote text that holds `: `",
}


class Place(NamedTuple):
    """Where something was written: in the recipe (``override`` 0), or in the n-th override of the command line."""

    override: int
    line: int
    column: int
    source: str

    def __str__(self) -> str:
        source = printable(self.source, 200)
        return f"override '{source}'" if self.override else f"{source}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Fault:
    """Something wrong at a place, with the key that it concerns."""

    place: Place
    path: Key
    text: str

    def __str__(self) -> str:
        parts = (f"[{part}]" if part.isdecimal() else f".{printable(part)}" for part in self.path)
        key = "".join(parts).removeprefix(".")
        return f"{self.place}: {key}: {self.text}" if key else f"{self.place}: {self.text}"


class BrokenError(ValueError):
    """The text is not YAML; ``fault`` says where."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass
class Document:
    """The plain values of a text, the places of keys and values, and what is wrong apart from the syntax."""

    content: Any = None
    keys: dict[Key, Place] = field(default_factory=dict)
    values: dict[Key, Place] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def place(self, path: Key) -> Place:
        """The place of a value, or of the innermost section around it that is written out."""
        while path not in self.values:
            path = path[:-1]
        return self.values[path]


# --- reading ----------------------------------------------------------------------------------------------------------


class _Composer(yaml.SafeLoader):
    """PyYAML's composer without what recipes never need; a stranger's file cannot make it recurse deeply."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if self.depth > DEEPEST:
            problem = f"nested more than {DEEPEST} levels deep; no recipe is"
        elif isinstance(event, yaml.AliasEvent) or event.anchor is not None or event.tag is not None:
            problem = "anchors, aliases and tags (& * !) are not used in recipes; write the value out, or quote it"
        else:
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def read_file(content: bytes, source: str) -> Document:
    """Read the YAML document of a file, which is UTF-8."""
    if len(content) > LARGEST:
        words = f"larger than {LARGEST // 1024} KiB; is this a recipe?"
        raise BrokenError(Fault(Place(0, 1, 1, source), (), words))
    try:
        return read_tree(content.decode("utf-8-sig"), source)
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", errors="replace")
        words = f"the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise BrokenError(Fault(_behind(before, source), (), words)) from error


def _behind(text: str, source: str, override: int = 0) -> Place:
    lines = text.split("\n")
    return Place(override, len(lines), len(lines[-1]) + 1, source)


def read_tree(text: str, source: str, override: int = 0) -> Document:
    """Read one YAML document."""
    document = Document()

    def place(mark: Any) -> Place:
        return Place(override, mark.line + 1, mark.column + 1, source)

    def convert(node: Any, path: Key) -> Any:
        document.values[path] = place(node.start_mark)
        if isinstance(node, yaml.SequenceNode):
            return [convert(item, (*path, str(number))) for number, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            if node.style is None and _AMBIGUOUS.fullmatch(node.value):
                digits = printable(node.value, 40)
                words = (
                    f"`{digits}` is octal to some readers of YAML; write it without the 0, or quote it if it is text"
                )
                document.faults.append(Fault(document.values[path], path, words))
            return scalar_value(node.value) if node.style is None else node.value
        section: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name, key_place = key_node.value, place(key_node.start_mark)
            plain = isinstance(name, str) and key_node.style is None
            if not isinstance(name, str) or name == "<<" or (plain and not isinstance(scalar_value(name), str)):
                document.faults.append(Fault(key_place, path, "a key must be text, and not `<<`"))
            elif name in section:
                first = "this override" if override else f"line {document.keys[*path, name].line}"
                words = f"the key is given twice, first in {first}; keep one"
                document.faults.append(Fault(key_place, (*path, name), words))
            else:
                document.keys[*path, name] = key_place
                section[name] = convert(value_node, (*path, name))
        return section

    try:
        composer = _Composer(text)
        node = composer.get_single_node()
        document.values[()] = place(composer.get_mark())
        document.content = None if node is None else convert(node, ())
        return document
    except yaml.reader.ReaderError as error:
        character = chr(error.character) if isinstance(error.character, int) else str(error.character)
        start = _behind(text[: error.position], source, override)
        words = f"the character {escaped(character[:1])} may not stand in a recipe"
    except yaml.MarkedYAMLError as error:
        start = place(error.problem_mark or error.context_mark or composer.get_mark())
        opened = error.context_mark
        words = f"{error.context} of line {opened.line + 1}: {error.problem}" if opened else str(error.problem)
        words += next((hint for part, hint in _SYNTAX_HINTS.items() if part in words), "")
    except (yaml.YAMLError, ValueError, OverflowError, IndexError):
        # PyYAML lets chr() and int() fail on escapes such as "\UFFFFFFFF".
        start, words = place(composer.get_mark()), "it is not YAML from here on"
    raise BrokenError(Fault(start, (), printable(words, 160)))


def scalar_value(text: str) -> bool | int | float | str | None:
    """Return what an unquoted scalar means (the core schema of YAML 1.2)."""
    if text in _WORDS:
        return _WORDS[text]
    if re.fullmatch(r"0o[0-7]+|0x[0-9a-fA-F]+", text) and len(text) < 64:
        return int(text, 0)
    if re.fullmatch(r"[-+]?[0-9]{1,19}", text):
        return int(text)
    if re.fullmatch(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", text):
        return float(text.replace(".", ""))
    if _FLOAT.fullmatch(text):
        number = float(text)
        integral = number.is_integer() and abs(number) < 2**53 and (number != 0 or not text.startswith("-"))
        return int(number) if integral else number
    return text


# --- writing ----------------------------------------------------------------------------------------------------------

# Plain text that is text to YAML 1.1 and 1.2 alike.
_PLAIN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9_./:-]*(?<!:)")
_NOT_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def write_tree(value: Mapping[str, object], indent: str = "") -> str:
    """Return YAML text of nested mappings, lists and scalars; lists on one line, in the order given."""
    lines = []
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            lines.append(f"{indent}{write_value(key)}:\n{write_tree(item, indent + '  ')}")
        else:
            lines.append(f"{indent}{write_value(key)}: {write_value(item)}\n")
    return "".join(lines)


def write_value(value: object) -> str:
    """Write a value on one line that readers of YAML 1.1 and 1.2 understand alike: 1.0e-3, not 1e-3; quotes around
    `no`."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{write_value(key)}: {write_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(write_value, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        mantissa, exponent, power = repr(value).partition("e")
        return mantissa + ("" if "." in mantissa or not exponent else ".0") + exponent + power
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if _PLAIN_TEXT.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    characters = ("\\" + sign if sign in '"\\' else sign if sign.isprintable() else escaped(sign) for sign in text)
    return '"' + "".join(characters) + '"'
