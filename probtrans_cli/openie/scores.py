"""Scores of tuples and of coordinations, and tuples without learning to compare with.

CaRB (Bhardwaj et al. 2019, EMNLP, D19-1651) is the score that the papers report: words are compared as they are
written, none is left out, and every threshold is a confidence that occurs. ``single_match`` is CaRB(1-1) of OpenIE6
(Kolluru et al. 2020, arXiv 2010.03147, appendix): there recall, too, counts a prediction for one gold tuple only. For
every threshold, precision is that of a greedy one-to-one matching of the predictions that are left. Leaving out one
prediction more changes little, so the matchings of all thresholds are found in one go, see :class:`_Matching`.

Wire57-C is the matching of WiRe57 (Léchelle, Gotti and Langlais 2019, W19-4002) on CaRB's data. A prediction fits a
gold tuple only if arg1, relation and arg2 each share a word with it, or are empty in both. A word that a prediction
repeats is right each time, as in the field's code. Pairs are matched one to one, the pair with the best F1 first. There
are no thresholds: confidences do not matter.

A coordination is right if it is the gold one of its coordinator (Kolluru et al. 2020; Teranishi et al. 2017) by one of
these criteria:

=====  ============================================================================
whole  the first word of the first conjunct and the last word of the last one
outer  the first and the last conjunct
inner  the two conjuncts around the coordinator
exact  all conjuncts
=====  ============================================================================

Precision is the right share of the predictions, recall that of the gold coordinations. A prediction at a word that is
no gold coordinator counts, too. The code of OpenIE6 looks at the gold coordinators alone, of which some have no
coordination, and its "inner" is the criterion "outer"; ``compat="o6"`` is the same.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Literal, NamedTuple

from probtrans_cli.data.entities import f1
from probtrans_cli.openie.coordinations import Coordination
from probtrans_cli.openie.extractions import Extraction

MOST_COMPARED = 500  # so many different tuples of a sentence are compared with each other at most
CRITERIA = ("whole", "outer", "inner", "exact")
Compat = Literal["o6"]
AUXILIARIES = frozenset(
    ("am", "are", "be", "been", "being", "can", "could", "did", "do", "does", "had", "has", "have", "is", "may",
     "might", "must", "shall", "should", "was", "were", "will", "would")
)  # fmt: skip
_FORMS_OF_BE = frozenset(("be", "is", "am", "are", "was", "were", "been", "being"))
_SAYING = ("said", "told", "added", "adds", "says")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_BRACKET = re.compile("|".join(_BRACKETS))
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class TupleText(NamedTuple):
    """A tuple of any system."""

    relation: str
    arguments: tuple[str, ...]  # the first argument, then the rest; there may be none
    confidence: float = 1.0


Tuples = Mapping[str, Sequence[TupleText]]
"""The tuples of sentences, each under its :func:`sentence_key`."""


class Pair(NamedTuple):
    """How well a prediction fits a gold tuple: the right shares of its words and of those of the gold tuple."""

    precision: float
    recall: float


def sentence_key(sentence: str) -> str:
    """Return what CaRB compares sentences by: the text without white space and punctuation, in which escapes such as
    -LRB- are brackets, and so are left out."""
    without_spaces = "".join(sentence.split())
    return _BRACKET.sub(lambda match: _BRACKETS[match[0]], without_spaces).translate(_NO_PUNCTUATION)


def tuple_statistics(sentences: Iterable[Sequence[Collection[Hashable]]]) -> dict[str, float]:
    """Return how many tuples there are, and how redundant they are.

    Args:
        sentences: of every sentence its tuples, and of each the words: positions, or texts where there are none.

    Returns:
        ``sentences``; ``tuples``; ``sentences_without_tuple``, the share of sentences without a tuple;
        ``tuples_per_word``, the mean number of tuples that have a word, over words that any tuple of the sentence has;
        ``tuple_overlap``, the mean Jaccard index of the words of two tuples of a sentence, for which only the first
        :data:`MOST_COMPARED` different ones of a sentence are looked at. The last two are 0 where there is nothing to
        count.
    """
    total = tuples = without = occurrences = words = pairs = 0
    overlap = 0.0
    for sentence in sentences:
        of_tuples = [frozenset(words_of_tuple) for words_of_tuple in sentence]
        total, tuples, without = total + 1, tuples + len(of_tuples), without + (not of_tuples)
        occurrences += sum(map(len, of_tuples))
        words += len(frozenset().union(*of_tuples))
        # Equal tuples are compared once, for a file may repeat a tuple a thousand times.
        kinds = list(Counter(of_tuples).items())[:MOST_COMPARED]
        compared = sum(times for _, times in kinds)
        for i, (left, times) in enumerate(kinds):
            overlap += times * (times - 1) / 2
            overlap += sum(times * n * (len(left & right) / max(len(left | right), 1)) for right, n in kinds[i + 1 :])
        pairs += compared * (compared - 1) // 2
    return {
        "sentences": total,
        "tuples": tuples,
        "sentences_without_tuple": without / max(total, 1),
        "tuples_per_word": occurrences / max(words, 1),
        "tuple_overlap": overlap / max(pairs, 1),
    }


# --- CaRB -------------------------------------------------------------------------------------------------------------


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


def carb_scores(gold: Tuples, predicted: Tuples, *, single_match: bool = False) -> CarbScores:
    """Return CaRB's scores of predictions; those for sentences without gold tuples do not count."""
    steps = [step for key, tuples in gold.items() for step in _steps(tuples, predicted.get(key, ()), single_match)]
    steps += [_Step(text.confidence) for key, tuples in predicted.items() if key not in gold for text in tuples]
    if not steps:
        return CarbScores()
    in_gold = sum(map(len, gold.values()))
    precision = recall = 0.0
    kept = 0
    curve: list[tuple[float, Pair]] = []  # every threshold from the highest, and the scores of what it leaves
    steps.sort(key=lambda step: step.threshold, reverse=True)
    for _, changes in groupby(steps, lambda step: step.threshold):
        for change in changes:
            precision, recall, kept = precision + change.precision, recall + change.recall, kept + change.kept
        pair = Pair(precision / kept if kept else 1.0, recall / in_gold if in_gold else 0.0)
        curve.append((f1(*pair), pair))
    curve.reverse()
    best_f1, best = max(curve, key=lambda point: round(point[0], 12))  # sums in another order differ in the last digits
    last_f1, last = curve[0]
    # The area by the trapezoid rule. Recall may rise with the threshold where each prediction counts once.
    points = [*sorted((pair for _, pair in curve), key=lambda pair: -pair.recall), Pair(1.0, 0.0)]
    area = sum((a.recall - b.recall) * (a.precision + b.precision) / 2 for a, b in pairwise(points))
    return CarbScores(area, best_f1, *best, last_f1, *last)


