"""What a recipe's values mean beside the schema: ``KEY=VALUE`` overrides, kinds that are left out, removed keys; and
pydantic's errors with their places, keys and suggestions."""

from __future__ import annotations

import difflib
import re
from itertools import groupby
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from probtrans_cli.errors import RecipeError
from probtrans_cli.recipe.base import InconsistentError
from probtrans_cli.recipe.reference import Schema, every_key, has_kinds, kinds, root
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.yaml import DEEPEST, Document, Fault, Key, Origin, Place, read_tree
from probtrans_cli.text import printable

HINT = "`probtrans --schema` prints every key with its meaning; nothing was run or written"
MOST_FAULTS = 50
"""The most faults in one message."""

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

_SECTION = "Input should be a section of `key: value` lines"
_PLAINER = {
    "bool_type": "Input should be true or false",
    "missing": "this key is missing",
    "model_attributes_type": _SECTION,
    "model_type": _SECTION,
    "tuple_type": "Input should be a valid list",
    "union_tag_invalid": "there is no such kind",
    "union_tag_not_found": "this key is missing",
}
"""Pydantic's messages that speak of Python, in the words of recipes."""


class _Error(NamedTuple):
    """An error of pydantic, the path of its key, and the values and schemas on the way there, from the recipe down."""

    detail: ErrorDetails
    path: Key
    values: list[Any]
    schemas: list[Schema]


def apply_override(document: Document, override: str, number: int) -> None:
    """Set one ``KEY=VALUE`` in the recipe, creating sections on the way."""
    key, _, text = override.partition("=")
    path, place = tuple(key.strip().split(".", DEEPEST)), Place(number, 0, 0, override)
    # `-` alone is standard input, not a YAML list of nothing.
    value = read_tree('"-"' if text.strip() == "-" else text, override, number)
    section = document.content
    for depth, part in enumerate(path[:-1], start=1):
        if not isinstance(section.get(part), dict):
            section[part] = {}
            document.origins[path[:depth]] = Origin(place, place, "a section")
        section = section[part]
    section[path[-1]] = value.content
    document.faults += [Fault(place, path + fault.path, fault.text) for fault in value.faults]
    document.origins = {key: origin for key, origin in document.origins.items() if key[: len(path)] != path}
    document.origins |= {path + key: origin for key, origin in value.origins.items()}


def mend(document: Document) -> None:
    """Change what pydantic refuses although it is no mistake.

    A kind that is left out is that of the section's default. A removed key whose value changes nothing goes. Where an
    override chooses another kind, the file's keys that only the old kind has go. Where an override sets a section to
    null that has a default and cannot be null, the section goes.
    """
    while True in [_is_mended(document, error) for error in _errors(document.content)]:
        pass


def _is_mended(document: Document, error: _Error) -> bool:
    kind, path, default = error.detail["type"], error.path, error.schemas[-1].get("default")
    if kind == "union_tag_not_found" and isinstance(default, dict):
        error.values[-1]["kind"] = default["kind"]
        return True
    if kind == "extra_forbidden":
        is_known = any(path[-1] in member["properties"] for member in kinds(error.schemas[-2]).values())
        is_chosen = is_known and document.origin((*path[:-1], "kind")).value.override
        parts = [origin for key, origin in document.origins.items() if key[: len(path)] == path] if is_chosen else []
        goes = error.values[-1] == _removed(path)[0] or (parts and not any(part.value.override for part in parts))
    else:
        goes = error.values[-1] is None and isinstance(default, dict) and document.origin(path).value.override
    if goes:
        error.values[-2].pop(path[-1], None)
    return bool(goes)


def _removed(path: Key) -> tuple[object, str]:
    """Return the row of :data:`REMOVED`; the two encoders of a stack have the keys of `model`."""
    return REMOVED.get(re.sub(r"^model\.(lower|upper)\.", "model.", ".".join(path)), (REMOVED, ""))


def validated(document: Document) -> Recipe:
    """Return the recipe of a document.

    Raises:
        RecipeError: all faults, one a line: those of the file in its order, then those of the overrides in theirs.
    """
    known = {fault.path for fault in document.faults}
    faults = [*document.faults, *(fault for fault in _faults(document) if fault.path not in known)]
    if not faults:
        return Recipe.model_validate(document.content)
    ordered = sorted(dict.fromkeys(faults), key=lambda fault: fault.place)
    lines = [str(fault) for fault in ordered[:MOST_FAULTS]]
    if len(ordered) > MOST_FAULTS:
        lines.append(f"… and {len(ordered) - MOST_FAULTS:,} more")
    raise RecipeError("\n".join(lines), hint=HINT)


