"""Files of tuples of any system: their forms, and what is said of lines that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from probtrans_cli.errors import DataError
from probtrans_cli.openie.scores import TupleText
from probtrans_cli.openie.tuple_files import read_gold, read_predictions


def predictions(text: str, default: float | None = None) -> list[tuple[str, TupleText | None]]:
    return [(each.sentence, each.text) for each in read_predictions(text.split("\n"), "p.tsv", default)]


def gold(text: str) -> list[tuple[str, TupleText | None]]:
    return [(each.sentence, each.text) for each in read_gold(text.split("\n"), "g.tsv")]


def refused(read: Callable[[str], object], text: str, message: str) -> str:
    """The hint for a text that cannot be read; the message must begin so."""
    with pytest.raises(DataError) as caught:
        read(text)
    assert caught.value.message.startswith(message)
    return caught.value.hint or ""


def test_lines_of_carb() -> None:
    assert predictions("A b .\t0.5\tb\tA\tc\td\n\nA b .\t-3e2\t b \tA\t") == [
        ("A b .", TupleText("b", ("A", "c", "d"), 0.5)),
        ("A b .", TupleText(" b ", ("A",), -300.0)),  # an empty argument at the end is none, as in CaRB's reader
    ]
    assert gold("A b . \tb \tA\tC: context\tT: now\nA b .\t\tA\t\tc\nA b .\tb") == [
        ("A b . ", TupleText("b", ("A", "T: now"))),
        ("A b .", TupleText("", ("A", "", "c"))),
        ("A b .", TupleText("b", ())),
    ]


@pytest.mark.parametrize("blank", [" ", ""])
def test_tuple_lines_of_allennlp_keep_their_letters(blank: str) -> None:
    parts = [("arg1", "a great rag"), ("rel", "are"), ("arg2", "1 grr")]
    tagged = " ".join(f"<{tag}>{blank}{part}{blank}</{tag}>" for tag, part in parts)
    expected = TupleText("are", ("a great rag", "1 grr"), -7.5)
    assert predictions(f"A sentence .\t{tagged}\t-7.5") == [("A sentence .", expected)]
    assert gold(f"A sentence .\t{tagged}\t-7.5") == [("A sentence .", expected)]
    for confidence in ("", "\t", "\tx", "\tinf"):  # which nobody needs of gold tuples
        assert gold(f"A sentence .\t{tagged}{confidence}") == [("A sentence .", expected._replace(confidence=1.0))]


def test_tuple_lines_without_a_second_argument() -> None:
    for arg2 in ("<arg2>  </arg2>", "<arg2></arg2>", ""):
        line = f"s\t<arg1> a </arg1> <rel> r </rel> {arg2}\t1"
        assert predictions(line) == [("s", TupleText("r", ("a", ""), 1.0))]


def test_json_lines() -> None:
    entry = {"arg1": "A", "rel": "b", "arg2": "c", "confidence": 0.25, "row": 0}
    text = "\n".join(
        json.dumps(record)
        for record in ({"id": 1, "text": "A b c", "tuples": [entry]}, {"words": ["A", "b"], "tuples": []})
    )
    assert predictions(text) == [("A b c", TupleText("b", ("A", "c"), 0.25)), ("A b", None)]
    del entry["arg2"], entry["confidence"]
    line = json.dumps({"text": "A b c", "tuples": [entry]})
    assert predictions(line, 0.5) == [("A b c", TupleText("b", ("A", ""), 0.5))]
    assert gold(line) == [("A b c", TupleText("b", ("A", ""), 1.0))]


GOOD = "s\t0.5\tr\ta\n"
TAGGED = "<arg1> a </arg1> <rel> r </rel> <arg2> b </arg2>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "s\tr\ta\tb", "p.tsv:2: 'r' is no confidence"),
        (GOOD + "s\tnan\tr\ta", "p.tsv:2: 'nan' is no confidence"),
        (GOOD + "s\t\tr\ta", "p.tsv:2: no confidence"),
        (GOOD + "s\tinf\tr\ta", "p.tsv:2: 'inf' is no confidence"),
        (GOOD + "s\t1", "p.tsv:2: not a prediction: the line has 2 of at least 3 fields"),
        (f"s\t{TAGGED}\t1\ns\t{TAGGED}", "p.tsv:2: no confidence"),
        (f"s\t{TAGGED}\tNaN", "p.tsv:1: 'NaN' is no confidence"),
        ("s\t<arg1> a </arg1> <rel> r\t1", "p.tsv:1: no <rel> ... </rel>"),
        ('{"text": "s", "tuples": [{"arg1": "a", "rel": "r"}]}', "p.tsv:1: tuple 1: no confidence"),
        ('{"text": "s", "tuples": [{"arg1": "a", "rel": 1}]}', "p.tsv:1: tuple 1: rel is no text"),
        ('{"text": "s", "tuples": [{"rel": "r"}]}', "p.tsv:1: tuple 1: arg1 is no text"),
        ('{"text": "s", "tuples": {}}', "p.tsv:1: no list of tuples"),
        ('{"tuples": []}', "p.tsv:1: neither text nor words"),
        ('{"text": "s", "tuples": []}\n[]', "p.tsv:2: not a JSON object"),
        ('{"text": "s", "tuples": []}\n{', "p.tsv:2: not JSON"),
    ],
)
def test_predictions_that_cannot_be_read(text: str, message: str) -> None:
    hint = refused(predictions, text, message)
    if "no confidence" in message:
        assert "--default-confidence" in hint


def test_a_default_confidence_is_for_those_without_one_alone() -> None:
    text = "\n".join(["s\t0.5\tr\ta", "s\tnan\tr\ta", "s\t\tr\ta", "s\tr\ta\tb", f"s\t{TAGGED}", f"s\t{TAGGED}\tnan"])
    assert [each.confidence for _, each in predictions(text, 0.75) if each] == [0.5, *[0.75] * 5]
    assert predictions("s\tr\ta\tb", 0.75) == [("s", TupleText("r", ("a", "b"), 0.75))]
    with_default = partial(predictions, default=0.75)
    refused(with_default, f"s\t{TAGGED}\thigh", "p.tsv:1: 'high' is no confidence")
    refused(with_default, "only a sentence", "p.tsv:1: a prediction without a relation")


def test_predictions_without_a_column_of_confidences_are_lines_of_gold() -> None:
    """An empty relation is no empty confidence, wherever it stands, and a number may be a relation."""
    for text in ("s\t\ta\t b\ns\tr\ta\tC: x\tT: now\ns\t20\ta", "s\tr\ta\tC: x\tT: now\ns\t\ta\t b\ns\t20\ta"):
        expected = [(sentence, each and each._replace(confidence=0.5)) for sentence, each in gold(text)]
        assert predictions(text, 0.5) == expected
    assert predictions("s\t\tr\ta\ns\t0.25\tr\tC: b", 0.5) == [  # with such a column
        ("s", TupleText("r", ("a",), 0.5)),
        ("s", TupleText("r", ("C: b",), 0.25)),
    ]


def test_a_gold_line_of_one_field_is_an_error() -> None:
    refused(gold, "s\tr\ta\nonly a sentence\t", "g.tsv:2: a gold tuple without a relation")
