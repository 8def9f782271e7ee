"""JSON lines: an object for each tree."""

from __future__ import annotations

from collections.abc import Iterator

from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trained.formats.drawn import gold_heads
from probtrans_cli.trained.latent_labels import as_records
from probtrans_cli.trained.parses import Tree
from probtrans_cli.trees.drawing.jsonl import json_line


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """A line for each tree, as soon as it is there."""
    return (as_json(tree, options) for tree in content.trees)


def as_json(tree: Tree, options: DisplayOptions) -> str:
    """One line of JSON; probabilities are always in it."""
    reading = tree.reading
    more: dict[str, object] = {} if tree.latent_labels is None else {"labels": as_records(*tree.latent_labels)}
    if options.gold:
        more["gold"] = gold_heads(tree)
    line = json_line(
        tree.sentence.words, tree.heads.tolist(), tree.probabilities,
        channel=reading.channel, iteration=reading.iteration, decode=reading.decoder, extra=more,
    )  # fmt: skip
    return line + "\n"