class Bags(NamedTuple):
    """The words of a tuple's relation, and of its arguments: none, one, or two, the second having all further ones."""

    relation: Counter[str]
    arguments: tuple[Counter[str], ...]
    is_saying: bool
    """Whether it is about who said what: then a prediction may have the two arguments the other way round."""

    @classmethod
    def of(cls, text: TupleText) -> Bags:
        """Return the words of a tuple."""
        texts = (*text.arguments[:1], " ".join(text.arguments[1:])) if len(text.arguments) > 1 else text.arguments
        arguments = tuple(Counter(argument.split()) for argument in texts)
        return cls(Counter(text.relation.split()), arguments, any(verb in text.relation for verb in _SAYING))


def carb_pair(gold: Bags, predicted: Bags) -> Pair:
    """Return precision and recall of the words of one prediction."""
    straight = _pair(gold, predicted)
    if not gold.is_saying or len(predicted.arguments) < 2:
        return straight
    return max(straight, _pair(gold, predicted._replace(arguments=predicted.arguments[::-1])))


def _pair(gold: Bags, predicted: Bags) -> Pair:
    right = _common(gold.relation, predicted.relation)
    if predicted.relation["be"] > gold.relation["be"] and not _FORMS_OF_BE.isdisjoint(gold.relation):
        right += 1
    if not right or len(predicted.arguments) < len(gold.arguments):
        return Pair(0.0, 0.0)
    in_gold, in_predicted = gold.relation.total(), predicted.relation.total()
    for left, guess in zip(gold.arguments, predicted.arguments, strict=False):
        right += _common(left, guess)
        in_gold, in_predicted = in_gold + left.total(), in_predicted + guess.total()
    return Pair(right / in_predicted, right / in_gold)


