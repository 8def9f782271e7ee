"""The plan of the house: which room each module is in, what each room may import, and that rooms ask no kinds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support import ROOT

PACKAGE = ROOT / "probtrans_cli"
FILES = sorted(PACKAGE.rglob("*.py"))

# Every module's room. `room: modules below it`, a package standing for itself where it is named `.`.
ROOMS = {
    "": ". __main__ atomic checkpoint console errors text version",
    "folders": ". checkpoints job lock places regular",
    "recipe": ". base bert checks data faults grids kinds origin overrides reference schema semantic source table "
    "task training weights yaml",
    "recipe.model": ". base bayes factors head_bias probabilistic stacked transformer",
    "data": ". archives blocks files processes ranks sentence tokens",
    "data.codecs": ". carb coordination_scores coordination_trees coordinations entities entity_notation entity_scores "
    "extraction_rows extractions f1 grids logical_forms records tuple_floor tuple_texts tuple_writing wire57 "
    "written_forms",
    "data.corpus": ". batches documents encode gold identity kept lengths pairs parts prepared selection shards "
    "sources store units whole",
    "data.readers": ". appearance cogs columns conllu conllu_plus coordinated coordination_rows documents extractions "
    "grid_format jsonl label_rows labelled oie_conll table text tuple_groups tuple_lines tuple_texts tuples",
    "data.vocabularies": ". added_tokens base characters enclosed features pieces sentencepiece typography wordpiece "
    "wordpiece_building wordpiece_files words",
    "models": ". arithmetic base grids network outputs shapes stacked transformer",
    "models.bayesian": ". attention full moments propagation readout state together variational weights",
    "models.probabilistic": ". crf encoder factors head_bias inference latent matrix_tree potentials projections state",
    "models.probabilistic.fast": ". banded bands blocks derivatives drawn_dropout dropout forms fused head_variables "
    "layout lines meanfield messages pairs products recomputed",
    "trees": ". bootstrap decode every_tree forest relations score search",
    "trees.drawing": ". displacy drawing html jsonl latex layout offline style svg terminal",
    "statistics": ". intervals uncertainty word_order",
    "tasks": ". answers base batch classification confusions coordination entities extraction grids masking mlm "
    "penalties pretraining semantic tagging valid_tags whole_sentences",
    "trained": ". abstention arcs arrow card cues evaluation gallery inner latent_labels machine model parses "
    "parts_of_speech predictions predictor side_by_side splits uncertainty ways",
    "trained.formats": ". carb conllu displacy drawn html jsonl labels latex svg text tree tuples",
    "hf": ". auto bert export files own prefixes write",
    "training": ". ahead compiled divergence draws final group ivon launched loop loss microbatches optim output_rows "
    "parallel plan run_folder shape_trace start_from state stopping tracking uncompiled watch",
    "export": ". answers bundle compared difference example graph hf lookup measure onnx prune pt2 safetensors",
    "reports": ". confusion curves finished markup prepared published reliability run_page scores table table_beside "
    "table_means table_page two_files",
    "reports.scorers": ". calibration carb coordination entities trees wire57",
    "commands": ". bulk bulk_blocks bulk_workers checks convert eval eval_uncertainty export input_stream launch parse "
    "prepare score table train unread",
    "adapters": ". datatrove spacy",
    "cli": ". application options streams",
}  # fmt: skip

# From the ground up: a room imports those of lower floors, and of its own floor only itself.
FLOORS = (
    {"ground"},
    {"recipe"},
    {"data", "models", "statistics", "trees"},
    {"tasks"},
    {"trained"},
    {"hf"},
    {"training", "export", "reports"},
    {"commands", "adapters"},
    {"cli"},
    {"roof"},
)
GROUND = {"atomic", "checkpoint", "console", "errors", "folders", "text", "version"}
ROOF = {"__init__", "__main__"}
# Whatever answers before it knows that something is to be computed.
WITHOUT_TORCH = (
    "folders",
    "recipe",
    "data",
    "statistics",
    "trees",
    "reports",
    "cli",
    "commands/convert",
    "commands/prepare",
    "commands/table",
    "__init__",
    "__main__",
)


def module(path: Path) -> str:
    """The dotted name of a file below the package; the package's own is empty."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(name: str) -> str:
    """The room of a module."""
    first = name.split(".", maxsplit=1)[0] or "__init__"
    return "ground" if first in GROUND else "roof" if first in ROOF else first


