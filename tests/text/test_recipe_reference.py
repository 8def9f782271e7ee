"""The reference of recipes and the schema file are what the code says."""

from __future__ import annotations

import re

import recipe_reference

from probtrans_cli.recipe.reference import every_key


def test_the_schema_file_and_the_reference_are_fresh() -> None:
    for path, content in recipe_reference.fresh().items():
        is_fresh = path.read_text(encoding="utf-8") == content
        assert is_fresh, "write it again: python tests/text/recipe_reference.py"


def test_the_reference_names_every_key_between_its_marks() -> None:
    begin, end = recipe_reference.BEGIN, recipe_reference.END
    page = recipe_reference.page(f"before\n{begin}\nold\n{end}\nafter\n")
    before, _, rest = page.partition(f"{begin}\n")
    reference, _, after = rest.partition(end)
    assert (before, after) == ("before\n", "\nafter\n")
    for path, _ in every_key():
        assert f"| `{path[-1]}` |" in reference
    assert "#### `model.decomposition`, `kind: uvw`" in reference
    for row in (line for line in reference.splitlines() if line.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", row)) == 5, row