def _common(left: Counter[str], right: Counter[str]) -> int:
    if len(right) < len(left):
        left, right = right, left
    return sum(min(times, right[word]) for word, times in left.items() if word in right)


class _Step(NamedTuple):
    """What changes where a threshold falls so far that a prediction counts: the sums of precision and of recall, and
    the number of predictions."""

    threshold: float
    precision: float = 0.0
    recall: float = 0.0
    kept: int = 0


def _steps(gold: Sequence[TupleText], predicted: Sequence[TupleText], single_match: bool) -> list[_Step]:
    bags = list(map(Bags.of, gold))
    matching, single = _Matching([None] * len(gold)), _Matching([None] * len(gold))
    best = [0.0] * len(gold)
    steps = []
    for number, text in sorted(enumerate(predicted), key=lambda item: -item[1].confidence):
        guess = Bags.of(text)
        pairs = [carb_pair(of_gold, guess) for of_gold in bags]
        precision = matching.enter(number, [pair.precision for pair in pairs])
        if single_match:
            recall = single.enter(number, [pair.recall for pair in pairs])
        else:
            better = [max(old, pair.recall) for old, pair in zip(best, pairs, strict=True)]
            recall, best = sum(better) - sum(best), better
        steps.append(_Step(text.confidence, precision, recall, 1))
    return steps


@dataclass
class _Matching:
    """A greedy one-to-one matching of gold tuples and predictions, to which predictions are added.

    Greedy: of all pairs of what is left, the pair with the largest score is taken, of equal ones that of the first gold
    tuple, then of the first prediction. Both sides of a pair prefer partners in that order, so the matching is the only
    stable one (Gale and Shapley 1962), which new predictions reach by asking gold tuples in the order of preference; a
    prediction that loses its gold tuple asks on. Nobody asks twice, so all matchings take one look at every pair.
    """

    partners: list[tuple[float, int] | None]  # of each gold tuple: minus the score, who it is
    asking: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """Of each prediction: whom it may ask still, the best last."""

    def enter(self, number: int, scores: Sequence[float]) -> float:
        """Add the prediction of that number, with its score for every gold tuple; return what the sum gains."""
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


# --- Wire57-C ---------------------------------------------------------------------------------------------------------


def wire57_scores(gold: Tuples, predicted: Tuples) -> dict[str, float]:
    """Return ``f1``, ``precision`` and ``recall``; predictions for sentences without gold tuples do not count."""
    precision = recall = 0.0
    count = 0
    for key, tuples in gold.items():
        right = [wire57_words(text) for text in tuples]
        guesses = [wire57_words(text) for text in predicted.get(key, ())]
        count += len(guesses)
        fitting = [
            (-f1(*pair), i, j, pair)
            for i, gold_words in enumerate(right)
            for j, guess in enumerate(guesses)
            if (pair := wire57_pair(gold_words, guess)) is not None
        ]
        rows, columns = set[int](), set[int]()
        for _, i, j, pair in sorted(fitting):  # of equal pairs the first gold tuple's, then the first prediction's
            if i not in rows and j not in columns:
                rows.add(i)
                columns.add(j)
                precision, recall = precision + pair.precision, recall + pair.recall
    precision, recall = precision / max(count, 1), recall / max(sum(map(len, gold.values())), 1)
    return {"f1": f1(precision, recall), "precision": precision, "recall": recall}


def wire57_words(text: TupleText) -> list[tuple[list[str], frozenset[str]]]:
    """Return the words of arg1, of the relation, and of all further arguments, each also as a set."""
    texts = ("".join(text.arguments[:1]), text.relation, " ".join(text.arguments[1:]))
    return [(words := part.split(), frozenset(words)) for part in texts]


