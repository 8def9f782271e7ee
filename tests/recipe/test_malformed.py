"""Malformed recipes are refused with positions, and never end in another error."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_recipes import FULL, message_of, read

from probtrans_cli.errors import RecipeError
from probtrans_cli.recipe import reference as recipe_reference

Change = Callable[[random.Random, list[str]], None]

JUNK = [
    "\t",
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    "- ",
    "? ",
    "&a ",
    "*a",
    "!x ",
    "'",
    '"',
    "|",
    ">",
    "%",
    "@",
    "`",
    "#",
    "---\n",
]
WRONG = [
    "fast",
    "[1]",
    "{a: 1}",
    "-1",
    "1e999",
    ".nan",
    "99999999999999999999",
    "yes",
    "010",
    "''",
    "3.7",
    "*x",
    "!!int 3",
]


def _line_with_value(chance: random.Random, lines: list[str]) -> int:
    return chance.choice([number for number, line in enumerate(lines) if re.search(r": \S", line) and line[0] != "#"])


def _wrong_value(chance: random.Random, lines: list[str]) -> None:
    number = _line_with_value(chance, lines)
    lines[number] = re.sub(r": .*", lambda _: ": " + chance.choice(WRONG), lines[number])


def _unknown_key(chance: random.Random, lines: list[str]) -> None:
    number = _line_with_value(chance, lines)
    lines[number] = re.sub(r"(\w+):", lambda found: f"{found[1]}{chance.choice('xé_')}:", lines[number], count=1)


def _twice(chance: random.Random, lines: list[str]) -> None:
    number = _line_with_value(chance, lines)
    lines.insert(number, lines[number])


def _indentation(chance: random.Random, lines: list[str]) -> None:
    number = chance.randrange(3, len(lines))
    lines[number] = " " * chance.randrange(1, 5) + lines[number]


def _tab(chance: random.Random, lines: list[str]) -> None:
    number = chance.randrange(2, len(lines))
    lines[number] = "\t" + lines[number]


def _junk(chance: random.Random, lines: list[str]) -> None:
    number = chance.randrange(len(lines))
    column = chance.randrange(len(lines[number]) + 1)
    lines[number] = lines[number][:column] + chance.choice(JUNK) + lines[number][column:]


def _characters(chance: random.Random, lines: list[str]) -> None:
    number = chance.randrange(len(lines))
    lines[number] += "".join(chr(chance.randrange(0xD000)) for _ in range(4))


def _lost_line(chance: random.Random, lines: list[str]) -> None:
    del lines[chance.randrange(len(lines))]


def _nothing_but_depth(chance: random.Random, lines: list[str]) -> None:
    lines[_line_with_value(chance, lines)] += " " + chance.choice("[{") * 10_000


CHANGES: list[Change] = [
    _wrong_value,
    _unknown_key,
    _twice,
    _indentation,
    _tab,
    _junk,
    _characters,
    _lost_line,
    _nothing_but_depth,
]


@pytest.mark.parametrize("change", CHANGES)
def test_malformed_recipes_give_positions_and_never_another_error(change: Change) -> None:
    chance = random.Random(change.__name__)
    wrong = 0
    for _ in range(60):
        lines = FULL.splitlines()
        for _ in range(chance.choice([1, 1, 2])):
            change(chance, lines)
        message = message_of("\n".join(lines))
        wrong += bool(message)
        for line in message.split("\n") if message else ():
            assert re.match(r"r\.yaml:[1-9]\d*:[1-9]\d*: ", line), line
            assert line.isprintable(), line
    assert wrong >= 25, f"only {wrong} of 60 were malformed"


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text().map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_are_refused_in_words(content: bytes) -> None:
    with pytest.raises(RecipeError, match=r"r\.yaml:\d+:\d+: "):
        read(content)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(FULL)), st.integers(0, 12), st.text("abc:{}[]-?&*!|>'\"%@`#, \n\t01.\\~<=", max_size=6))
def test_edited_recipes_are_read_or_refused(start: int, length: int, text: str) -> None:
    message = message_of(FULL[:start] + text + FULL[start + length :])
    assert re.match(r"r\.yaml:\d+:\d+: |$", message)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([".".join(path) for path, _ in recipe_reference.every_key()]), st.text())
def test_any_override_is_applied_or_refused(key: str, text: str) -> None:
    message = message_of(FULL, f"{key}={text}")
    assert re.match(r"override '|r\.yaml:\d+:\d+: |$", message)
