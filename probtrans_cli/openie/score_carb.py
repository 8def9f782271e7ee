"""Tuples of any system against gold tuples by the CaRB score, see ``openie/carb.py``; and how many there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from probtrans_cli.data.files import display_name, find, open_lines
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.openie.carb import carb_scores
from probtrans_cli.openie.tuple_files import SentenceTuple, read_gold, read_predictions
from probtrans_cli.openie.tuple_texts import Tuples, TupleText, counts_of, sentence_key


def score(
    predictions: str, gold: str | None, *, single_match: bool = False, default_confidence: float | None = None
) -> dict[str, Any]:
    """See :class:`probtrans_cli.reports.scorers.Scoring`.

    Args:
        predictions: the file that is scored.
        gold: the file with the gold tuples.
        single_match: whether recall counts a prediction for one gold tuple only.
        default_confidence: of predictions that have none.
    """
    theirs, ours = read_both("carb", predictions, gold, default_confidence)
    return carb_scores(theirs, ours, single_match=single_match).rounded() | tuple_counts(theirs, ours)


def read_both(name: str, predictions: str, gold: str | None, default_confidence: float | None) -> tuple[Tuples, Tuples]:
    """Gold tuples and predictions, by sentence.

    Raises:
        DataError: a file cannot be read, has no gold tuple, or no prediction at all.
        UsageError: a gold file is needed.
    """
    if gold is None:
        raise UsageError(f"score {name} needs the gold tuples", hint="add --gold FILE")
    theirs = _by_sentence(read_gold(open_lines(find(gold)), display_name(gold)))
    if not any(theirs.values()):
        raise DataError(f"{gold}: there is no tuple in it", hint="check the file")
    found = read_predictions(open_lines(find(predictions, once=True)), display_name(predictions), default_confidence)
    if not (ours := _by_sentence(found)):
        hint = "did the command that wrote it fail? JSON lines can say that a sentence has no tuple"
        raise DataError(f"{display_name(predictions)}: there is nothing in it to score", hint=hint)
    return theirs, ours


def tuple_counts(gold: Tuples, predicted: Tuples) -> dict[str, float]:
    """How many gold tuples there are; of the predictions for their sentences what
    :func:`probtrans_cli.openie.tuple_texts.counts_of` says; and how many predictions are for other sentences,
    which do not count."""
    elsewhere = sum(len(tuples) for key, tuples in predicted.items() if key not in gold)
    numbers = counts_of([_words(one) for one in predicted.get(key, ())] for key in gold)
    return {"gold_tuples": sum(map(len, gold.values())), **numbers, "not_in_gold": elsewhere}


def _by_sentence(found: Iterable[SentenceTuple]) -> dict[str, list[TupleText]]:
    sentences: dict[str, list[TupleText]] = {}
    for sentence, one, _ in found:
        tuples = sentences.setdefault(sentence_key(sentence), [])
        if one is not None:
            tuples.append(one)
    return sentences


def _words(one: TupleText) -> set[str]:
    return set(" ".join((one.relation, *one.arguments)).split())
