"""Files to sentences: the contract of every reader, and what files are by their names and their content."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import NamedTuple

import pytest
from small_treebank import TRAIN, recipe
from support import Stdin

from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.data.readers import READERS, Reader, format_of, read_corpus
from probtrans_cli.data.readers.appearance import Appearance, appearance, begins_as_conllu, look_ahead, watched
from probtrans_cli.data.readers.conllu import COLUMNS
from probtrans_cli.data.readers.lines import read_text
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.streams import appearances
from probtrans_cli.errors import DataError
from probtrans_cli.openie.label_rows import grid_format
from probtrans_cli.recipe.data import FORMATS, Data, Grid


class Sample(NamedTuple):
    """A file of a format: two sentences of two words, "a b" and "c d"."""

    text: str
    lines: tuple[int, int] = (1, 2)  # where the two begin
    bad: str | None = None  # a line that cannot be read; None = every line can
    blank: bool = True  # whether there may be blank lines between sentences


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
    "treebank": Sample(TREEBANK, (1, 4), "1\ta"),
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


def test_there_is_a_reader_for_every_format(tmp_path: Path) -> None:
    assert {*READERS, "auto"} == {*FORMATS}
    for name, format in FORMATS.items():
        assert format.name == name
        assert format.options is None or format.options in Data.model_fields
    (tmp_path / "a.tsv").write_text("a b\tgood\n")  # options have defaults
    (sentence,) = read_corpus(tmp_path / "a.tsv", "table")
    assert (sentence.words, sentence.labels) == (["a", "b"], {"label": "good"})


def test_sentences_say_where_they_are_and_have_what_the_format_says(reader: Reader) -> None:
    sample, gives = SAMPLES[reader.format.name], reader.format.gives
    lines = sample.text.splitlines()
    sentences = read(reader, lines)
    assert [sentence.words for sentence in sentences] == [["a", "b"], ["c", "d"]]
    assert [sentence.where for sentence in sentences] == [f"file:{line}" for line in sample.lines]
    for sentence in sentences:
        columns = [*sentence.tags.values(), sentence.heads, sentence.relations, sentence.parents, sentence.rows]
        columns += sentence.grid or []
        assert {len(values) for values in columns if values is not None} <= {2}
        assert {*sentence.tags, *sentence.labels} <= {*reader.format.columns}
    first = sentences[0]
    assert ("tags" in gives) == bool({"upos", "xpos", "tag"} & {*first.tags})
    assert ("trees" in gives) == (first.heads is not None)
    assert ("graphs" in gives or "parses" in gives) == (first.parents is not None)
    assert ("extractions" in gives or "coordinations" in gives) == (first.grid is not None)
    assert ("class" in gives) == ("label" in first.labels)
    assert ("documents" in gives) == first.begins
    assert ("words" in gives) != ("documents" in gives)
    windows = read(reader, [f"{line}\r" for line in lines])
    assert [(s.words, s.tags, s.labels, s.heads) for s in windows] == [
        (s.words, s.tags, s.labels, s.heads) for s in sentences
    ]


def test_blank_and_bad_lines(reader: Reader) -> None:
    assert read(reader, []) == []
    sample = SAMPLES[reader.format.name]
    lines = sample.text.splitlines()
    if sample.blank:
        sentences = read(reader, ["", *lines, "", ""])
        assert [sentence.where for sentence in sentences] == [f"file:{line + 1}" for line in sample.lines]
    else:
        with pytest.raises(DataError, match=r"^file:1: "):
            read(reader, ["", *lines])
    if sample.bad is None:
        assert read(reader, ["\x00 \ufffd {"])
        return
    with pytest.raises(DataError, match=rf"^file:{len(lines) + 2}: "):
        read(reader, [*lines, *([""] if sample.blank else ["".join(lines[-1:])]), sample.bad])


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


def test_words_of_running_text_are_those_of_plain_text() -> None:
    for white in (" ", "  ", "\x0b", "\x0c", "\x1f", "\x85", "\u2003", "\u2028", "\u3000"):
        for format, line in [(format, line) for format, lines in RUNNING.items() for line in lines]:
            text = f"4\u00a01/2{white}fine{white}film"
            if format == "jsonl" and not white.isprintable():
                text = text.replace(white, f"\\u{ord(white):04x}")
            (sentence,) = read(READERS[format], line.format(text).split("\n"))
            assert sentence.words == ["4\u00a01/2", "fine", "film"], (format, line, white)


def test_text_is_split_at_white_space_but_not_at_no_break_space() -> None:
    sentences = list(read_text(["a  b\tc\r", "", " ", "1\u00a0000 €", "x\u3000y\u2028z"], "t"))
    assert [s.words for s in sentences] == [["a", "b", "c"], ["1\u00a0000", "€"], ["x", "y", "z"]]
    assert [s.where for s in sentences] == ["t:1", "t:4", "t:5"]
    assert sentences[0].heads is None
    assert sentences[0].lines is None
    assert [s.words for s in read_text(["a", "", "b"], "t", keep_empty=True)] == [["a"], [], ["b"]]


# --- the format of a file ---------------------------------------------------------------------------------------------


def test_format_by_name(tmp_path: Path) -> None:
    for name, expected in [
        ("a.conllu", "conllu"), ("a.CONLLU.gz", "conllu"), ("a.conllup", "conllu"), ("a.txt", "text"), ("-", "text")
    ]:  # fmt: skip
        assert format_of(name) == expected
        assert format_of(name, "conllu") == "conllu"
    (tmp_path / "a.txt").write_text("Hi\n")
    (tmp_path / "b.txt").write_text(f"{ROW}\n")
    for name, format, words in (("a.txt", "auto", ["Hi"]), ("b.txt", "conllu", ["de"])):
        (sentence,) = read_corpus(tmp_path / name, format)
        assert (sentence.words, sentence.where) == (words, f"{tmp_path / name}:1")


ROW = "1\tde\tde\tDET\t_\t_\t0\troot\t_\t_"
NINE = "1\tEl\tel\tel\td\td\tgen=m\tgen=m\t2\t2\tspec\tspec\t_\t_\t_"  # CoNLL-2009
PLUS = ["# global.columns = " + " ".join(COLUMNS) + " PARSEME:MWE", f"{ROW}\t*"]
LOOKS: list[tuple[str, list[str], Appearance]] = [
    ("a row", [ROW], "conllu"),
    ("blank lines and comments", ["", "# x", "#", ROW], "conllu"),
    ("windows", [ROW + "\r", "\r"], "conllu"),
    ("a range", ["1-1\tdu" + "\t_" * 8, ROW], "conllu"),
    ("no numbers", ["_" + ROW[1:]], "conllu"),
    ("a comment of UD", ["# sent_id = 1"], "conllu"),
    ("CoNLL-U Plus", PLUS, "conllu"),
    ("cupt without its comment", PLUS[1:], "conllu"),
    ("CoNLL-2009", [NINE, NINE], "conllu"),
    ("spaces", [ROW.replace("\t", " ")], "conllu"),
    ("aligned with spaces", [ROW.replace("\t", "   ")], "conllu"),
    ("five columns", ["1\tde\tDET\t2\tdet", "2\tman\tNOUN\t0\troot"], "columns"),
    ("a table", ["good film\t1", "bad film\t0"], "columns"),
    ("CoNLL-2003", ["-DOCSTART- -X- O O", "", "EU NNP I-NP I-ORG"], "columns"),
    ("entities", ["EU B-ORG", "rejects O", "German B-MISC", "call O", ". O", "", "Peter B-PER"], "columns"),
    ("JSON lines", ['{"text": "a b", "label": 1}'], "jsonl"),
    ("JSON, a list", ["[", ' {"text": "a b"},'], "jsonl"),
    ("JSON, a list in a line", ['[{"text": "a b"}, {"text": "c"}]'], "jsonl"),
    ("JSON, indented", ["{", ' "text": "a b"'], "jsonl"),
    ("CSV", ["text,label", *['"so, it is fine",pos', "dull,neg"] * 4], "columns"),
    ("CSV with semicolons", ["fine; dull; so so;2", *["a;b;c;1", "d;e;f;2"] * 3], "columns"),
    ("entities, the tag first", ["B-ORG EU", "O rejects", "B-MISC German", "O call", "O ."], "columns"),
    ("CoNLL-2012", ["#begin document (a); part 000", *["a/b  0  0  It  PRP  (NP*  -  -  *  -"] * 5], "columns"),
    ("a page", ["", "<!doctype HTML>", "<body>"], "markup"),
    ("a feed", ['<?xml version="1.0"?>', "<a>"], "markup"),
    ("UTF-16", ["t\0w\0o\0", "\0"], "bytes"),
    ("nothing", [], "text"),
    ("blank", ["", " ", "\r"], "text"),
    ("text", ["two farmers sleep .", "so they do ."], "text"),
    ("numbered", ["1 dog and 3 cats with 7 kittens are here", "2 dogs"], "text"),
    ("a tab", ["a\tb", "c d"], "text"),
    ("a bracket", ["{so they say}", "{ }{"], "text"),
    ("a tag", ["#winning is all", "O"], "text"),
    ("a comma a line", [f"{a}, so they {b} ." for a, b in zip("abcdef", "uvwxyz", strict=True)], "text"),
    ("words in a row", ["yes , no"] * 5 + ["no - yes"], "text"),
    ("marks", ["[so]", "{", "so", "}"], "text"),
    ("a row behind text", ["two farmers", ROW], "text"),
]


def test_what_lines_look_like() -> None:
    for lines, expected in [look[1:] for look in LOOKS]:
        assert appearance(lines) == expected
        is_conllu, every = look_ahead(lines)
        assert is_conllu == (expected == "conllu")
        assert list(every) == lines


def test_no_more_is_read_than_tells_it() -> None:
    def endless() -> Iterator[str]:
        yield from ("", "# x", "two farmers")
        raise AssertionError("read on")

    assert next(look_ahead(endless())[1]) == ""
    assert appearance(repeat("# a comment" * 1000)) == "text"
    assert appearance(chain(repeat("a", 10**6))) == "text"


def test_lines_that_are_watched_do_not_wait() -> None:
    warnings: list[Appearance] = []
    lines = watched([ROW, ROW], warnings.append)
    assert [next(lines), next(lines), warnings] == [ROW, ROW, []]
    assert (next(lines, None), warnings) == (None, ["conllu"])
    assert list(watched(["a"] * 300, warnings.append)) == ["a"] * 300
    assert warnings == ["conllu"]


def test_a_file_of_any_name(tmp_path: Path) -> None:
    for name in ("a.conll", "a.txt", "a.conllu.txt", "a", "a.cupt", "a.tsv", "a.conll.gz"):
        path, content = tmp_path / name, f"{ROW}\n".encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        assert format_of(path) == "conllu"
        assert [sentence.words for sentence in read_corpus(path)] == [["de"]]
        assert format_of(path, "text") == "text"
    (tmp_path / "b.gz").write_bytes(b"rubbish")
    (tmp_path / "b").write_bytes(b"\xff\n")
    for name in ("b.gz", "b", "none", "."):  # cannot be looked at, and are text for now
        assert format_of(tmp_path / name) == "text"


def test_columns_of_cupt(tmp_path: Path) -> None:
    path = tmp_path / "a.cupt"
    path.write_text("\n".join([*PLUS, ""]))
    (sentence,) = read_corpus(path)
    assert sentence.tags["upos"] == ["DET"]
    assert (sentence.lines or [])[1] == f"{ROW[:-1]}PARSEME:MWE=*"
    (tmp_path / "a.txt").write_text(NINE)
    with pytest.raises(DataError, match=r"a.txt:1: 15 columns instead of 10") as caught:
        list(read_corpus(tmp_path / "a.txt"))
    assert "data.format=text" in (caught.value.hint or "")
    assert begins_as_conllu(PLUS)[0]
    assert grid_format(PLUS)[0] == "coordinations"


# --- what is told -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("corpus")
def test_a_treebank_of_another_name_is_read_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.conll", "b.txt"):
        Path(name).write_text(TRAIN, "utf-8")
    made = prepare(recipe(train=["a.conll", "b.txt"]))
    assert made.labels["upos"][0] == "DET"
    err = capsys.readouterr().err
    assert "a.conll, b.txt: read as CoNLL-U, as the content looks so" in err
    assert not prepare(recipe(train=["a.conll", "b.txt"])).fresh
    prepare(recipe(train="a.conll", format="conllu"))
    assert "a.conll: read as" not in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.usefixtures("corpus")
def test_what_is_read_as_text_and_does_not_look_so(capsys: pytest.CaptureFixture[str]) -> None:
    for content, form, kind in [
        (TRAIN, "text", "CoNLL-U"),
        ("a\t1\nb\t0\n", "auto", "rows of columns"),
        ('{"text": "a"}\n', "auto", "JSON"),
        ("<!DOCTYPE html>\n<html>\n", "auto", "HTML or XML"),
        ("t\0w\0o\0\n", "text", "UTF-16 or no text at all"),
        ("two farmers\rsing\rthey work\r", "auto", "lines that end in \\r alone"),
        ("two farmers\rsing\r", "text", "lines that end in \\r alone"),
    ]:
        Path("a.txt").write_text(content, "utf-8")
        made = prepare(recipe(train="a.txt", dev=None, format=form))
        assert not made.labels["upos"]
        warning = f"warning: a.txt: looks like {kind}, but each line is read as a sentence: if that is not meant, "
        assert warning in capsys.readouterr().err


@pytest.mark.usefixtures("corpus")
def test_a_treebank_from_standard_input(stdin: Stdin, capsys: pytest.CaptureFixture[str]) -> None:
    stdin(TRAIN.encode())
    assert prepare(recipe(train="-", dev=None)).labels["upos"][0] == "DET"
    assert "<stdin>: read as CoNLL-U" in capsys.readouterr().err


@pytest.mark.usefixtures("corpus")
def test_a_folder_that_was_prepared_as_text_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As earlier versions did."""
    Path("a.conll").write_text(TRAIN, "utf-8")
    with monkeypatch.context() as patch:
        patch.setattr("probtrans_cli.data.readers.appearance_of", lambda path: "text")
        assert not prepare(recipe(train="a.conll")).labels["upos"]
    made = prepare(recipe(train="a.conll"))
    assert (made.fresh, made.labels["upos"][0]) == (True, "DET")


def test_what_is_told_before_parsing_in_bulk(tmp_path: Path) -> None:
    for name, content in (("a.txt", f"{ROW}\n"), ("b.txt", "a\tb\nc\td\n"), ("c.txt", "two goats\n")):
        (tmp_path / name).write_text(content, "utf-8")
    paths = [str(tmp_path / name) for name in ("a.txt", "b.txt", "c.txt", "none.txt")]
    for form, named in (("auto", ["b"]), ("text", ["a", "b"]), ("tokens", ["a", "b"]), ("conllu", [])):
        assert [line.partition(".txt")[0][-1] for line in appearances(paths, form)] == named
