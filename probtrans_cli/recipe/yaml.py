"""YAML text to plain values and the place of each, and plain values back to YAML text.

Recipes are written in a small part of YAML: mappings, lists and scalars, without tags, anchors, aliases and merges.

* ``1e-3``, ``.5`` and ``1e2`` are numbers. An integral number is an integer however it is written, since a float key
  takes integers as well.
* What readers of YAML do not agree upon is text, as it stands: ``yes``, ``010``, ``0x1F``, ``1_000``, ``1:30``. The
  schema refuses it where it wants a number.

PyYAML composes nodes with their marks; its constructor is never called.
"""

from __future__ import annotations

import math
import re
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
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
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


class Origin(NamedTuple):
    """Where a key and its value were written, and the value's text as it stands there."""

    key: Place
    value: Place
    text: str


class Fault(NamedTuple):
    """Something wrong at a place, with the key that it concerns."""

    place: Place
    path: Key
    text: str

    def __str__(self) -> str:
        parts = (f"[{part}]" if part.isdecimal() else f".{printable(part)}" for part in self.path)
        key = "".join(parts).removeprefix(".")
        return f"{self.place}: {key}: {self.text}" if key else f"{self.place}: {self.text}"


@dataclass
class Document:
    """The plain values of a text, the origin of each, and what is wrong: a text that is not YAML has no content."""

    content: Any = None
    origins: dict[Key, Origin] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def origin(self, path: Key) -> Origin:
        """Return the origin of a value, or of the innermost section around it that is written out."""
        while path not in self.origins:
            path = path[:-1]
        return self.origins[path]


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
        return _broken(Place(0, 1, 1, source), f"larger than {LARGEST // 1024} KiB; is this a recipe?")
    # Bytes that are not UTF-8 become characters that YAML forbids.
    return read_tree(content.decode("utf-8-sig", "surrogateescape"), source)


def read_tree(text: str, source: str, override: int = 0) -> Document:
    """Read one YAML document."""

    def place(mark: Any) -> Place:
        return Place(override, mark.line + 1, mark.column + 1, source)

    try:
        composer = _Composer(text)
        node = composer.get_single_node() or yaml.ScalarNode("", "", composer.get_mark())
    except yaml.reader.ReaderError as error:
        lines = text[: error.position].split("\n")
        words = f"the character {escaped(text[error.position])} may not stand in a recipe; save the file as UTF-8"
        return _broken(Place(override, len(lines), len(lines[-1]) + 1, source), words)
    except yaml.MarkedYAMLError as error:
        opened = error.context_mark
        words = f"{error.context} of line {opened.line + 1}: {error.problem}" if opened else str(error.problem)
        words += next((hint for part, hint in _SYNTAX_HINTS.items() if part in words), "")
        return _broken(place(error.problem_mark or opened or composer.get_mark()), words)
    except (yaml.YAMLError, ValueError, OverflowError, IndexError):
        # PyYAML lets chr() and int() fail on escapes such as "\UFFFFFFFF".
        return _broken(place(composer.get_mark()), "it is not YAML from here on")
    document = Document()

    def plain(node: Any, path: Key, key: Place) -> Any:
        document.origins[path] = Origin(key, place(node.start_mark), _in_words(node))
        if isinstance(node, yaml.ScalarNode):
            return scalar_value(node.value) if node.style is None else node.value
        if isinstance(node, yaml.SequenceNode):
            return [plain(item, (*path, str(number)), key) for number, item in enumerate(node.value)]
        section: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            below, at = (*path, name), place(key_node.start_mark)
            if name in section:
                first = "this override" if override else f"line {document.origins[below].key.line}"
                document.faults.append(Fault(at, below, f"the key is given twice, first in {first}; keep one"))
            else:
                section[name] = plain(value_node, below, at)
        return section

    document.content = plain(node, (), place(node.start_mark))
    return document


def _in_words(node: Any) -> str:
    if not isinstance(node, yaml.ScalarNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "a section"
    quote = node.style if node.style in ("'", '"') else ""
    return f"`{quote}{node.value}{quote}`" if quote or node.value else "nothing"


def _broken(place: Place, words: str) -> Document:
    return Document(None, {(): Origin(place, place, "nothing")}, [Fault(place, (), printable(words, 160))])


def scalar_value(text: str) -> bool | int | float | str | None:
    """Return what an unquoted scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if not _NUMBER.match(text):
        return text
    try:
        return int(text)
    except ValueError:  # a fraction, or too many digits
        number = float(text)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number


# --- writing ----------------------------------------------------------------------------------------------------------


class _Dumper(yaml.SafeDumper):
    """PyYAML's writer, with lists and texts on one line, and quotes around text that looks like a number here."""


_Dumper.add_representer(
    list, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)
)
_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, None if text.isprintable() else '"'),
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, [*"-+.0123456789"])


def write_tree(value: object) -> str:
    """Return YAML text of mappings, lists and scalars, in the order given, which YAML 1.1 reads alike."""
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=math.inf)
    return text
