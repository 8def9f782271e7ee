"""Trees of any system against gold trees: UAS and UUAS, in the conventions of ``trees/score.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from probtrans_cli import console
from probtrans_cli.data.corpus.store import is_punctuation
from probtrans_cli.data.files import find
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.reports.two_files import side_by_side
from probtrans_cli.trees import score as scoring


def score(predictions: str, gold: str | None) -> dict[str, Any]:
    """See :class:`probtrans_cli.reports.scorers.Scoring`."""
    if gold is None:
        raise UsageError("score trees needs the gold trees", hint="add --gold FILE")
    ours, theirs = (read_corpus(find(name), "conllu") for name in (predictions, gold))
    pairs = list(side_by_side(ours, theirs, predictions, gold))
    heads = [[np.array(_heads(one), dtype=np.int64) for one in side] for side in zip(*pairs, strict=True)]
    if warning := scoring.warning_of_gold(heads[1], lambda index: pairs[index][1].where):
        console.log(warning)
    tags = [other.tags.get("upos") for _, other in pairs]
    punct = [np.array([is_punctuation(tag) for tag in of_words]) for of_words in tags if of_words is not None]
    found: dict[str, Any] = dict(scoring.attachment(heads[1], heads[0], punct if len(punct) == len(pairs) else None))
    found["conventions"] = {name: text for name, text in scoring.CONVENTIONS.items() if name in found}
    return {"trees": found}


def _heads(sentence: Sentence) -> list[int]:
    if sentence.heads is None:
        raise DataError(f"{sentence.where}: has no tree", hint="every word needs a HEAD")
    return sentence.heads
