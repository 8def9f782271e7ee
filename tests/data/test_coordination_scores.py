"""Scores of coordinations: each criterion, what was found at other words, and what the code of OpenIE6 counts."""

from __future__ import annotations

import pytest

from probtrans_cli.openie.coordination_scores import coordination_scores, counts_of
from probtrans_cli.openie.coordinations import Coordination

GOLD = Coordination(5, ((0, 2), (3, 4), (6, 8)))


@pytest.mark.parametrize(
    ("predicted", "right"),
    [
        (GOLD, {"whole", "outer", "inner", "exact"}),
        (Coordination(5, ((0, 2), (6, 8))), {"whole", "outer"}),
        (Coordination(5, ((0, 1), (3, 4), (6, 8))), {"whole", "inner"}),
        (Coordination(5, ((1, 2), (3, 4), (6, 8))), {"inner"}),
        (Coordination(5, ((0, 2), (2, 4), (6, 8))), {"whole", "outer"}),
        (Coordination(5, ((0, 2), (3, 4), (6, 9))), set()),
    ],
)
def test_each_criterion(predicted: Coordination, right: set[str]) -> None:
    counts = counts_of({5: GOLD}, {5: predicted})
    assert counts == {"gold": 1, "predicted": 1, **dict.fromkeys(right, 1)}


def test_what_was_found_at_other_words_is_wrong() -> None:
    other = Coordination(2, ((0, 1), (3, 4)))
    gold, predicted = [{5: GOLD}, {2: None}, {5: GOLD}], [{5: GOLD, 2: other}, {2: other}, {5: None}]
    exact = coordination_scores(gold, predicted)["exact"]
    assert exact == pytest.approx({"precision": 1 / 3, "recall": 1 / 2, "f1": 2 / 5})
    as_o6 = coordination_scores(gold, predicted, "o6")["exact"]
    assert as_o6 == pytest.approx({"precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2})


def test_the_inner_conjuncts_of_openie6_are_the_outer_ones() -> None:
    predicted = {5: Coordination(5, ((0, 1), (3, 4), (6, 8)))}
    assert counts_of({5: GOLD}, predicted)["inner"] == 1
    assert counts_of({5: GOLD}, predicted, "o6")["inner"] == 0


def test_nothing_is_zero_and_other_numbers_of_sentences_are_refused() -> None:
    assert coordination_scores([{}], [{}])["whole"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    with pytest.raises(ValueError, match="zip"):
        coordination_scores([{}], [])
