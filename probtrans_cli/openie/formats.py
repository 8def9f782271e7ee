"""The output formats of `parse` for tuples and rows of labels: rows of :mod:`probtrans_cli.trained.formats`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from probtrans_cli.openie.writing import allennlp_line, carb_line
from probtrans_cli.trained.formats import DisplayOptions
from probtrans_cli.trained.parses import Analysis


def write_carb(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """Write ``sentence TAB confidence TAB relation TAB arg1 TAB arg2``."""
    del options
    return ("".join(f"{carb_line(*texts)}\n" for texts in _tuples(analysis)) for analysis in analyses)


def write_tuples(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """Write ``sentence TAB <arg1> A </arg1> <rel> R </rel> <arg2> B </arg2> TAB confidence``, as AllenNLP does."""
    del options
    return ("".join(f"{allennlp_line(*texts)}\n" for texts in _tuples(analysis)) for analysis in analyses)


def _tuples(analysis: Analysis) -> Iterator[tuple[str, list[str], float]]:
    """Yield the sentence, the texts and the confidence of each tuple. There is no arg2 where it is empty, as CaRB's
    reader drops it there."""
    assert analysis.prediction is not None, "models without tuples are refused"
    sentence = " ".join(analysis.words)
    for record in analysis.prediction["tuples"]:
        yield sentence, [record["rel"], record["arg1"], *filter(None, [record["arg2"]])], record["confidence"]


def write_labels(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """Write the words of a sentence, with extra words behind those of tuples (`extags`), below them lines with a tag
    for every word; behind a sentence with coordinations an empty line (`cctags`)."""
    del options
    for analysis in analyses:
        task: Any = analysis.task
        assert analysis.prediction is not None, "models without rows are refused"
        yield "".join(f"{line}\n" for line in task.row_lines(analysis.prediction, analysis.words))
