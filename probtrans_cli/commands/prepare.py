"""The verb `prepare`: the corpora of a recipe, encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from probtrans_cli import console
from probtrans_cli.data.corpus import prepared as corpus
from probtrans_cli.data.corpus.parts import QUANTILES
from probtrans_cli.recipe.source import get_ready, load_recipe
from probtrans_cli.text import visible
from probtrans_cli.training.watch import stopped_at_once


@dataclass(frozen=True)
class PrepareRequest:
    """The arguments of `prepare`."""

    recipe: str
    overrides: Sequence[str] = ()
    check: bool = False
    force: bool = False
    jobs: int = 1


def prepare(request: PrepareRequest) -> tuple[str, corpus.Prepared]:
    """Encode the corpora of a recipe, unless that is up to date.

    Returns:
        ``checked``, ``prepared`` or ``up to date``; and the encoded corpora.
    """
    get_ready()
    with stopped_at_once("while preparing", "the same command goes on"):
        recipe = load_recipe(request.recipe, request.overrides)
        prepared = corpus.prepare(recipe, force=request.force, check=request.check, jobs=request.jobs)
    return "checked" if request.check else "prepared" if prepared.fresh else "up to date", prepared


def report(state: str, prepared: corpus.Prepared) -> str:
    """Return what to show on the screen: a table of the splits, vocabulary and labels in a line each, the state."""
    manifest = prepared.manifest
    units = prepared.vocabulary.units
    subwords = units != "words"
    headings = ["split", "sentences", "words", *(["pieces"] if subwords else []), "unknown", "unseen", *QUANTILES]
    rows = []
    for name, split in manifest["splits"].items():
        row = [name, f"{split['sentences']:,}", f"{split['words']:,}"]
        row += [f"{split['tokens']:,}"] if subwords else []
        row += [f"{split['unknown']:.2%}", f"{split['unseen']:.2%}"]
        rows.append([*row, *(str(length) for length in split["length"].values())])
    size = manifest["vocabulary"]["size"]
    special = manifest["vocabulary"].get("special", 3)
    lines = [f"vocabulary: {size:,} {units} ({special} special); min to max: sentence lengths"]
    for column, labels in manifest["labels"].items():
        counts = {label: count for label, count in labels.items() if count}  # of the kinds of COGS train has a few
        if counts:
            shown = [f"{visible(label)} {count:,}" for label, count in list(counts.items())[:20]]
            shown += [f"and {len(counts) - 20} more"] if len(counts) > 20 else []
            lines.append(console.listed(shown, f"{column}: {len(counts)} labels: "))
    lines += [console.wrapped(note) for note in manifest.get("notes", [])]
    return console.render(headings, rows) + "\n".join([*lines, f"{state}: {prepared.folder}"])
