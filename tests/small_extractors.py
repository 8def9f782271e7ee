"""Small trained models of open information extraction and coordinations, and the files they are trained on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

EXTRA = "[unused1] [unused2] [unused3]"
SENTENCES: Sequence[tuple[str, Sequence[str]]] = (
    (
        "Rome is the capital of Italy and is known for its history .",
        (
            "ARG1 REL REL REL REL ARG2 NONE NONE NONE NONE NONE NONE NONE NONE NONE NONE",
            "ARG1 NONE NONE NONE NONE NONE NONE REL REL REL ARG2 ARG2 NONE NONE NONE NONE",
        ),
    ),
    (
        "Ann , my aunt , sings .",
        ("ARG1 NONE NONE NONE NONE REL NONE NONE NONE NONE", "ARG1 NONE ARG2 ARG2 NONE NONE NONE REL NONE NONE"),
    ),
    (
        "French president Louis slept .",
        ("ARG2 REL ARG1 NONE NONE NONE REL NONE", "NONE NONE ARG1 REL NONE NONE NONE NONE"),
    ),
    ("Goats eat grass in May .", ("ARG1 REL ARG2 LOC LOC NONE NONE NONE NONE",)),
    (
        "Bob bought a boat and sold a car .",
        (
            "ARG1 REL ARG2 ARG2 NONE NONE NONE NONE NONE NONE NONE NONE",
            "ARG1 NONE NONE NONE NONE REL ARG2 ARG2 NONE NONE NONE NONE",
        ),
    ),
    ("Rain fell .", ("ARG1 REL NONE NONE NONE NONE",)),
)
"""Sentences and the tags of their rows, those of the extra words behind those of the words."""
COORDINATED = """\
I ate an apple and an orange .
NONE NONE CP_START CP CC CP CP NONE
NONE NONE NONE NONE NONE NONE NONE NONE

Ann , Bob and Carl sing or dance .
CP_START SEP CP CC CP CP_START CC CP NONE
NONE NONE NONE NONE NONE NONE NONE NONE NONE

Rain fell .
NONE NONE NONE
NONE NONE NONE

"""
RECIPE = """\
version: 1
name: {name}
seed: 0
data: {{train: {name}.txt, dev: {name}.txt, format: {form}, vocabulary: {{kind: words}}}}
task: {{kind: {kind}, rows: {rows}, iterative_steps: 1}}
model: {model}
optim: {{kind: adam, lr: {lr}}}
train: {{epochs: {epochs}, batch_words: 500}}
eval: {{every_epochs: {epochs}, trees: true}}
runtime: {{threads: 1}}
"""
PROBABILISTIC = (
    "{kind: probabilistic, labels: 32, channels: 2, iterations: 2, distance: 2, dropout: 0.0, root: {labels: 4}}"
)
TRANSFORMER = "{kind: transformer, width: 32, inner: 48, heads: 2, layers: 2, dropout: 0.0}"


def extags() -> str:
    """The sentences as a file of `format: extractions`."""
    return "".join("\n".join([f"{text} {EXTRA}", *rows]) + "\n" for text, rows in SENTENCES)


def gold(folder: Path) -> Path:
    """A file of the gold tuples of the sentences, as lines of CaRB."""
    from probtrans_cli.openie.corpora import read_extractions
    from probtrans_cli.recipe.data import Data

    data = Data.model_validate({"train": "x", "format": "extractions"})
    lines = []
    for sentence in read_extractions(extags().splitlines(), "x", data):
        text = " ".join(sentence.words[: -sentence.extra])
        lines += ["\t".join([text, *parts]) + "\n" for parts in json.loads(sentence.form or "")]
    path = folder / "gold.tsv"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def train_extractors(folder: Path) -> None:
    """Train ``runs/tuples`` (probabilistic; it knows its sentences by heart), ``runs/half`` (a transformer that knows
    them half) and ``runs/coordinated`` in a folder, which is the current one."""
    from probtrans_cli.commands.train import TrainRequest, train

    given = [
        ("tuples", "extractions", "openie", 3, PROBABILISTIC, 80, 0.02),
        ("half", "extractions", "openie", 3, TRANSFORMER, 16, 0.01),
        ("coordinated", "coordinations", "coordination", 2, PROBABILISTIC, 40, 0.03),
    ]
    for name, form, kind, rows, model, epochs, rate in given:
        text = extags() if form == "extractions" else COORDINATED
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        recipe = RECIPE.format(name=name, form=form, kind=kind, rows=rows, model=model, epochs=epochs, lr=rate)
        (folder / f"{name}.yaml").write_text(recipe, encoding="utf-8")
        train(TrainRequest(f"{name}.yaml"))
