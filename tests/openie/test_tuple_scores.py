"""CaRB, Wire57-C and statistics: worked examples, a plain version of CaRB on random tuples, CaRB's own gold."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from support import real_data

from probtrans_cli.data.files import open_lines
from probtrans_cli.openie.scores import (
    Bags,
    Tuples,
    TupleText,
    baseline_tuples,
    carb_pair,
    carb_scores,
    sentence_key,
    tuple_statistics,
    wire57_pair,
    wire57_scores,
    wire57_words,
)
from probtrans_cli.openie.tuple_files import read_gold


def of(arg1: str, relation: str, *others: str, confidence: float = 1.0) -> TupleText:
    return TupleText(relation, (arg1, *others), confidence)


def rounded(gold: Tuples, predicted: Tuples, *, single_match: bool = False) -> dict[str, float]:
    return {
        name: round(value, 4) for name, value in vars(carb_scores(gold, predicted, single_match=single_match)).items()
    }


def scores(gold: list[TupleText], *predicted: TupleText, single_match: bool = False) -> tuple[float, ...]:
    """AUC; precision, recall and F1 at the best threshold."""
    values = rounded({"s": gold}, {"s": predicted}, single_match=single_match)
    return values["auc"], values["precision"], values["recall"], values["f1"]


FRUIT = [of("I", "ate", "an apple"), of("I", "ate", "an orange")]
TALKS = [of("Talks", "resumed", "between USA and China")]


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        (FRUIT, [of("I", "ate", "an apple and an orange")], (0.7857, 0.5714, 1.0, 0.7273)),
        (FRUIT, [of("I", "ate", "an apple")], (0.875, 1.0, 0.875, 0.9333)),
        (FRUIT, [of("ate", "I", "an apple")], (0.0, 0.0, 0.0, 0.0)),
        (
            TALKS,
            [of("Talks", "resumed", "between USA"), of("Talks", "resumed", "between China")],
            (0.5, 0.5, 0.6667, 0.5714),
        ),
        ([of("He", "said", "it works")], [of("it works", "said", "He")], (1.0, 1.0, 1.0, 1.0)),
        ([of("x", "is", "y")], [of("x", "be", "y")], (1.0, 1.0, 1.0, 1.0)),
        ([of("x", "is", "y")], [of("x", "Is", "y")], (0.0, 0.0, 0.0, 0.0)),
        ([of("x", "is", "y")], [of("x", "is", "")], (0.6667, 1.0, 0.6667, 0.8)),
        ([of("x", "is", "y")], [of("x", "is")], (0.0, 0.0, 0.0, 0.0)),  # there is no second argument at all
        ([of("x", "is")], [of("x", "is", "y z")], (1.0, 1.0, 1.0, 1.0)),  # the gold tuple asks for none
        ([of("x", "is", "y", "z")], [of("x", "is", "z", "y")], (1.0, 1.0, 1.0, 1.0)),  # all further ones are one
        ([of("x", "is", "y")], [], (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_carb_of_one_sentence(gold: list[TupleText], predicted: list[TupleText], expected: tuple[float, ...]) -> None:
    assert scores(gold, *predicted) == expected


def test_carb_with_each_prediction_right_once() -> None:
    assert scores(FRUIT, of("I", "ate", "an apple and an orange"), single_match=True) == (0.3929, 0.5714, 0.5, 0.5333)


def test_carb_of_two_sentences_with_confidences() -> None:
    gold = {"a": [of("x", "is", "y")], "c": [of("x", "is", "y"), of("x", "was", "y")]}
    predicted = {
        "a": [of("x", "is", "y", confidence=0.9), of("z", "is", "q", confidence=0.2)],
        "c": [of("x", "is", "y", confidence=0.5)],
    }
    values = rounded(gold, predicted)
    assert (values["auc"], values["precision"], values["recall"], values["f1"]) == (0.6667, 1.0, 0.6667, 0.8)
    assert (values["last_precision"], values["last_recall"], values["last_f1"]) == (0.6667, 0.6667, 0.6667)


def test_predictions_for_other_sentences_do_not_count() -> None:
    predicted = {"a": [of("x", "is", "y", confidence=0.5)], "b": [of("x", "is", "y", confidence=0.9)] * 3}
    alone = carb_scores({"a": [of("x", "is", "y")]}, {"a": predicted["a"]})
    assert carb_scores({"a": [of("x", "is", "y")]}, predicted) == alone


def plain_carb(gold: Tuples, predicted: Tuples, single: bool) -> tuple[float, ...]:
    """As CaRB is described: every threshold by itself, pairs looked for one by one."""

    def greedy(table: dict[tuple[int, int], float], rows: int, kept: list[int]) -> float:
        left, columns, total = list(range(rows)), list(kept), 0.0
        for _ in range(min(rows, len(kept))):
            best = max(((i, j) for i in left for j in columns), key=lambda pair: table[pair])
            total += table[best]
            left.remove(best[0])
            columns.remove(best[1])
        return total

    points = []
    for threshold in sorted({text.confidence for tuples in predicted.values() for text in tuples}):
        precision = recall = 0.0
        count = 0
        for key, tuples in gold.items():
            ours = predicted.get(key, [])
            kept = [j for j, text in enumerate(ours) if text.confidence >= threshold]
            pairs = {(i, j): carb_pair(Bags.of(text), Bags.of(ours[j])) for i, text in enumerate(tuples) for j in kept}
            count += len(kept)
            precision += greedy({at: pair.precision for at, pair in pairs.items()}, len(tuples), kept)
            recalls = {at: pair.recall for at, pair in pairs.items()}
            if single:
                recall += greedy(recalls, len(tuples), kept)
            else:
                recall += sum(max((recalls[i, j] for j in kept), default=0.0) for i in range(len(tuples)))
        points.append((precision / count if count else 1.0, recall / sum(map(len, gold.values()))))
    if not points:
        return 0.0, 0.0, 0.0
    f1s = [2 * p * r / (p + r) if p + r else 0.0 for p, r in points]
    curve = [*sorted(points, key=lambda point: -point[1]), (1.0, 0.0)]
    area = sum((r - s) * (p + q) / 2 for (p, r), (q, s) in pairwise(curve))
    return area, max(f1s), f1s[0]


@pytest.mark.parametrize("single", [False, True])
def test_carb_agrees_with_a_plain_version_on_random_tuples(single: bool) -> None:
    draw = random.Random(3)
    verbs = ["is", "be", "was", "said", "saw it", "be be", ""]

    def some(most: int) -> list[TupleText]:
        return [
            TupleText(
                draw.choice(verbs),
                tuple(
                    " ".join(draw.choices("abcd", k=draw.randint(0, 3))) for _ in range(draw.choice([0, 1, 2, 2, 3]))
                ),
                draw.choice([0.1, 0.2, 0.4, 0.7, draw.random()]),
            )
            for _ in range(draw.randint(0, most))
        ]

    fell = 0
    for _ in range(150):
        gold = {key: values for key in "xyz" if (values := some(4))} or {"x": [of("a", "is", "b")]}
        predicted = {key: some(6) for key in "wxy"}
        values = carb_scores(gold, predicted, single_match=single)
        assert (values.auc, values.f1, values.last_f1) == pytest.approx(plain_carb(gold, predicted, single), abs=1e-9)
        fell += 0 < values.last_f1 < values.f1
    assert fell > 25  # thresholds matter


def carb_gold(part: str) -> dict[str, list[tuple[list[str], TupleText]]]:
    """CaRB's gold tuples, and the words of their sentences."""
    path = real_data(f"openie/carb/{part}_gold.tsv")
    gold: dict[str, list[tuple[list[str], TupleText]]] = {}
    for sentence, text, _ in read_gold(open_lines(path), str(path)):
        assert text is not None
        gold.setdefault(sentence_key(sentence), []).append((sentence.split(), text))
    return gold


