"""Hostile words through every output format: what comes out is well-formed, and no word is more than a word.

What TeX, displaCy and a browser make of them is in the tests of these formats.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hostile import HOSTILE
from test_page import analysis

from probtrans_cli.data.readers.conllu import annotated, read_conllu
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.text import json_line
from probtrans_cli.trees.drawing import Arc, Drawing, displacy_line, tree_record
from probtrans_cli.trees.drawing.html import page
from probtrans_cli.trees.drawing.latex import latex
from probtrans_cli.trees.drawing.svg import svg
from probtrans_cli.trees.drawing.terminal import terminal

HEADS = [0, *range(1, len(HOSTILE))]
DRAWING = Drawing(
    HOSTILE,
    tuple(Arc(word, head, 0.5, word % 3) for word, head in enumerate(HEADS, start=1)),
    " ".join(HOSTILE[:5]),
    tuple((word,) for word in HOSTILE),
)

PICTURES: dict[str, Callable[[], str]] = {
    "terminal": lambda: terminal(DRAWING, width=100),
    "wide terminal": lambda: terminal(DRAWING, width=10**9),
    "ascii": lambda: terminal(DRAWING, ascii_only=True, width=100),
    "svg": lambda: svg(DRAWING),
    "svg from right to left": lambda: svg(replace(DRAWING, arcs=(), notes=(), title=HOSTILE[0], right_to_left=True)),
    "latex": lambda: "".join(latex([DRAWING])),
    "displacy": lambda: displacy_line(DRAWING),
    "html": lambda: "".join(page([analysis(HOSTILE, title=DRAWING.title)], title=DRAWING.title)),
}


@pytest.mark.parametrize("form", PICTURES)
def test_pictures_are_short_and_hide_nothing(form: str) -> None:
    """No control character, none that reorders or hides text, nothing that cannot be encoded."""
    text = PICTURES[form]()
    text.encode("utf-8")
    assert len(text) < 100_000
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]", text)


def test_the_terminal_has_a_line_a_word() -> None:
    lines = terminal(DRAWING, width=10).split("\n")
    assert len(lines) == len(HOSTILE) + 1  # and the title
    assert terminal(DRAWING, ascii_only=True, width=10).isascii()


@pytest.mark.parametrize("form", ["svg", "svg from right to left"])
def test_svg_parses_and_has_no_script(form: str) -> None:
    tree = ElementTree.fromstring(PICTURES[form]())
    names = {element.tag.split("}")[1] for element in tree.iter()}
    assert names <= {"svg", "title", "desc", "rect", "g", "path", "text"}
    attributes = {name for element in tree.iter() for name in element.attrib}
    assert not any(name.startswith("on") or "href" in name for name in attributes)
    assert "<script>alert(1)</script>" in [element.text for element in tree.iter() if element.tag.endswith("text")]


def test_html_has_the_elements_of_its_template_alone() -> None:
    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.found.append(tag)
            assert not any(name.startswith("on") or name in ("src", "href", "style") for name, _ in attrs)

    tags = []
    for words in (HOSTILE, ("plain",) * len(HOSTILE)):
        parser = Tags()
        parser.feed("".join(page([analysis(words, title=words[0])], title=words[1])))
        tags.append(parser.found)
    assert tags[0] == tags[1]


def test_json_has_the_words_to_the_character() -> None:
    words = [*HOSTILE, "\u2028\x85\r\n"]
    line = json_line(tree_record(words, [*HEADS, 0], None, channel=0, iteration=1, decode="mst"))
    line.encode("utf-8")
    assert len(line.splitlines()) == 1
    assert "\u202e" not in line
    assert json.loads(line)["words"] == words  # a surrogate is escaped, so they come back exactly
    assert len(json.loads(displacy_line(DRAWING))["words"]) == len(HOSTILE)


def test_conllu_has_a_line_a_word() -> None:
    lines = annotated(Sentence(list(HOSTILE)), HEADS, misc={"Prob": ["0.5"] * len(HOSTILE)})
    (back,) = read_conllu([*lines, ""], "hostile")
    assert back.heads == HEADS
    for word, read in zip(HOSTILE, back.words, strict=True):
        assert read == word or re.search(r"\s|\x1c", word) or word == ""
