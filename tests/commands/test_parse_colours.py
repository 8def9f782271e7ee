"""Colours of bars: on a terminal that shows them, and nowhere else."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from probtrans_cli.commands.parse import ParseRequest, parse

pytestmark = pytest.mark.usefixtures("quick")
COLOUR = re.compile("\x1b\\[[0-9]+m")


class Screen(io.StringIO):
    """A standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(extractors: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    """What `parse -f tree --trees no` sends to a screen of a kind, for a text."""

    def parsed(text: str, screen: io.StringIO, form: str = "tree", **environment: str) -> str:
        file = tmp_path / "text"
        file.write_text(text + "\n", encoding="utf-8")
        for name in ("NO_COLOR", "TERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stdout", screen)
        parse(ParseRequest(str(extractors / "runs/tuples"), [str(file)], format=form, trees=False))
        return screen.getvalue()

    return parsed


TEXT = "Goats eat grass in May ."


def test_bars_have_colours_on_a_terminal(shown: object) -> None:
    plain = shown(TEXT, io.StringIO(), TERM="xterm")  # type: ignore[operator]
    coloured = shown(TEXT, Screen(), TERM="xterm")  # type: ignore[operator]
    assert not COLOUR.search(plain)
    assert len(set(COLOUR.findall(coloured))) == 4
    assert COLOUR.sub("", coloured) == plain
    assert "arg1" in plain
    assert "rel" in plain


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}, {}], ids=str)
def test_bars_have_none_where_they_are_not_wanted(shown: object, environment: dict[str, str]) -> None:
    plain = shown(TEXT, io.StringIO(), TERM="xterm")  # type: ignore[operator]
    assert shown(TEXT, Screen(), **environment) == plain  # type: ignore[operator]


@pytest.mark.parametrize("form", ["tree", "text", "tuples", "jsonl", "conllu"])
def test_no_word_can_colour_anything(shown: object, form: str) -> None:
    evil = "Goats\x1b[31m eat \x1b[31mgrass \x1b]0;x\x07 in May ."
    found = shown(evil, Screen(), form, TERM="xterm")  # type: ignore[operator]
    assert "\x07" not in found
    assert not re.search("\x1b(?!\\[[0-9]+m)", found)
    ours = re.sub("\x1b\\[3[0-9]m[└][^\x1b]*┘\x1b\\[0m", "", found) if form == "tree" else found
    assert "\x1b" not in ours
    assert "\\x1b" in found or "\\u001b" in found
