"""Corpora of open information extraction in all the forms that a file may have; what it begins with tells which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support import real_data

from probtrans_cli.data.corpus.prepared import Prepared, prepare
from probtrans_cli.data.files import open_lines
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence, extra_words
from probtrans_cli.errors import DataError
from probtrans_cli.openie.extractions import rows_to_tuples
from probtrans_cli.openie.tuple_files import read_gold
from probtrans_cli.recipe.data import Data
from probtrans_cli.recipe.schema import Recipe

MARKS = " ".join(extra_words(3))


def read(text: str, **grid: Any) -> list[Sentence]:
    data = Data.model_validate({"train": "x.tsv", "format": "extractions", "grid": grid})
    sentences = list(read_corpus("x.tsv", "extractions", data=data, lines=text.split("\n")))
    for sentence in sentences:
        assert sentence.words[len(sentence.words) - sentence.extra :] == extra_words(len(data.extra_words))
        assert all(len(row) == len(sentence.words) for row in sentence.grid or ())
    return sentences


def words_of(sentence: Sentence) -> list[str]:
    return sentence.words[: len(sentence.words) - sentence.extra]


def texts(sentence: Sentence) -> list[tuple[str, ...]]:
    words = words_of(sentence)
    return [tuple(each.texts(words)) for each in rows_to_tuples(words, sentence.grid or ())]


def form(sentence: Sentence) -> list[list[str]]:
    gold: list[list[str]] = json.loads(sentence.form or "")
    return gold


# --- CaRB, AllenNLP, JSON lines ---------------------------------------------------------------------------------------


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
    assert words_of(first) == ["Ann", ",", "a", "judge", ",", "saw", "old", "Bob", "in", "Oslo", "."]
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


def test_what_is_counted_and_relations_with_extra_words() -> None:
    line = "a b c\tb\tc a\n"
    (sentence,) = read(line + line + "a b c\ta\tc b\n", rows=1)
    assert sentence.counts == {"kept": 1, "in pieces": 1, "repeated": 1, "too many": 1}
    text = "US president Ann came\tis president of\tAnn\tUS\nUS president Ann came\tis\tAnn\tpresident"
    (sentence,) = read(text)
    assert texts(sentence) == [("Ann", "is president of", "US"), ("Ann", "is", "president")]
    (sentence,) = read(text, extra_words=[])
    assert texts(sentence) == []
    assert sentence.counts == {"relation not found": 2}  # one of three words, none of one


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
    raw, divided, empty = read("\n\n".join(map(json.dumps, lines)))
    assert words_of(raw) == ["Ann", "did", "n't", "see", "Bob", "."]
    assert texts(raw) == [("Ann", "did see", "Bob")]
    assert (words_of(divided), texts(divided)) == (["Ann", "did", "see", "Bob"], [("Ann", "did see", "Bob")])
    assert divided.tags == {"upos": ["A", "B", "C", "D", "_", "_", "_"]}
    assert (empty.grid, form(empty), empty.where) == ([], [], "x.tsv:5")


def test_gold_tuples_are_those_that_score_reads() -> None:
    """A tuple of JSON lines or AllenNLP has a second argument, which may be empty."""
    record = {"words": ["Ann", "ran"], "tuples": [{"arg1": "Ann", "rel": "ran"}]}
    for text in (json.dumps(record), "Ann ran\t<arg1> Ann </arg1> <rel> ran </rel> <arg2> </arg2>\t1"):
        (sentence,) = read(text)
        (gold,) = read_gold([text], "x")
        assert gold.text is not None
        assert form(sentence) == [["ran", "Ann", ""]] == [[gold.text.relation, *gold.text.arguments]]


def test_json_lines_may_say_which_words_a_tuple_has() -> None:
    entry = {"arg1": "Ann", "rel": "is judge of", "arg2": "it", "added": ["is", "of"]}
    places = {"arg1": [3], "rel": [1], "arg2": [4]}
    entries = [entry | {"words": places}]
    record = {"words": ["Ann", "judge", "it", "Ann", "it"], "tuples": entries}
    (sentence,) = read(json.dumps(record))
    assert sentence.grid == [[0, 2, 0, 1, 3, 0, 2, 0]]
    assert texts(sentence) == [("Ann", "is judge of", "it")]
    entries.append(entry | {"words": places | {"arg2": [3]}})
    (sentence,) = read(json.dumps(record))
    assert sentence.counts == {"kept": 1, "overlapping": 1}
    (sentence,) = read(json.dumps(record), extra_words=["is"])
    assert sentence.counts == {"extra word": 1, "overlapping": 1}


# --- OpenIE-4, LSOIE, supervised-oie ----------------------------------------------------------------------------------

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
I_LED = openie4("SimpleArgument(I,List({0}))", "Relation(led,List([14, 17)))")


def test_output_of_openie4() -> None:
    (sentence,) = read(f"{LED}\n{IS}\n\n{LED}\n")
    assert words_of(sentence) == BEES.split()
    assert sentence.grid == [[0, 0, 1, 1, 0, 2, 0, 2, 3, 4, 4, 0, 0, 0], [1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 2, 0]]
    led = ["led to", "Ann Jr", "Oslo", "on Monday"]
    assert form(sentence) == [led, ["is Ann of", "I", "him"], led]
    assert sentence.counts == {"kept": 2, "repeated": 1}
    overlapping = openie4("SimpleArgument(Ann,List([4, 7)))", "Relation(Ann Jr,List([4, 10)))")
    (sentence,) = read(f"{overlapping}\n{IS}\n", extra_words=["is"])
    assert (sentence.grid, sentence.counts) == ([], {"overlapping": 1, "extra word": 1})
    # A relation that covers an argument is looked for; characters between words are of no word.
    (sentence,) = read(openie4("SimpleArgument(I,List({0}))", "Relation([is] led to [of],List([14, 24)))", HIM))
    assert sentence.grid == [[1, 0, 0, 0, 0, 2, 3, 2, 0, 0, 0, 0, 2, 0]]
    assert sentence.counts == {"kept": 1, "in pieces": 1}
    (sentence,) = read(openie4("SimpleArgument(x,List([1, 3)))", "Relation(led,List([13, 18)))"))
    assert sentence.grid == [[0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]]


def test_lsoie_with_word_numbers() -> None:
    text = (
        "Today Ann 's dog ran\t('ran', [4])\t('Today', [0])\t(\"Ann 's dog\", [1, 2, 3])\n"
        "Today Ann 's dog ran\t('dog ran', [3, 4])\t('dog', [3])\n"
        "Today Ann 's dog ran\t('ran', [4])\n"
    )
    (sentence,) = read(text)
    assert sentence.grid == [[1, 3, 3, 3, 2, 0, 0, 0]]
    assert form(sentence) == [["ran", "Today", "Ann 's dog"], ["dog ran", "dog"], ["ran"]]
    assert sentence.counts == {"kept": 1, "overlapping": 1, "incomplete": 1}


HEADER = "word_id\tword\tpred\tpred_id\thead_pred_id\tsent_id\trun_id\tlabel"


def block(words: str, head: int, labels: str) -> str:
    rows = enumerate(zip(words.split(), labels.split(), strict=True))
    return "".join(f"{i}\t{word}\tx\t[{head}]\t{head}\t0\t0\t{label}\n" for i, (word, label) in rows)


def test_blocks_of_supervised_oie() -> None:
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


# --- rows of labels ---------------------------------------------------------------------------------------------------

BEE = f"""The bee that sat on Ann stung her {MARKS}
ARG1 ARG1 NONE NONE NONE NONE REL ARG2 NONE NONE NONE
NONE ARG1 NONE REL TIME ARG2 NONE NONE TYPE NONE NONE
NONE NONE NONE NONE NONE NONE NONE NONE NONE NONE NONE
NONE ARGS NONE ARG1 NONE NONE LOC LOC REL NONE REL
"""


def test_rows_of_labels() -> None:
    (sentence,) = read(BEE)
    assert sentence.words == ["The", "bee", "that", "sat", "on", "Ann", "stung", "her", *MARKS.split()]
    assert sentence.grid == [
        [1, 1, 0, 0, 0, 0, 2, 3, 0, 0, 0],
        [0, 1, 0, 2, 4, 3, 0, 0, 0, 0, 0],
        [0, 3, 0, 1, 0, 0, 4, 4, 0, 0, 2],  # of two extra words, the last one counts
    ]
    expected = [["stung", "The bee", "her"], ["sat", "bee", "Ann on"], ["is from", "sat", "bee stung her"]]
    assert (form(sentence), sentence.counts, sentence.where) == (expected, {"kept": 3}, "x.tsv:1")
    rows = ["ARG1 NONE NONE", "NONE REL NONE", "ARG1 REL NONE", "ARG1 REL NONE", "ARG1 REL ARG2", "REL ARG1 ARG2"]
    (sentence,) = read("\n".join([f"a b c {MARKS}", *(f"{row} NONE NONE NONE" for row in rows)]), rows=2)
    assert sentence.grid == [[1, 2, 0, 0, 0, 0], [1, 2, 3, 0, 0, 0]]
    assert sentence.counts == {"kept": 2, "incomplete": 2, "repeated": 1, "too many": 1}
    assert form(sentence) == [["b", "a"], ["b", "a"], ["b", "a", "c"], ["a", "b", "c"]]
    (sentence,) = read(f"a b {MARKS}\nARG1 REL\nREL ARG1 NONE NONE NONE REL\n", fix_lengths=True)
    assert sentence.grid == [[1, 2, 0, 0, 0], [2, 1, 0, 0, 0]]
    assert sentence.counts == {"kept": 2, "cut": 1, "padded": 1}


def test_a_sentence_begins_where_its_last_words_are_the_extra_ones() -> None:
    first, second = read(f"\n\nSay [unused1] now {MARKS}\n\nARG1 REL ARG2 NONE NONE NONE\nNo [unused2] {MARKS}\n\n")
    assert (first.words[:3], first.grid) == (["Say", "[unused1]", "now"], [[1, 2, 3, 0, 0, 0]])
    assert (second.words[:2], second.grid, second.form) == (["No", "[unused2]"], [], "[]")
    assert (first.where, second.where) == ("x.tsv:3", "x.tsv:6")
    first, second = read("a b\nARG1 REL\n\nc d\nARG1 REL\nREL ARG1\n")  # without extra words
    assert (first.grid, second.grid) == ([[1, 2, 0, 0, 0]], [[1, 2, 0, 0, 0], [2, 1, 0, 0, 0]])
    assert second.where == "x.tsv:4"


def test_a_file_may_have_other_extra_words_than_the_recipe() -> None:
    for extra, grid, gold, counts in (
        (["is", "of", "from"], [[1, 0, 3, 2, 0, 0]], [["is", "a", "c"]], {"kept": 1}),
        (["est", "de"], [[1, 0, 3, 2, 0]], [["est", "a", "c"]], {"kept": 1}),
        (["is", "of", "from", "by"], [[1, 0, 3, 2, 0, 0, 0]], [["is", "a", "c"]], {"kept": 1}),
        ([], [], [], {"extra word": 1}),
    ):
        (sentence,) = read(f"a b c {MARKS}\nARG1 NONE ARG2 REL NONE NONE\n", extra_words=extra)
        assert (sentence.grid, form(sentence), sentence.counts) == (grid, gold, counts)


# --- what cannot be read ----------------------------------------------------------------------------------------------


def record(words: str, **more: Any) -> str:
    entry = {"arg1": "a", "rel": "a", "words": json.loads(words), **more}
    return json.dumps({"words": ["a"], "tuples": [entry]})


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a b\tb\ta\n\na b\t\n", "x.tsv:3: a gold tuple without a relation: the line has one field", ""),
        ("a b\tb\ta\nonly a sentence\n", "x.tsv:2: a gold tuple without a relation", ""),
        ('{"text": 1}', "x.tsv:1: neither text nor words", ""),
        ('{"text": "a"}', "x.tsv:1: no list of tuples", ""),
        ('{"text": "a \\ud800", "tuples": []}', "x.tsv:1: an escape of half a character", ""),
        ('{"words": ["a", " "], "tuples": []}', "x.tsv:1: words is no list of words", ""),
        ('{"words": ["a"], "upos": ["A", "B"], "tuples": []}', "x.tsv:1: upos has 2 values for 1 words", ""),
        (record('{"arg1": [1]}'), "x.tsv:1: tuple 1: words are not positions in a sentence of 1 words", ""),
        (record('{"arg1": [true]}'), "x.tsv:1: tuple 1: words are not positions", ""),
        (record("[0]"), "x.tsv:1: tuple 1: words, location", ""),
        (record("{}", location_time=[0]), "x.tsv:1: tuple 1: location_time has other words than arg2", ""),
        (record("{}", added=[1]), "x.tsv:1: tuple 1: added is no list of words", ""),
        ("{", "x.tsv:1: not JSON", ""),
        ('{"text": "a", "tuples": []}\n[]', "x.tsv:2: not a JSON object", ""),
        (f"{LED}\n{openie4('Relation(led,List([14, 17)))')}", "x.tsv:2: not an argument and its relation", ""),
        (
            f"{LED}\n{openie4('Relation(led,List([14, 17)))', 'SimpleArgument(I,List({0}))')}",
            "x.tsv:2: not an argument and its relation",
            "",
        ),
        (f"{LED}\n{I_LED.replace('Relation(led,List([14, 17)))', 'led')}", "x.tsv:2: not the parts of a tuple", ""),
        (f"{LED}\n{I_LED.replace('{0}', '{0')}", "x.tsv:2: not the parts of a tuple", ""),
        (f"{LED}\n{I_LED.replace('{0}', '{39}')}", "x.tsv:2: characters 39 to 40 are", ""),
        (f"{LED}\n{I_LED.replace('{0}', '[3, 2)')}", "x.tsv:2: characters 3 to 2 are", ""),
        ("a b\t('b', [1])\na b\t('b', [2])\t('a', [0])", "x.tsv:2: word 2 of a sentence of 2 words", ""),
        ("a b\t('b', [1])\na b\t('b', [1])\ta", "x.tsv:2: not a text with its word numbers: 'a'", ""),
        ("a b\t('b', [1])\na b", "x.tsv:2: a tuple without a relation", ""),
        (f"{block('Ann', 0, 'A0-B')}1\tsaw\tx\t[1]\t1\t0\t0", "x.tsv:2: 7 of 8 columns", ""),
        (f"{block('Ann', 0, 'A0-B')}1\tsaw\tx\t[1]\t1\t0\t0\tA6-B", "x.tsv:2: unknown label 'A6-B'", ""),
        (f"{block('Ann', 0, 'A0-B')}1\t \tx\t[1]\t1\t0\t0\tO", "x.tsv:2: an empty word", ""),
        (f"{block('Ann', 0, 'A0-B')}1\tsaw it\tx\t[1]\t1\t0\t0\tO", "x.tsv:2: white space in the word 'saw it'", ""),
        (f"a b {MARKS}\nARG1 REL NONE NONE", "x.tsv:2: 4 tags of the 5 words", "data.grid.fix_lengths=true"),
        (f"a b {MARKS}\nARG1 REL NONE NONE NONE NONE", "x.tsv:2: 6 tags of the 5 words", "data.grid.fix_lengths=true"),
        (f"a b {MARKS}\nARG1 VERB NONE NONE NONE", "x.tsv:2: unknown tag 'VERB'", "NONE, ARG1, REL, ARG2, ARGS, LOC"),
        (f"a b {MARKS}\nc d\n", "x.tsv:2: unknown tag 'c'", f"a sentence ends in {MARKS}"),
        (f"\nARG1 REL\na b {MARKS}\n", "x.tsv:2: tags before any sentence", "above their tags"),
    ],
)
def test_what_cannot_be_read(text: str, message: str, hint: str) -> None:
    with pytest.raises(DataError) as raised:
        read(text)
    assert raised.value.message.startswith(message)
    assert hint in (raised.value.hint or "")


# --- the recipe, and what is prepared ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "key", "words"),
    [
        ({"grid": {"rows": 2}}, "grid", "for `data.format: extractions or coordinations` only"),
        ({"format": "extractions", "grid": {"extra_words": ["is", "is"]}}, "grid.extra_words", "is stands there twice"),
        ({"format": "coordinations", "grid": {"extra_words": []}}, "grid.extra_words", "have no extra words"),
        ({"format": "extractions", "vocabulary": {"kind": "char"}}, "grid.extra_words", "kind `char` has no entries"),
        (
            {"format": "extractions", "vocabulary": {"kind": "sentencepiece"}},
            "grid.extra_words",
            "kind `sentencepiece` has no entries for extra words: set this to []",
        ),
        ({"format": "extractions", "grid": {"rows": 0}}, "grid.rows", ""),
        ({"format": "extractions", "grid": {"rows": 21}}, "grid.rows", ""),
        ({"format": "extractions", "grid": {"extra_words": ["two words"]}}, "grid.extra_words", ""),
        ({"format": "extractions", "grid": {"extra_words": [""]}}, "grid.extra_words", ""),
    ],
)
def test_what_no_recipe_can_say(data: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Recipe.model_validate({"name": "x", "data": {"train": "x", **data}, "task": {"kind": "mlm"}})
    assert f"data.{key}" in str(raised.value)
    assert words in str(raised.value)


def test_what_a_recipe_can_say() -> None:
    for vocabulary in ("char", "sentencepiece", "words", "wordpiece"):
        grid = {} if vocabulary.startswith("word") else {"extra_words": []}
        data = {"train": "x", "format": "extractions", "grid": grid, "vocabulary": {"kind": vocabulary}}
        assert Data.model_validate(data).rows == 5
        Recipe.model_validate({"name": "x", "data": data, "task": {"kind": "mlm"}})
    coordinations = Data.model_validate({"train": "x", "format": "coordinations"})
    assert (coordinations.rows, coordinations.extra_words) == (3, [])
    assert Data.model_validate({"train": "x"}).rows == 0


def prepared(data: dict[str, Any], **files: str) -> Prepared:
    """The corpora of some files, which are written into the current folder."""
    for name, text in files.items():
        Path(name).write_text(text)
    splits = {name: name for name in files if name in ("train", "dev")}
    data = {"format": "extractions", **splits, **data}
    return prepare(Recipe.model_validate({"name": "x", "data": data, "task": {"kind": "mlm"}}))


def test_what_was_kept_and_dropped_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = dict.fromkeys(("train", "dev"), f"{BEE}c d {MARKS}\nNONE REL NONE NONE\n")
    corpora = prepared({"grid": {"rows": 2, "fix_lengths": True}}, **files)
    line = "2 sentences, 4 tuples: 2 kept, 2 dropped: {}; 1 line of tags padded; 1 sentence without tuples{}"
    reasons = "more than 2 in a sentence (1), without arg1 or relation (1)"
    assert corpora.manifest["notes"] == [
        f"data.train: train: {line.format(reasons, ', left out of train')}",
        f"data.dev: dev: {line.format(reasons, '')}",
    ]
    assert {name: len(split) for name, split in corpora.splits.items()} == {"train": 1, "dev": 2}
    assert corpora.labels == {"upos": [], "extra_words": ["is", "of", "from"]}
    assert json.loads(corpora.splits["dev"].text("form", 1)) == []
    assert corpora.splits["train"].text("spelling", 0).split()[-3:] == MARKS.split()
    assert prepared({"grid": {"rows": 2, "fix_lengths": True}}, **files).fresh is False
    assert prepared({"grid": {"rows": 3, "fix_lengths": True}}, **files).fresh is True
    with pytest.raises(DataError, match=r"^train: no sentence has tuples that are kept"):
        prepared({}, train=f"c d {MARKS}\nNONE REL NONE NONE NONE\n")
    short = f"a b {MARKS}\nARG1 REL NONE NONE NONE\na b c {MARKS}\nARG1 REL NONE NONE NONE NONE\n"
    selected = prepared({"select": {"words": 2}}, train=short)  # which are those of the text
    assert selected.splits["train"].words.tolist() == [5]


def test_files_of_several_forms_are_one_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = {
        "a": "Ann saw Bob\tsaw\tAnn\tBob\nAnn ran\tflew\tAnn\n",
        "b": f"Bob ran {MARKS}\n\nARG1 REL NONE NONE NONE\n",
        "c": "Ann ran\t('ran', [1])\t('Ann', [0])\n",
    }
    corpora = prepared({"train": ["a", "b", "c"], "dev": "a"}, **files)
    of_a = "2 sentences, 2 tuples: 1 kept, 1 dropped: relation not found (1); 1 sentence without tuples"
    assert corpora.manifest["notes"] == [
        f"data.train: a: {of_a}, left out of train",
        "data.train: b: 1 sentence, 1 tuple: 1 kept",
        "data.train: c: 1 sentence, 1 tuple: 1 kept",
        f"data.dev: a: {of_a}",
    ]
    assert (len(corpora.splits["train"]), len(corpora.splits["dev"])) == (3, 2)
    gold = [json.loads(corpora.splits["dev"].text("form", i)) for i in (0, 1)]
    assert gold == [[["saw", "Ann", "Bob"]], [["flew", "Ann"]]]


@pytest.mark.parametrize(
    ("name", "sentences", "tuples", "kept"),
    [
        pytest.param("openie4_silver/train.tsv.gz", 1863, 5481, 5234, marks=pytest.mark.slow),
        pytest.param("lsoie/science.tsv.gz", 6660, 11628, 11339, marks=pytest.mark.slow),
        pytest.param("lsoie/wiki.tsv.gz", 2266, 5269, 5116, marks=pytest.mark.slow),
        ("oie2016_wiki/dev.oie.conll", 345, 946, 751),
        ("oie2016_wiki/train.extags.txt", 1056, 2905, 2702),
        ("carb/dev_gold.tsv", 638, 2548, 2007),
        ("carb/test_gold.tsv", 634, 2715, 2051),
    ],
)
def test_the_data_sets(name: str, sentences: int, tuples: int, kept: int) -> None:
    path = real_data(f"openie/{name}")
    data = Data.model_validate({"train": str(path), "format": "extractions"})
    corpus = list(read_corpus(path, "extractions", data=data, lines=open_lines(path)))
    assert len(corpus) == sentences
    assert sum(len(each.grid or ()) for each in corpus) == sum(each.counts.get("kept", 0) for each in corpus) == kept
    qualities = ("in pieces", "one of several places", "shortened", "without some words")
    assert sum(n for each in corpus for reason, n in each.counts.items() if reason not in qualities) == tuples
    if name.startswith("carb"):
        assert sum(len(form(each)) for each in corpus) == tuples
    for each in corpus:
        assert len(rows_to_tuples(words_of(each), each.grid or ())) == len(each.grid or ())
