"""The schema file and the reference in the docs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

from probtrans_cli.errors import UsageError
from probtrans_cli.recipe import base
from probtrans_cli.recipe import reference as recipe_reference
from probtrans_cli.recipe.schema import Recipe


def test_the_schema_file_and_the_reference_in_the_docs_are_fresh() -> None:
    for path in (ROOT / "recipes" / "schema.json", ROOT / "docs" / "recipe-reference.md"):
        fresh = path.read_text(encoding="utf-8") == recipe_reference.rewritten(path)
        assert fresh, "run `python -m probtrans_cli.recipe.reference`"


def test_every_key_is_described() -> None:
    schema = recipe_reference.json_schema()
    for section in [schema, *schema["$defs"].values()]:
        assert section["additionalProperties"] is False
        assert section["description"]
        for key, field in section["properties"].items():
            assert field.get("description"), f"{section['title']}.{key}"
            assert "default" in field or key in section["required"]


def test_reference_names_every_key_and_is_rewritten_in_place(tmp_path: Path) -> None:
    page = recipe_reference.rewritten(ROOT / "docs" / "recipe-reference.md")
    reference = page.partition(f"{recipe_reference.BEGIN}\n")[2].partition(recipe_reference.END)[0]
    for path, _ in recipe_reference.every_key():
        assert f"| `{path[-1]}` |" in reference
    assert "#### `model.decomposition`, `kind: uvw`" in reference
    for row in (line for line in reference.splitlines() if line.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", row)) == 5, row
    document = tmp_path / "reference.md"
    document.write_text(f"before\n{recipe_reference.BEGIN}\nold\n{recipe_reference.END}\nafter\n")
    schema = tmp_path / "schema.json"
    for _ in range(2):
        recipe_reference.main([str(document), str(schema)])
        expected = f"before\n{recipe_reference.BEGIN}\n{reference}{recipe_reference.END}\nafter\n"
        assert document.read_text(encoding="utf-8") == expected
    assert schema.read_text(encoding="utf-8") == recipe_reference.rewritten(schema)
    document.write_text("nothing here")
    with pytest.raises(UsageError, match="no place for the recipe reference"):
        recipe_reference.rewritten(document)


def test_reading_recipes_imports_no_torch() -> None:
    code = "import sys, probtrans_cli.recipe.source, probtrans_cli.recipe.reference; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


def test_the_schema_is_forgotten_when_a_table_of_kinds_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe_reference.json_schema()["title"]
    monkeypatch.setattr(Recipe, "model_json_schema", lambda: {"$defs": {}, "properties": {"new": {}}})
    assert recipe_reference.json_schema()["title"] == before
    try:
        for listener in base.CHANGED:
            listener()
        assert "new" in recipe_reference.json_schema()["properties"]
    finally:
        monkeypatch.undo()
        for listener in base.CHANGED:
            listener()
