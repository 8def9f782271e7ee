"""From a file, standard input, a run folder or a name to a :class:`~probtrans_cli.recipe.schema.Recipe`, and back.

All faults of a recipe and its overrides are reported at once, each with ``file:line:column`` or the override, in words.
What counts as YAML is told in :mod:`probtrans_cli.recipe.yaml`. The recipes that come with probtrans are listed in
groups. Imports no torch.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probtrans_cli.console import wrapped
from probtrans_cli.corpora import CORPORA
from probtrans_cli.errors import UsageError, reason
from probtrans_cli.folders import regular
from probtrans_cli.recipe.base import load_outside
from probtrans_cli.recipe.data import FORMATS
from probtrans_cli.recipe.faults import apply_override, mend, validated
from probtrans_cli.recipe.hf import expand
from probtrans_cli.recipe.reference import root
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.yaml import LARGEST, Document, read_file, write_tree
from probtrans_cli.text import printable

IN_FOLDER = "recipe.yaml"
"""The name of a recipe in the folder of a run, and of a checkpoint."""


# --- finding ----------------------------------------------------------------------------------------------------------


def load_recipe(source: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe, with ``KEY=VALUE`` overrides applied in order.

    Args:
        source: A YAML file, ``-`` for standard input, a run folder (its ``recipe.yaml``) or the name of a shipped
            recipe, with or without ``.yaml``. What exists in the file system goes before a shipped name.
        overrides: Changes; automatic values are left as ``null``, see :meth:`Recipe.resolved`.

    Raises:
        UsageError: no such recipe, or an override without ``=``.
        RecipeError: all faults, one a line.
    """
    if source == "-":
        try:
            content = sys.stdin.buffer.read(LARGEST + 1)
        except OSError as error:
            raise UsageError(f"cannot read the recipe from standard input: {reason(error)}") from None
        return read_recipe(content, "<stdin>", overrides)
    path = _find(source)
    return read_recipe(_content(path, source), str(path), overrides)


def load_stored(path: Path) -> Recipe:
    """Read the recipe that a run or a checkpoint has in its folder."""
    load_outside()
    document = read_file(_content(path), str(path))
    mend(document)
    return validated(document)


def texts_in(source: str, overrides: Sequence[str] = ()) -> list[str]:
    """Return the texts among the values of a recipe, such as names of files, whether or not it is valid. Of standard
    input, a pipe or what is not there, none: it could not be read again."""
    path = _find(source)
    if not path.is_file():
        return []
    document = _overridden(_content(path, source), str(path), overrides)
    texts, values = [], [document.content]
    while values:  # in the order of the file
        value = values.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict | list):
            values += reversed(list(value.values()) if isinstance(value, dict) else value)
    return texts


def _content(path: Path, source: str | None = None) -> bytes:
    # What the user has named, as ``source``, may be a pipe, as `<(...)` is; what lies in the folder of a run may not.
    is_stored = source is None or (path.name == IN_FOLDER and path != Path(source))
    try:
        with regular.open_file(path) if is_stored else path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"cannot read the recipe {printable(str(path), 200)}: {error.strerror}") from error


def _find(source: str) -> Path:
    by_name = shipped_recipes().get(source.removesuffix(".yaml"))
    path = Path(source)
    try:
        is_folder = bool(source) and path.is_dir()
        if is_folder and os.path.lexists(path / IN_FOLDER) and not regular.is_folder(path / IN_FOLDER):
            return path / IN_FOLDER
        if source and not is_folder and path.exists():
            return path
    except (OSError, ValueError):  # a name too long for the file system, or with a zero byte
        is_folder = False
    if by_name is not None:
        return by_name
    if is_folder:
        hint = "give a recipe file, or a run folder (one that `probtrans train` wrote)"
        raise UsageError(f"the folder {printable(source, 200)} has no recipe.yaml", hint=hint)
    meant = _similar(Path(source.replace("\0", "")).name.removesuffix(".yaml"))
    raise UsageError(
        f"'{printable(source, 200)}' is neither a file, nor a run folder, nor the name of a shipped recipe{meant}",
        hint="`probtrans --list` shows the shipped recipes",
    )


