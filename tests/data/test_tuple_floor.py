"""The floor of open information extraction."""

from __future__ import annotations

import pytest
from support import real_data

from probtrans_cli.openie.carb import carb_scores
from probtrans_cli.openie.tuple_files import read_gold
from probtrans_cli.openie.tuple_floor import floor_tuples
from probtrans_cli.openie.tuple_texts import TupleText, sentence_key


def texts(sentence: str) -> list[tuple[str, str, str]]:
    words = sentence.split()
    return [tuple(one.texts(words)) for one in floor_tuples(words)]


def test_a_sentence_is_cut_at_its_verbs() -> None:
    assert texts("Ann was quickly named captain and has moved away .") == [
        ("Ann", "was quickly named", "captain and has moved away"),
        ("Ann was quickly named captain and", "has moved", "away"),
    ]
    assert texts("Has Ann left ?") == []
    assert texts("Goats eat grass .") == []
    assert texts("") == []
    assert texts(".") == []
    assert [one.confidence for one in floor_tuples(["a", "is", "b", "is", "c", "is", "d"])] == [1.0, 0.5, 1 / 3]


@pytest.mark.parametrize(("part", "f1", "auc"), [("test", 0.364, 0.239), ("dev", 0.358, 0.237)])
def test_the_floor_of_carb(part: str, f1: float, auc: float) -> None:
    """The figures that the floor is known to have."""
    path = real_data(f"openie/carb/{part}_gold.tsv")
    gold: dict[str, list[TupleText]] = {}
    found: dict[str, list[TupleText]] = {}
    with path.open(encoding="utf-8") as lines:
        for sentence, one, _ in read_gold(lines, "x"):
            key, words = sentence_key(sentence), sentence.split()
            assert one is not None
            gold.setdefault(key, []).append(one)
            cut = [(tuple_.texts(words), tuple_.confidence) for tuple_ in floor_tuples(words)]
            found[key] = [TupleText(text.relation, (text.arg1, text.arg2), sure) for text, sure in cut]
    scores = carb_scores(gold, found)
    assert scores.f1 == pytest.approx(f1, abs=0.0006)
    assert scores.auc == pytest.approx(auc, abs=0.0006)
