"""What files are by their content, where their names do not say it; and what is told of those that are read as text."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest
from small_treebank import TRAIN, recipe
from support import Stdin

from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.data.readers import format_of, read_corpus
from probtrans_cli.data.readers.appearance import Appearance, appearance, begins_as_conllu, look_ahead, watched
from probtrans_cli.data.readers.conllu import COLUMNS
from probtrans_cli.data.streams import appearances
from probtrans_cli.errors import DataError
from probtrans_cli.openie.label_rows import grid_format

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
    ("nothing", [], "text"),
    ("blank", ["", " ", "\r"], "text"),
    ("text", ["two farmers sleep .", "so they do ."], "text"),
    ("numbered", ["1 dog and 3 cats with 7 kittens are here", "2 dogs"], "text"),
    ("a tab", ["a\tb", "c d"], "text"),
    ("a bracket", ["{so they say}", "{ }{"], "text"),
    ("a tag", ["#winning is all", "O"], "text"),
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
    told: list[Appearance] = []
    lines = watched([ROW, ROW], told.append)
    assert [next(lines), next(lines), told] == [ROW, ROW, []]
    assert (next(lines, None), told) == (None, ["conllu"])
    assert list(watched(["a"] * 300, told.append)) == ["a"] * 300
    assert told == ["conllu"]


NAMES = ["a.conll", "a.txt", "a.conllu.txt", "a", "a.cupt", "a.tsv", "a.conll.gz"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    content = f"{ROW}\n".encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert format_of(path) == "conllu"
    assert [one.words for one in read_corpus(path)] == [["de"]]
    assert format_of(path, "text") == "text"


def test_files_that_cannot_be_looked_at_are_text_for_now(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"rubbish")
    (tmp_path / "b").write_bytes(b"\xff\n")
    for name in ("a.gz", "b", "none", "."):
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


def test_coordinations_of_conllu_plus() -> None:
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
@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (TRAIN, {"format": "text"}, "looks like CoNLL-U, but each line is read as a sentence: if that is not meant, "),
        ("a\t1\nb\t0\n", {}, "looks like rows of columns, but each line is read as a sentence"),
        ('{"text": "a"}\n', {}, "looks like JSON lines, but each line is read as a sentence"),
    ],
)
def test_what_is_read_as_text_and_does_not_look_so(
    content: str, options: dict[str, str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.txt").write_text(content, "utf-8")
    made = prepare(recipe(train="a.txt", dev=None, **options))
    assert not made.labels["upos"]
    assert f"warning: a.txt: {expected}" in capsys.readouterr().err


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
    for form, told in (("auto", ["b"]), ("text", ["a", "b"]), ("tokens", ["a", "b"]), ("conllu", [])):
        assert [line.partition(".txt")[0][-1] for line in appearances(paths, form)] == told
