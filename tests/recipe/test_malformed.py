"""Malformed recipes are refused with positions, and never end in another error."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_recipes import FULL, message_of, read

from probtrans_cli.errors import RecipeError
from probtrans_cli.recipe import reference as recipe_reference

JUNK = ["\t", *"{}[]:'\"|>%@`#", ": ", "- ", "? ", "&a ", "*a", "!x ", "---\n"]
WRONG = [
    "fast", "[1]", "{a: 1}", "-1", "1e999", ".nan", "99999999999999999999", "yes", "010", "''", "3.7", "*x", "!!int 3",
]  # fmt: skip


def changed(change: str, chance: random.Random, lines: list[str]) -> list[str]:
    """The lines of a recipe with one fault more."""
    with_value = [number for number, line in enumerate(lines) if re.search(r": \S", line) and line[0] != "#"]
    number = chance.choice(with_value)
    line = lines[number]
    column = chance.randrange(len(line) + 1)
    lines = list(lines)
    lines[number] = {
        "wrong value": re.sub(r": .*", lambda _: ": " + chance.choice(WRONG), line),
        "unknown key": re.sub(r"(\w+):", lambda key: f"{key[1]}{chance.choice('xé_')}:", line, count=1),
        "twice": f"{line}\n{line}",
        "indentation": " " * chance.randrange(1, 5) + line,
        "tab": "\t" + line,
        "junk": line[:column] + chance.choice(JUNK) + line[column:],
        "characters": line + "".join(chr(chance.randrange(0xD000)) for _ in range(4)),
        "lost line": "",
        "nothing but depth": line + " " + chance.choice("[{") * 10_000,
    }[change]
    return "\n".join(lines).split("\n")


def test_malformed_recipes_give_positions_and_never_another_error() -> None:
    faults = "wrong value|unknown key|twice|indentation|tab|junk|characters|lost line|nothing but depth"
    for change in faults.split("|"):
        chance, wrong = random.Random(change), 0
        for _ in range(40):
            lines = FULL.splitlines()
            for _ in range(chance.choice([1, 1, 2])):
                lines = changed(change, chance, lines)
            message = message_of("\n".join(lines))
            wrong += bool(message)
            for line in message.split("\n") if message else ():
                assert re.match(r"r\.yaml:[1-9]\d*:[1-9]\d*: ", line), line
                assert line.isprintable(), line
        assert wrong >= (8 if change == "lost line" else 15), f"{change}: only {wrong} of 40 were malformed"


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text().map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_are_refused_in_words(content: bytes) -> None:
    with pytest.raises(RecipeError, match=r"r\.yaml:\d+:\d+: "):
        read(content)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(FULL)), st.integers(0, 12), st.text("abc:{}[]-?&*!|>'\"%@`#, \n\t01.\\~<=", max_size=6))
def test_edited_recipes_are_read_or_refused(start: int, length: int, text: str) -> None:
    message = message_of(FULL[:start] + text + FULL[start + length :])
    assert re.match(r"r\.yaml:\d+:\d+: |$", message)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([".".join(path) for path, _ in recipe_reference.every_key()]), st.text())
def test_any_override_is_applied_or_refused(key: str, text: str) -> None:
    message = message_of(FULL, f"{key}={text}")
    assert re.match(r"override '|r\.yaml:\d+:\d+: |$", message)
