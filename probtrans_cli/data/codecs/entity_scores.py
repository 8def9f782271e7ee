"""Precision, recall and F1 of named entities: an entity is right where both its ends and its type are.

Tags that are not valid can be read in two ways. As the public scorer conlleval does, which gives the field's F1, see
:func:`probtrans_cli.data.codecs.entities.read_spans`. Or strictly: an entity is read only where it is written as the
scheme writes it, in iob2 from a ``B`` over the ``I`` of its type that follow, in bioes from ``B`` to ``E`` or as one
``S``; further tags are no part of any, see :func:`probtrans_cli.data.codecs.entities.strict_spans`. Of valid tags both
are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from probtrans_cli.data.codecs.entities import Scheme, read_spans, strict_spans

Entity = tuple[int, str, int, int]


def f1(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall; 0 where both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


class Compared(NamedTuple):
    """The entities of both sides, each with the number of its sentence, its type, its first word, the word behind."""

    gold: set[Entity]
    predicted: set[Entity]
    sentences: int

    def counts(self) -> Counter[Any]:
        """Count entities by type, under ``(type, "gold")``, ``(type, "predicted")`` and ``(type, "right")``; the counts
        of several batches add up."""
        counts: Counter[Any] = Counter()
        sides = {"gold": self.gold, "predicted": self.predicted, "right": self.gold & self.predicted}
        for name, entities in sides.items():
            counts.update((type_, name) for _, type_, _, _ in entities)
        return counts

    def f1_parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numerator and denominator of F1 of every sentence, ``[S]``: twice the right entities, and those of
        both sides."""
        gold, predicted, right = (
            np.bincount([number for number, *_ in entities], minlength=self.sentences)
            for entities in (self.gold, self.predicted, self.gold & self.predicted)
        )
        return 2 * right, gold + predicted


def compare(gold: Sequence[list[str]], predicted: Sequence[list[str]], scheme: Scheme | None = None) -> Compared:
    """Read the entities of some sentences on both sides.

    Args:
        gold: tags of every sentence.
        predicted: as many tags for every sentence.
        scheme: the scheme in which both are read strictly; None: they are read as conlleval does.

    Raises:
        ValueError: the sides have different numbers of sentences or tags.
    """
    if [len(tags) for tags in gold] != [len(tags) for tags in predicted]:
        raise ValueError("inconsistent: gold and predicted tags are of different sentences")
    sides: list[set[Entity]] = [set(), set()]
    for side, entities in zip((gold, predicted), sides, strict=True):
        for number, tags in enumerate(side):
            spans = read_spans(tags) if scheme is None else strict_spans(tags, scheme)
            entities.update((number, span.type, span.start, span.end) for span in spans)
    return Compared(sides[0], sides[1], len(gold))


def scores_of(counts: Mapping[Any, float]) -> dict[str, float]:
    """Return ``f1``, ``precision`` and ``recall`` over all entities, and ``f1_TYPE`` for every type on either side, as
    shares; 0 where there is nothing to divide by. ``counts``: of :meth:`Compared.counts`."""
    sums: Counter[str] = Counter()
    for (_, name), number in counts.items():
        sums[name] += int(number)
    return _scores(sums) | {f"f1_{type_}": scores["f1"] for type_, scores in scores_by_type(counts).items()}


def scores_by_type(counts: Mapping[Any, float]) -> dict[str, dict[str, float]]:
    """Return ``f1``, ``precision``, ``recall`` of every type on either side, and how many entities of it are ``gold``,
    ``predicted`` and ``right``."""
    of_type: dict[str, Counter[str]] = {}
    for (type_, name), number in counts.items():
        of_type.setdefault(type_, Counter())[name] += int(number)
    sides = ("gold", "predicted", "right")
    return {
        type_: _scores(of_type[type_]) | {side: of_type[type_][side] for side in sides} for type_ in sorted(of_type)
    }


def _scores(counts: Counter[str]) -> dict[str, float]:
    precision = counts["right"] / max(counts["predicted"], 1)
    recall = counts["right"] / max(counts["gold"], 1)
    return {"f1": f1(precision, recall), "precision": precision, "recall": recall}


def entity_scores(
    gold: Sequence[list[str]], predicted: Sequence[list[str]], scheme: Scheme | None = None
) -> dict[str, float]:
    """Return the scores of some sentences; see :func:`compare` and :func:`scores_of`."""
    return scores_of(compare(gold, predicted, scheme).counts())
