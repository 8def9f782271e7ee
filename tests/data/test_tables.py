"""Tables and JSON lines: columns, quotes, labels, and what looks like the name of a column."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from probtrans_cli.data.corpus.tally import Tally, chosen
from probtrans_cli.data.readers.columns import read_tagged
from probtrans_cli.data.readers.lines import read_jsonl, read_table
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Columns, Keys, Select, Table
from probtrans_cli.recipe.schema import Recipe
from tests.support import real_data


def read(file: str, **options: Any) -> list[Sentence]:
    return list(read_table(file.removesuffix("\n").split("\n"), "x", Table(**options)))


def content(file: str, **options: Any) -> list[tuple[str, str, str]]:
    sentences = read(file, **options)
    return [(" ".join(sentence.words), sentence.labels["label"], sentence.where) for sentence in sentences]


def test_columns_are_those_that_are_named() -> None:
    for line, options, expected in [
        ("3 it was  long ", {"text": 1, "label": 0, "separator": " "}, ("it was long", "3")),
        ("a b;x;good", {"label": 2, "separator": ";"}, ("a b", "good")),
        ("a fine film\t1\tid7", {"columns": 3}, ("a fine film", "1")),
        ("id7\t1\ta film\tof 7", {"text": 2, "label": 1, "columns": 4}, ("a film", "1")),
        ("a fine film\t1\t\t \r", {}, ("a fine film", "1")),
        ("a fine film\t very good \r", {}, ("a fine film", "very good")),
        ("4\u00a0 1/2\u00a0miles\tgood", {}, ("4\u00a0 1/2\u00a0miles", "good")),
        ("a, b ||| good", {"separator": "|||"}, ("a, b", "good")),
        ('"a, b",good', {"separator": ",", "quoting": False, "columns": 3, "label": 2}, ('"a', "good")),
        ('"a, ""b""", good \r', {"separator": ","}, ('a, "b"', "good")),
        ('good, "a, b"', {"separator": ",", "text": 1, "label": 0}, ("a, b", "good")),
        ('"Bob,\na film, 1\nabc",good', {"separator": ","}, ("Bob, a film, 1 abc", "good")),
        ('5" of film,good', {"separator": ","}, ('5" of film', "good")),
        ('"a" and "b"\tgood', {}, ('"a" and "b"', "good")),
        ('"a ""b"""\t"1"', {"quoting": False}, ('"a ""b"""', '"1"')),
        ('"a ""b"""\t"1"', {"quoting": True}, ('a "b"', "1")),
        ('"a\tb"\tgood', {"quoting": True}, ("a b", "good")),
        ('3 "a b" 7', {"text": 1, "label": 0, "columns": 3, "separator": " ", "quoting": True}, ("a b", "3")),
    ]:
        assert content(line, **options) == [(*expected, "x:1")]


def test_what_is_misread_otherwise_is_an_error() -> None:
    """The line is named where the row begins, behind a row of two lines if there are quotes."""
    for line, options, message in [
        ("a fine film\t1\tid7", {}, r"the label '1\\tid7' holds the separator: 3 columns instead of 2"),
        ("a b;x;good;as it seems", {"label": 2, "separator": ";"}, "the label 'good;as it seems' holds the separator"),
        ("it was long 3", {"separator": " "}, "the label 'was long 3' holds the separator: 4 columns instead of 2"),
        ("1\ta fine film\tid7", {"text": 1, "label": 0}, "3 columns instead of 2"),
        ("a, b,1", {"separator": ","}, "the label 'b,1' holds the separator: 3 columns instead of 2"),
        ("1,a, b", {"separator": ",", "text": 1, "label": 0}, "3 columns instead of 2"),
        ('"a; b";1', {"separator": ";"}, "the label ' b\";1' holds the separator: 3 columns instead of 2"),
        ('a,"b, c"', {"separator": ","}, "the label 'b, c' holds the separator"),
        ('a,"b\nc"', {"separator": ","}, r"the label 'b\\nc' holds a line end"),
        ("a\t1\tid7\tx", {"columns": 3}, "4 columns instead of 3"),
        ("a\t1", {"columns": 3}, "2 of 3 columns"),
        ("a 1", {}, "1 of 2 columns"),
        ("a,", {"separator": ","}, "a sentence without a label"),
        (",1", {"separator": ","}, "a label without a sentence"),
        ('"a, b,1\nc,0\nd,1', {"separator": ","}, r"not CSV: a quote that is not closed \(read up to line 5\)"),
        ('"a, b,1\n"c, d",0', {"separator": ","}, r"not CSV: .* \(read up to line 4\)"),
        ('"a" b,1', {"separator": ","}, "not CSV"),
        (
            '"a,1\nb,0\nc",1\nd,0',
            {"separator": ","},
            "a quote is not closed before line 5, and each line up to there is a row",
        ),
        ('0,"a\n\n1,b\n0,c"', {"separator": ",", "text": 1, "label": 0}, "a quote is not closed before line 6"),
        ("a,1\rb,0", {"separator": ","}, r"not CSV: a line that ends in \\r alone"),
        ("a\tpos\rb\tneg\rc\tpos", {}, r"the label 'pos\\rb' holds a line end"),
        ('"a b"\t"good"', {}, "the label '\"good\"' stands in double quotes"),
        ("a b;'';\"1\"", {"label": 2, "separator": ";"}, "the label '\"1\"' stands in double quotes"),
        ('"a ""b"""\t1', {}, "the text .* stands in double quotes, as in CSV"),
        ('"a,1\n' + "b,0\n" * 100_000, {"separator": ","}, "not CSV: field larger than field limit"),
    ]:
        table = Table(**options)
        row = [""] * table.width
        row[table.text], row[table.label] = ('"a\nb"' if table.quoted else "a\n"), "1"
        first = table.separator.join(row) if table.quoted else "\n"
        with pytest.raises(DataError, match=f"^x:3: {message}"):
            read(f"{first}\n{line}", **options)


