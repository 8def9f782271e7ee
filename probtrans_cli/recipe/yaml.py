"""YAML text to a tree that knows where every value stands, and plain values back to YAML text.

Recipes are written in a small part of YAML 1.2: mappings, lists and the scalars of its core schema.

* Numbers: ``3``, ``-1``, ``0x1F``, ``0o17``, ``1e-3``, ``1e5``, ``.5``, ``5.``, ``.inf``, ``.nan``. A number with an
  integral value is an integer however it is written (``1e2`` is 100), since a float key takes integers as well.
* ``true``/``false`` and ``null``/``~``/nothing, in the three usual cases; ``yes``, ``no``, ``on``, ``off`` are text.
* ``1_000`` is text (as YAML 1.2 has it). ``010`` is refused: it is 8 to YAML 1.1 and 10 to YAML 1.2.
* Refused because a recipe never needs them: tags, anchors, aliases and merges, several documents, keys that are not
  text, a key given twice, more than :data:`DEEPEST` levels, and texts above :data:`LARGEST` bytes.

The tree is built from the parser's events, so no object is ever constructed and nothing recurses deeper than
:data:`DEEPEST`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from probtrans_cli.text import escaped, printable

DEEPEST = 16
"""Levels of nesting; the schema itself has four."""
LARGEST = 256 * 1024
"""Bytes of one recipe."""

Value = None | bool | int | float | str

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_AMBIGUOUS = re.compile(r"[-+]?0[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, order=True)
class Place:
    """Where something was written: in the recipe (``override`` 0), or in the n-th override of the command line."""

    override: int
    line: int
    column: int
    source: str

    def __str__(self) -> str:
        return f"override '{self.source}'" if self.override else f"{self.source}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Fault:
    """Something wrong at a place; ``path`` is the key, outermost section first (items of a list by number)."""

    place: Place
    path: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        parts = (f"[{part}]" if part.isdecimal() else f".{printable(part)}" for part in self.path)
        key = "".join(parts).removeprefix(".")
        return f"{self.place}: {key}: {self.text}" if key else f"{self.place}: {self.text}"


@dataclass
class Scalar:
    """One value; ``text`` as written, ``quoted`` if in quotes or as a block, ``faulty`` if already complained of."""

    place: Place
    value: Value
    text: str = ""
    quoted: bool = False
    faulty: bool = False


@dataclass
class Items:
    """A list."""

    place: Place
    nodes: list[Node] = field(default_factory=list)


@dataclass
class Entry:
    """A key's place and what it holds."""

    key_place: Place
    node: Node


@dataclass
class Mapping:
    """A section."""

    place: Place
    entries: dict[str, Entry] = field(default_factory=dict)


Node = Scalar | Items | Mapping


def plain(node: Node) -> object:
    """The dictionaries, lists and scalars of a tree, without the places."""
    if isinstance(node, Mapping):
        return {key: plain(entry.node) for key, entry in node.entries.items()}
    return [plain(item) for item in node.nodes] if isinstance(node, Items) else node.value


# --- reading ----------------------------------------------------------------------------------------------------------


def read_tree(text: str, source: str, override: int = 0) -> tuple[Node | None, list[Fault]]:
    """The tree of one YAML document and its faults; no tree where the syntax is broken.

    ``source`` names the text in messages: the file, or, with ``override`` its number, the whole ``KEY=VALUE``.
    """
    reader = _Reader(printable(source, 200), override)
    try:
        return reader.document(text), reader.faults
    except _SyntaxFault as fault:
        return None, [*reader.faults, fault.fault]


