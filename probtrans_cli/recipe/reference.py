"""The recipe's schema in words: what a key wants, the reference for `docs/`, and the JSON schema for editors.

``python -m probtrans_cli.recipe.reference`` rewrites ``recipes/schema.json``, and the reference in
``docs/recipe-reference.md`` between its two marker lines; give file names to rewrite only these. A test keeps both
fresh.
"""

from __future__ import annotations

import copy
import functools
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.base import CHANGED, NAME, load_outside
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.yaml import write_value

BEGIN = "<!-- recipe reference: begin -->"
END = "<!-- recipe reference: end -->"

Schema = Mapping[str, Any]
AS = "x-as"
"""Stands in the schema of a key that holds what another key, which it names, holds as well: told of there."""

_PATTERNS = {NAME: "text of letters, digits, `.`, `_` and `-`, beginning with a letter or digit"}
# Integers have this bound for the sake of the machine, not of the reader.
_UNBOUNDED = 2**31


def json_schema() -> dict[str, Any]:
    """The JSON schema of recipes: every key with its description and default; unknown keys are not allowed."""
    load_outside()
    return copy.deepcopy(_schema())


@functools.cache
def _schema() -> dict[str, Any]:
    schema = Recipe.model_json_schema()
    schema["title"] = "probtrans recipe"
    for section in _objects(schema):
        _flatten_description(section)
        for key, field in section["properties"].items():
            _flatten_description(field)
            if key == "kind" and "const" in field:
                field.setdefault("description", section.get("description", ""))
    # A section chosen by its kind must name it, even where the class has a default.
    for union in [field for section in _objects(schema) for field in section["properties"].values()]:
        for member in union.get("oneOf", ()):
            target = schema["$defs"][member["$ref"].rsplit("/", 1)[1]]
            target["required"] = sorted({*target.get("required", ()), "kind"})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


CHANGED.append(_schema.cache_clear)  # the schema has what the tables of kinds have


def _objects(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [schema, *schema["$defs"].values()]


def _flatten_description(schema: dict[str, Any]) -> None:
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())


# --- walking ----------------------------------------------------------------------------------------------------------


def root() -> Schema:
    """The schema of a whole recipe, to walk down from with :func:`kinds`; not to be changed."""
    return _schema()


def has_kinds(schema: Schema) -> bool:
    """Whether this key holds a section that is chosen among several by ``kind:``."""
    return any("oneOf" in branch for branch in [schema, *schema.get("anyOf", ())])


def kinds(schema: Schema) -> dict[str, Schema]:
    """The sections that this key can hold, by their ``kind``; under "" where there is but one; empty for a value."""
    if "$ref" in schema:
        return {"": _schema()["$defs"][schema["$ref"].rsplit("/", 1)[1]]}
    if "properties" in schema:
        return {"": schema}
    if "oneOf" in schema:
        members = [kinds(member)[""] for member in schema["oneOf"]]
        return {member["properties"]["kind"]["const"]: member for member in members}
    found: dict[str, Schema] = {}
    for branch in schema.get("anyOf", ()):
        found |= kinds(branch)
    return found


