"""The plan of the house: what each room may import, and that rooms ask no kinds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support import ROOT

PACKAGE = ROOT / "probtrans_cli"
FILES = sorted(PACKAGE.rglob("*.py"))

# From the ground up: a room imports those of lower floors, and of its own floor only itself.
FLOORS = (
    {"ground"},
    {"recipe"},
    {"data", "models", "statistics", "trees"},
    {"tasks"},
    {"trained"},
    {"hf"},
    {"reports"},
    {"openie"},
    {"training", "export"},
    {"commands", "adapters"},
    {"cli"},
    {"roof"},
)
GROUND = {"atomic", "checkpoint", "console", "corpora", "errors", "folders", "imports", "server", "text", "version"}
ROOF = {"__init__", "__main__"}
# Whatever answers before it knows that something is to be computed.
WITHOUT_TORCH = (
    "corpora",
    "commands/fetch",
    "folders",
    "recipe",
    "data",
    "statistics",
    "trees",
    "reports",
    "cli",
    "commands/convert",
    "openie/corpora",
    "openie/coordination",
    "openie/writing",
    "commands/prepare",
    "__init__",
    "__main__",
)


def module(path: Path) -> str:
    """The dotted name of a file below the package; the package's own is empty."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(name: str) -> str:
    first = name.split(".", maxsplit=1)[0] or "__init__"
    return "ground" if first in GROUND else "roof" if first in ROOF else first


def floor(name: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if room(name) in rooms)


MODULES = {module(path): path for path in FILES}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


@cache
def imports(path: Path) -> tuple[tuple[str, bool], ...]:
    """Every import of a file, with those inside functions and for types alone; and whether it is done at once."""

    def walk(node: ast.AST, top: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: a relative import"
                yield from ((f"{child.module}.{alias.name}", top) for alias in child.names)
            later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            )
            yield from walk(child, top and not later)

    return tuple(walk(tree(path), True))


def ours(path: Path) -> set[str]:
    names = {name.removeprefix("probtrans_cli.") for name, _ in imports(path) if name.startswith("probtrans_cli.")}
    return {name if name in MODULES else name.rpartition(".")[0] for name in names}


def test_imports_go_one_way() -> None:
    for here, path in MODULES.items():
        for imported in ours(path):
            assert floor(imported) < floor(here) or room(imported) == room(here), f"{here} imports {imported}"


def test_there_is_no_circle() -> None:
    """Imports in functions and for types included; a package's `__init__` counts where it is imported by name."""
    done: set[str] = set()

    def visit(name: str, on_the_way: tuple[str, ...]) -> None:
        assert name not in on_the_way, " -> ".join([*on_the_way[on_the_way.index(name) :], name])
        if name not in done:
            for other in sorted(ours(MODULES[name]) - {name}):
                visit(other, (*on_the_way, name))
            done.add(name)

    for name in MODULES:
        visit(name, ())


def test_only_what_computes_imports_torch() -> None:
    for path in FILES:
        if str(path.relative_to(PACKAGE)).startswith(WITHOUT_TORCH):
            early = {name for name, top in imports(path) if top and name.split(".")[0] in {"torch", "safetensors"}}
            assert not early, f"{path}: {early}"


def test_open_extraction_is_met_by_who_needs_it() -> None:
    """The rooms below it name its objects in rows, as text; above it, `convert` and the answers beside an export do."""
    assert {
        name for name in MODULES if room(name) != "openie" and any(room(of) == "openie" for of in ours(MODULES[name]))
    } == {
        "cli",
        "commands.convert",
        "export.answers",
    }


def test_files_say_what_they_are() -> None:
    for path in FILES:
        assert ast.get_docstring(tree(path)), f"{path}: no docstring"
        assert not re.search(r"\b(utils|helpers|common)\b", path.stem), path


def sections() -> dict[str, str]:
    """The recipe's sections, by name, with the module that defines each."""
    found = {}
    for name, path in MODULES.items():
        if name.startswith("recipe."):
            for node in nodes(path):
                if isinstance(node, ast.ClassDef) and any("kind" in ast.dump(one) for one in node.body):
                    found[node.name] = name
    return found


# Where a kind is made of its section: its own room may look at it.
OWN_ROOMS = {"recipe.model.probabilistic": "models.probabilistic", "recipe.model.transformer": "models.transformer"}


def test_nobody_asks_a_section_for_its_kind() -> None:
    """`isinstance`, and `match` by class, on a section of a recipe, outside the room of the kind; sections and encoders
    say what they have."""
    known, asked = sections(), []
    assert {"ProbabilisticTransformer", "Tagging", "WordVocabulary", "PlateauSchedule"} <= set(known)
    for name, path in MODULES.items():
        for node in nodes(path):
            called = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass")
            if called or isinstance(node, ast.MatchClass):
                looked_at = node.args[1] if isinstance(node, ast.Call) else node.cls
                for one in ast.walk(looked_at):
                    section = getattr(one, "id", getattr(one, "attr", ""))
                    home = OWN_ROOMS.get(known.get(section, ""), "nowhere")
                    if section in known and not name.startswith(home):
                        asked.append(f"{name}: {section}")
    assert asked == []


FILLERS = {"asked", "cues", "found", "given", "inner", "one", "other", "others", "so", "told", "ways", "what"}


def bound_names() -> Iterator[tuple[str, str]]:
    """Every name that the package binds (functions, arguments, variables, attributes), and where."""
    for path in FILES:
        for node in nodes(path):
            name = ""
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = node.name
            elif isinstance(node, ast.arg):
                name = node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                name = node.attr
            if name:
                yield name, f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]


def test_names_say_what_things_are() -> None:
    names = list(bound_names())
    assert {name for name, _ in names} >= {"sentence", "score", "mask"}
    fillers = [f"{place}: {name}" for name, place in names if name in FILLERS]
    assert len(fillers) <= 0.005 * len(names), f"{len(fillers)} of {len(names)}: " + "\n".join(fillers)


def test_functions_are_no_fragments() -> None:
    """A reader follows steps, not names: the mean function has as many lines as in code that is read with pleasure."""
    functions = [
        node for path in FILES for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lines = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in functions]
    assert sum(lines) / len(lines) >= 12
    assert len(FILES) <= 210
    page = (PACKAGE / "models" / "probabilistic" / "crf.py").read_text("utf-8")
    assert page.count("\n") <= 250, "the equations are one page"
