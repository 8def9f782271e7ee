"""Predictions as CaRB has them: ``sentence TAB confidence TAB relation TAB arg1 TAB arg2``, arg2 only where it is not
empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trained.parses import Analysis

CONFIDENCE = ".9g"
"""How it is written: the order of two tuples must not be lost."""


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """The lines of each sentence, as soon as they are there."""
    del options
    for analysis in content.analyses:
        lines = []
        for sentence, one in tuples_of(analysis):
            fields = [sentence, f"{one['confidence']:{CONFIDENCE}}", one["rel"], one["arg1"]]
            lines.append("\t".join(fields + [one["arg2"]] * bool(one["arg2"])) + "\n")
        yield "".join(lines)


def tuples_of(analysis: Analysis) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The tuples of a sentence, each with the sentence, words with a space between two, as its parts have them. White
    space inside of words is a space, too."""
    assert analysis.prediction is not None, "models without tuples are refused"
    sentence = one_line(" ".join(analysis.words))
    for one in analysis.prediction["tuples"]:
        yield sentence, {**one, **{name: one_line(one[name]) for name in ("arg1", "rel", "arg2")}}


def one_line(text: str) -> str:
    """A text without tabs and line ends."""
    return " ".join(text.split())
