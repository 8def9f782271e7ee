"""``KEY=VALUE`` of the command line, set in the tree of a recipe; and which kind a section of that tree is of."""

from __future__ import annotations

import re

from probtrans_cli.recipe.reference import Schema, has_kinds, kinds, root
from probtrans_cli.recipe.yaml import DEEPEST, Entry, Fault, Items, Mapping, Place, Scalar, read_tree, shown
from probtrans_cli.text import printable

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")
_INDEXED = re.compile(r"(?P<key>[A-Za-z0-9_.-]+?)(\.[0-9]+|\[.*\])(\..*)?")


def apply_override(tree: Mapping, override: str, number: int) -> list[Fault]:
    """Set one ``KEY=VALUE`` in the tree, creating sections on the way; the faults of the override by itself."""
    key, _, text = override.partition("=")
    key = key.strip()
    place = Place(number, 0, 0, printable(override, 200))
    if key.count(".") >= DEEPEST:
        return [Fault(place, (), f"more than {DEEPEST} levels deep; no recipe is")]
    if not _KEY.fullmatch(key):
        if indexed := _INDEXED.fullmatch(key):
            words = f"a list is set as a whole: {indexed['key']}='[…, …]'"
        else:
            words = "left of `=` stands a key such as optim.lr"
        return [Fault(place, (), words)]
    text = '"-"' if text.strip() == "-" else text  # standard input, not a YAML list of nothing
    value, faults = read_tree(text, override, number)
    path = tuple(key.split("."))
    if value is None:
        return [Fault(fault.place, path, f"the value is not YAML: {fault.text}") for fault in faults]
    section, schema = tree, root()
    for depth, part in enumerate(path[:-1]):
        schema = below(schema, part, section)
        entry = section.entries.get(part)
        if entry is None or (isinstance(entry.node, Scalar) and entry.node.value is None):
            entry = section.entries[part] = Entry(place, _new_section(schema, path[depth + 1], place))
        if not isinstance(entry.node, Mapping):
            words = f"holds {shown(entry.node)}, not a section"
            if isinstance(entry.node, Items):
                words += "; a list is set as a whole"
            return [*faults, Fault(place, path[: depth + 1], words)]
        section = entry.node
    section.entries[path[-1]] = Entry(place, value)
    return [Fault(fault.place, path + fault.path, fault.text) for fault in faults]


def _new_section(schema: Schema, first_key: str, place: Place) -> Mapping:
    """An empty section; where there are several kinds, of the kind that leaving it out would have meant."""
    section = Mapping(place)
    if first_key != "kind":
        _name_kind(section, schema)
    return section


def _name_kind(section: Mapping, schema: Schema) -> None:
    """Where a section does not name its kind, but leaving it out would have meant one, that one is meant."""
    default = schema.get("default")
    if has_kinds(schema) and "kind" not in section.entries and isinstance(default, dict):
        section.entries["kind"] = Entry(section.place, Scalar(section.place, default["kind"], default["kind"]))


def name_kinds(section: Mapping, schema: Schema) -> None:
    """:func:`_name_kind` in all sections below this one."""
    for key, entry in section.entries.items():
        if isinstance(entry.node, Mapping):
            inner = below(schema, key, section)
            _name_kind(entry.node, inner)
            name_kinds(entry.node, inner)


def below(schema: Schema, key: str, section: Mapping) -> Schema:
    """The schema of a key within a section; empty where there is no such key."""
    chosen = kinds(schema).get(kind_of(section) if has_kinds(schema) else "", {})
    found: Schema = chosen.get("properties", {}).get(key, {})
    return found


def kind_of(section: Mapping) -> str:
    """The kind that a section names; empty where it names none."""
    entry = section.entries.get("kind")
    return str(entry.node.value) if entry and isinstance(entry.node, Scalar) else ""


def drop_other_kinds(section: Mapping, schema: Schema) -> None:
    """Where an override chose another kind, drop the file's keys that only other kinds have; that is what is meant."""
    members = kinds(schema)
    kind = section.entries.get("kind")
    if has_kinds(schema) and kind is not None and kind.key_place.override and kind_of(section) in members:
        known = members[kind_of(section)]["properties"]
        elsewhere = {key for member in members.values() for key in member["properties"]}
        for key, entry in list(section.entries.items()):
            if key not in known and key in elsewhere and not _touched(entry):
                del section.entries[key]
    for key, entry in section.entries.items():
        if isinstance(entry.node, Mapping):
            drop_other_kinds(entry.node, below(schema, key, section))


def _touched(entry: Entry) -> bool:
    """Whether an override set this key or one below it."""
    inner = entry.node.entries.values() if isinstance(entry.node, Mapping) else ()
    return entry.key_place.override > 0 or any(map(_touched, inner))
