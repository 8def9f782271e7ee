"""What a recipe's values mean beside the schema: ``KEY=VALUE`` overrides, kinds that are left out, faults in words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from probtrans_cli.errors import RecipeError
from probtrans_cli.recipe.base import GROUP, InconsistentError
from probtrans_cli.recipe.reference import Schema, choices, every_key, has_kinds, kinds, root, takes
from probtrans_cli.recipe.yaml import DEEPEST, BrokenError, Document, Fault, Key, Place, read_tree, write_value
from probtrans_cli.text import printable

HINT = "`probtrans --schema` prints every key with its meaning; nothing was run or written"
MOST_FAULTS = 50
"""The most faults in one message."""

_NAME = "[A-Za-z_][A-Za-z0-9_-]*"

REMOVED: dict[str, tuple[object, str]] = {
    "optim.ivon.predict.temperature": (False, "write predict.temperature"),
    "optim.ternary_penalty.squared": (False, "the norm is never squared"),
    "model.bayes.predict.temperature": (False, "write predict.temperature"),
    "model.positions.per_head": (False, "all heads of a layer share the vectors of distances"),
    "runtime.graphs": (False, "there are no CUDA graphs any more: leave it out"),
    "runtime.parallel": ("ddp", "each process has the whole model: leave it out"),
    "task.dev_masks": (1, "a score during training is that of one draw of masks"),
}
"""Keys of earlier versions: the value that says what is done now, which is still read, and what to do about others."""


# --- overrides, kinds and removed keys --------------------------------------------------------------------------------


def apply_override(document: Document, override: str, number: int) -> list[Fault]:
    """Set one ``KEY=VALUE`` in the recipe, creating sections on the way; return its own faults."""
    key, _, text = override.partition("=")
    place = Place(number, 0, 0, override)
    path = tuple(key.strip().split("."))
    if len(path) > DEEPEST:
        return [Fault(place, (), f"more than {DEEPEST} levels deep; no recipe is")]
    if not all(re.fullmatch(_NAME, part) for part in path):
        return [Fault(place, (), "left of `=` stands a key such as optim.lr; a list is set as a whole: KEY='[…, …]'")]
    try:  # `-` alone is standard input, not a YAML list of nothing
        value = read_tree('"-"' if text.strip() == "-" else text, override, number)
    except BrokenError as error:
        return [Fault(place, path, f"the value is not YAML: {error.fault.text}")]
    faults = [Fault(place, path + fault.path, fault.text) for fault in value.faults]
    section = document.content
    for depth, part in enumerate(path, start=1):
        if not isinstance(section, dict):
            words = f"holds {shown(section)}, not a section; a list is set as a whole"
            return [*faults, Fault(place, path[: depth - 1], words)]
        if depth == len(path):
            section[part] = value.content
        elif section.get(part) is None:
            section[part] = {}
            document.keys[path[:depth]] = document.values[path[:depth]] = place
        section = section[part]
    for places, new in ((document.keys, {**value.keys, (): place}), (document.values, value.values)):
        for outdated in [key for key in places if key[: len(path)] == path]:
            del places[outdated]
        places.update({path + below: at for below, at in new.items()})
    return faults


def choose_kinds(document: Document, section: Any, schema: Schema, path: Key = ()) -> None:
    """Fill in the kinds that are left out. Where an override chooses another kind, drop the file's keys that only the
    old kind has; where one sets a section to null that has a default and cannot be null, drop the section."""
    if not isinstance(section, dict):
        return
    if has_kinds(schema) and isinstance(default := schema.get("default"), dict):
        section.setdefault("kind", default["kind"])
    fields = fields_of(schema, section)
    if has_kinds(schema) and fields and document.place((*path, "kind")).override:
        overridden = {key[: len(path) + 1] for key, place in document.values.items() if place.override}
        of_other_kinds = {key for member in kinds(schema).values() for key in member["properties"]} - fields.keys()
        for key in of_other_kinds & section.keys():
            if (*path, key) not in overridden:
                del section[key]
    for key, value in list(section.items()):
        below = fields.get(key, {})
        if value is None and kinds(below) and "default" in below and {"type": "null"} not in below.get("anyOf", ()):
            if document.place((*path, key)).override:
                del section[key]
        else:
            choose_kinds(document, value, below, (*path, key))


def fields_of(schema: Schema, section: dict[str, Any]) -> dict[str, Schema]:
    """Return the schemas of the keys that a section of this kind has; empty where there is no such kind."""
    member = kinds(schema).get(kind_of(section) if has_kinds(schema) else "", {})
    fields: dict[str, Schema] = member.get("properties", {})
    return fields


def kind_of(section: dict[str, Any]) -> str:
    """Return the kind that a section names; empty where it names none."""
    kind = section.get("kind")
    return "" if kind is None or isinstance(kind, dict | list) else str(kind)


def drop_removed(document: Document) -> list[Fault]:
    """Remove the keys of :data:`REMOVED`; return a fault for each whose value was not the neutral one."""
    faults = []
    for name, (neutral, advice) in REMOVED.items():
        first, *below = name.split(".")
        sides = [(first,), (first, "lower"), (first, "upper")] if first == "model" else [(first,)]
        for path in [(*side, *below) for side in sides]:  # the two encoders of a stack have the keys of `model`
            section = document.content
            for part in path[:-1]:
                section = section.get(part) if isinstance(section, dict) else None
            if isinstance(section, dict) and path[-1] in section and section.pop(path[-1]) != neutral:
                faults.append(Fault(document.keys[path], path, f"this key was removed; {advice}"))
    return faults


# --- faults -----------------------------------------------------------------------------------------------------------


def error_of(faults: Sequence[Fault]) -> RecipeError:
    """Make one error of all faults: those of the file in its order, then those of the overrides in theirs."""
    ordered = sorted(dict.fromkeys(faults), key=lambda fault: fault.place)
    lines = [str(fault) for fault in ordered[:MOST_FAULTS]]
    if len(ordered) > MOST_FAULTS:
        lines.append(f"… and {len(ordered) - MOST_FAULTS:,} more")
    return RecipeError("\n".join(lines), hint=HINT)


def faults_of(document: Document, error: ValidationError) -> list[Fault]:
    """Return pydantic's errors in words and with their places, at most one for each key."""
    faults: dict[Key, Fault] = {}
    for detail in error.errors(include_url=False, include_input=False):
        reason = detail.get("ctx", {}).get("error")
        if isinstance(reason, InconsistentError):
            several = [Fault(document.place(path), path, words) for path, words in reason.faults]
        else:
            several = [_fault(document, detail["loc"])]
        for fault in several:
            faults.setdefault(fault.path, fault)
        if len(faults) > 20 * MOST_FAULTS:  # wording unknown keys takes time
            break
    parents = {path[:-1] for path in faults}
    return [fault for path, fault in faults.items() if path not in parents or path == ()]


