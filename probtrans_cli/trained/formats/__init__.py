"""The output formats of `parse`: a row each, which names the function that writes it.

A new format is one of the rows below, which make :data:`FORMATS`, and a function ``write(analyses:
Iterator[Analysis], options: DisplayOptions) -> Iterator[str]``, which yields the output in pieces, at least one a
sentence unless it is a single picture. The table is read for `--help`, so it imports neither torch nor numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

Option = Literal["all channels", "gold", "latent labels", "no trees", "probabilities", "several trees", "marginals"]
"""Options that not every format has a place for."""


@dataclass(frozen=True)
class Refusal:
    """Why a format does not show something, and what to do instead."""

    message: str
    hint: str = "use another format"


@dataclass(frozen=True)
class Format:
    """An output format."""

    name: str
    help: str = ""  # what it writes, where the name does not say so
    write: str = field(kw_only=True)  # ``module:function`` that writes it
    write_folder: str = field(default="", kw_only=True)
    """``module:function(analyses, folder, options)``, where it can also be a folder with a file for each tree."""
    refuses: Mapping[Option, Refusal] = field(default_factory=dict, kw_only=True)  # what it cannot show
    every_channel: bool = field(default=False, kw_only=True)
    """It always shows every channel and iteration: its function gets each sentence's
    :class:`~probtrans_cli.trees.drawing.EveryTree`, not an ``Analysis`` for each channel."""
    colours: bool = field(default=False, kw_only=True)
    """It has colours where it is for a terminal, and shows nothing there that a text could order a terminal to do."""
    lists: bool = field(default=False, kw_only=True)
    """It holds several trees of a sentence together; else they stand one after the other, as several sentences do."""
    whole: str | None = field(default=None, kw_only=True)
    """What it is where it cannot be put together from parts of the input; None: the output of a sentence stands behind
    that of the sentence before."""
    loses_empty: bool = field(default=False, kw_only=True)
    """Sentences without a word have no place in it, unless there are extra words."""
    shows: tuple[str, ...] = field(default=(), kw_only=True)
    """The parts of a prediction that it is about, one of which a model must give; then it shows no trees, and none are
    computed for it. Nothing: it is for every model."""


@dataclass(frozen=True)
class DisplayOptions:
    """What is shown of a tree."""

    probability: bool = False  # the probability of every arc
    gold: bool = False  # also the input's own tree
    several: bool = False  # there are several trees a sentence, which are told apart by their channel
    coloured: bool = False  # it is for a terminal that shows colours
    ascii_only: bool = False  # it is for a terminal that shows nothing else
    title: str = ""  # of a page


_LINES, _PICTURES = f"{__name__}.lines", f"{__name__}.pictures"
_NO_MATRIX: Mapping[Option, Refusal] = {
    "marginals": Refusal("--marginals: this format has no room for them", "use -f jsonl")
}
_NO_TREES: Mapping[Option, Refusal] = {
    **_NO_MATRIX,
    "several trees": Refusal("--samples and --best: this format has no trees"),
    "all channels": Refusal("--channel all: this format has no trees"),
    "gold": Refusal("--gold: this format has no trees"),
    "latent labels": Refusal("--labels: this format has no place for them"),
    "probabilities": Refusal("--prob: this format has none but confidences, which it always has", "leave it out"),
}
_ONE_TREE = "CoNLL-U holds one tree a sentence"
_ROWS = (
    Format(
        "conllu",
        write=f"{_LINES}:conllu",
        refuses={
            "all channels": Refusal(f"--channel all: {_ONE_TREE}", "give --channel K, or use -f jsonl or -f tree"),
            "gold": Refusal(f"--gold: {_ONE_TREE}", "use -f tree or another picture, or -f jsonl"),
            **_NO_MATRIX,
        },
    ),
    Format("jsonl", "an object a line", write=f"{_LINES}:jsonl", lists=True),
    Format("tree", "for a terminal", write=f"{_PICTURES}:tree", refuses=_NO_MATRIX, colours=True),
    Format(
        "svg",
        "a picture of one sentence, or of each in a folder (--output-dir)",
        write=f"{_PICTURES}:svg",
        write_folder=f"{_PICTURES}:svg_files",
        refuses=_NO_MATRIX,
        whole="one picture, or a folder of them",
    ),
    Format(
        "html",
        "an offline page to explore every channel and iteration",
        write=f"{_PICTURES}:html",
        refuses={
            "latent labels": Refusal("--labels: the page has no room for them"),
            "no trees": Refusal("--trees no: the page is about trees"),
            "several trees": Refusal("--samples and --best: the page shows every channel's best tree", "use -f tree"),
            **_NO_MATRIX,
        },
        every_channel=True,
        whole="one page of all sentences",
    ),
    Format(
        "latex",
        "a tikz-dependency document",
        write=f"{_PICTURES}:latex",
        refuses=_NO_MATRIX,
        whole="one document of all sentences",
    ),
    Format(
        "displacy",
        "a line of spaCy's manual input a sentence",
        write=f"{_PICTURES}:displacy",
        refuses=_NO_MATRIX,
    ),
    Format(
        "text",
        "of tuples and coordinations, for people: the sentence and below it its tuples, or its parts",
        write=f"{_LINES}:text",
        refuses=_NO_TREES,
        shows=("tuples", "coordinations"),
    ),
    Format(
        "tuples",
        "tuples as lines of AllenNLP",
        refuses=_NO_TREES,
        shows=("tuples",),
        write="probtrans_cli.openie.writing:write_tuples",
    ),
    Format(
        "carb",
        "tuples as lines of CaRB",
        refuses=_NO_TREES,
        shows=("tuples",),
        write="probtrans_cli.openie.writing:write_carb",
    ),
    Format(
        "labels",
        "rows of tags as in OpenIE6",
        refuses=_NO_TREES,
        shows=("rows",),
        loses_empty=True,
        write="probtrans_cli.openie.writing:write_labels",
    ),
)
FORMATS: Mapping[str, Format] = {row.name: row for row in _ROWS}

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]
    """The names, as the command line takes them."""
