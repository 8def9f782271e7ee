"""Tables and JSON lines: the words of a sentence and its label."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.readers.lines import read_jsonl, read_table
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Keys, Table

plain = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.split() == [text])


@given(st.lists(st.tuples(st.lists(plain, min_size=1, max_size=4), plain), max_size=4), st.booleans(), st.booleans())
def test_tables_and_json_lines_say_the_same(rows: list[tuple[list[str], str]], turned: bool, header: bool) -> None:
    columns = [(label, " ".join(text)) if turned else (" ".join(text), label) for text, label in rows]
    lines = ["some\theader"] * header + ["\t".join(one) + "\r" for one in columns]
    table = list(read_table(lines, "x", Table(text=int(turned), label=int(not turned), header=header)))
    assert [(one.words, one.labels) for one in table] == [(text, {"label": label.strip()}) for text, label in rows]
    assert [one.where for one in table] == [f"x:{i}" for i in range(1 + header, len(rows) + 1 + header)]
    for ascii_only in (False, True):
        for text in (list, " ".join):
            records = [
                json.dumps({"t": text(one), "l": label, "more": 1}, ensure_ascii=ascii_only) for one, label in rows
            ]
            found = list(read_jsonl(records, "x", Keys(text="t", label="l")))
            assert [(one.words, one.labels) for one in found] == [(one.words, one.labels) for one in table]


def test_no_break_spaces_stay_inside_of_words() -> None:
    (one,) = read_table(["4\u00a0 1/2\u00a0miles\tgood"], "x", Table())
    assert one.words == ["4\u00a0", "1/2\u00a0miles"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("good\n", ["good"]),
        ("\ta\tfine\r\nfilm\x0b", ["a", "fine", "film"]),
        ("a\u2028b\u3000c\u2009d\x85e", ["a", "b", "c", "d", "e"]),
        ("4\u00a01/2\n", ["4\u00a01/2"]),
        (["good\n", "a\tb", "2 1/2", "4\u00a0"], ["good", "a b", "2 1/2", "4\u00a0"]),
    ],
)
def test_white_space_is_no_part_of_a_word(text: str | list[str], words: list[str]) -> None:
    (one,) = read_jsonl([json.dumps({"text": text, "label": "pos\n"})], "x", Keys())
    assert (one.words, one.labels) == (words, {"label": "pos"})


@pytest.mark.parametrize("line", ['{"text": "a", "label": "\\udc00"}', '{"text": ["\\ud800"], "label": "x"}'])
def test_halves_of_characters_are_refused(line: str) -> None:
    with pytest.raises(DataError, match="x:2: an escape of half a character"):
        list(read_jsonl(["", line], "x", Keys()))
