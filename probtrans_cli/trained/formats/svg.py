"""SVG: the picture of the only tree, or a folder with a picture for each tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from probtrans_cli import atomic
from probtrans_cli.errors import UsageError
from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trained.formats.drawn import drawing
from probtrans_cli.trained.parses import Analysis
from probtrans_cli.trees.drawing.svg import svg


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """The picture of the only tree.

    Raises:
        UsageError: there is none, or another one.
    """
    two = list(islice(content.analyses, 2))
    if len(two) != 1:
        raise UsageError(
            "an SVG file holds one tree; the input has " + ("none" if not two else "several"),
            hint="write them into a folder: -o FOLDER" if two else "give a sentence",
        )
    yield as_svg(two[0], options)


def write_folder(content: Content, folder: Path, options: DisplayOptions) -> None:
    """A picture for each tree."""
    svg_files(content.analyses, folder, options)


def svg_files(analyses: Iterable[Analysis], folder: Path, options: DisplayOptions) -> None:
    """A picture for each tree, named after the number of the sentence and the channel."""
    folder.mkdir(parents=True, exist_ok=True)
    number, previous = 0, None
    for analysis in analyses:
        number += analysis.sentence is not previous
        previous = analysis.sentence
        channel = f"-channel-{analysis.reading.channel}" if analysis.reading is not None else ""
        atomic.replace_text(folder / f"{number:04d}{channel}.svg", as_svg(analysis, options), synced=False)


def as_svg(analysis: Analysis, options: DisplayOptions) -> str:
    """A picture."""
    return svg(drawing(analysis, options), show_probability=options.probability)