def every_key() -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Every key of a recipe with its path and schema, those of each kind included, in the order of the schema."""
    yield from _keys(_schema(), ())


def _keys(schema: Schema, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Schema]]:
    for section in kinds(schema).values():
        for key, field in section["properties"].items():
            yield (*path, key), field
            if AS not in field:
                yield from _keys(field, (*path, key))


# --- words ------------------------------------------------------------------------------------------------------------


def takes(schema: Schema, *, every_bound: bool = False) -> str:
    """What a key takes, as a phrase: "a whole number ≥ 1 or null". ``every_bound`` names limits in the billions too."""
    or_null = " or `null`" if {"type": "null"} in schema.get("anyOf", ()) else ""
    if has_kinds(schema):
        return "a section with `kind:` " + _either([f"`{kind}`" for kind in kinds(schema)]) + or_null
    if kinds(schema):
        return "a section" + or_null
    if "anyOf" in schema:
        return _either([takes(branch, every_bound=every_bound) for branch in schema["anyOf"]])
    if "const" in schema or "enum" in schema:
        return _either([f"`{choice}`" for choice in choices(schema)])
    kind = schema.get("type")
    if kind == "array":
        if "prefixItems" in schema:
            item = takes(schema["prefixItems"][0], every_bound=every_bound)
            return f"a list of {len(schema['prefixItems'])}, each {item}"
        return "a list of " + re.sub("^an? (.*)number", r"\1numbers", takes(schema["items"], every_bound=every_bound))
    if kind in ("integer", "number"):
        name = (
            "a number" if kind == "number" else "an even number" if schema.get("multipleOf") == 2 else "a whole number"
        )
        return name + _bounds(schema, every_bound)
    if kind == "string":
        return _PATTERNS.get(schema.get("pattern", ""), "text")
    return {"boolean": "`true` or `false`", "null": "`null`"}.get(str(kind), str(kind))


def choices(schema: Schema) -> list[str]:
    """The words among which a key chooses, its kinds included; empty for a key that takes anything else."""
    if has_kinds(schema):
        return list(kinds(schema))
    if "const" in schema:
        return [str(schema["const"])]
    found = [str(choice) for choice in schema.get("enum", ())]
    for branch in schema.get("anyOf", ()):
        found += choices(branch)
    return found


def _bounds(schema: Schema, every_bound: bool) -> str:
    bounds = []
    for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")):
        if key in schema and (every_bound or schema[key] != _UNBOUNDED):
            bounds.append(f" {sign} {schema[key]:g}" if schema[key] != _UNBOUNDED else f" {sign} {_UNBOUNDED}")
    return " and".join(bounds)


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# --- the reference ----------------------------------------------------------------------------------------------------


def reference_markdown() -> str:
    """The recipe reference: one Markdown table for each section, and one for each kind of a section."""
    return "\n\n".join(_tables(_schema(), (), "Keys at the top level.")) + "\n"


def _tables(schema: Schema, path: tuple[str, ...], meaning: str) -> Iterator[str]:
    for kind, section in kinds(schema).items():
        title = f"`{'.'.join(path)}`" if path else "Recipe"
        about = section.get("description", "") if path else meaning
        heading = f"#### {title}, `kind: {kind}`" if kind else f"#### {title}"
        rows = ["| key | takes | default | meaning |", "|---|---|---|---|"]
        required = section.get("required", ())
        for key, field in section["properties"].items():
            about_key = "Chooses this table." if key == "kind" and "const" in field else field.get("description", "")
            cells = (f"`{key}`", takes(field), _default(field, key in required), about_key)
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        yield f"{heading}\n\n{about}\n\n" + "\n".join(rows)
        for key, field in section["properties"].items():
            if AS not in field:
                yield from _tables(field, (*path, key), field.get("description", ""))


def _default(field: Schema, required: bool) -> str:
    if required:
        return "required"
    default = field.get("default")
    if not isinstance(default, dict):
        return f"`{write_value(default)}`"
    return f"`kind: {default['kind']}`" if has_kinds(field) else "see below"


# --- files ------------------------------------------------------------------------------------------------------------


def schema_text() -> str:
    """The content of ``recipes/schema.json``."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def with_reference(document: str) -> str:
    """``document`` with a fresh reference between the marker lines. Raises UsageError where they are missing."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UsageError("the document has no place for the recipe reference", hint=f"add two lines: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{reference_markdown()}{END}{after}"


def main(arguments: Sequence[str]) -> None:
    """Rewrite the files named (``.json``: the schema; others: documents with markers), by default both of them."""
    for name in arguments or ("recipes/schema.json", "docs/recipe-reference.md"):
        path = Path(name)
        text = schema_text() if path.suffix == ".json" else with_reference(path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
