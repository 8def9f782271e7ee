"""The reader of COGS: its own files and JSON lines of labels, and what is wrong with a line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from probtrans_cli.data.codecs.logical_forms import GraphLabels
from probtrans_cli.data.readers.cogs import Example, read_cogs, read_seqtag
from probtrans_cli.errors import DataError


def record(**changed_keys: Any) -> str:
    keys = {"tokens": ["Wim", "sank"], "parent": [1, -1], "role": ["theme", ""], "category": ["PNOUN", "VERB"]}
    keys |= {"noun_type": ["", ""], "verb_name": ["", "sink"], "distribution": "in_distribution"}
    return json.dumps({key: value for key, value in {**keys, **changed_keys}.items() if value is not None})


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r"])
def test_readers(end: str) -> None:
    analysis = GraphLabels([1, -1], ["theme", ""], ["PNOUN", "VERB"], ["", ""], ["", "sink"])
    form = "sink . theme ( x _ 1 , Wim )"
    expected = Example(["Wim", "sank"], analysis, form, "in_distribution", "c:2")
    first, second = read_cogs(
        [f"otter\tLAMBDA a . otter ( a )\tprimitive{end}", f"Wim sank\t{form}\tin_distribution{end}"], "c"
    )
    assert (first.where, first.distribution, first.words) == ("c:1", "primitive", ["otter"])
    assert second == expected
    assert list(read_seqtag([record() + end, record() + end], "c"))[1] == replace(expected, form=None)


def test_sentences_are_yielded_at_once() -> None:
    assert next(read_cogs(iter(["Wim\tWim\tprimitive", "broken"]), "c")).words == ["Wim"]
    assert next(read_seqtag(iter([record(), "broken"]), "c")).words == ["Wim", "sank"]


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("", "1 column instead of 3", "separated by single tabs"),
        ("a\tb\tc\td", "4 columns instead of 3", "separated by single tabs"),
        ("Wim  sank\tx\ty", "a sentence with an empty word", "single spaces"),
        ("Wim\u3000sank\tx\ty", "a sentence with an empty word", "single spaces"),
        ("\tx\ty", "a sentence with an empty word", "single spaces"),
        ("Wim sank\tsink . theme ( x _ 1 , Ann )\ty", "no 'Ann' in the sentence", "the second column is a COGS form"),
    ],
)
def test_malformed_lines_of_forms(line: str, message: str, hint: str) -> None:
    with pytest.raises(DataError, match=rf"^c.tsv:2: .*{message}") as error:
        list(read_cogs(["Wim\tWim\tprimitive", line], "c.tsv"))
    assert hint in (error.value.hint or "")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("", "not JSON", "one JSON object"),
        ("Wim\tWim\tprimitive", "not JSON", ".tsv"),
        ("[" * 100_000, "not JSON", "one JSON object"),
        ("9" * 5000, "not JSON", "one JSON object"),
        ("[]", "not a JSON object", "has the keys tokens, parent"),
        (record(head=[1, 2]), "unknown key 'head'", "has the keys"),
        (record(role=None), "no key 'role'", "has the keys"),
        (record(distribution=3), "distribution is not a string", "in_distribution"),
        (record(tokens="Wim sank"), "tokens is not a list of strings", "one value a word"),
        (record(tokens=["Wim\n", "sank"]), "tokens is no list of words without white space", "one word a token"),
        (record(role=["theme", 1]), "role is not a list of strings", "one value a word"),
        (record(parent=[True, -1]), "parent is not a list of whole numbers", "one value a word"),
        (record(parent=[1.0, -1]), "parent is not a list of whole numbers", "one value a word"),
        (record(noun_type=[""]), "noun_type has 1 values for 2 tokens", "one value a word"),
        (record(role=["subject", ""]), "unknown role 'subject'", "'agent'"),
        (record(category=["NOUN", ""]), "unknown category 'NOUN'", "'CNOUN'"),
        (record(noun_type=["def", ""]), "unknown noun_type 'def'", "'DEF'"),
        (record(parent=[2, -1]), "parent 2 of word 0 is not another word", "2 words, counted from 0"),
        (record(parent=[1, -2]), "parent -2 of word 1 is not another word", "-1 is no parent"),
        (record(parent=[0, -1]), "parent 0 of word 0 is not another word", "-1 is no parent"),
        (json.dumps({key: [] for key in json.loads(record())} | {"distribution": ""}), "without words", "remove"),
    ],
)
def test_malformed_lines_of_labels(line: str, message: str, hint: str) -> None:
    with pytest.raises(DataError, match=rf"^c.jsonl:2: .*{message}") as error:
        list(read_seqtag([record(), line], "c.jsonl"))
    assert hint in (error.value.hint or "")
