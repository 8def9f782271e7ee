"""The schema of recipes: a walk over it, what a key takes in words, the reference of `docs/`, and the JSON schema.

``python -m probtrans_cli.recipe.reference`` rewrites ``recipes/schema.json``, and the reference in
``docs/recipe-reference.md`` between its two marker lines. A test keeps both fresh.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.base import CHANGED, NAME, Section, load_outside
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.yaml import write_value

BEGIN = "<!-- recipe reference: begin -->"
END = "<!-- recipe reference: end -->"

Schema = Mapping[str, Any]
AS = "x-as"
"""Marks a key that holds the same sections as the key that it names; only that one is described."""

_PATTERNS = {NAME: "text of letters, digits, `.`, `_` and `-`, beginning with a letter or digit"}
# Integers have this bound for the sake of the machine, not of the reader.
_UNBOUNDED = 2**31


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of recipes: every key with its description and default; unknown keys are not allowed."""
    load_outside()
    return copy.deepcopy(dict(root()))


@functools.cache
def root() -> Schema:
    """Return the schema of a whole recipe, to walk down from with :func:`kinds`; not to be changed."""
    schema: dict[str, Any] = Recipe.model_json_schema()
    schema["title"] = "probtrans recipe"
    _describe(schema)
    sections = [schema, *schema["$defs"].values()]
    for section in sections:
        for key, field in section["properties"].items():
            if key == "kind" and "const" in field:
                field.setdefault("description", section.get("description", ""))
            if "$ref" in field:
                field.setdefault("description", schema["$defs"][field["$ref"].rsplit("/", 1)[1]]["description"])
            # A section chosen by its kind must name it, even where the class has a default.
            for member in field.get("oneOf", ()):
                target = schema["$defs"][member["$ref"].rsplit("/", 1)[1]]
                target["required"] = sorted({*target.get("required", ()), "kind"})
    for described in [*sections, *(field for section in sections for field in section["properties"].values())]:
        if "description" in described:
            described["description"] = " ".join(described["description"].split())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _describe(schema: dict[str, Any]) -> None:
    """Make the docstring behind each key its description."""
    classes: list[type[Section]] = [Section]
    for section in classes:
        classes += section.__subclasses__()
    for section in classes:
        described = schema if section is Recipe else schema["$defs"].get(section.__name__)
        for name, field in section.model_fields.items() if described else ():
            own = (cls for cls in section.__mro__ if issubclass(cls, Section))
            texts = (_docstrings(cls.__module__).get((cls.__qualname__, name)) for cls in own)
            text = next(filter(None, texts), None)
            key = field.alias or name
            properties = described["properties"]
            if text is not None and "description" not in properties.get(key, {"description"}):
                properties[key] = dict(sorted({**properties[key], "description": text}.items()))


@functools.cache
def _docstrings(module: str) -> dict[tuple[str, str], str]:
    try:
        classes = ast.parse(inspect.getsource(sys.modules[module])).body
    except (OSError, TypeError):  # installed without its source
        return {}
    return {
        (cls.name, field.target.id): inspect.cleandoc(text.value.value)
        for cls in classes
        if isinstance(cls, ast.ClassDef)
        for field, text in pairwise(cls.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


CHANGED.append(root.cache_clear)  # the schema has what the tables of kinds have


# --- walking ----------------------------------------------------------------------------------------------------------


def has_kinds(schema: Schema) -> bool:
    """Return whether this key holds a section that is chosen among several by ``kind:``."""
    return any("oneOf" in branch for branch in [schema, *schema.get("anyOf", ())])


def kinds(schema: Schema) -> dict[str, Schema]:
    """Return the sections that this key can hold, by their ``kind`` ("" where there is one); empty for a value."""
    if "$ref" in schema:
        return {"": root()["$defs"][schema["$ref"].rsplit("/", 1)[1]]}
    if "properties" in schema:
        return {"": schema}
    if "oneOf" in schema:
        members = [kinds(member)[""] for member in schema["oneOf"]]
        return {member["properties"]["kind"]["const"]: member for member in members}
    return {kind: section for branch in schema.get("anyOf", ()) for kind, section in kinds(branch).items()}


def every_key(schema: Schema | None = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Yield every key of a recipe, or below ``schema``, with its path and schema; those of each kind, too."""
    for section in kinds(root() if schema is None else schema).values():
        for key, field in section["properties"].items():
            yield (*path, key), field
            if AS not in field:
                yield from every_key(field, (*path, key))


# --- words ------------------------------------------------------------------------------------------------------------


def takes(schema: Schema, *, every_bound: bool = False) -> str:
    """Describe what a key takes: "a whole number ≥ 1 or null". ``every_bound`` names limits in the billions, too."""
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
        even = schema.get("multipleOf") == 2
        bounds = [
            f" {sign} {schema[key]:g}" if schema[key] != _UNBOUNDED else f" {sign} {_UNBOUNDED}"
            for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
            if key in schema and (every_bound or schema[key] != _UNBOUNDED)
        ]
        number = "a number" if kind == "number" else "an even number" if even else "a whole number"
        return number + " and".join(bounds)
    if kind == "string":
        return _PATTERNS.get(schema.get("pattern", ""), "text")
    return {"boolean": "`true` or `false`", "null": "`null`"}.get(str(kind), str(kind))


def choices(schema: Schema) -> list[str]:
    """Return the words among which a key chooses, its kinds included; empty for a key that takes anything else."""
    if has_kinds(schema):
        return list(kinds(schema))
    if "const" in schema:
        return [str(schema["const"])]
    branches = [choice for branch in schema.get("anyOf", ()) for choice in choices(branch)]
    return [*map(str, schema.get("enum", ())), *branches]


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# --- the reference ----------------------------------------------------------------------------------------------------


def _tables(schema: Schema, path: tuple[str, ...], meaning: str) -> Iterator[str]:
    """Yield a Markdown table for each section of a key, one for each of its kinds, and those of the keys below."""
    for kind, section in kinds(schema).items():
        title = f"`{'.'.join(path)}`" if path else "Recipe"
        about = section.get("description", "") if path else meaning
        heading = f"#### {title}, `kind: {kind}`" if kind else f"#### {title}"
        rows = ["| key | takes | default | meaning |", "|---|---|---|---|"]
        required = section.get("required", ())
        for key, field in section["properties"].items():
            about_key = "Chooses this table." if key == "kind" and "const" in field else field.get("description", "")
            default = field.get("default")
            if key in required:
                shown = "required"
            elif isinstance(default, dict):
                shown = f"`kind: {default['kind']}`" if has_kinds(field) else "see below"
            else:
                shown = f"`{write_value(default)}`"
            cells = (f"`{key}`", takes(field), shown, about_key)
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        yield f"{heading}\n\n{about}\n\n" + "\n".join(rows)
        for key, field in section["properties"].items():
            if AS not in field:
                yield from _tables(field, (*path, key), field.get("description", ""))


# --- files ------------------------------------------------------------------------------------------------------------


def rewritten(path: Path) -> str:
    """Return the fresh content of a file: of ``.json`` the schema, of others the text with a fresh reference between
    the marker lines."""
    if path.suffix == ".json":
        return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UsageError(f"{path} has no place for the recipe reference", hint=f"add two lines: {BEGIN} and {END}")
    tables = "\n\n".join(_tables(root(), (), "Keys at the top level."))
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"


def main(arguments: Sequence[str]) -> None:
    """Rewrite these files, by default ``recipes/schema.json`` and ``docs/recipe-reference.md``."""
    for path in map(Path, arguments or ("recipes/schema.json", "docs/recipe-reference.md")):
        path.write_text(rewritten(path), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
