"""The schema of recipes as JSON schema, which editors and `docs/recipe-reference.md` use, and a walk over it."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from probtrans_cli.recipe.base import CHANGED, Section, load_outside
from probtrans_cli.recipe.schema import Recipe

Schema = Mapping[str, Any]
AS = "x-as"
"""Marks a key that holds the same sections as the key that it names; only that one is described."""


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
