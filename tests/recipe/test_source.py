"""Where a recipe is found."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from small_recipes import FULL, SMALL

from probtrans_cli.errors import RecipeError, UsageError
from probtrans_cli.recipe import source as recipe_source
from probtrans_cli.recipe.source import describe, load_recipe, shipped_recipes


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package folder with two shipped recipes beside it, and an empty current folder."""
    package, here = tmp_path / "checkout" / "probtrans_cli", tmp_path / "here"
    (package.parent / "recipes").mkdir(parents=True)
    (package / "recipe").mkdir(parents=True)
    here.mkdir()
    (package.parent / "recipes" / "quickstart.yaml").write_text(SMALL)
    (package.parent / "recipes" / "other.yaml").write_text(FULL)
    monkeypatch.setattr(recipe_source, "__file__", str(package / "recipe" / "source.py"))
    monkeypatch.chdir(here)
    return here


def test_shipped_recipes_by_name(shelf: Path) -> None:
    assert list(shipped_recipes()) == ["other", "quickstart"]
    assert load_recipe("quickstart").name == load_recipe("quickstart.yaml").name == "small"
    assert describe(shipped_recipes()["quickstart"]) == "Smallest recipe"
    assert describe(shipped_recipes()["other"]) == "A recipe with most keys"
    (shelf / "quickstart").mkdir()
    assert load_recipe("quickstart").name == "small"
    (shelf / "quickstart" / "recipe.yaml").write_text(FULL)
    assert load_recipe("quickstart").name == "full"
    (shelf / "other.yaml").write_text(SMALL)
    assert load_recipe("other.yaml", ["seed=5"]).seed == 5
    assert load_recipe("other.yaml").name == "small"
    installed = Path(recipe_source.__file__).parents[1] / "recipes"
    installed.mkdir()
    (installed / "only.yaml").write_text(SMALL)
    assert list(shipped_recipes()) == ["only"]


def test_names_of_nothing(shelf: Path) -> None:
    with pytest.raises(UsageError, match="did you mean `quickstart`") as caught:
        load_recipe("quikstart")
    assert "--list" in str(caught.value.hint)
    (shelf / "empty").mkdir()
    with pytest.raises(UsageError, match=r"the folder empty has no recipe\.yaml"):
        load_recipe("empty")
    for name in ("", "x\0y", "a" * 5000, "nowhere/x.yaml", "\ud800", "quickstart/x"):
        with pytest.raises(UsageError):
            load_recipe(name)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SMALL.encode())))
    assert load_recipe("-").name == "small"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"nme: x")))
    with pytest.raises(RecipeError, match=r"<stdin>:1:1: nme: unknown key; did you mean `name`"):
        load_recipe("-")


def test_describe_without_header(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("name: x\n# late\n")
    assert describe(path) == ""
