"""Corpora of open information extraction in all the forms that a file may have; what it begins with tells which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.data.files import open_lines
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence, extra_words
from probtrans_cli.errors import DataError
from probtrans_cli.folders.places import find_folder
from probtrans_cli.openie.extractions import rows_to_tuples
from probtrans_cli.openie.tuple_files import read_gold
from probtrans_cli.recipe.data import Data
from probtrans_cli.recipe.schema import Recipe


def read(text: str, **grid: Any) -> list[Sentence]:
    data = Data.model_validate({"train": "x.tsv", "format": "extractions", "grid": grid})
    found = list(read_corpus("x.tsv", "extractions", data=data, lines=text.split("\n")))
    for one in found:
        assert one.words[len(one.words) - one.extra :] == extra_words(len(data.extra_words))
        assert all(len(row) == len(one.words) for row in one.grid or ())
    return found


def own(one: Sentence) -> list[str]:
    return one.words[: len(one.words) - one.extra]


def texts(one: Sentence) -> list[tuple[str, ...]]:
    """The tuples that the rows of a sentence stand for."""
    return [tuple(found.texts(own(one))) for found in rows_to_tuples(own(one), one.grid or ())]


def form(one: Sentence) -> list[list[str]]:
    gold: list[list[str]] = json.loads(one.form or "")
    return gold


# --- CaRB -------------------------------------------------------------------------------------------------------------


def test_gold_lines_of_carb() -> None:
    text = (
        "Ann , a judge , saw old Bob in Oslo . \tsaw\tAnn\told Bob\tL: in Oslo\tC: it was late\n"
        "It rains .\trains\tIt\n"
        "Ann , a judge , saw old Bob in Oslo .\twas a judge\tAnn\n"
        "Ann , a judge , saw old Bob in Oslo .\tis seen by\tOld Bob\tAnn\n"
        "\n"
        "Ann , a judge , saw old Bob in Oslo .\t\tAnn\n"
    )
    first, second = read(text)
    assert own(first) == ["Ann", ",", "a", "judge", ",", "saw", "old", "Bob", "in", "Oslo", "."]
    assert texts(first) == [("Ann", "saw", "old Bob in Oslo"), ("Ann", "a judge", "")]
    assert (first.grid or [])[0] == [1, 0, 0, 0, 0, 2, 3, 3, 4, 4, 0, 0, 0, 0]
    assert form(first) == [
        ["saw", "Ann", "old Bob", "L: in Oslo"],
        ["was a judge", "Ann"],
        ["is seen by", "Old Bob", "Ann"],
        ["", "Ann"],
    ]
    assert first.counts == {"kept": 2, "without some words": 1, "relation not found": 1, "incomplete": 1}
    assert (texts(second), form(second), second.where) == ([("It", "rains", "")], [["rains", "It"]], "x.tsv:2")


def test_qualities_are_counted_of_tuples_that_are_kept() -> None:
    line = "a b c\tb\tc a\n"
    (one,) = read(line + line + "a b c\ta\tc b\n", rows=1)
    assert one.counts == {"kept": 1, "in pieces": 1, "repeated": 1, "too many": 1}


def test_relations_may_have_extra_words() -> None:
    text = "US president Ann came\tis president of\tAnn\tUS\nUS president Ann came\tis\tAnn\tpresident"
    (one,) = read(text)
    assert texts(one) == [("Ann", "is president of", "US"), ("Ann", "is", "president")]
    (one,) = read(text, extra_words=[])
    assert texts(one) == []
    assert one.counts == {"relation not found": 2}  # one of three words, none of one


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b\tb\ta\n\na b\t\n", "x.tsv:3: a gold tuple without a relation: the line has one field"),
        ("a b\tb\ta\nonly a sentence\n", "x.tsv:2: a gold tuple without a relation: the line has one field"),
    ],
)
def test_gold_lines_need_a_relation(text: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read(text)
    assert raised.value.message == message


# --- AllenNLP, JSON lines ---------------------------------------------------------------------------------------------


def test_tuple_lines_of_allennlp() -> None:
    text = (
        "Ann saw Bob\t<arg1> Ann </arg1> <rel> saw </rel> <arg2> Bob </arg2>\t-3.5\n"
        "Ann saw Bob\t<arg1> Bob </arg1> <rel> [is] </rel> <arg2> </arg2>\n"
        "Ann ran\t<arg1>Ann</arg1><rel>ran</rel><arg2></arg2>\t0.5\n"
    )
    first, second = read(text)
    assert texts(first) == [("Ann", "saw", "Bob"), ("Bob", "is", "")]
    assert form(first) == [["saw", "Ann", "Bob"], ["[is]", "Bob", ""]]
    assert texts(second) == [("Ann", "ran", "")]


def test_json_lines() -> None:
    tuples = [{"arg1": "Ann", "rel": "did see", "arg2": "Bob"}]
    lines = [
        {"text": "Ann didn't see Bob.", "tuples": tuples},
        {"words": ["Ann", "did", "see", "Bob"], "text": "x", "tuples": tuples, "upos": ["A", "B", "C", "D"]},
        {"words": ["Ann", "ran"], "tuples": []},
    ]
    one, other, none = read("\n\n".join(map(json.dumps, lines)))
    assert own(one) == ["Ann", "did", "n't", "see", "Bob", "."]
    assert texts(one) == [("Ann", "did see", "Bob")]
    assert (own(other), texts(other)) == (["Ann", "did", "see", "Bob"], [("Ann", "did see", "Bob")])
    assert other.tags == {"upos": ["A", "B", "C", "D", "_", "_", "_"]}
    assert (none.grid, form(none), none.where) == ([], [], "x.tsv:5")


def test_gold_tuples_are_those_that_score_reads() -> None:
    """A tuple of JSON lines or AllenNLP has a second argument, which may be empty."""
    record = {"words": ["Ann", "ran"], "tuples": [{"arg1": "Ann", "rel": "ran"}]}
    line = "Ann ran\t<arg1> Ann </arg1> <rel> ran </rel> <arg2> </arg2>\t1"
    for text in (json.dumps(record), line):
        (sentence,) = read(text)
        (one,) = read_gold([text], "x")
        assert one.parts is not None
        assert form(sentence) == [["ran", "Ann", ""]] == [[one.parts.relation, *one.parts.arguments]]


def test_json_lines_may_say_which_words_a_tuple_has() -> None:
    one = {"arg1": "Ann", "rel": "is judge of", "arg2": "it", "added": ["is", "of"]}
    places = {"arg1": [3], "rel": [1], "arg2": [4]}
    record = {"words": ["Ann", "judge", "it", "Ann", "it"], "tuples": [one | {"words": places}]}
    (sentence,) = read(json.dumps(record))
    assert sentence.grid == [[0, 2, 0, 1, 3, 0, 2, 0]]
    assert texts(sentence) == [("Ann", "is judge of", "it")]
    record["tuples"].append(one | {"words": places | {"arg2": [3]}})  # type: ignore[attr-defined]
    (sentence,) = read(json.dumps(record))
    assert sentence.counts == {"kept": 1, "overlapping": 1}
    (sentence,) = read(json.dumps(record), extra_words=["is"])
    assert sentence.counts == {"extra word": 1, "overlapping": 1}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('{"text": 1}', "x.tsv:1: neither text nor words"),
        ('{"text": "a"}', "x.tsv:1: no list of tuples"),
        ('{"text": "a \\ud800", "tuples": []}', "x.tsv:1: an escape of half a character"),
        ('{"words": ["a", " "], "tuples": []}', "x.tsv:1: words is no list of words"),
        ('{"words": ["a"], "upos": ["A", "B"], "tuples": []}', "x.tsv:1: upos has 2 values for 1 words"),
        ('{"words": ["a"], "upos": "A", "tuples": []}', "x.tsv:1: upos is no list of words"),
        ('{"words": ["a"], "tuples": [{"arg1": "a", "rel": 3}]}', "x.tsv:1: tuple 1: rel is no text"),
        (
            '{"words": ["a"], "tuples": [{"arg1": "a", "rel": "a", "words": {"arg1": [1]}}]}',
            "x.tsv:1: tuple 1: words are not positions in a sentence of 1 words",
        ),
        (
            '{"words": ["a"], "tuples": [{"arg1": "a", "rel": "a", "words": {"arg1": [true]}}]}',
            "x.tsv:1: tuple 1: words are not positions",
        ),
        ('{"words": ["a"], "tuples": [{"arg1": "a", "rel": "a", "words": [0]}]}', "x.tsv:1: tuple 1: words, location"),
        (
            '{"words": ["a"], "tuples": [{"arg1": "a", "rel": "a", "words": {}, "location_time": [0]}]}',
            "x.tsv:1: tuple 1: location_time has other words than arg2",
        ),
        (
            '{"words": ["a"], "tuples": [{"arg1": "a", "rel": "a", "words": {}, "added": [1]}]}',
            "x.tsv:1: tuple 1: added is no list of words",
        ),
        ("{", "x.tsv:1: not JSON"),
        ('{"text": "a", "tuples": []}\n[]', "x.tsv:2: not a JSON object"),
    ],
)
def test_objects_that_cannot_be_read(record: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read(record)
    assert raised.value.message.startswith(message)


# --- OpenIE-4 ---------------------------------------------------------------------------------------------------------

BEES = "I , Ann Jr. , led him to Oslo on Monday"


def openie4(*parts: str) -> str:
    return "\t".join(["0.5", "", *parts, BEES])


LED = openie4(
    "SimpleArgument(Ann Jr,List([4, 10)))",
    "Relation(led to,List([14, 17), [22, 24)))",
    "SimpleArgument(Oslo,List([25, 29))); TemporalArgument(on Monday,List([30, 39)))",
)
HIM = "SimpleArgument(him,List([18, 21)))"
IS = openie4("SimpleArgument(I,List({0}))", "Relation([is] Ann [of],List([4, 7)))", HIM)


def test_output_of_openie4() -> None:
    (one,) = read(f"{LED}\n{IS}\n\n{LED}\n")
    assert own(one) == BEES.split()
    assert one.grid == [[0, 0, 1, 1, 0, 2, 0, 2, 3, 4, 4, 0, 0, 0], [1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 2, 0]]
    assert form(one) == [
        ["led to", "Ann Jr", "Oslo", "on Monday"],
        ["is Ann of", "I", "him"],
        ["led to", "Ann Jr", "Oslo", "on Monday"],
    ]
    assert one.counts == {"kept": 2, "repeated": 1}


def test_tuples_of_openie4_that_are_no_rows() -> None:
    both = openie4("SimpleArgument(Ann,List([4, 7)))", "Relation(Ann Jr,List([4, 10)))")
    (one,) = read(f"{both}\n{IS}\n", extra_words=["is"])
    assert (one.grid, one.counts) == ([], {"overlapping": 1, "extra word": 1})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (openie4("Relation(led,List([14, 17)))"), "x.tsv:2: not an argument and its relation"),
        (openie4("Relation(led,List([14, 17)))", "SimpleArgument(I,List({0}))"), "x.tsv:2: not an argument and its"),
        (openie4("SimpleArgument(I,List({0}))", "led"), "x.tsv:2: not the parts of a tuple: 'led'"),
        (openie4("SimpleArgument(I,List({0)))", "Relation(led,List([14, 17)))"), "x.tsv:2: not the parts of a tuple"),
        (openie4("SimpleArgument(I,List({39}))", "Relation(led,List([14, 17)))"), "x.tsv:2: characters 39 to 40 are"),
        (openie4("SimpleArgument(I,List([3, 2)))", "Relation(led,List([14, 17)))"), "x.tsv:2: characters 3 to 2 are"),
    ],
)
def test_lines_of_openie4_that_cannot_be_read(line: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read(f"{LED}\n{line}\n")
    assert raised.value.message.startswith(message)


def test_a_relation_that_covers_an_argument_is_looked_for() -> None:
    covering = openie4("SimpleArgument(I,List({0}))", "Relation([is] led to [of],List([14, 24)))", HIM)
    (one,) = read(covering)
    assert one.grid == [[1, 0, 0, 0, 0, 2, 3, 2, 0, 0, 0, 0, 2, 0]]
    assert one.counts == {"kept": 1, "in pieces": 1}


def test_characters_between_words_are_of_no_word() -> None:
    line = openie4("SimpleArgument(x,List([1, 3)))", "Relation(led,List([13, 18)))")
    (one,) = read(line)
    assert one.grid == [[0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]]


# --- LSOIE with positions ---------------------------------------------------------------------------------------------


def test_texts_with_word_numbers() -> None:
    text = (
        "Today Ann 's dog ran\t('ran', [4])\t('Today', [0])\t(\"Ann 's dog\", [1, 2, 3])\n"
        "Today Ann 's dog ran\t('dog ran', [3, 4])\t('dog', [3])\n"
        "Today Ann 's dog ran\t('ran', [4])\n"
    )
    (one,) = read(text)
    assert one.grid == [[1, 3, 3, 3, 2, 0, 0, 0]]
    assert form(one) == [["ran", "Today", "Ann 's dog"], ["dog ran", "dog"], ["ran"]]
    assert one.counts == {"kept": 1, "overlapping": 1, "incomplete": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a b\t('b', [2])\t('a', [0])", "x.tsv:2: word 2 of a sentence of 2 words"),
        ("a b\t('b', [1])\ta", "x.tsv:2: not a text with its word numbers: 'a'"),
        ("a b", "x.tsv:2: a tuple without a relation"),
    ],
)
def test_word_numbers_that_cannot_be_read(line: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read(f"a b\t('b', [1])\t('a', [0])\n{line}\n")
    assert raised.value.message == message


# --- supervised-oie ---------------------------------------------------------------------------------------------------

HEADER = "word_id\tword\tpred\tpred_id\thead_pred_id\tsent_id\trun_id\tlabel"


def block(words: str, head: int, labels: str) -> str:
    rows = enumerate(zip(words.split(), labels.split(), strict=True))
    return "".join(f"{i}\t{word}\tx\t[{head}]\t{head}\t0\t0\t{label}\n" for i, (word, label) in rows)


def test_blocks_of_labels() -> None:
    text = "\n".join(
        [
            HEADER + "\n" + block("Ann saw Bob run off", 1, "A0-B P-B A1-B O O"),
            block("Ann saw Bob run off", 1, "A0-B P-B A1-B A1-I A1-I"),
            block("Ann saw Bob run off", 3, "O O A0-B P-B P-I"),
            block("Ann saw Bob run off", 4, "A5-B O A2-B A0-B P-B"),
            block("It rains", 1, "O P-B"),
            block("Ann saw Bob run off", 1, "A0-B P-B O O O"),
        ]
    )
    first, second, again = read(text)
    assert first.grid == [[1, 2, 3, 0, 0, 0, 0, 0], [0, 0, 1, 2, 2, 0, 0, 0], [3, 0, 3, 1, 2, 0, 0, 0]]
    assert form(first) == [["saw", "Ann", "Bob"], ["run off", "Bob"], ["off", "run", "Bob", "Ann"]]
    assert first.counts == {"kept": 3, "of a predicate that has one": 1}
    assert (second.grid, second.counts) == ([], {"incomplete": 1})
    assert (again.grid, again.where) == ([[1, 2, 0, 0, 0, 0, 0, 0]], f"x.tsv:{2 + 4 * 6 + 3}")
    assert read(text.removeprefix(HEADER + "\n"))[0].grid == first.grid


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1\tsaw\tx\t[1]\t1\t0\t0", "x.tsv:2: 7 of 8 columns"),
        ("1\tsaw\tx\t[1]\t1\t0\t0\tA6-B", "x.tsv:2: unknown label 'A6-B'"),
        ("1\t \tx\t[1]\t1\t0\t0\tO", "x.tsv:2: an empty word"),
        ("1\tsaw it\tx\t[1]\t1\t0\t0\tO", "x.tsv:2: white space in the word 'saw it'"),
    ],
)
def test_rows_of_blocks_that_cannot_be_read(row: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read(f"{block('Ann', 0, 'A0-B')}{row}\n")
    assert raised.value.message == message


# --- one recipe may mix them ------------------------------------------------------------------------------------------


def test_files_of_several_forms_are_one_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tsv").write_text("Ann saw Bob\tsaw\tAnn\tBob\nAnn ran\tflew\tAnn\n")
    (tmp_path / "b.txt").write_text(f"Bob ran {' '.join(extra_words(3))}\n\nARG1 REL NONE NONE NONE\n")
    (tmp_path / "c.tsv").write_text("Ann ran\t('ran', [1])\t('Ann', [0])\n")
    data = {"train": ["a.tsv", "b.txt", "c.tsv"], "dev": "a.tsv", "format": "extractions"}
    made = prepare(Recipe.model_validate({"name": "x", "data": data, "task": {"kind": "mlm"}}))
    assert made.manifest["notes"] == [
        "data.train: a.tsv: 2 sentences, 2 tuples: 1 kept, 1 dropped: relation not found (1); 1 sentences without "
        "tuples are left out of train",
        "data.train: b.txt: 1 sentences, 1 tuples: 1 kept",
        "data.train: c.tsv: 1 sentences, 1 tuples: 1 kept",
        "data.dev: a.tsv: 2 sentences, 2 tuples: 1 kept, 1 dropped: relation not found (1); 1 sentences without tuples",
    ]
    assert (len(made.splits["train"]), len(made.splits["dev"])) == (3, 2)
    assert [json.loads(made.splits["dev"].text("form", i)) for i in (0, 1)] == [
        [["saw", "Ann", "Bob"]],
        [["flew", "Ann"]],
    ]


# --- the data sets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sentences", "tuples", "kept"),
    [
        ("openie4_silver/train.tsv.gz", 1863, 5481, 5234),
        ("lsoie/science.tsv.gz", 6660, 11628, 11339),
        ("lsoie/wiki.tsv.gz", 2266, 5269, 5116),
        ("oie2016_wiki/dev.oie.conll", 345, 946, 751),
        ("carb/dev_gold.tsv", 638, 2548, 2007),
        ("carb/test_gold.tsv", 634, 2715, 2051),
    ],
)
def test_the_data_sets(name: str, sentences: int, tuples: int, kept: int) -> None:
    path = find_folder("openie") / name
    if not path.is_file():
        pytest.skip("the corpora are not here")
    data = Data.model_validate({"train": str(path), "format": "extractions"})
    found = list(read_corpus(path, "extractions", data=data, lines=open_lines(path)))
    assert len(found) == sentences
    assert sum(len(one.grid or ()) for one in found) == sum(one.counts.get("kept", 0) for one in found) == kept
    qualities = ("in pieces", "one of several places", "shortened", "without some words")
    every = sum(count for one in found for reason, count in one.counts.items() if reason not in qualities)
    assert every == tuples
    if name.startswith("carb"):
        assert sum(len(form(one)) for one in found) == tuples
    for one in found:
        assert len(rows_to_tuples(own(one), one.grid or ())) == len(one.grid or ())
