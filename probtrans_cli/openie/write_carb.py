"""Predictions as CaRB has them: ``sentence TAB confidence TAB relation TAB arg1 TAB arg2``.

There is no arg2 where it is empty, as CaRB's reader drops it there.
"""

from __future__ import annotations

from collections.abc import Iterator

from probtrans_cli.openie.tuple_writing import carb_line
from probtrans_cli.trained.formats import DisplayOptions
from probtrans_cli.trained.parses import Analysis


def write(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """The lines of each sentence, as soon as they are there."""
    del options
    return ("".join(carb_line(*one) + "\n" for one in tuples_of(analysis)) for analysis in analyses)


def tuples_of(analysis: Analysis) -> Iterator[tuple[str, list[str], float]]:
    """The tuples of a sentence: the sentence, its words with a space between two, as the parts have them; relation,
    arg1 and, where it is not empty, arg2; and the confidence."""
    assert analysis.prediction is not None, "models without tuples are refused"
    sentence = " ".join(analysis.words)
    for one in analysis.prediction["tuples"]:
        yield sentence, [one["rel"], one["arg1"], *filter(None, [one["arg2"]])], one["confidence"]