def _similar(name: str) -> str:
    # A question after the shipped recipes of similar names, where there are any.
    close = [f"`{shipped}`" for shipped in difflib.get_close_matches(name, shipped_recipes(), n=3)]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def shipped_recipes() -> dict[str, Path]:
    """Return the recipes that come with probtrans, by name; in a source checkout those of its ``recipes/`` folder."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "recipes", package.parent / "recipes"):
        if recipes := {path.stem: path for path in sorted(folder.glob("*.yaml"), key=lambda path: path.stem)}:
            return recipes
    return {}


def describe(path: Path | str) -> str:
    """Say what a recipe is for: the first line of its header comment, "" where there is none."""
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            comment = line.strip()
            if comment and not comment.startswith("#"):
                return ""
            text = comment.lstrip("# ")
            if text and not text.startswith("yaml-language-server:"):
                return printable(text, 200)
    return ""


# --- reading ----------------------------------------------------------------------------------------------------------


def get_ready() -> None:
    """Load the kinds and make the schema, before signals raise exceptions: pydantic would take one that is raised
    while it makes the schema for a default that cannot be written, warn, and swallow it."""
    load_outside()
    root()


def read_recipe(content: bytes, name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read the recipe of a YAML text, which messages call ``name``, with overrides."""
    for override in overrides:
        if "=" not in override:
            hint = "write KEY=VALUE, for example optim.lr=3e-4"
            raise UsageError(f"'{printable(override, 200)}' is not an override", hint=hint)
    load_outside()
    document = _overridden(content, name, overrides)
    mend(document)
    document.faults += expand(document)
    return validated(document)


def _overridden(content: bytes, name: str, overrides: Sequence[str]) -> Document:
    document = read_file(content, name)
    for number, override in enumerate(overrides if isinstance(document.content, dict) else (), start=1):
        apply_override(document, override, number)
    return document


# --- writing ----------------------------------------------------------------------------------------------------------


def dump_recipe(recipe: Recipe, header: Sequence[str] = (), *, complete: bool = True) -> str:
    """Write the YAML text of a recipe as it stands; reading it again gives an equal recipe. One that is not
    ``complete`` lacks the sections that nothing reads in it, where they have their default values."""
    comments = [line for text in header for line in (text.splitlines() or [""])]
    written: dict[str, Any] = recipe.model_dump(mode="json", by_alias=True)
    if not complete:
        of_format, optim = FORMATS[recipe.data.format].options, recipe.optim
        layouts = {row.options for row in FORMATS.values() if row.options not in (None, of_format)}
        idle = [("data", layout) for layout in layouts] + [("data", "select")]
        idle += [("optim", "ivon")] if optim.posterior is None else []
        idle += [("optim", "ternary_penalty")] if optim.ternary_penalty.weight == 0.0 else []
        for part, key in idle:
            section = getattr(recipe, part)
            if getattr(section, key) == type(section).model_fields[key].default:
                del written[part][key]
    return "".join(f"# {printable(line, 10_000)}".rstrip() + "\n" for line in comments) + write_tree(written)


# --- the recipes that come with probtrans -----------------------------------------------------------------------------

MODELINE = "# yaml-language-server: $schema="


@dataclass(frozen=True)
class Group:
    """Recipes of one kind of task upon one corpus."""

    title: str
    corpus: str
    """The row of :data:`probtrans_cli.corpora.CORPORA`; empty: inside the package."""
    recipes: dict[str, str]
    """The time of a training on one or two cores, by name; those to start with are marked in :data:`START`."""


