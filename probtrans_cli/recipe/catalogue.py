"""The recipes that come with probtrans: their list in groups, and their files. Imports no torch."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from probtrans_cli.console import wrapped
from probtrans_cli.corpora import CORPORA
from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.source import describe, shipped_recipes
from probtrans_cli.text import printable

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
    Group(
        "To try it out",
        "",
        {"quickstart": "1 min", "quickstart-parser": "20 s", "quickstart-lm": "20 s", "openie-quick": "25 s"},
    ),
    Group(
        "Dependency parsing",
        "ewt",
        {
            "ud-probabilistic": "6 min", "ud-transformer": "5 min", "ud-minilm": "30 min",
            "ud-100": "1 min", "ud-words": "5 min",
        },
    ),
    Group("Trees from words alone", "ewt", {"trees-ud-probabilistic": "30 s", "trees-ewt-probabilistic": "24 min"}),
    Group(
        "Parts of speech",
        "ewt",
        {
            "pos-ewt-affix": "2.5 min", "pos-ewt-small": "5 min", "pos-ewt-probabilistic": "28 min",
            "pos-ewt-transformer": "30 min", "pos-ewt-minilm": "5 min", "pos-ewt-stacked": "8 min",
            "pos-ewt-bayes": "19 min", "pos-ewt-ivon": "8 min", "upos-ewt-minilm": "6 min",
            "upos-ewt-minilm-300": "1 min", "upos-ewt-probabilistic": "2 h", "upos-ewt-transformer": "31 min",
            "uncertainty-ewt-bayes": "1 min",
        },
    ),
    Group(
        "Parts of speech",
        "ptb-pos",
        {"pos-ptb-probabilistic": _GPU, "pos-ptb-transformer": _GPU},
    ),
    Group(
        "Named entities",
        "wnut17",
        {"wnut17-probabilistic": "3 min", "wnut17-transformer": "1.5 min", "wnut17-minilm": "6 min"},
    ),
    Group(
        "Named entities",
        "wikigold",
        {"ner-wikigold-probabilistic": "40 s", "ner-wikigold-transformer": "25 s"},
    ),
    Group(
        "Named entities",
        "conll03",
        {"ner-conll03-affix": "5 min", "ner-conll03-probabilistic": _GPU, "ner-conll03-transformer": _GPU},
    ),
    Group(
        "Classes of sentences",
        "sst2",
        {
            "sst2-bayes": "3 min", "sst2-minilm": "2 min", "sst2-probabilistic": "50 min", "sst2-transformer": "33 min",
        },
    ),
    Group("Classes of sentences", "sst5", {"sst5-probabilistic": "11 min", "sst5-transformer": "25 min"}),
    Group(
        "Logical forms",
        "cogs",
        {
            "cogs-category": "8 min", "cogs-probabilistic": "17 min", "cogs-transformer": "11 min",
            "cogs-universal": "8 min",
        },
    ),
    Group(
        "Tuples (open information extraction)",
        "openie",
        {"openie-extract": "15 min", "openie-extract-minilm": "14 min", "openie-extract-probabilistic": "15 min"},
    ),
    Group(
        "Coordinations",
        "ewt",
        {
            "openie-coordination": "7 min", "openie-coordination-minilm": "8 min",
            "openie-coordination-probabilistic": "20 min",
        },
    ),
    Group(
        "Language models",
        "ewt",
        {
            "mlm-ewt-rotary": "9 min", "mlm-ewt-probabilistic": "11 min", "mlm-ewt-transformer": "9 min",
            "lm-ewt-probabilistic": "4 min", "lm-ewt-transformer": "5 min",
        },
    ),
    Group(
        "Language models",
        "wikitext2",
        {
            "mlm-wikitext2-probabilistic": "9 min", "mlm-wikitext2-transformer": "9 min", "mlm-wikitext2-hour": "1 h",
            "pretrain-wikitext2-bert": "11 min", "lm-wikitext2-probabilistic": "8 min",
            "lm-wikitext2-transformer": "5 min",
        },
    ),
    Group("Language models", "ptb-mlm", {"mlm-ptb-probabilistic": _GPU, "mlm-ptb-transformer": _GPU}),
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
    shipped = shipped_recipes()
    path = shipped.get(name.removesuffix(".yaml"))
    if path is None:
        close = [f"`{name}`" for name in difflib.get_close_matches(name, shipped, n=3)]
        meant = f"; did you mean {' or '.join(close)}?" if close else ""
        hint = "`probtrans --list` shows the shipped recipes; --print of `train` writes out any other"
        raise UsageError(f"'{printable(name, 200)}' is not the name of a shipped recipe{meant}", hint=hint)
    text, here = path.read_text("utf-8"), f"{MODELINE}./schema.json"
    return text.replace(here, f"{MODELINE}{path.with_name('schema.json').as_uri()}", 1)
