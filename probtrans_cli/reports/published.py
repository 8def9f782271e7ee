"""The figures of the paper (Wu & Tu 2023, Table 1): mean and s.d. over five seeds, shares as fractions of 1.

The parameters are the encoder's alone, without word vectors and output layer, as the paper counts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Published:
    """One cell of the paper's table. ``task`` is what the names of its recipes begin with, before a ``-``."""

    task: str
    corpus: str
    column: Literal["xpos", "upos"] | None
    """Of tagging: which tags."""
    metric: str
    model: Literal["probabilistic", "transformer"]
    mean: float
    sd: float
    parameters: int


PUBLISHED = (
    Published("mlm-ptb", "PTB", None, "perplexity", "transformer", 58.43, 0.58, 23_800_000),
    Published("mlm-ptb", "PTB", None, "perplexity", "probabilistic", 62.86, 0.40, 6_300_000),
    Published("mlm-bllip", "BLLIP-XS", None, "perplexity", "transformer", 101.91, 1.40, 11_700_000),
    Published("mlm-bllip", "BLLIP-XS", None, "perplexity", "probabilistic", 123.18, 1.50, 6_300_000),
    Published("pos-ptb", "PTB", "xpos", "accuracy", "transformer", 0.9644, 0.0004, 15_400_000),
    Published("pos-ptb", "PTB", "xpos", "accuracy", "probabilistic", 0.9629, 0.0003, 3_100_000),
    Published("pos-ewt", "UD EWT", "xpos", "accuracy", "transformer", 0.9117, 0.0011, 3_200_000),
    Published("pos-ewt", "UD EWT", "xpos", "accuracy", "probabilistic", 0.9096, 0.0010, 2_400_000),
    Published("upos-ewt", "UD EWT", "upos", "accuracy", "transformer", 0.9196, 0.0006, 14_400_000),
    Published("upos-ewt", "UD EWT", "upos", "accuracy", "probabilistic", 0.9157, 0.0012, 4_200_000),
    Published("ner-conll03", "CoNLL-2003", None, "f1", "transformer", 0.7402, 0.0111, 1_700_000),
    Published("ner-conll03", "CoNLL-2003", None, "f1", "probabilistic", 0.7547, 0.0035, 9_400_000),
    Published("sst2", "SST-2", None, "accuracy", "transformer", 0.8251, 0.0026, 23_200_000),
    Published("sst2", "SST-2", None, "accuracy", "probabilistic", 0.8204, 0.0088, 10_500_000),
    Published("sst5", "SST-5", None, "accuracy", "transformer", 0.4013, 0.0109, 8_500_000),
    Published("sst5", "SST-5", None, "accuracy", "probabilistic", 0.4277, 0.0118, 2_600_000),
    Published("cogs", "COGS gen", None, "exact", "transformer", 0.8205, 0.0218, 100_000),
    Published("cogs-universal", "COGS gen", None, "exact", "transformer", 0.8050, 0.0349, 50_000),
    Published("cogs", "COGS gen", None, "exact", "probabilistic", 0.8460, 0.0206, 150_000),
)

TASKS = tuple(dict.fromkeys(cell.task for cell in PUBLISHED))
"""The tasks, in the paper's order."""


def task_of(name: str) -> str | None:
    """The paper's task that a recipe's name says it is, the most specific one; None for all other names."""
    return max((task for task in TASKS if f"{name}-".startswith(f"{task}-")), key=len, default=None)


def published(name: str, model: str, metric: str, column: str | None) -> Published | None:
    """The paper's figure for a recipe: by its name and the kind of its model, if metric and column are the same."""
    wanted = (task_of(name), model, metric, column)
    cells = (cell for cell in PUBLISHED if (cell.task, cell.model, cell.metric, cell.column) == wanted)
    return next(cells, None)
