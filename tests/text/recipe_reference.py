"""The reference of recipes: `docs/recipe-reference.md`, between its two marker lines, and `recipes/schema.json`.

``python tests/text/recipe_reference.py`` writes both; a test keeps them fresh.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from probtrans_cli.recipe.base import NAME
from probtrans_cli.recipe.reference import AS, Schema, has_kinds, json_schema, kinds, root
from probtrans_cli.recipe.yaml import write_tree

ROOT = Path(__file__).parent.parent.parent
BEGIN = "<!-- recipe reference: begin -->"
END = "<!-- recipe reference: end -->"

_PATTERNS = {NAME: "text of letters, digits, `.`, `_` and `-`, beginning with a letter or digit"}
# Integers have this bound for the sake of the machine, not of the reader.
_UNBOUNDED = 2**31


# --- words ------------------------------------------------------------------------------------------------------------


def takes(schema: Schema) -> str:
    """Describe what a key takes: "a whole number ≥ 1 or null"."""
    or_null = " or `null`" if {"type": "null"} in schema.get("anyOf", ()) else ""
    if has_kinds(schema):
        return "a section with `kind:` " + _either([f"`{kind}`" for kind in kinds(schema)]) + or_null
    if kinds(schema):
        return "a section" + or_null
    if "anyOf" in schema:
        return _either([takes(branch) for branch in schema["anyOf"]])
    if "const" in schema or "enum" in schema:
        return _either([f"`{choice}`" for choice in choices(schema)])
    kind = schema.get("type")
    if kind == "array":
        if "prefixItems" in schema:
            item = takes(schema["prefixItems"][0])
            return f"a list of {len(schema['prefixItems'])}, each {item}"
        return "a list of " + re.sub("^an? (.*)number", r"\1numbers", takes(schema["items"]))
    if kind in ("integer", "number"):
        even = schema.get("multipleOf") == 2
        bounds = [
            f" {sign} {schema[key]:g}"
            for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
            if key in schema and schema[key] != _UNBOUNDED
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
                shown = f"`{write_tree([default])[1:-2]}`"
            cells = (f"`{key}`", takes(field), shown, about_key)
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        yield f"{heading}\n\n{about}\n\n" + "\n".join(rows)
        for key, field in section["properties"].items():
            if AS not in field:
                yield from _tables(field, (*path, key), field.get("description", ""))


# --- files ------------------------------------------------------------------------------------------------------------

PAGE, SCHEMA = ROOT / "docs" / "recipe-reference.md", ROOT / "recipes" / "schema.json"


def page(text: str) -> str:
    """Return the text of the page with fresh tables between the two marker lines."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{PAGE} lacks {BEGIN} or {END}"
    tables = "\n\n".join(_tables(root(), (), "Keys at the top level."))
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"


def fresh() -> dict[Path, str]:
    """Return the two files with their fresh content."""
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    return {PAGE: page(PAGE.read_text(encoding="utf-8")), SCHEMA: schema}


if __name__ == "__main__":
    for path, content in fresh().items():
        path.write_text(content, encoding="utf-8")
