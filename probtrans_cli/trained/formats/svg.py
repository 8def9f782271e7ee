"""SVG: the picture of the only tree, or a folder with a picture for each tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from probtrans_cli import atomic
from probtrans_cli.errors import UsageError
from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trained.formats.drawn import drawing
from probtrans_cli.trained.parses import Tree
from probtrans_cli.trees.drawing.svg import svg


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """The picture of the only tree.

    Raises:
        UsageError: there is none, or another one.
    """
    two = list(islice(content.trees, 2))
    if len(two) != 1:
        raise UsageError(
            "an SVG file holds one tree; the input has " + ("none" if not two else "several"),
            hint="write them into a folder: -o FOLDER" if two else "give a sentence",
        )
    yield as_svg(two[0], options)


def write_folder(content: Content, folder: Path, options: DisplayOptions) -> None:
    """A picture for each tree."""
    svg_files(content.trees, folder, options)


def svg_files(trees: Iterable[Tree], folder: Path, options: DisplayOptions) -> None:
    """A picture for each tree, named after the number of the sentence and the channel."""
    folder.mkdir(parents=True, exist_ok=True)
    number, previous = 0, None
    for tree in trees:
        number += tree.sentence is not previous
        previous = tree.sentence
        path = folder / f"{number:04d}-channel-{tree.reading.channel}.svg"
        atomic.replace_text(path, as_svg(tree, options), synced=False)


def as_svg(tree: Tree, options: DisplayOptions) -> str:
    """A picture."""
    return svg(drawing(tree, options), show_probability=options.probability)
