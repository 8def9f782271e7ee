"""The Wire57-C score of tuples: the matching of WiRe57 (Léchelle, Gotti and Langlais 2019, W19-4002) on CaRB's data.

A prediction fits a gold tuple only if arg1, relation and arg2 each share a word with it, or are empty in both. A word
that a prediction repeats is right each time, as in the field's code. Pairs are matched one to one, the one with the
best F1 first. There are no thresholds: confidences do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from probtrans_cli.data.codecs.entity_scores import f1
from probtrans_cli.openie.tuple_texts import Pair, Tuples, TupleText

Part = tuple[list[str], frozenset[str]]


def wire57_scores(gold: Tuples, predicted: Tuples) -> dict[str, float]:
    """``f1``, ``precision`` and ``recall``, as shares; predictions for sentences without gold tuples do not count."""
    precision = recall = 0.0
    count = 0
    for key, tuples in gold.items():
        of_sentence = predicted.get(key, ())
        count += len(of_sentence)
        for pair in _matched(tuples, of_sentence):
            precision, recall = precision + pair.precision, recall + pair.recall
    precision, recall = precision / max(count, 1), recall / max(sum(map(len, gold.values())), 1)
    return {"f1": f1(precision, recall), "precision": precision, "recall": recall}


def pair_score(gold: TupleText, predicted: TupleText) -> Pair | None:
    """Precision and recall of the words of one prediction; None if it does not fit."""
    return _pair(_parts(gold), _parts(predicted))


def _matched(gold: Sequence[TupleText], predicted: Sequence[TupleText]) -> list[Pair]:
    """Pairs of a greedy one-to-one matching; of equal ones the first gold tuple's, then the first prediction's."""
    ours, theirs = [_parts(one) for one in predicted], [_parts(one) for one in gold]
    fitting = [
        (-f1(*pair), i, j, pair)
        for i, right in enumerate(theirs)
        for j, guess in enumerate(ours)
        if (pair := _pair(right, guess)) is not None
    ]
    matched, rows, columns = [], set(), set()
    for _, i, j, pair in sorted(fitting):
        if i not in rows and j not in columns:
            rows.add(i)
            columns.add(j)
            matched.append(pair)
    return matched


def _parts(one: TupleText) -> list[Part]:
    texts = ("".join(one.arguments[:1]), one.relation, one.second)
    return [(text.split(), frozenset(text.split())) for text in texts]


def _pair(gold: Sequence[Part], predicted: Sequence[Part]) -> Pair | None:
    right = in_gold = in_predicted = 0
    for (gold_words, known), (words, _) in zip(gold, predicted, strict=True):
        common = sum(word in known for word in words)
        if not common and (words or gold_words):
            return None
        right, in_gold, in_predicted = right + common, in_gold + len(gold_words), in_predicted + len(words)
    return Pair(right / in_predicted, right / in_gold) if right else None