def test_a_file_whose_texts_all_stand_in_quotes_is_an_error() -> None:
    line = '"so it is"\t1\n'
    with pytest.raises(DataError, match="x: all 5 texts stand in double quotes, as in CSV"):
        read(line * 5)
    for file, options in ((line * 5 + "a\t0", {}), (line * 5, {"quoting": False}), (line * 5, {"quoting": True})):
        assert len(read(file, **options)) >= 5


@given(
    st.lists(
        st.tuples(*[st.text(st.sampled_from("ab ,\t;\"'\n\u00a0é"), min_size=1).filter(str.strip)] * 2), max_size=5
    ),
    st.sampled_from(",\t;"),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_is_written_as_csv_is_read_again(rows: list[tuple[str, str]], separator: str, ending: str) -> None:
    rows = [(text, label.replace(separator, "").replace("\n", "") + "x") for text, label in rows]
    file = io.StringIO()
    csv.writer(file, delimiter=separator, lineterminator=ending).writerows(rows)
    line = 1
    for sentence, (text, label) in zip(read(file.getvalue(), separator=separator, quoting=True), rows, strict=True):
        assert "".join("".join(sentence.words).split()) == "".join(text.split())
        assert (sentence.labels["label"], sentence.where) == (label.strip(), f"x:{line}")
        line += 1 + text.count("\n")


def test_blank_rows_and_the_header() -> None:
    text = '\n"the\ntext",label\n,\n\na film,good\n  \n"b,c",bad\n'
    assert content(text, separator=",", header=True) == [("a film", "good", "x:6"), ("b,c", "bad", "x:8")]
    assert [sentence.may_be_header for sentence in read(text, separator=",")] == [True, False, False]
    assert not any(sentence.may_be_header for sentence in read(text, separator=",", header=True))


def test_a_label_that_only_the_first_row_has_is_told_of() -> None:
    for labels, known, warning in [
        (["label", "1", "0"], (), "warning: x:1: no other row has the label 'label'"),
        (["1", "1", "0"], (), None),
        (["label"], (), None),
        (["rare", "1", "0"], ("rare",), None),
    ]:
        tally, rows = Tally("dev"), [f"a\t{label}" for label in labels]
        passing = chosen(lambda _, rows=rows: read_table(rows, "x", Table()), Select(), tally)
        assert len(list(passing)) == len(labels)
        remedy = ": if it is the name of a column, set data.table.header=true"
        assert tally.header_warnings("table", known) == ([] if warning is None else [warning + remedy])


def test_a_tag_that_only_the_first_word_has_is_told_of() -> None:
    for text, warning in [
        ("word tag\na X\n\nb Y\n", "warning: x:1: no other row has the tag 'tag'"),
        ("a X\nb X\n", None),
        ("a X\n\nb X\n", None),
        ("a X\n", None),
    ]:
        tally = Tally("train")
        sentences = list(read_tagged(text.split("\n"), "x", Columns()))
        assert list(chosen(lambda _, read=sentences: read, Select(), tally)) == sentences
        remedy = ": if it is the name of a column, take the line away"
        assert tally.header_warnings("columns") == ([] if warning is None else [warning + remedy])


def test_options_that_do_not_go_together() -> None:
    for table, reason in [
        ({"columns": 1}, "found 1, but there is a column 1, counted from 0"),
        ({"quoting": True, "separator": "||"}, "one character other than a quote separates: found '||'"),
        ({"quoting": True, "separator": '"'}, "one character other than a quote separates"),
    ]:
        data = {"train": "x.tsv", "format": "table", "table": table}
        with pytest.raises(ValidationError) as error:
            Recipe.model_validate({"name": "x", "data": data, "task": {"kind": "classification"}})
        assert reason in str(error.value)


@pytest.mark.parametrize("name", ["sst2", "sst5"])
def test_the_corpora_of_the_recipes_are_divided_at_spaces_alone(name: str) -> None:
    """They have no other white space, so that they are read as in earlier versions."""
    ending, table = ("tsv", Table()) if name == "sst2" else ("txt", Table(text=1, label=0, separator=" "))
    path = real_data(f"sst/{name}") / f"dev.{ending}"
    lines = path.read_text("utf-8").removesuffix("\n").split("\n")
    for sentence, line in zip(read_table(lines, "x", table), lines, strict=True):
        columns = line.split(table.separator, 1)
        assert sentence.words == [word for word in columns[table.text].split(" ") if word]
        assert sentence.labels["label"] == columns[table.label]


plain = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.split() == [text])


