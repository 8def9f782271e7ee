"""The forms in which `parse` writes trees: text for pipes, pictures for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from probtrans_cli.data.readers.conllu import with_heads
from probtrans_cli.errors import UsageError
from probtrans_cli.trained.latent_labels import as_misc, as_notes, as_records
from probtrans_cli.trained.parses import Tree, no_gold
from probtrans_cli.trees.drawing.displacy import displacy_line
from probtrans_cli.trees.drawing.drawing import Arc, Drawing, reads_right_to_left
from probtrans_cli.trees.drawing.jsonl import json_line
from probtrans_cli.trees.drawing.latex import latex
from probtrans_cli.trees.drawing.svg import svg
from probtrans_cli.trees.drawing.terminal import terminal

Form = Literal["conllu", "jsonl", "tree", "svg", "html", "latex", "displacy"]
GOLD = "gold"  # the channel, so to speak, of a treebank's own arcs


@dataclass(frozen=True)
class Look:
    """What is shown: ``probability`` of every arc; ``gold``: the input's own trees, too; ``several`` trees a sentence,
    which are then told apart."""

    probability: bool = False
    gold: bool = False
    several: bool = False


def pieces(form: Form, trees: Iterable[Tree], look: Look) -> Iterator[str]:
    """The output in pieces, at least one a tree. Not ``svg``, which is one file a tree, nor ``html``."""
    if form == "latex":
        return latex((drawing(tree, look) for tree in trees), show_probability=look.probability)
    write: dict[str, Callable[[Tree, Look], str]] = {
        "conllu": as_conllu,
        "jsonl": as_json,
        "tree": as_picture,
        "displacy": as_displacy,
    }
    return (write[form](tree, look) for tree in trees)


def as_conllu(tree: Tree, look: Look) -> str:
    """The sentence's CoNLL-U with our HEAD and DEPREL; probabilities stand in MISC as `Prob=`.

    Labels, where the tree has them, stand there as `Labels=`.
    """
    misc: list[list[str]] = [[] for _ in tree.heads]
    if look.probability:
        for entries, p in zip(misc, tree.probabilities, strict=True):
            entries.extend([] if np.isnan(p) else [f"Prob={p:.4f}"])
    if tree.labels is not None:
        for entries, *best in zip(misc, *tree.labels, strict=True):
            entries.append(as_misc(*best))
    lines = with_heads(tree.sentence, tree.heads.tolist(), None, ["|".join(entries) for entries in misc])
    return "\n".join([*lines, "", ""])


def as_json(tree: Tree, look: Look) -> str:
    """One line of JSON."""
    reading = tree.reading
    more: dict[str, object] = {} if tree.labels is None else {"labels": as_records(*tree.labels)}
    if look.gold:
        more["gold"] = gold_heads(tree)
    line = json_line(
        tree.sentence.words, tree.heads.tolist(), tree.probabilities,
        channel=reading.channel, iteration=reading.iteration, decode=reading.decoder, extra=more,
    )  # fmt: skip
    return line + "\n"


def as_picture(tree: Tree, look: Look) -> str:
    """The tree for a terminal; the gold tree is a picture of its own below it, as arcs have no colours there."""
    shown = drawing(tree, replace(look, gold=False))
    pictures = [shown]
    if look.gold:
        gold = tuple(Arc(number, head, None, GOLD) for number, head in enumerate(gold_heads(tree), start=1))
        title = shown.title or f"channel {tree.reading.channel}"
        pictures = [replace(shown, title=title), replace(shown, title=GOLD, arcs=gold, notes=())]
    texts = [(terminal(one) if tree.sentence.words else one.title).rstrip("\n") for one in pictures]
    return "\n".join(texts) + "\n\n"


def as_displacy(tree: Tree, look: Look) -> str:
    """One line of what displaCy takes."""
    return displacy_line(drawing(tree, look), show_probability=look.probability) + "\n"


def as_svg(tree: Tree, look: Look) -> str:
    """A picture."""
    return svg(drawing(tree, look), show_probability=look.probability)


def drawing(tree: Tree, look: Look) -> Drawing:
    """The tree as something to draw."""
    arcs = [
        Arc(number, int(head), float(p) if look.probability and not np.isnan(p) else None, tree.reading.channel)
        for number, (head, p) in enumerate(zip(tree.heads, tree.probabilities, strict=True), start=1)
    ]
    if look.gold:
        arcs += [Arc(number, head, None, GOLD) for number, head in enumerate(gold_heads(tree), start=1)]
    title = f"channel {tree.reading.channel}" if look.several else ""
    notes = () if tree.labels is None else as_notes(*tree.labels)
    words = tuple(tree.sentence.words)
    return Drawing(words, tuple(arcs), title, notes, right_to_left=reads_right_to_left(words))


def gold_heads(tree: Tree) -> list[int]:
    """The heads that the input gives.

    Raises:
        DataError: it gives none, or not for every word.
    """
    if tree.sentence.heads is None:
        raise no_gold(tree.sentence)
    return tree.sentence.heads


def svg_files(trees: Iterable[Tree], folder: Path, look: Look) -> None:
    """One picture a tree, named after the number of the sentence and the channel."""
    folder.mkdir(parents=True, exist_ok=True)
    number, previous = 0, None
    for tree in trees:
        number += tree.sentence is not previous
        previous = tree.sentence
        path = folder / f"{number:04d}-channel-{tree.reading.channel}.svg"
        path.write_text(as_svg(tree, look), encoding="utf-8")


def only_svg(trees: Iterable[Tree], look: Look) -> str:
    """The picture of the only tree.

    Raises:
        UsageError: there is none, or another one.
    """
    two = list(islice(trees, 2))
    if len(two) != 1:
        raise UsageError(
            "an SVG file holds one tree; the input has " + ("none" if not two else "several"),
            hint="write them into a folder: -o FOLDER" if two else "give a sentence",
        )
    return as_svg(two[0], look)
