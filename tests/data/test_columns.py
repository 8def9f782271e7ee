"""Column files: what separates columns and sentences, what is refused and where, and counts of real corpora."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import real_data
from tags import convert, spans

from probtrans_cli.data.entities import Scheme, detect
from probtrans_cli.data.files import open_lines
from probtrans_cli.data.readers.columns import read_rows
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Columns

TYPES = ("person", "location", "corporation", "product", "creative-work", "group")


def read_columns(lines: Iterable[str], name: str, **options: Any) -> Iterator[tuple[list[str], list[str], str]]:
    return ((rows.words, rows.tags, f"{name}:{rows.lines[0]}") for rows in read_rows(lines, name, Columns(**options)))


def read(text: str, **options: Any) -> list[tuple[list[str], list[str], str]]:
    return list(read_columns(text.splitlines(keepends=True), "x", **options))


def test_sentences_end_at_lines_of_white_space() -> None:
    for blank in ["\n", "\t\n", " \t \n", "\r\n", "\u00a0\n", "\n\n\t\n"]:
        text = f"{blank}Ada\tB-PER\nsings\tO\n{blank}So\tO\n"
        first = 1 + blank.count("\n")
        second = first + 2 + blank.count("\n")
        expected = [(["Ada", "sings"], ["B-PER", "O"], f"x:{first}"), (["So"], ["O"], f"x:{second}")]
        assert read(text) == expected
        assert read(text + blank) == expected


def test_what_separates_columns() -> None:
    for line, options, expected in [
        ("Ada\tB-PER", {}, ("Ada", "B-PER")),
        ("Ada B-PER", {}, ("Ada", "B-PER")),
        ("  Ada   NNP  B-PER ", {}, ("Ada", "B-PER")),
        ("2 1/2\tCD\tO", {}, ("2 1/2", "O")),
        ("Ada \t\t B-PER", {}, ("Ada", "B-PER")),
        ("1\tAda\tB-PER\t_", {"word": 1, "tag": 2}, ("Ada", "B-PER")),
        ("B-PER\tAda", {"word": -1, "tag": -2}, ("Ada", "B-PER")),
        ("a,b\tO", {"separator": ","}, ("a", "b\tO")),
        ("a b | O", {"separator": "|"}, ("a b", "O")),
        ("1\u00a0000 O", {}, ("1\u00a0000", "O")),
        ("a\u200bb\ufeff O", {}, ("a\u200bb\ufeff", "O")),
        ("\u200b\tO", {}, ("\u200b", "O")),
        ("# O", {}, ("#", "O")),
        ("#tag O\r", {}, ("#tag", "O")),
        ("# O", {"comments": "# id"}, ("#", "O")),
        ("Ada\tB-PER\r\r\n", {}, ("Ada", "B-PER")),
        ("Ada\tB-PER\t", {"entities": "iob2"}, ("Ada", "B-PER")),
        ("Ada\tNNP\tB-PER\t \t", {"entities": "iob2"}, ("Ada", "B-PER")),
        ("Ada\tB-PER\t", {"word": 0, "tag": 1}, ("Ada", "B-PER")),
    ]:
        assert list(read_columns([line], "x", **options)) == [([expected[0]], [expected[1]], "x:1")]


def test_document_lines_are_no_words_and_end_a_sentence() -> None:
    text = "-DOCSTART- -X- O\n\na O\n-DOCSTART-\nb O\n\n-DOCSTART- O\nc O\nd O\n"
    assert read(text) == [(["a"], ["O"], "x:3"), (["b"], ["O"], "x:5"), (["c", "d"], ["O", "O"], "x:8")]
    assert read("-DOCSTART- O\n\n") == read("") == read("\n \n") == []


def test_refused_lines_are_named() -> None:
    for line, options, message in [
        ("b", {}, r"1 column, so that the word \(column 0\) and the tag \(column -1\) are the same"),
        ("b O", {"tag": -2}, r"2 columns, so that the word \(column 0\) and the tag \(column -2\) are the same"),
        ("b", {"tag": 1}, "1 column, but the tag is column 1"),
        ("b NN O", {"tag": 3}, "3 columns, but the tag is column 3"),
        ("b O", {"word": -3}, "2 columns, but the word is column -3"),
        ("b\t", {}, r"the tag \(column -1 of 2\) is empty"),
        ("\tO", {}, r"the word \(column 0 of 2\) is empty"),
        ("b\t \tO", {"tag": 1}, r"the tag \(column 1 of 3\) is empty"),
        ("b\tO", {"separator": ","}, "1 column, so that"),
        ("b\tNN\t", {}, r"the tag \(column -1 of 3\) is empty"),
    ]:
        lines = ["", f"a{options.get('separator', ' ')}O", line]
        if "tag" in options or "word" in options:
            lines[1] = ""
        with pytest.raises(DataError, match=f"^x:3: {message}") as caught:
            list(read_columns(lines, "x", **options))
        assert "columns count from 0" in (caught.value.hint or "")
        assert repr(options.get("separator", "tabs"))[1:-1] in (caught.value.hint or "")


@given(
    st.lists(st.lists(st.tuples(*[st.text("aB#-é\u00a0\u200b\u2028\x85", min_size=1)] * 2), min_size=1), max_size=4),
    st.sampled_from(["\t", " ", "   "]),
    st.lists(st.sampled_from(["", "\t", " ", "\r"]), min_size=1, max_size=3),
)
def test_what_is_written_is_read(sentences: list[list[tuple[str, ...]]], between: str, blank: list[str]) -> None:
    # A line of no-break spaces and the like alone would be blank.
    sentences = [[(f"w{word}", tag) for word, tag in sentence] for sentence in sentences]
    lines = [line for sentence in sentences for line in [*map(between.join, sentence), *blank]]
    again = list(read_columns(lines, "x"))
    assert [list(zip(words, tags, strict=True)) for words, tags, _ in again] == sentences
    assert all(lines[int(where.removeprefix("x:")) - 1].startswith(words[0]) for words, _, where in again)


def test_sentences_are_yielded_as_soon_as_they_end() -> None:
    reader = read_columns(iter(["a O", "", "b"]), "x")
    assert next(reader) == (["a"], ["O"], "x:1")
    with pytest.raises(DataError, match=r"^x:3: "):
        next(reader)


def test_lines_of_other_columns_are_refused() -> None:
    """As by conlleval: the word, or the tag, would be another one than is meant."""
    for text, line, fault in [
        ("a O\nWORK OF ART B-X\n", 2, "4 columns, but line 1 has 2"),
        ("a NN O\nb O\n", 2, "2 columns, but line 1 has 3"),
        ("a\tO\n\nb\tNN\tO\n", 3, "3 columns, but line 1 has 2"),
    ]:
        with pytest.raises(DataError, match=f"^x:{line}: {fault}$") as caught:
            read(text)
        assert "comments" not in (caught.value.hint or "")


def test_lines_that_end_in_returns_alone_are_refused() -> None:
    """Else the whole file would be one word with the last tag."""
    for line in ("a O\rb X\r", "a\tO\rb\tX", "\ra O"):
        with pytest.raises(DataError, match=r"^x:2: a line end \\r within the line$"):
            list(read_columns(["", line], "x"))


def test_the_error_for_a_line_that_begins_with_a_hash_names_the_key() -> None:
    for text in ["# id 7 en\na _ O\n", "a _ O\n\n# id 7 en\nb _ O\n", "# id\nb _ O", "#\nb O", "a\tO\n#\t7 x\tO\tO"]:
        with pytest.raises(DataError, match=r"^x:") as caught:
            read(text)
        assert 'data.columns.comments="# "' in (caught.value.hint or "")


def test_comments() -> None:
    text = "# id 1\nAda\tB-X\n# within\nsings\tO\n#\n\n#\thttp://x [2009]\n# y\n\n#tag\tO\n"
    assert read(text, comments="# ") == [(["Ada", "sings"], ["B-X", "O"], "x:2"), (["#tag"], ["O"], "x:10")]
    lines = [rows.lines for rows in read_rows(text.splitlines(), "x", Columns(comments="# "))]
    assert lines == [[2, 4], [10]]
    (uner,) = read("# sent_id = 1\n# text = Ada O\n1\tAda\tB-PER\t-\t-\n2\t#\tO\t-\t-\n", word=1, tag=2, comments="# ")
    assert uner == (["Ada", "#"], ["B-PER", "O"], "x:3")


def test_a_comment_that_can_be_a_word_is_refused() -> None:
    for text in ["a O\n# O\n", "# O\na O\n", "# x\n\n# O\n# O\n\na B-X\nb O\n"]:
        number = 1 + text.split("\n").index("# O")
        with pytest.raises(
            DataError, match=f"^x:{number}: begins with '# ' as comments do, but has .* the tag 'O' of a word"
        ):
            read(text, comments="# ")
        assert len(read(text.replace("# x\n\n", ""))) > 0


# --- real corpora: counts as published --------------------------------------------------------------------------------


def corpus(path: str) -> list[tuple[list[str], list[str], str]]:
    return list(read_columns(open_lines(real_data(path)), path))


def check(sentences: list[tuple[list[str], list[str], str]], scheme: Scheme) -> tuple[int, int, dict[str, int]]:
    """Number of sentences, of words and of entities by type."""
    assert detect(tags for _, tags, _ in sentences) == scheme
    assert all(convert(convert(tags, scheme, "bioes"), "bioes", scheme) == tags for _, tags, _ in sentences)
    counts = Counter(span.type for _, tags, _ in sentences for span in spans(tags, scheme))
    return len(sentences), sum(len(words) for words, _, _ in sentences), dict(counts)


def test_counts_of_wnut17() -> None:
    for split, sentences, words, entities in [
        ("train", 3394, 62730, (660, 548, 221, 142, 140, 264)),
        ("dev", 1009, 15733, (470, 74, 34, 114, 105, 39)),
        ("test", 1287, 23394, (429, 150, 66, 127, 142, 165)),
    ]:
        read_sentences = corpus(f"ner/wnut17/{split}.conll")
        assert check(read_sentences, "iob2") == (sentences, words, dict(zip(TYPES, entities, strict=True)))
        every_word = [word for words, _, _ in read_sentences for word in words]
        odd = {"train": 0, "dev": 2, "test": 0}[split]
        assert sum("\u200b" in word or "\ufeff" in word for word in every_word) == odd


def test_counts_of_wikigold() -> None:
    counts = check(corpus("ner/wikigold/all.conll"), "iob1")
    assert counts == (1696, 39007, {"PER": 934, "LOC": 1014, "ORG": 898, "MISC": 712})
