"""What Python and notebooks show of analyses and models: short, drawn, and with every text escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hostile.words import HOSTILE

import probtrans_cli
from probtrans_cli.trained.model import Model


class Tags(HTMLParser):
    """The names of all elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.add(tag)


@pytest.fixture(scope="module")
def model(trained: Path) -> Model:
    return probtrans_cli.load(str(trained / "runs/tagger"))


def test_an_analysis_is_drawn(model: Model) -> None:
    (analysis,) = model.analyze(["Two farmers fold a dark shirt ."])
    assert repr(analysis).startswith("Analysis('Two farmers fold a dark shirt .', 7 words, tree by eisner, tags")
    picture = ElementTree.fromstring(analysis._repr_html_())
    texts = [text.text for text in picture.iter() if text.tag.endswith("text")]
    assert {"Two", "farmers", "shirt"} <= set(texts)
    assert set(analysis.prediction["tags"]) <= {text.split()[0] for text in texts if text}
    (bare,) = model.analyze([["x"] * 100], trees=False)
    assert len(repr(bare)) < 160
    assert "no tree" in repr(bare)
    assert bare._repr_html_().startswith("<svg")
    (empty,) = model.analyze([""])
    assert "(empty sentence)" in empty._repr_html_()


def test_texts_are_escaped(model: Model) -> None:
    words = [word for word in HOSTILE if word.strip() and len(word) < 100 and word.isprintable()]
    (analysis,) = model.analyze([words])
    drawn = Tags(analysis._repr_html_()).names
    assert "svg" in drawn
    assert not drawn & {"script", "img", "a", "foreignobject", "iframe"}
    hostile = replace(model, folder=Path("/tmp/<script>alert(1)</script>"))
    assert Tags(hostile._repr_html_()).names == {"table", "caption", "tr", "th", "td"}


def test_half_of_a_character_is_a_word(model: Model) -> None:
    text, words = model.analyze(["Two \ud800", ["Two", "\ud800"]])
    assert text.words == words.words == ["Two", "\ud800"]
    assert "\\ud800" in text._repr_html_()


def test_a_model_is_a_card(model: Model, trained: Path) -> None:
    assert repr(model).startswith("Model(tagger: tagging, probabilistic, ")
    assert repr(model).endswith(f"{model.folder})")
    assert len(repr(model).replace(str(model.folder), "")) < 100
    card = model._repr_html_()
    assert "<caption>tagger</caption>" in card
    assert "<th>test</th><td>accuracy 0." in card
    assert f"<td>{model.vocabulary.size:,} entries</td>" in card