@given(st.lists(st.tuples(st.lists(plain, min_size=1, max_size=4), plain), max_size=4), st.booleans(), st.booleans())
def test_tables_and_json_lines_say_the_same(rows: list[tuple[list[str], str]], turned: bool, header: bool) -> None:
    columns = [(label, " ".join(text)) if turned else (" ".join(text), label) for text, label in rows]
    lines = ["some\theader"] * header + ["\t".join(row) + "\r" for row in columns]
    table = list(read_table(lines, "x", Table(text=int(turned), label=int(not turned), header=header)))
    expected = [(words, {"label": label.strip()}) for words, label in rows]
    assert [(sentence.words, sentence.labels) for sentence in table] == expected
    assert [sentence.where for sentence in table] == [f"x:{i}" for i in range(1 + header, len(rows) + 1 + header)]
    for ascii_only in (False, True):
        for text in (list, " ".join):
            records = ({"t": text(words), "l": label, "more": 1} for words, label in rows)
            lines = [json.dumps(record, ensure_ascii=ascii_only) for record in records]
            sentences = read_jsonl(lines, "x", Keys(text="t", label="l"))
            assert [(sentence.words, sentence.labels) for sentence in sentences] == expected


def test_json_lines_without_labels() -> None:
    """Texts of a language model: what else an object has is not read."""
    lines = ['{"text": "a b\\n\\nc", "meta": {}}', "", '{"text": ["d"], "label": 1}', '{"text": " "}']
    read = list(read_jsonl(lines, "x", Keys(label=None)))
    assert [(sentence.words, sentence.labels, sentence.where) for sentence in read] == [
        (["a", "b", "c"], {}, "x:1"),
        (["d"], {}, "x:3"),
    ]
    with pytest.raises(DataError, match="no key 'text'"):
        list(read_jsonl(['{"content": "a"}'], "x", Keys(label=None)))


def test_json_that_readers_take_in_different_ways_is_refused() -> None:
    for line, message in [
        ('{"text": "a", "label": "x", "label": "y"}', r"not JSON \(the key 'label' twice in an object\)"),
        ('{"text": "a", "label": "x", "m": [{"k": 1, "k": 1}]}', r"not JSON \(the key 'k' twice in an object\)"),
        ('{"text": "a", "label": "\\udc00"}', "an escape of half a character"),
        ('{"text": ["\\ud800"], "label": "x"}', "an escape of half a character"),
    ]:
        with pytest.raises(DataError, match=f"x:2: {message}"):
            list(read_jsonl(["", line], "x", Keys()))


def test_white_space_is_no_part_of_a_word() -> None:
    for text, words in [
        ("good\n", ["good"]),
        ("\ta\tfine\r\nfilm\x0b", ["a", "fine", "film"]),
        ("a\u2028b\u3000c\u2009d\x85e", ["a", "b", "c", "d", "e"]),
        ("4\u00a01/2\n", ["4\u00a01/2"]),
        (["good\n", "a\tb", "2 1/2", "4\u00a0"], ["good", "a b", "2 1/2", "4\u00a0"]),
    ]:
        (sentence,) = read_jsonl([json.dumps({"text": text, "label": "pos\n"})], "x", Keys())
        assert (sentence.words, sentence.labels) == (words, {"label": "pos"})
