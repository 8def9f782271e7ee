"""The contract of every reader: sentences with their line, equal lengths, and errors that name the line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from probtrans_cli.data.readers import READERS, Reader, format_of, read_corpus
from probtrans_cli.data.readers.lines import read_text
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import FORMATS, Data, Grid


class Sample(NamedTuple):
    """A file of a format: two sentences of two words, "a b" and "c d"."""

    text: str
    lines: tuple[int, int] = (1, 2)
    """Where the two begin."""
    bad: str | None = None
    """A line that cannot be read; None = every line can."""
    blank: bool = True
    """Whether there may be blank lines between sentences."""


TREEBANK = """1\ta\t_\tDET\tDT\t_\t2\tdet\t_\t_
2\tb\t_\tNOUN\tNN\t_\t0\troot\t_\t_

1\tc\t_\tDET\tDT\t_\t2\tdet\t_\t_
2\td\t_\tNOUN\tNN\t_\t0\troot\t_\t_
"""
LABELS = (
    '{"tokens": ["%s", "%s"], "parent": [1, -1], "role": ["agent", ""], "category": ["CNOUN", "VERB"], '
    '"noun_type": ["DEF", ""], "verb_name": ["", "sleep"], "distribution": "in_distribution"}\n'
)
SAMPLES = {
    "conllu": Sample(TREEBANK, (1, 4), "1\ta"),
    "text": Sample("a b\nc d\n"),
    "columns": Sample("a X\nb Y\n\nc X\nd Y\n", (1, 4), "a"),
    "table": Sample("a b\tgood\nc d\tbad\n", bad="a b"),
    "jsonl": Sample('{"text": "a b", "label": "x"}\n{"text": ["c", "d"], "label": 1}\n', bad="{"),
    "cogs": Sample(LABELS % ("a", "b") + LABELS % ("c", "d"), bad="a b", blank=False),
    "documents": Sample("a b\n\nc d\n", (1, 3)),
    "extractions": Sample("a b [unused1]\nARG1 REL NONE\nc d [unused1]\nARG1 REL NONE\n", (1, 3), "NONE REL"),
    "coordinations": Sample("a b\nNONE NONE\n\nc d\nNONE CC\n", (1, 4), "CC"),
}


def read(reader: Reader, lines: Iterable[str]) -> list[Sentence]:
    data = Data(train="file", format=reader.format.name, grid=Grid(extra_words=[]))
    return list(reader.read(iter(list(lines)), "file", data))


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> Reader:
    return READERS[request.param]


def test_there_is_a_reader_for_every_format() -> None:
    assert {*READERS, "auto"} == {*FORMATS}
    for name, format in FORMATS.items():
        assert format.name == name
        assert format.options is None or format.options in Data.model_fields


def test_sentences_say_where_they_are(reader: Reader) -> None:
    sample = SAMPLES[reader.format.name]
    sentences = read(reader, sample.text.splitlines())
    assert [sentence.words for sentence in sentences] == [["a", "b"], ["c", "d"]]
    assert [sentence.where for sentence in sentences] == [f"file:{line}" for line in sample.lines]


def test_all_that_is_said_of_words_has_their_number(reader: Reader) -> None:
    for sentence in read(reader, SAMPLES[reader.format.name].text.splitlines()):
        said = [*sentence.tags.values(), sentence.heads, sentence.relations, sentence.parents, sentence.rows]
        said += sentence.grid or []
        assert {len(values) for values in said if values is not None} <= {2}
        assert {*sentence.tags, *sentence.labels} <= {*reader.format.columns}


def test_a_format_gives_what_it_says(reader: Reader) -> None:
    first = read(reader, SAMPLES[reader.format.name].text.splitlines())[0]
    gives = reader.format.gives
    assert ("tags" in gives) == bool({"upos", "xpos", "tag"} & {*first.tags})
    assert ("trees" in gives) == (first.heads is not None)
    assert ("graphs" in gives) == (first.parents is not None)
    assert ("extractions" in gives or "coordinations" in gives) == (first.grid is not None)
    assert ("class" in gives) == ("label" in first.labels)
    assert ("documents" in gives) == first.begins
    assert ("words" in gives) != ("documents" in gives)


def test_an_empty_file_has_no_sentence(reader: Reader) -> None:
    assert read(reader, []) == []


def test_line_ends_of_windows_change_nothing(reader: Reader) -> None:
    lines = SAMPLES[reader.format.name].text.splitlines()
    windows = read(reader, [f"{line}\r" for line in lines])
    for one, other in zip(read(reader, lines), windows, strict=True):
        assert (one.words, one.tags, one.labels, one.heads) == (other.words, other.tags, other.labels, other.heads)


def test_blank_lines_are_between_sentences(reader: Reader) -> None:
    sample = SAMPLES[reader.format.name]
    lines = ["", *sample.text.splitlines(), "", ""]
    if not sample.blank:
        with pytest.raises(DataError, match=r"^file:1: "):
            read(reader, lines)
        return
    assert [sentence.where for sentence in read(reader, lines)] == [f"file:{line + 1}" for line in sample.lines]


def test_a_bad_line_is_named(reader: Reader) -> None:
    sample = SAMPLES[reader.format.name]
    if sample.bad is None:
        assert read(reader, ["\x00 \ufffd {"])
        return
    lines = sample.text.splitlines()
    with pytest.raises(DataError, match=rf"^file:{len(lines) + 2}: "):
        read(reader, [*lines, *([""] if sample.blank else ["".join(lines[-1:])]), sample.bad])


def test_options_have_defaults(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a b\tgood\n")
    (sentence,) = read_corpus(tmp_path / "a.tsv", "table")
    assert (sentence.words, sentence.labels) == (["a", "b"], {"label": "good"})


RUNNING = {
    "text": ["{}"],
    "documents": ["{}"],
    "table": ["{}\tgood"],
    "jsonl": ['{{"text": "{}\\n", "label": "good"}}', '{{"text": "\\t{}", "label": "good"}}'],
    "extractions": [
        "{}\tfine\tfilm",
        "{}\t('fine', [1])\t('film', [2])",
        "1\t\tSimpleArgument(fine,List([6, 10)))\tRelation(film,List([11, 15)))\t{}",
        "{} [unused1]\nARG1 REL ARG2 NONE",
        '{{"words": ["4\u00a01/2", "fine", "film"], "tuples": []}}',
    ],
    "coordinations": ["{}\nNONE CC NONE", '{{"words": ["4\u00a01/2", "fine", "film"], "coordinations": []}}'],
}


@pytest.mark.parametrize("white", [" ", "  ", "\x0b", "\x0c", "\x1f", "\x85", "\u2003", "\u2028", "\u3000"])
@pytest.mark.parametrize(("format", "line"), [(format, line) for format, lines in RUNNING.items() for line in lines])
def test_words_of_running_text_are_those_of_plain_text(format: str, line: str, white: str) -> None:
    text = f"4\u00a01/2{white}fine{white}film"
    if format == "jsonl" and not white.isprintable():
        text = text.replace(white, f"\\u{ord(white):04x}")
    (sentence,) = read(READERS[format], line.format(text).split("\n"))
    assert sentence.words == ["4\u00a01/2", "fine", "film"]


# --- text, and the format of a file -----------------------------------------------------------------------------------


def test_text_is_split_at_white_space_but_not_at_no_break_space() -> None:
    sentences = list(read_text(["a  b\tc\r", "", " ", "1\u00a0000 €", "x\u3000y\u2028z"], "t"))
    assert [s.words for s in sentences] == [["a", "b", "c"], ["1\u00a0000", "€"], ["x", "y", "z"]]
    assert [s.where for s in sentences] == ["t:1", "t:4", "t:5"]
    assert sentences[0].heads is None
    assert sentences[0].lines is None
    assert [s.words for s in read_text(["a", "", "b"], "t", keep_empty=True)] == [["a"], [], ["b"]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.conllu", "conllu"), ("a.CONLLU.gz", "conllu"), ("a.conllup", "conllu"), ("a.txt", "text"), ("-", "text")],
)
def test_format_by_name(name: str, expected: str) -> None:
    assert format_of(name) == expected
    assert format_of(name, "conllu") == "conllu"


def test_reads_either_format(tmp_path: Path) -> None:
    row = "1\tHi\t_\t_\t_\t_\t0\t_\t_\t_\n"
    (tmp_path / "a.conllu").write_text(row)
    (tmp_path / "a.txt").write_text("Hi\n")
    (tmp_path / "b.txt").write_text(row)
    for name, format in (("a.conllu", "auto"), ("a.txt", "auto"), ("b.txt", "conllu")):
        (sentence,) = read_corpus(tmp_path / name, format)
        assert sentence.words == ["Hi"]
        assert sentence.where == f"{tmp_path / name}:1"
