"""The CaRB score of tuples (Bhardwaj et al. 2019, CaRB: A Crowdsourced Benchmark for Open IE, EMNLP, D19-1651).

It is the score that the papers report: words are compared as they are written, none is left out, and every threshold
is a confidence that occurs. ``single_match`` is CaRB(1-1) of OpenIE6 (Kolluru et al. 2020, arXiv 2010.03147, appendix):
there recall, too, counts a prediction for one gold tuple only.

For every threshold, precision is that of a greedy one-to-one matching of the predictions that are left. Leaving out one
prediction more changes little, so the matchings of all thresholds are found in one go, see :class:`_Matching`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

from probtrans_cli.data.codecs.entity_scores import f1
from probtrans_cli.openie.tuple_texts import Pair, Tuples, TupleText

_FORMS_OF_BE = frozenset(("be", "is", "am", "are", "was", "were", "been", "being"))
_SAYING = ("said", "told", "added", "adds", "says")
DIGITS = 4
"""To so many digits scores are published."""


@dataclass(frozen=True)
class CarbScores:
    """Scores of a corpus.

    ``f1``, ``precision`` and ``recall`` are those at the threshold with the best F1, ``last_...`` those of all
    predictions; ``auc`` is the area under precision over recall, up to the largest recall.
    """

    auc: float = 0.0
    f1: float = 0.0
    precision: float = 0.0
    recall: float = 0.0
    last_f1: float = 0.0
    last_precision: float = 0.0
    last_recall: float = 0.0

    def rounded(self) -> dict[str, float]:
        """As published."""
        return {name: round(value, DIGITS) for name, value in vars(self).items()}


def carb_scores(gold: Tuples, predicted: Tuples, *, single_match: bool = False) -> CarbScores:
    """The scores of predictions; those for sentences without gold tuples do not count.

    Args:
        gold: all gold tuples; their confidences do not matter.
        predicted: all predictions.
        single_match: whether recall counts a prediction for one gold tuple only.
    """
    steps = [step for key, tuples in gold.items() for step in _steps(tuples, predicted.get(key, ()), single_match)]
    steps += [_Step(one.confidence) for key, tuples in predicted.items() if key not in gold for one in tuples]
    if not steps:
        return CarbScores()
    in_gold = sum(map(len, gold.values()))
    precision = recall = 0.0
    kept = 0
    curve: list[tuple[float, Pair]] = []  # every threshold from the highest, and the scores of what it leaves
    for _, changes in groupby(
        sorted(steps, key=lambda step: step.threshold, reverse=True), lambda step: step.threshold
    ):
        for change in changes:
            precision, recall, kept = precision + change.precision, recall + change.recall, kept + change.kept
        pair = Pair(precision / kept if kept else 1.0, recall / in_gold if in_gold else 0.0)
        curve.append((f1(*pair), pair))
    curve.reverse()
    best_f1, best = max(curve, key=lambda point: round(point[0], 12))  # sums in another order differ in the last digits
    last_f1, last = curve[0]
    return CarbScores(_area([pair for _, pair in curve]), best_f1, *best, last_f1, *last)


def pair_score(gold: TupleText, predicted: TupleText) -> Pair:
    """Precision and recall of the words of one prediction; of a gold tuple about who said what, the prediction may have
    the two arguments the other way round."""
    return _pair(_Bag.of(gold), _Bag.of(predicted), any(verb in gold.relation for verb in _SAYING))


class _Bag(NamedTuple):
    """The words of a tuple's relation, and of its arguments: none, one, or two, the second having all further ones."""

    relation: Counter[str]
    arguments: tuple[Counter[str], ...]

    @classmethod
    def of(cls, one: TupleText) -> _Bag:
        texts = (*one.arguments[:1], one.second) if len(one.arguments) > 1 else one.arguments
        return cls(Counter(one.relation.split()), tuple(Counter(text.split()) for text in texts))


def _pair(gold: _Bag, predicted: _Bag, saying: bool) -> Pair:
    straight = _straight(gold, predicted)
    if not saying or len(predicted.arguments) < 2:
        return straight
    return max(straight, _straight(gold, predicted._replace(arguments=predicted.arguments[::-1])))


