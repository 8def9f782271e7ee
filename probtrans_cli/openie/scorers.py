"""The scorers of tuples and of coordinations in files of any system: rows of :mod:`probtrans_cli.reports.scorers`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from probtrans_cli.data.files import display_name, find, open_lines
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.openie.coordination_files import read_coordinations
from probtrans_cli.openie.scores import (
    Compat,
    Tuples,
    TupleText,
    carb_scores,
    coordination_counts,
    coordination_scores,
    sentence_key,
    tuple_statistics,
    wire57_scores,
)
from probtrans_cli.openie.tuple_files import SentenceTuple, read_gold, read_predictions
from probtrans_cli.reports.scorers import side_by_side


def score_carb(
    predictions: str, gold: str | None, *, single_match: bool = False, default_confidence: float | None = None
) -> dict[str, Any]:
    """Return CaRB's scores of a file, and how many tuples there are."""
    theirs, ours = _both("carb", predictions, gold, default_confidence)
    scores = carb_scores(theirs, ours, single_match=single_match)
    return {name: round(value, 4) for name, value in vars(scores).items()} | _statistics(theirs, ours)


def score_wire57(predictions: str, gold: str | None) -> dict[str, Any]:
    """Return the Wire57-C scores of a file. Confidences do not matter, and may be missing."""
    theirs, ours = _both("wire57", predictions, gold, 1.0)
    scores = wire57_scores(theirs, ours)
    return {name: round(value, 4) for name, value in scores.items()} | _statistics(theirs, ours)


def score_coordinations(predictions: str, gold: str | None, *, compat: Compat | None = None) -> dict[str, Any]:
    """Return the scores of a file of coordinations; the main scores are those of the criterion "exact"."""
    if gold is None:
        raise UsageError("score coordination needs the gold coordinations", hint="add --gold FILE")
    counts = coordination_counts({}, {})
    sentences = 0
    ours, theirs = (read_coordinations(open_lines(find(name)), display_name(name)) for name in (predictions, gold))
    for predicted, right in side_by_side(ours, theirs, predictions, gold):
        counts.update(coordination_counts(right.coordinations, predicted.coordinations, compat))
        sentences += 1
    criteria = coordination_scores(counts)
    return {
        **criteria["exact"],
        **{f"f1_{name}": scores["f1"] for name, scores in criteria.items() if name != "exact"},
        "sentences": sentences,
        "gold_coordinations": counts["gold"],
        "coordinations": counts["predicted"],
        "criteria": criteria,
    }


def _both(name: str, predictions: str, gold: str | None, default_confidence: float | None) -> tuple[Tuples, Tuples]:
    """Return gold tuples and predictions, by sentence."""
    if gold is None:
        raise UsageError(f"score {name} needs the gold tuples", hint="add --gold FILE")
    theirs = _by_sentence(read_gold(open_lines(find(gold)), display_name(gold)))
    if not any(theirs.values()):
        raise DataError(f"{gold}: there is no tuple in it", hint="check the file")
    lines = open_lines(find(predictions, once=True))
    if not (ours := _by_sentence(read_predictions(lines, display_name(predictions), default_confidence))):
        hint = "did the command that wrote it fail? JSON lines can say that a sentence has no tuple"
        raise DataError(f"{display_name(predictions)}: there is nothing in it to score", hint=hint)
    return theirs, ours


def _by_sentence(tuples: Iterable[SentenceTuple]) -> dict[str, list[TupleText]]:
    sentences: dict[str, list[TupleText]] = {}
    for sentence, text, _ in tuples:
        of_sentence = sentences.setdefault(sentence_key(sentence), [])
        if text is not None:
            of_sentence.append(text)
    return sentences


def _statistics(gold: Tuples, predicted: Tuples) -> dict[str, float]:
    """Return how many gold tuples there are; of the predictions for their sentences what :func:`tuple_statistics` says;
    and how many predictions are for other sentences, which do not count."""
    elsewhere = sum(len(tuples) for key, tuples in predicted.items() if key not in gold)
    numbers = tuple_statistics(
        [set(" ".join((text.relation, *text.arguments)).split()) for text in predicted.get(key, ())] for key in gold
    )
    return {"gold_tuples": sum(map(len, gold.values())), **numbers, "not_in_gold": elsewhere}