def _fault(document: Document, location: tuple[int | str, ...]) -> Fault:
    path: Key = ()
    value, schema, parts = document.content, root(), list(location)
    while parts:
        part = parts.pop(0)
        if isinstance(value, list) and isinstance(part, int) and part < len(value):
            value, path = value[part], (*path, str(part))
            lists = [branch for branch in [schema, *schema.get("anyOf", ())] if branch.get("type") == "array"]
            schema = next((branch.get("items") or branch["prefixItems"][0] for branch in lists), {})
        elif isinstance(value, dict) and kinds(schema):
            if has_kinds(schema):  # this part is the kind
                if not parts:
                    break
                part = parts.pop(0)
            key, fields = str(part), fields_of(schema, value)
            path = (*path, key)
            if key not in value:
                return Fault(document.place(path), path, f"this key is missing; it takes {takes(fields[key])}")
            if key not in fields:
                return Fault(document.keys.get(path, document.place(path)), path, _unknown(value, schema, path))
            value, schema = value[key], fields[key]
    if isinstance(value, dict) and has_kinds(schema):
        schema = {"enum": choices(schema), "kinds": True}
        if "kind" not in value:
            return Fault(document.place(path), path, f"`kind` is missing; it is {takes(schema)}")
        value, path = value["kind"], (*path, "kind")
    if isinstance(value, str) and "\0" in value:
        words = f"{shown(value)} has a zero byte (\\x00), which nothing here may have: remove it"
        return Fault(document.place(path), path, words)
    huge = isinstance(value, int | float) and abs(value) >= 2**31
    words = f"found {shown(value)}, wanted {takes(schema, every_bound=huge)}{_suggestion(value, schema)}"
    return Fault(document.place(path), path, words)


def shown(value: Any) -> str:
    """Describe a value in words for a message."""
    if isinstance(value, dict):
        return "a section" if value else "an empty section"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, str):
        return f"the text '{printable(value, 60)}'" if value.strip() else "an empty text"
    return "nothing (null)" if value is None else write_value(value)


def _suggestion(value: Any, schema: Schema) -> str:
    types = {branch.get("type") for branch in [schema, *schema.get("anyOf", ())]}
    if value is None and kinds(schema):
        return "; give it keys, or delete the line for the default"
    if isinstance(value, int | float) and "string" in types and not choices(schema):
        return "; put it in quotes"
    text = value.strip()[:80] if isinstance(value, str) else ""
    if "boolean" in types and text.lower() in ("yes", "on", "no", "off"):
        return f"; write {'true' if text.lower() in ('yes', 'on') else 'false'}"
    of_section = [kind for member in kinds(schema).values() for kind in choices(member["properties"].get("kind", {}))]
    if close := difflib.get_close_matches(text, of_section, n=1):
        return f"; write `{{kind: {close[0]}}}`"
    close = difflib.get_close_matches(text, choices(schema), n=1)
    meant = f"; did you mean `{close[0]}`?" if close else ""
    if not text or "kinds" not in schema:
        return meant
    remedy = f"f a package of yours registers it, declare the entry point `{GROUP}` or import it"
    return f"{meant} I{remedy}" if meant else f"; i{remedy}"


def _unknown(section: dict[str, Any], schema: Schema, path: Key) -> str:
    key, names = path[-1], list(fields_of(schema, section))
    if with_it := [f"`kind: {name}`" for name, member in kinds(schema).items() if key in member["properties"]]:
        return f"unknown key with `kind: {printable(kind_of(section), 40)}`; it belongs to {' and '.join(with_it)}"
    hints = [f"did you mean `{close}`?" for close in difflib.get_close_matches(key[:80], names, n=1)]
    if places := sorted({keys[:-1] for keys, _ in every_key() if keys[-1] == key and key != "kind"}):
        sections = (f"`{'.'.join(place)}`" if place else "the top level" for place in places)
        hints.append(f"`{key}` belongs to {' and '.join(sections)}")
    where = f"`{'.'.join(path[:-1])}`" if path[:-1] else "the top level"
    return "unknown key; " + ("; ".join(hints) or f"{where} has {', '.join(names)}")
