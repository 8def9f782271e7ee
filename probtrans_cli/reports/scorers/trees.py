"""Trees of any system against gold trees: UAS and UUAS, in the conventions of ``trees/score.py``."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from probtrans_cli import console
from probtrans_cli.data.corpus.store import is_punctuation
from probtrans_cli.data.files import find
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.reports.scorers import side_by_side
from probtrans_cli.trees import score as scoring


def score(predictions: str, gold: str | None) -> dict[str, Any]:
    """See :class:`probtrans_cli.reports.scorers.Scorer.score`."""
    if gold is None:
        raise UsageError("score trees needs the gold trees", hint="add --gold FILE")
    ours, theirs = (read_corpus(find(name), "conllu") for name in (predictions, gold))
    pairs = list(side_by_side(ours, theirs, predictions, gold))
    for sentence in chain.from_iterable(pairs):
        if sentence.heads is None:
            raise DataError(f"{sentence.where}: has no tree", hint="every word needs a HEAD")
    heads = [[np.array(sentence.heads, dtype=np.int64) for sentence in side] for side in zip(*pairs, strict=True)]
    if warning := scoring.warning_of_gold(heads[1], lambda index: pairs[index][1].where):
        console.log(warning)
    tags = [gold_sentence.tags.get("upos") for _, gold_sentence in pairs]
    punct = [np.array([is_punctuation(tag) for tag in of_words]) for of_words in tags if of_words is not None]
    scores: dict[str, Any] = dict(scoring.attachment(heads[1], heads[0], punct if len(punct) == len(pairs) else None))
    scores["conventions"] = {name: text for name, text in scoring.CONVENTIONS.items() if name in scores}
    return {"trees": scores}
