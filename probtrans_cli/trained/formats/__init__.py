"""The output formats of `parse`: a row each, and a file of the same name that writes it.

A new format is one of the rows below, which make :data:`FORMATS`, and a module ``trained/formats/NAME.py`` with a
function ``write(content: Content, options: DisplayOptions) -> Iterator[str]``; where the row says ``folder``, also
``write_folder(content, folder, options)``. The table is read for `--help`, so it imports neither torch nor numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Literal, Protocol, cast

if TYPE_CHECKING:
    from probtrans_cli.trained.parses import Analysis
    from probtrans_cli.trees.drawing.drawing import EveryTree

Option = Literal["all channels", "gold", "latent labels", "no trees", "probabilities"]
"""What can be asked for that not every format has a place for."""


@dataclass(frozen=True)
class Refusal:
    """Why a format does not show something, and what to do instead."""

    message: str
    hint: str = "use another format"


@dataclass(frozen=True)
class Format:
    """One output format."""

    name: str
    help: str = ""
    """What it writes, where the name does not say so."""
    refuses: Mapping[Option, Refusal] = field(default_factory=dict)
    """What it cannot show."""
    every_channel: bool = False
    """It shows every channel (and iteration) whatever is asked for: it is given every tree, not one a channel."""
    colours: bool = False
    """It has colours where it is for a terminal, and shows nothing there that a text could order a terminal to do."""
    folder: bool = False
    """It can also be a folder with a file for each tree."""
    whole: str | None = None
    """What it is as a whole, where that cannot be put together from what is written of parts of the input; None: what
    is written of one sentence stands behind what is written of another."""
    loses_empty: bool = False
    """Sentences without a word have no place in it, unless there are extra words."""
    shows: tuple[str, ...] = ()
    """The parts of a prediction that it is about, one of which a model must give; then it shows no trees, and none are
    computed for it. Nothing: it is for every model."""

    module: str = ""
    """The module that writes it, where it is not the one of this package with its name."""

    def writer(self) -> Writer:
        """The module that writes it."""
        return cast(Writer, resolve_name(self.module or f"{__name__}.{self.name}"))


@dataclass(frozen=True)
class DisplayOptions:
    """What is shown of a tree."""

    probability: bool = False
    """The probability of every arc."""
    gold: bool = False
    """Also the input's own tree."""
    several: bool = False
    """There are several trees a sentence, which are told apart by their channel."""
    coloured: bool = False
    """It is for a terminal that shows colours."""


@dataclass(frozen=True)
class Content:
    """What there is to write, computed while it is read; a format reads one of the two."""

    analyses: Iterator[Analysis]
    """What the model says of each sentence, with the tree of each channel that was asked for."""
    every: Iterator[EveryTree]
    """For each sentence the trees of every channel and iteration."""
    title: str


class Writer(Protocol):
    """What the module of a format has."""

    def write(self, content: Content, options: DisplayOptions) -> Iterator[str]:
        """The output in pieces, at least one a sentence unless it is one picture."""

    def write_folder(self, content: Content, folder: Path, options: DisplayOptions) -> None:
        """A file for each tree; only of formats that have ``folder``."""


_NO_TREES: Mapping[Option, Refusal] = {
    "all channels": Refusal("--channel all: this format has no trees"),
    "gold": Refusal("--gold: this format has no trees"),
    "latent labels": Refusal("--labels: this format has no place for them"),
    "probabilities": Refusal("--prob: this format has none but confidences, which it always has", "leave it out"),
}
_ONE_TREE = "CoNLL-U holds one tree a sentence"
_ROWS = (
    Format(
        "conllu",
        refuses={
            "all channels": Refusal(_ONE_TREE, "give --channel K, or use -f jsonl or -f tree"),
            "gold": Refusal(_ONE_TREE),
        },
    ),
    Format("jsonl", "an object a line"),
    Format("tree", "for a terminal", colours=True),
    Format("svg", "a picture, or a folder of them with -o", folder=True, whole="one picture, or a folder of them"),
    Format(
        "html",
        "an offline page to explore every channel and iteration",
        refuses={
            "latent labels": Refusal("--labels: the page has no room for them"),
            "no trees": Refusal("--trees no: the page is about trees"),
        },
        every_channel=True,
        whole="one page of all sentences",
    ),
    Format("latex", "a tikz-dependency document", whole="one document of all sentences"),
    Format("displacy", "a line of spaCy's manual input a sentence"),
    Format(
        "text",
        "the sentence and below it its tuples, or the simple sentences that it splits into",
        _NO_TREES,
        shows=("tuples", "coordinations"),
    ),
    Format(
        "tuples",
        "tuples as lines of AllenNLP",
        _NO_TREES,
        shows=("tuples",),
        module="probtrans_cli.openie.write_tuples",
    ),
    Format(
        "carb",
        "tuples as lines of CaRB",
        _NO_TREES,
        shows=("tuples",),
        module="probtrans_cli.openie.write_carb",
    ),
    Format(
        "labels",
        "rows of tags as in OpenIE6",
        _NO_TREES,
        shows=("rows",),
        loses_empty=True,
        module="probtrans_cli.openie.write_labels",
    ),
)
FORMATS: Mapping[str, Format] = {row.name: row for row in _ROWS}

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]
    """The names, as the command line takes them."""