def _straight(gold: _Bag, predicted: _Bag) -> Pair:
    right = _common(gold.relation, predicted.relation)
    if predicted.relation["be"] > gold.relation["be"] and not _FORMS_OF_BE.isdisjoint(gold.relation):
        right += 1
    if not right or len(predicted.arguments) < len(gold.arguments):
        return Pair(0.0, 0.0)
    in_gold, in_predicted = gold.relation.total(), predicted.relation.total()
    for one, other in zip(gold.arguments, predicted.arguments, strict=False):
        right += _common(one, other)
        in_gold, in_predicted = in_gold + one.total(), in_predicted + other.total()
    return Pair(right / in_predicted, right / in_gold)


def _common(one: Counter[str], other: Counter[str]) -> int:
    """How many words two bags have in common, each as often as in both."""
    if len(other) < len(one):
        one, other = other, one
    return sum(min(times, other[word]) for word, times in one.items() if word in other)


class _Step(NamedTuple):
    """What changes where a threshold falls so far that a prediction counts: the sums of precision and of recall, and
    the number of predictions."""

    threshold: float
    precision: float = 0.0
    recall: float = 0.0
    kept: int = 0


def _steps(gold: Sequence[TupleText], predicted: Sequence[TupleText], single_match: bool) -> list[_Step]:
    """The steps of one sentence, the highest threshold first."""
    bags = [(_Bag.of(one), any(verb in one.relation for verb in _SAYING)) for one in gold]
    matching = _Matching(len(gold))
    single = _Matching(len(gold))
    best = [0.0] * len(gold)
    steps = []
    for number, one in sorted(enumerate(predicted), key=lambda item: -item[1].confidence):
        bag = _Bag.of(one)
        pairs = [_pair(of_gold, bag, saying) for of_gold, saying in bags]
        precision = matching.enter(number, [pair.precision for pair in pairs])
        if single_match:
            recall = single.enter(number, [pair.recall for pair in pairs])
        else:
            better = [max(old, pair.recall) for old, pair in zip(best, pairs, strict=True)]
            recall, best = sum(better) - sum(best), better
        steps.append(_Step(one.confidence, precision, recall, 1))
    return steps


class _Matching:
    """A greedy one-to-one matching of gold tuples and predictions, to which predictions are added.

    Greedy: of all pairs of what is left, the one with the largest score is taken, of equal ones that of the first gold
    tuple, then of the first prediction. Both sides of a pair prefer partners in that order, so the matching is the only
    stable one (Gale and Shapley 1962), which new predictions reach by asking gold tuples in the order of preference; a
    prediction that loses its gold tuple asks on. Nobody asks twice, so all matchings take one look at every pair.
    """

    def __init__(self, gold: int) -> None:
        self.partners: list[tuple[float, int] | None] = [None] * gold  # of each gold tuple: minus the score, who it is
        self.asking: dict[int, list[tuple[float, int]]] = {}  # of each prediction: whom it may ask still, the best last

    def enter(self, number: int, scores: Sequence[float]) -> float:
        """Add the prediction of that number, given its score for every gold tuple; return what the sum gains."""
        self.asking[number] = sorted(((-score, i) for i, score in enumerate(scores) if score > 0), reverse=True)
        gain = 0.0
        asks: int | None = number
        while asks is not None and self.asking[asks]:
            negative, i = self.asking[asks].pop()
            partner = self.partners[i]
            if partner is None or (negative, asks) < partner:
                gain -= negative - (partner[0] if partner else 0.0)
                self.partners[i] = (negative, asks)
                asks = partner[1] if partner else None
        return gain


def _area(points: Sequence[Pair]) -> float:
    """The area under precision over recall by the trapezoid rule; ``points`` from the lowest threshold.

    Recall may rise with the threshold where each prediction counts once; points are sorted then.
    """
    ordered = [*sorted(points, key=lambda pair: -pair.recall), Pair(1.0, 0.0)]
    return sum((a.recall - b.recall) * (a.precision + b.precision) / 2 for a, b in pairwise(ordered))