def floor(name: str) -> int:
    """The number of its floor."""
    return next(number for number, rooms in enumerate(FLOORS) if room(name) in rooms)


MODULES = {module(path): path for path in FILES}


@cache
def imports(path: Path) -> tuple[tuple[str, bool], ...]:
    """Every import of a file, lazy ones included but for those of types alone; and whether it is done at once."""

    def walk(node: ast.AST, top: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                yield from (found for other in child.orelse for found in walk(other, top))
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: a relative import"
                yield from ((f"{child.module}.{alias.name}", top) for alias in child.names)
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from walk(child, top and not inside)

    return tuple(walk(ast.parse(path.read_text("utf-8")), True))


def ours(path: Path) -> set[str]:
    """The modules of the package that a file imports."""
    found = set()
    for name, _ in imports(path):
        inner = name.removeprefix("probtrans_cli.")
        if inner != name:
            found.add(inner if inner in MODULES else inner.rpartition(".")[0])
    return found


IDS = {"ids": lambda path: str(path.relative_to(PACKAGE))}


def test_every_module_has_a_room() -> None:
    named = set()
    for where, modules in ROOMS.items():
        named |= {where if one == "." else f"{where}.{one}".strip(".") for one in modules.split()}
    assert named == set(MODULES)
    assert len([name for name in MODULES if "." not in name and MODULES[name].name != "__init__.py"]) + 1 <= 8


@pytest.mark.parametrize("path", FILES, **IDS)
def test_imports_go_one_way(path: Path) -> None:
    here = module(path)
    for other in ours(path):
        assert floor(other) < floor(here) or room(other) == room(here), f"{here} imports {other}"


def test_there_is_no_circle() -> None:
    """Lazily imported modules included; a package's `__init__` counts where it is imported by name."""
    done: set[str] = set()

    def visit(name: str, on_the_way: tuple[str, ...]) -> None:
        assert name not in on_the_way, " -> ".join([*on_the_way[on_the_way.index(name) :], name])
        if name not in done:
            for other in sorted(ours(MODULES[name]) - {name}):
                visit(other, (*on_the_way, name))
            done.add(name)

    for name in MODULES:
        visit(name, ())


@pytest.mark.parametrize("path", FILES, **IDS)
def test_only_what_computes_imports_torch(path: Path) -> None:
    if str(path.relative_to(PACKAGE)).startswith(WITHOUT_TORCH):
        assert not {name for name, top in imports(path) if top and name.split(".")[0] in {"torch", "safetensors"}}


@pytest.mark.parametrize("path", FILES, **IDS)
def test_files_say_what_they_are(path: Path) -> None:
    text = path.read_text("utf-8")
    assert ast.get_docstring(ast.parse(text))
    assert not re.search(r"\b(utils|helpers|common)\b", path.stem)


def sections() -> dict[str, str]:
    """The recipe's sections, by name, with the module that defines each."""
    found = {}
    for name, path in MODULES.items():
        if name.startswith("recipe."):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
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
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass")
            if called or isinstance(node, ast.MatchClass):
                looked_at = node.args[1] if isinstance(node, ast.Call) else node.cls
                for one in ast.walk(looked_at):
                    section = getattr(one, "id", getattr(one, "attr", ""))
                    home = OWN_ROOMS.get(known.get(section, ""), "nowhere")
                    if section in known and not name.startswith(home):
                        asked.append(f"{name}: {section}")
    assert asked == []