_GPU = "GPU"
GROUPS = (
    Group("To try it out", "", {
        "quickstart": "1 min", "quickstart-parser": "20 s", "quickstart-lm": "20 s", "openie-quick": "25 s",
    }),
    Group("Dependency parsing", "ewt", {
        "ud-probabilistic": "6 min", "ud-transformer": "5 min", "ud-minilm": "30 min", "ud-100": "1 min",
        "ud-words": "5 min",
    }),
    Group("Trees from words alone", "ewt", {"trees-ud-probabilistic": "30 s", "trees-ewt-probabilistic": "24 min"}),
    Group("Parts of speech", "ewt", {
        "pos-ewt-affix": "2.5 min", "pos-ewt-small": "5 min", "pos-ewt-probabilistic": "28 min",
        "pos-ewt-transformer": "30 min", "pos-ewt-minilm": "5 min", "pos-ewt-stacked": "8 min",
        "pos-ewt-bayes": "19 min", "pos-ewt-ivon": "8 min", "upos-ewt-minilm": "6 min", "upos-ewt-minilm-300": "1 min",
        "upos-ewt-probabilistic": "2 h", "upos-ewt-transformer": "31 min", "uncertainty-ewt-bayes": "1 min",
    }),
    Group("Parts of speech", "ptb-pos", {"pos-ptb-probabilistic": _GPU, "pos-ptb-transformer": _GPU}),
    Group("Named entities", "wnut17", {
        "wnut17-probabilistic": "3 min", "wnut17-transformer": "1.5 min", "wnut17-minilm": "6 min",
    }),
    Group("Named entities", "wikigold", {"ner-wikigold-probabilistic": "40 s", "ner-wikigold-transformer": "25 s"}),
    Group("Named entities", "conll03", {
        "ner-conll03-affix": "5 min", "ner-conll03-probabilistic": _GPU, "ner-conll03-transformer": _GPU,
    }),
    Group("Classes of sentences", "sst2", {
        "sst2-bayes": "3 min", "sst2-minilm": "2 min", "sst2-probabilistic": "50 min", "sst2-transformer": "33 min",
    }),
    Group("Classes of sentences", "sst5", {"sst5-probabilistic": "11 min", "sst5-transformer": "25 min"}),
    Group("Logical forms", "cogs", {
        "cogs-category": "8 min", "cogs-probabilistic": "17 min", "cogs-transformer": "11 min",
        "cogs-universal": "8 min",
    }),
    Group("Tuples (open information extraction)", "openie", {
        "openie-extract": "15 min", "openie-extract-minilm": "14 min", "openie-extract-probabilistic": "15 min",
    }),
    Group("Coordinations", "ewt", {
        "openie-coordination": "7 min", "openie-coordination-minilm": "8 min",
        "openie-coordination-probabilistic": "20 min",
    }),
    Group("Language models", "ewt", {
        "mlm-ewt-rotary": "9 min", "mlm-ewt-probabilistic": "11 min", "mlm-ewt-transformer": "9 min",
        "lm-ewt-probabilistic": "4 min", "lm-ewt-transformer": "5 min",
    }),
    Group("Language models", "wikitext2", {
        "mlm-wikitext2-probabilistic": "9 min", "mlm-wikitext2-transformer": "9 min", "mlm-wikitext2-hour": "1 h",
        "pretrain-wikitext2-bert": "11 min", "lm-wikitext2-probabilistic": "10 min",
        "lm-wikitext2-transformer": "10 min", "ner-words": "8 min",
    }),
    Group("Language models", "ptb-mlm", {
        "mlm-ptb-probabilistic": _GPU, "mlm-ptb-transformer": _GPU, "lm-ptb-probabilistic": "10 min",
        "lm-ptb-transformer": "10 min",
    }),
    Group("Language models", "bllip", {"mlm-bllip-probabilistic": _GPU, "mlm-bllip-transformer": _GPU}),
    Group("Language models", "minipile", {"mlm-minipile-probabilistic": _GPU, "mlm-minipile-transformer": _GPU}),
)  # fmt: skip
START = (
    "quickstart", "openie-quick", "trees-ud-probabilistic", "pos-ewt-affix", "ner-wikigold-probabilistic",
    "sst2-bayes", "cogs-category", "mlm-ewt-rotary",
)  # fmt: skip
"""Recipes to start with: quick, and good at what they do."""


def catalogue() -> Iterator[str]:
    """Yield the lines of the list of shipped recipes, in groups."""
    shipped = shipped_recipes()
    known = {name for group in GROUPS for name in group.recipes}
    others = Group("Others", "", {name: "" for name in shipped if name not in known})
    yield "* start here; the time is that of a training on one or two cores"
    for group in [*GROUPS, others]:
        recipes = {name: time for name, time in group.recipes.items() if name in shipped}
        if not recipes:
            continue
        corpus = CORPORA.get(group.corpus)
        about = "made up, inside the package; licence: MIT" if group is GROUPS[0] else "see the recipes"
        if corpus is not None:
            own = " --from YOUR-COPY" if corpus.brings else ""
            licence = f"licence: {corpus.licence} (probtrans fetch {corpus.name}{own})"
            about = f"{corpus.what.partition(':')[0]}; {licence}"
        yield f"\n{group.title}\n" + wrapped(f"data: {about}", indent="      ")
        for name, time in recipes.items():
            yield f"{'*' if name in START else ' '} {name:<34}{time:>8}"
            yield wrapped(f"      {describe(shipped[name])}", indent="")


def recipe_text(name: str) -> str:
    """Return the file of a shipped recipe, with its comments, to edit; a line for editors names the schema."""
    path = shipped_recipes().get(name.removesuffix(".yaml"))
    if path is None:
        hint = "`probtrans --list` shows the shipped recipes; --print of `train` writes out any other"
        raise UsageError(f"'{printable(name, 200)}' is not the name of a shipped recipe{_similar(name)}", hint=hint)
    text, here = path.read_text("utf-8"), f"{MODELINE}./schema.json"
    return text.replace(here, f"{MODELINE}{path.with_name('schema.json').as_uri()}", 1)
