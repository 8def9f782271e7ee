"""Rows of labels, as OpenIE6 is trained on: the words of a sentence, below them lines with a tag for every word.

Behind the words of a sentence of tuples stand the extra words, which have tags, too (`extags`). A sentence with
coordinations ends in an empty line (`cctags`).
"""

from __future__ import annotations

from collections.abc import Iterator

from probtrans_cli.trained.formats import DisplayOptions
from probtrans_cli.trained.parses import Analysis


def write(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """The lines of each sentence, as soon as they are there. White space inside of a word is written as `_`."""
    del options
    for one in analyses:
        assert one.prediction is not None, "models without rows are refused"
        assert one.task is not None, "who predicts"
        words = ["_".join(word.split()) or "_" for word in one.words]
        yield "".join(line + "\n" for line in one.task.row_lines(one.prediction, words))
