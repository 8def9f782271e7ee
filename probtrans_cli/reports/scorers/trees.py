"""Trees of any system against gold trees: the scores of ``statistics/parse_scores.py`` with their intervals, and UAS
and UUAS in the conventions of ``trees/score.py``.

A column that one of the two files does not have is not scored; FEATS may be empty. Gold sentences with a word without
HEAD are not scored, but counted (``not_scored``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from probtrans_cli import console
from probtrans_cli.data.corpus.store import is_punctuation
from probtrans_cli.data.files import display_name, find
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.reports.scorers import side_by_side
from probtrans_cli.statistics.parse_scores import NEEDED, Row, parse_counts, parse_details, parse_scores
from probtrans_cli.text import first_of
from probtrans_cli.trees import score as scoring


def score(predictions: str, gold: str | None) -> dict[str, Any]:
    """See :class:`probtrans_cli.reports.scorers.Scorer.score`."""
    if gold is None:
        raise UsageError("score trees needs the gold trees", hint="add --gold FILE")
    ours, theirs = (read_corpus(find(name), "conllu") for name in (predictions, gold))
    every = list(side_by_side(ours, theirs, display_name(predictions), display_name(gold)))
    pairs = [(sentence, gold_sentence) for sentence, gold_sentence in every if gold_sentence.heads is not None]
    partly = [str(gold_sentence.missing_head) for _, gold_sentence in every if gold_sentence.heads is None]
    if not pairs:
        raise DataError(f"{partly[0]}: a word without HEAD, and so in every gold sentence", hint="give gold trees")
    if partly:
        which = "1 sentence is" if len(partly) == 1 else f"{len(partly):,} sentences are"
        console.log(f"{which} not scored, as a word has no gold HEAD: {first_of(partly)}")
    for sentence, _ in pairs:
        if sentence.heads is None:
            raise DataError(f"{sentence.missing_head}: a word without HEAD", hint="every word needs a predicted HEAD")
    heads = [[np.array(sentence.heads, dtype=np.int64) for sentence in side] for side in zip(*pairs, strict=True)]
    if warning := scoring.warning_of_gold(heads[1], lambda index: pairs[index][1].where):
        console.log(warning)
    tags = [gold_sentence.tags.get("upos") for _, gold_sentence in pairs]
    punct = [np.array([is_punctuation(tag) for tag in of_words]) for of_words in tags if of_words is not None]
    trees: dict[str, Any] = dict(scoring.attachment(heads[1], heads[0], punct if len(punct) == len(pairs) else None))
    trees["conventions"] = {name: text for name, text in scoring.CONVENTIONS.items() if name in trees}
    rows = [(_rows(gold_sentence), _rows(sentence)) for sentence, gold_sentence in pairs]
    annotated = [
        {name for sentence in side for row in sentence for name, value in row._asdict().items() if value != "_"}
        for side in zip(*rows, strict=True)
    ]
    names = [name for name, columns in NEEDED.items() if columns <= (annotated[0] & annotated[1]) | {"feats"}]
    counts = parse_counts(rows)
    left_out = {"not_scored": len(partly)} if partly else {}
    return {**parse_scores(counts, names), **left_out, **parse_details(counts, names), "trees": trees}


def _rows(sentence: Sentence) -> list[Row]:
    missing = ["_"] * len(sentence.words)
    tags = [sentence.tags.get(name, missing) for name in ("upos", "xpos", "feats")]
    return [Row(*row) for row in zip(sentence.heads or [], sentence.relations or missing, *tags, strict=True)]