def wire57_pair(
    gold: Sequence[tuple[list[str], frozenset[str]]], predicted: Sequence[tuple[list[str], frozenset[str]]]
) -> Pair | None:
    """Return precision and recall of the :func:`wire57_words` of one prediction; None if it does not fit."""
    right = in_gold = in_predicted = 0
    for (gold_words, distinct), (words, _) in zip(gold, predicted, strict=True):
        common = sum(word in distinct for word in words)
        if not common and (words or gold_words):
            return None
        right, in_gold, in_predicted = right + common, in_gold + len(gold_words), in_predicted + len(words)
    return Pair(right / in_predicted, right / in_gold) if right else None


# --- coordinations ----------------------------------------------------------------------------------------------------


def coordination_counts(
    gold: Mapping[int, Coordination | None],
    predicted: Mapping[int, Coordination | None],
    compat: Compat | None = None,
) -> Counter[str]:
    """Count the coordinations of a sentence that are ``gold``, ``predicted``, and right by every criterion, under its
    name. The counts of several sentences add up.

    Args:
        gold: the coordinations by coordinator; None: a coordinator without a coordination.
        predicted: the same.
        compat: ``o6``: as the code of OpenIE6 counts.
    """

    def parts(coordination: Coordination) -> dict[str, object]:
        """Return what must be equal by each criterion."""
        conjuncts, cc = coordination.conjuncts, coordination.cc
        before = [conjunct for conjunct in conjuncts if conjunct[1] <= cc]
        after = [conjunct for conjunct in conjuncts if conjunct[0] > cc]
        outer = (conjuncts[0], conjuncts[-1])
        around = outer if compat == "o6" else (before[-1:], after[:1])
        ends = (coordination.start, coordination.end)
        return {"whole": ends, "outer": outer, "inner": around, "exact": conjuncts}

    right = {cc: parts(coordination) for cc, coordination in gold.items() if coordination is not None}
    guesses = {
        cc: parts(coordination)
        for cc, coordination in predicted.items()
        if coordination is not None and (compat is None or cc in gold)
    }
    counts = Counter(gold=len(right), predicted=len(guesses))
    for cc in right.keys() & guesses.keys():
        counts.update(name for name in CRITERIA if right[cc][name] == guesses[cc][name])
    return counts


def coordination_scores(counts: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """Return ``precision``, ``recall`` and ``f1`` by criterion of added counts; 0 where there is none."""
    scores = {}
    for name in CRITERIA:
        precision = counts.get(name, 0) / max(counts.get("predicted", 0), 1)
        recall = counts.get(name, 0) / max(counts.get("gold", 0), 1)
        scores[name] = {"precision": precision, "recall": recall, "f1": f1(precision, recall)}
    return scores


# --- tuples without learning ------------------------------------------------------------------------------------------


def baseline_tuples(words: Sequence[str]) -> list[Extraction]:
    """Return tuples without learning: a sentence is cut at its verbs; its first word begins none.

    At every auxiliary or word in "-ed" stands a relation: this word and the auxiliaries, words in "-ed" and adverbs
    right behind it. All that stands before it is the first argument, all behind it the second, without the final mark.
    The n-th tuple of a sentence has the confidence 1 / n. CaRB is generous to such tuples, since one of them may serve
    as the best prediction for several gold tuples.
    """
    end = len(words) - (bool(words) and words[-1] in (".", "!", "?"))
    lower = [word.lower() for word in words]
    are_verbs = [word in AUXILIARIES or word.endswith("ed") for word in lower]
    extractions: list[Extraction] = []
    i = 1
    while i < end:
        behind = i + 1
        if are_verbs[i]:
            while behind < end and (
                are_verbs[behind] or lower[behind] in ("not", "also") or lower[behind].endswith("ly")
            ):
                behind += 1
            confidence = 1 / (len(extractions) + 1)
            relation, second = tuple(range(i, behind)), tuple(range(behind, end))
            extractions.append(Extraction(tuple(range(i)), relation, second, confidence=confidence))
        i = behind
    return extractions
