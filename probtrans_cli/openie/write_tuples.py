"""Tuple lines of AllenNLP: ``sentence TAB <arg1> A </arg1> <rel> R </rel> <arg2> B </arg2> TAB confidence``."""

from __future__ import annotations

from collections.abc import Iterator

from probtrans_cli.openie.tuple_writing import allennlp_line
from probtrans_cli.openie.write_carb import tuples_of
from probtrans_cli.trained.formats import DisplayOptions
from probtrans_cli.trained.parses import Analysis


def write(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """The lines of each sentence, as soon as they are there."""
    del options
    return ("".join(allennlp_line(*one) + "\n" for one in tuples_of(analysis)) for analysis in analyses)