# --- pydantic's errors ------------------------------------------------------------------------------------------------


def _errors(content: Any) -> list[_Error]:
    try:
        Recipe.model_validate(content)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)[: 20 * MOST_FAULTS]  # suggestions take time
        return [_located(content, detail) for detail in details]
    return []


def _located(content: Any, detail: ErrorDetails) -> _Error:
    """Walk to one of pydantic's locations, in which the names of kinds and of the branches of unions stand, too."""
    path: Key = ()
    values, schemas = [content], [root()]
    parts = iter(detail["loc"])
    for part in parts:
        value, schema = values[-1], schemas[-1]
        if isinstance(value, list) and isinstance(part, int):
            key = str(part)
            values.append(value[part] if part < len(value) else None)
            schemas.append(schema.get("items", {}))
        elif isinstance(value, dict) and kinds(schema):
            key = str(next(parts, "kind") if has_kinds(schema) else part)
            values.append(value.get(key))
            schemas.append(fields_of(schema, value).get(key, {}))
        else:
            continue
        path = (*path, key)
    return _Error(detail, path, values, schemas)


def _faults(document: Document) -> list[Fault]:
    """Return pydantic's errors with their places, one for each key."""
    errors = _errors(document.content)
    if errors and isinstance(reason := errors[0].detail.get("ctx", {}).get("error"), InconsistentError):
        return [Fault(document.origin(path).value, path, words) for path, words in reason.faults]
    faults = [_fault(document, list(group)) for _, group in groupby(errors, key=lambda error: error.path)]
    # Where a list has a wrong item, the union around it also says that the whole could be a text.
    sections = {fault.path[:-1] for fault in faults if fault.path}
    return [fault for fault in faults if fault.path not in sections]


def _fault(document: Document, errors: list[_Error]) -> Fault:
    """Make one fault of all that pydantic says of a value: each branch of a union says what it takes."""
    detail, path, _, schemas = errors[0]
    if detail["type"] == "extra_forbidden":
        return Fault(document.origin(path).key, path, _unknown(errors[0]))
    first, *others = [_PLAINER.get(error.detail["type"], error.detail["msg"]) for error in errors]
    words = " or ".join([first, *(message.removeprefix("Input should be ") for message in others)])
    of_section = [member["properties"].get("kind", {}) for member in kinds(schemas[-1]).values()]
    names = [str(name) for field in of_section for name in field.get("enum", [field.get("const")])]
    choices = [*names, *re.findall("'(.*?)'", words)]
    if detail["type"].startswith("union_tag"):
        path = (*path, "kind")
    origin = document.origin(path)
    if path in document.origins:
        words += f", found {printable(origin.text)}"
    if close := difflib.get_close_matches(origin.text.strip("`'\"")[:80], choices, n=1):
        words += f"; did you mean `{'kind: ' if close[0] in names and path[-1] != 'kind' else ''}{close[0]}`?"
    elif has_kinds(schemas[-1]):
        words += f"; its kinds are {', '.join(names)}"
    return Fault(origin.value, path, words)


def _unknown(error: _Error) -> str:
    path, section, schema = error.path, error.values[-2], error.schemas[-2]
    key, fields = path[-1], fields_of(schema, section)
    if advice := _removed(path)[1]:
        return f"this key was removed; {advice}"
    if with_it := [f"`kind: {name}`" for name, member in kinds(schema).items() if key in member["properties"]]:
        return f"unknown key with `kind: {printable(kind_of(section), 40)}`; it belongs to {' and '.join(with_it)}"
    hints = [f"did you mean `{close}`?" for close in difflib.get_close_matches(key[:80], fields, n=1)]
    if homes := sorted({".".join(keys[:-1]) for keys, _ in every_key() if keys[-1] == key and key != "kind"}):
        hints.append(f"`{key}` belongs to {' and '.join(f'`{home}`' if home else 'the top level' for home in homes)}")
    return "unknown key; " + ("; ".join(hints) or f"the keys here are {', '.join(fields)}")


def fields_of(schema: Schema, section: dict[str, Any]) -> dict[str, Schema]:
    """Return the schemas of the keys that a section of this kind has; empty where there is no such kind."""
    member = kinds(schema).get(kind_of(section) if has_kinds(schema) else "", {})
    fields: dict[str, Schema] = member.get("properties", {})
    return fields


def kind_of(section: dict[str, Any]) -> str:
    """Return the kind that a section names; empty where it names none."""
    kind = section.get("kind")
    return "" if kind is None or isinstance(kind, dict | list) else str(kind)