def test_the_gold_tuples_of_carb_against_themselves() -> None:
    """Not quite 1, for 14 of them have no relation."""
    gold = {key: [text for _, text in tuples] for key, tuples in carb_gold("test").items()}
    assert (len(gold), sum(map(len, gold.values()))) == (634, 2715)
    for single_match in (False, True):
        values = rounded(gold, gold, single_match=single_match)
        assert values.pop("auc") == 0.9923
        assert set(values.values()) == {0.9948}


@pytest.mark.parametrize(("part", "f1", "auc"), [("test", 0.364, 0.239), ("dev", 0.358, 0.237)])
def test_sentences_cut_at_their_verbs_have_the_scores_that_are_known(part: str, f1: float, auc: float) -> None:
    gold, cut = {}, {}
    for key, tuples in carb_gold(part).items():
        words, gold[key] = tuples[-1][0], [text for _, text in tuples]
        extractions = [(each.texts(words), each.confidence) for each in baseline_tuples(words)]
        cut[key] = [TupleText(text.relation, (text.arg1, text.arg2), sure) for text, sure in extractions]
    values = carb_scores(gold, cut)
    assert values.f1 == pytest.approx(f1, abs=0.0006)
    assert values.auc == pytest.approx(auc, abs=0.0006)


def test_a_sentence_is_cut_at_its_verbs() -> None:
    for sentence, expected in (
        (
            "Ann was quickly named captain and has moved away .",
            [
                ("Ann", "was quickly named", "captain and has moved away"),
                ("Ann was quickly named captain and", "has moved", "away"),
            ],
        ),
        *((text, []) for text in ("Has Ann left ?", "Goats eat grass .", "", ".")),
    ):
        assert [tuple(each.texts(sentence.split())) for each in baseline_tuples(sentence.split())] == expected
    confidences = [each.confidence for each in baseline_tuples(["a", "is", "b", "is", "c", "is", "d"])]
    assert confidences == [1.0, 0.5, 1 / 3]