class _SyntaxFault(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class _Reader:
    """Builds a tree from PyYAML's events. The loader's own composer and constructor are never called."""

    def __init__(self, source: str, override: int) -> None:
        self.source = source
        self.override = override
        self.faults: list[Fault] = []

    def document(self, text: str) -> Node:
        try:
            self.events = yaml.SafeLoader(text)
        except yaml.reader.ReaderError as error:
            character = chr(error.character) if isinstance(error.character, int) else str(error.character)
            before = text[: error.position].split("\n")
            place = Place(self.override, len(before), len(before[-1]) + 1, self.source)
            raise self._broken(place, f"the character {escaped(character[:1])} may not stand in a recipe") from error
        self._next()
        first = self._next()
        if isinstance(first, yaml.StreamEndEvent):
            return Scalar(self._place(first), None)
        root = self._node(self._next(), ())
        self._next()
        following = self._next()
        if not isinstance(following, yaml.StreamEndEvent):
            raise self._broken(self._place(following), "a second document begins here; a recipe is one document")
        return root

    def _next(self) -> yaml.Event:
        try:
            event: yaml.Event = self.events.get_event()  # type: ignore[no-untyped-call]
        except yaml.MarkedYAMLError as error:
            mark: Any = error.problem_mark or error.context_mark or self.events.get_mark()
            started = error.context_mark.line + 1 if error.context_mark else None
            words = _syntax_in_words(error.problem or error.context or "it is not YAML", started)
            raise self._broken(self._mark(mark), words) from error
        except (yaml.YAMLError, ValueError, OverflowError, IndexError) as error:
            # PyYAML lets chr() and int() fail on escapes such as "\UFFFFFFFF".
            raise self._broken(self._mark(self.events.get_mark()), "it is not YAML from here on") from error
        return event

    def _mark(self, mark: Any) -> Place:
        return Place(self.override, mark.line + 1, mark.column + 1, self.source)

    def _place(self, event: yaml.Event) -> Place:
        return self._mark(event.start_mark)

    def _broken(self, place: Place, words: str) -> _SyntaxFault:
        return _SyntaxFault(Fault(place, (), words))

    # PyYAML's type stubs do not tell the kinds of events apart.
    def _node(self, event: Any, path: tuple[str, ...]) -> Node:
        place = self._place(event)
        if len(path) > DEEPEST:
            raise self._broken(place, f"nested more than {DEEPEST} levels deep; no recipe is")
        if isinstance(event, yaml.AliasEvent):
            return self._refuse(
                place, path, f"`*{event.anchor}` is an alias; write the value out, or quote it if it is text"
            )
        if event.anchor is not None:
            self._refuse(place, path, f"`&{event.anchor}` is an anchor; write values out, or quote it if it is text")
        if event.tag is not None:
            self._refuse(place, path, "tags (`!…`) are not used in recipes; quote the value if it is text")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(place, path)
        if isinstance(event, yaml.SequenceStartEvent):
            items = Items(place)
            while not isinstance(event := self._next(), yaml.SequenceEndEvent):
                items.nodes.append(self._node(event, (*path, str(len(items.nodes)))))
            return items
        return self._scalar(event, place, path)

    def _refuse(self, place: Place, path: tuple[str, ...], words: str) -> Scalar:
        self.faults.append(Fault(place, path, printable(words, 160)))
        return Scalar(place, None, faulty=True)

    def _mapping(self, place: Place, path: tuple[str, ...]) -> Mapping:
        mapping = Mapping(place)
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key_place = self._place(event)
            key = self._node(event, (*path, "?"))
            if not (isinstance(key, Scalar) and isinstance(key.value, str)):
                if not (isinstance(key, Scalar) and key.faulty):
                    self._refuse(key_place, path, f"a key must be text, found {shown(key)}")
                self._node(self._next(), (*path, "?"))
                continue
            node = self._node(self._next(), (*path, key.value))
            if key.value == "<<":
                self._refuse(key_place, path, "`<<` merges are not used in recipes; write the keys out")
            elif key.value in mapping.entries:
                first = mapping.entries[key.value].key_place
                at = "the same override" if self.override else f"line {first.line}, column {first.column}"
                self._refuse(key_place, (*path, key.value), f"the key is given twice, first in {at}; keep one")
            else:
                mapping.entries[key.value] = Entry(key_place, node)
        return mapping

    def _scalar(self, event: yaml.ScalarEvent, place: Place, path: tuple[str, ...]) -> Scalar:
        if event.style is not None:
            return Scalar(place, event.value, event.value, quoted=True)
        if _AMBIGUOUS.fullmatch(event.value):
            digits = event.value.lstrip("+-0") or "0"
            words = f"`{printable(event.value, 40)}` is octal to some readers of YAML and decimal to others"
            return self._refuse(place, path, f"{words}; write {printable(digits, 40)}, or quote it if it is text")
        return Scalar(place, scalar_value(event.value), event.value)


def scalar_value(text: str) -> Value:
    """What an unquoted scalar means (the core schema of YAML 1.2)."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if _BASED.fullmatch(text) and len(text) < 64:
        return int(text, 0)
    if _DECIMAL.fullmatch(text) and len(text) < 20:
        return int(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    if _FLOAT.fullmatch(text):
        number = float(text)
        integral = number.is_integer() and abs(number) < 2**53 and (number != 0 or not text.startswith("-"))
        return int(number) if integral else number
    return text


def shown(node: Node) -> str:
    """What was found, in words for a message."""
    if isinstance(node, Mapping):
        return "a section" if node.entries else "an empty section"
    if isinstance(node, Items):
        return f"a list of {len(node.nodes)}" if node.nodes else "an empty list"
    if node.value is None:
        return "nothing (null)"
    if isinstance(node.value, str):
        return f"the text '{printable(node.value, 60)}'" if node.value.strip() else "an empty text"
    return printable(node.text or str(node.value), 60)


_SYNTAX_IN_WORDS = (
    (r"'\\t' that cannot start", "a tab; indent with spaces"),
    (r"character '[@`]' that cannot start", "text that begins with this character must be in quotes"),
    (r"character '%' that cannot start", "text that begins with % must be in quotes"),
    (
        "mapping values are not allowed",
        "a `:` where none can stand; check the indentation, and quote text that holds `: `",
    ),
    (
        "could not find expected ':'",
        "the line before this is neither `key: value` nor part of a list; check it for a missing `:`",
    ),
    ("but found '<block mapping start>'", "the indentation fits no line above"),
    ("expected <block end>", "this does not belong here; check the indentation, the brackets and the quotes"),
    ("expected ',' or '\\]'", "the list `[` of line {started} is not closed, or a comma is missing"),
    ("expected ',' or '}'", "the section `{{` of line {started} is not closed, or a comma is missing"),
    ("end of stream", "the quotes of line {started} are not closed"),
    ("document separator", "the quotes of line {started} are not closed"),
    ("expected the node content", "a value is missing here"),
    ("expected alphabetic or numeric", "text that begins with * or & must be in quotes"),
    ("unknown escape character", "unknown \\ escape in double quotes; use single quotes, or \\\\ for a backslash"),
    ("undefined tag handle", "tags (`!…`) are not used in recipes; quote the value if it is text"),
    ("sequence entries are not allowed", "a list item `- ` where none can stand; check the indentation"),
)


def _syntax_in_words(problem: str, started: int | None) -> str:
    """PyYAML's complaint as a person would say it; its own words where none are known."""
    for pattern, words in _SYNTAX_IN_WORDS:
        if re.search(pattern, problem):
            return words.format(started=started or "?")
    return printable(problem, 160)


# --- writing ----------------------------------------------------------------------------------------------------------

# Plain text that is text to YAML 1.1 and 1.2 alike.
_PLAIN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9_./:-]*(?<!:)")
_NOT_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def write_tree(value: AnyMapping[str, object], indent: str = "") -> str:
    """YAML text of nested mappings, lists and scalars; lists on one line, in the order given."""
    lines = []
    for key, item in value.items():
        if isinstance(item, AnyMapping) and item:
            lines.append(f"{indent}{write_scalar(key)}:\n{write_tree(item, indent + '  ')}")
        else:
            lines.append(f"{indent}{write_scalar(key)}: {write_value(item)}\n")
    return "".join(lines)


def write_value(value: object) -> str:
    """A value on one line."""
    if isinstance(value, AnyMapping):
        return "{" + ", ".join(f"{write_scalar(key)}: {write_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(write_value(item) for item in value) + "]"
    return write_scalar(value)


def write_scalar(value: object) -> str:
    """A scalar that readers of YAML 1.1 and 1.2 understand alike: 1.0e-3 rather than 1e-3, quotes around `no`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
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
    return '"' + "".join(_quoted(character) for character in text) + '"'


def _quoted(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else escaped(character)
