"""Text made safe to show: what is hidden is escaped, what is long is cut, in a picture and in a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.text import escaped, first_of, harmless, printable, visible


@given(st.text(max_size=30), st.integers(1, 30))
def test_a_message_shows_what_is_printable_and_escapes_the_rest(text: str, longest: int) -> None:
    shown = printable(text, longest)
    assert shown.isprintable()
    if len(text) <= longest:
        assert shown == "".join(character if character.isprintable() else escaped(character) for character in text)
    else:
        assert shown == printable(text[: longest - 1]) + "…"


@pytest.mark.parametrize(
    ("text", "in_picture", "in_message"),
    [
        ("", "∅", ""),
        ("a\u00a0b", "a\u00a0b", "a\\xa0b"),
        ("می\u200cروم", "می\u200cروم", "می\\u200cروم"),
        ("\u0301", "\u25cc\u0301", "\u0301"),
        ("\x1b[31m", "\\x1b[31m", "\\x1b[31m"),
    ],
)
def test_pictures_keep_what_spells_a_word_and_messages_do_not(text: str, in_picture: str, in_message: str) -> None:
    assert (visible(text), printable(text)) == (in_picture, in_message)


def test_the_first_of_many_names() -> None:
    assert first_of(["a", "b\n"]) == "a, b\\x0a"
    assert first_of([str(i) for i in range(1009)]) == "0, 1, 2, 3, 4, and 1,004 more"


@given(st.text())
def test_harmless_text_is_escaped_where_a_picture_escapes_it(text: str) -> None:
    assert harmless(text, keep="") == "".join(visible("a" + character)[1:] for character in text)
    assert harmless(text) == "\n".join(harmless(line, keep="") for line in text.split("\n"))


def test_harmless_text_of_any_length_is_whole() -> None:
    assert harmless("می\u200cروم\u00a0ab" * 1000) == "می\u200cروم\u00a0ab" * 1000
    assert harmless("\x1b]0;a\x07\t\n\u202e\x9b\ud800") == "\\x1b]0;a\\x07\\x09\n\\u202e\\x9b\\ud800"