def test_wire57_needs_a_word_of_every_part() -> None:
    def fit(gold: TupleText, predicted: TupleText) -> tuple[float, float] | None:
        return wire57_pair(wire57_words(gold), wire57_words(predicted))

    gold = of("the cat", "sat on", "the mat")
    assert fit(gold, of("a cat", "sat", "mat")) == (3 / 4, 3 / 6)
    assert fit(gold, of("a dog", "sat", "mat")) is None
    assert fit(gold, of("a cat", "sat", "")) is None
    assert fit(gold, of("a cat", "sat")) is None
    assert fit(of("cat", "sat"), of("cat", "sat", "")) == (1.0, 1.0)
    assert fit(of("cat", "sat"), of("cat", "sat", "here")) is None
    assert fit(of("cat", "saw", "a", "dog"), of("cat", "saw", "dog", "a")) == (1.0, 1.0)
    assert fit(of("cat", "saw", "it"), of("Cat", "saw", "it")) is None


def test_wire57_matches_the_best_pair_first() -> None:
    gold = {"s": [of("a", "r", "b"), of("a c", "r", "b")], "t": [of("a", "r", "b")]}
    predicted = {"s": [of("a c", "r", "b"), of("a", "r", "x")], "u": [of("a", "r", "b")]}
    values = wire57_scores(gold, predicted)
    assert values == pytest.approx({"precision": 1 / 2, "recall": 1 / 3, "f1": 2 / 5})
    assert wire57_scores(gold, {}) == {"precision": 0.0, "recall": 0.0, "f1": 0.0}


def test_sentences_are_the_same_without_spaces_brackets_and_punctuation() -> None:
    assert sentence_key("He ( 41 ) did n't , did he ? ") == sentence_key("He -LRB- 41 -RRB- didn't, did he")
    assert sentence_key("He did") != sentence_key("he did")
    assert len({sentence_key(text) for text in ("A 4\u00a0b .", "A\t4 b\n.", "A4b.")}) == 1


def test_counts_and_redundancy() -> None:
    counts = tuple_statistics([[{1, 2}, {2, 3}, {2, 3}], [], [{5}]])
    assert counts == pytest.approx(
        {
            "sentences": 3,
            "tuples": 4,
            "sentences_without_tuple": 1 / 3,
            "tuples_per_word": 7 / 4,
            "tuple_overlap": (1 / 3 + 1 / 3 + 1) / 3,
        }
    )
    assert set(tuple_statistics([]).values()) == {0}
