"""Precision, recall and F1 of coordinations, one for each coordinator, as OpenIE6 scores them.

A coordination is right if it is the gold one of its coordinator (Kolluru et al. 2020, arXiv 2010.03147; Teranishi
et al. 2017) by one of these criteria:

=====  ============================================================================
whole  the first word of the first conjunct and the last word of the last one
outer  the first and the last conjunct
inner  the two conjuncts around the coordinator
exact  all conjuncts
=====  ============================================================================

Precision is the right share of what was found, recall that of the gold coordinations. What was found at a word that is
no gold coordinator counts as found, too. The code of OpenIE6 looks at the gold coordinators alone, of which some have
no coordination, and its "inner" is the criterion "outer"; ``compat="o6"`` is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from probtrans_cli.data.codecs.entity_scores import f1
from probtrans_cli.openie.coordinations import Coordination

Compat = Literal["o6"]
Of = Mapping[int, Coordination | None]
"""Coordinations of a sentence by coordinator; None: it has no coordination."""
CRITERIA = ("whole", "outer", "inner", "exact")


def counts_of(gold: Of, predicted: Of, compat: Compat | None = None) -> Counter[str]:
    """How many coordinations of a sentence are ``gold``, ``predicted``, and right by every criterion, under its name.
    The counts of several sentences add up."""
    there = {cc: one for cc, one in gold.items() if one is not None}
    found = {cc: one for cc, one in predicted.items() if one is not None and (compat is None or cc in gold)}
    counts = Counter(gold=len(there), predicted=len(found))
    for cc in there.keys() & found.keys():
        counts.update(name for name in CRITERIA if _part(there[cc], name, compat) == _part(found[cc], name, compat))
    return counts


def _part(one: Coordination, criterion: str, compat: Compat | None) -> object:
    """What of a coordination must be equal."""
    if criterion == "whole":
        return one.start, one.end
    if criterion == "outer" or (criterion == "inner" and compat == "o6"):
        return one.conjuncts[0], one.conjuncts[-1]
    if criterion == "inner":
        before = [conjunct for conjunct in one.conjuncts if conjunct[1] <= one.cc]
        after = [conjunct for conjunct in one.conjuncts if conjunct[0] > one.cc]
        return before[-1:], after[:1]
    return one.conjuncts


def coordination_scores(
    gold: Iterable[Of], predicted: Iterable[Of], compat: Compat | None = None
) -> dict[str, dict[str, float]]:
    """``precision``, ``recall`` and ``f1`` by criterion, as shares; 0 where there is nothing to divide by.

    Args:
        gold: coordinations of every sentence.
        predicted: of the same sentences.
        compat: ``o6``: as the code of OpenIE6 counts.

    Raises:
        ValueError: the sides have other numbers of sentences.
    """
    counts: Counter[str] = Counter()
    for one, other in zip(gold, predicted, strict=True):
        counts.update(counts_of(one, other, compat))
    return scores_of(counts)


def scores_of(counts: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """The scores of added counts; see :func:`counts_of`."""
    scores = {}
    for name in CRITERIA:
        precision = counts.get(name, 0) / max(counts.get("predicted", 0), 1)
        recall = counts.get(name, 0) / max(counts.get("gold", 0), 1)
        scores[name] = {"precision": precision, "recall": recall, "f1": f1(precision, recall)}
    return scores
