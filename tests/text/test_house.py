"""The rules of the house: which file may import which, how long files are, and that every shipped recipe runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support import ROOT, stand_in

from probtrans_cli import models
from probtrans_cli.data.corpus.sources import SPLITS
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.reports.published import PUBLISHED, Published

PACKAGE = ROOT / "probtrans_cli"
FILES = sorted(PACKAGE.rglob("*.py"))
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
ROOMS = ("models", "data", "trees")
RECIPE = {
    "recipe",
    "recipe_base",
    "recipe_data",
    "recipe_model",
    "recipe_yaml",
    "recipe_source",
    "recipe_reference",
    "recipe_task",
}
FOUNDATION = {"__init__", "errors", "console", "text", "atomic", *RECIPE}
VERBS = {"prepare", "engine", "evaluate", "parse", "export", "runs"}


def imports(path: Path, *, lazy: bool = True) -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, and whether it does when it is itself imported."""

    def walk(node: ast.AST, top: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: a relative import"
                module = child.module or ""
                yield module, top
                yield from ((f"{module}.{alias.name}", top) for alias in child.names)
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if lazy or not inside:
                yield from walk(child, top and not inside)

    return walk(ast.parse(path.read_text("utf-8")), True)


def place(path: Path) -> str:
    """`models`, `tasks`, `engine`, ... : the room or the file's own name."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def ours(path: Path) -> set[str]:
    """The rooms and files of the package that a file imports."""
    known = {place(file) for file in FILES}
    found = {name.split(".")[1] for name, _ in imports(path) if name.startswith("probtrans_cli.")}
    return found & known


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    here, used = place(path), ours(path)
    if here in FOUNDATION:
        # The report of recipe faults may look into nothing but the foundation.
        assert used <= FOUNDATION, used
    elif here in ROOMS:
        assert used <= FOUNDATION | {here}, used
    elif here == "tasks":
        assert used <= FOUNDATION | {here, *ROOMS}, used
    if here not in {"cli", "__main__"}:
        assert not used & {"cli", "__main__"}, used
    if here not in VERBS | {"commands", "cli", "__main__", "report"}:
        assert not used & (VERBS - {"prepare"}), used


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_what_computes_imports_torch(path: Path) -> None:
    if place(path) in {"data", "trees", "cli", "__main__", "prepare", "table", "published", *FOUNDATION}:
        heavy = {name for name, top in imports(path) if top and name.split(".")[0] in {"torch", "safetensors"}}
        assert not heavy


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.count("\n") <= 425
    assert not text or ast.get_docstring(ast.parse(text))
    assert not re.search(r"\b(utils|helpers|common)\b", path.stem)


def test_every_package_file_is_written_in_full_words() -> None:
    assert {path.stem for path in FILES} & {"utils", "helpers", "common"} == set()


# --- recipes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_has_a_header_and_is_short(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    assert lines[0] == "# yaml-language-server: $schema=./schema.json"
    assert lines[1].startswith("# ")
    assert len(lines) <= 65
    assert load_recipe(path.stem).name == path.stem


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_builds_and_takes_steps(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a few toy sentences in place of its corpus; nothing else is changed but the device and a vocabulary's size."""
    from probtrans_cli.commands.train import TrainRequest, train

    monkeypatch.chdir(tmp_path)
    recipe = load_recipe(path.stem)
    there = [name for name in SPLITS if getattr(recipe.data, name) is not None]
    overrides = [f"data.{name}={stand_in(tmp_path, name, recipe.data)}" for name in there]
    overrides.append("runtime={device: cpu, threads: 1}")
    if recipe.data.vocabulary.kind == "sentencepiece":
        overrides.append("data.vocabulary.size=60")
    result = train(TrainRequest(str(path), overrides, dry_run=True))
    assert result["dry_run"] is True


CELLS = [
    ("cogs-universal" if cell.task == "cogs-universal" else f"{cell.task}-{cell.model}", cell) for cell in PUBLISHED
]


@pytest.mark.parametrize(("name", "cell"), CELLS, ids=lambda value: value if isinstance(value, str) else "")
def test_the_encoder_of_a_cell_of_the_paper_is_as_large_as_published(name: str, cell: Published) -> None:
    """Without a tensor; the paper rounds to tenths of a million, of COGS's small ones to tens of thousands."""
    with torch.device("meta"):
        encoder = models.build(load_recipe(name).resolved().model)
    count = sum(parameter.numel() for parameter in encoder.parameters())
    unit = 100_000 if cell.parameters >= 1_000_000 else 10_000
    assert round(count / unit) * unit == cell.parameters
