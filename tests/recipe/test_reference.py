"""The schema of recipes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import ROOT

from probtrans_cli.recipe import base
from probtrans_cli.recipe import reference as recipe_reference
from probtrans_cli.recipe.schema import Recipe


def test_every_key_is_described() -> None:
    schema = recipe_reference.json_schema()
    for section in [schema, *schema["$defs"].values()]:
        assert section["additionalProperties"] is False
        assert section["description"]
        for key, field in section["properties"].items():
            assert field.get("description"), f"{section['title']}.{key}"
            assert "default" in field or key in section["required"]


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
