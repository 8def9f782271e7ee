"""The output formats of `parse` for tuples and rows of labels: rows of :mod:`probtrans_cli.trained.formats`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from probtrans_cli.openie.writing import allennlp_line, carb_line
from probtrans_cli.trained.formats import DisplayOptions
from probtrans_cli.trained.parses import Analysis

Write = Callable[[Iterator[Analysis], DisplayOptions], Iterator[str]]


def _lines_of_tuples(line: Callable[[str, Sequence[str], float], str]) -> Write:
    def write(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
        del options
        for analysis in analyses:
            assert analysis.prediction is not None, "models without tuples are refused"
            sentence, text = " ".join(analysis.words), ""
            for record in analysis.prediction["tuples"]:
                # There is no arg2 where it is empty, as CaRB's reader drops it there.
                parts = [record["rel"], record["arg1"], *filter(None, [record["arg2"]])]
                text += f"{line(sentence, parts, record['confidence'])}\n"
            yield text

    return write


write_carb = _lines_of_tuples(carb_line)
"""Write ``sentence TAB confidence TAB relation TAB arg1 TAB arg2``."""
write_tuples = _lines_of_tuples(allennlp_line)
"""Write ``sentence TAB <arg1> A </arg1> <rel> R </rel> <arg2> B </arg2> TAB confidence``, as AllenNLP does."""


def write_labels(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """Write the words of a sentence, with extra words behind those of tuples (`extags`), below them lines with a tag
    for every word; behind a sentence with coordinations an empty line (`cctags`)."""
    del options
    for analysis in analyses:
        task: Any = analysis.task
        assert analysis.prediction is not None, "models without rows are refused"
        yield "".join(f"{line}\n" for line in task.row_lines(analysis.prediction, analysis.words))
