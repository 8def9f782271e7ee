"""The tokeniser of raw text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.tokens import tokenize

TEXTS = [
    ("Hello, world!", "Hello , world !"),
    ('He said: "No."', 'He said : " No . "'),
    ("It's the dogs' bone; they'll see.", "It 's the dogs ' bone ; they 'll see ."),
    ("can't won't I'm you’re", "ca n't wo n't I 'm you ’re"),
    ("Mr. Smith of the U.S. paid $5.50 (or 3,000 yen).", "Mr. Smith of the U.S. paid $ 5.50 ( or 3,000 yen ) ."),
    ("Wait... what?!", "Wait ... what ? !"),
    ("", ""),
    ("  \t ", ""),
]


@pytest.mark.parametrize(("text", "tokens"), TEXTS)
def test_tokenize(text: str, tokens: str) -> None:
    assert tokenize(text) == tokens.split()


@pytest.mark.parametrize(
    "text", ["the goats do n't sleep .", "<unk> and <mask> ...", "He 's here , is n't he ?", ":-) !!!"]
)
def test_tokenised_text_stays(text: str) -> None:
    assert tokenize(text) == text.split()


@given(st.text())
def test_tokenising_loses_nothing_and_ends(text: str) -> None:
    tokens = tokenize(text)
    assert "".join(tokens) == "".join(text.split())
    assert all(tokens)
