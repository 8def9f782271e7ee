"""displaCy's manual input: its shape, and what displaCy makes of it where spaCy is installed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hostile import HOSTILE
from test_draw import drawing

from probtrans_cli.trees.drawing import Arc, Drawing, displacy_line


def test_a_sentence() -> None:
    assert json.loads(displacy_line(drawing("it rains hard", [2, 0, 2], [0.6, 0.3, 0.25]))) == {
        "words": [{"text": "it", "tag": ""}, {"text": "rains", "tag": "root .30"}, {"text": "hard", "tag": ""}],
        "arcs": [
            {"start": 0, "end": 1, "label": ".60", "dir": "left"},
            {"start": 1, "end": 2, "label": ".25", "dir": "right"},
        ],
        "settings": {"direction": "ltr", "lang": "und"},
    }


def test_channels_notes_title_and_direction() -> None:
    both = Drawing(("a", "b"), (Arc(1, 2, 0.5, 0), Arc(2, 1, 0.4, "mean"), Arc(1, 0, None, 0)), "<t>", (("x<y",), ()))
    record = json.loads(displacy_line(replace(both, right_to_left=True)))
    assert [arc["label"] for arc in record["arcs"]] == ["channel 0 .50", "mean .40"]
    assert [word["tag"] for word in record["words"]] == ["root channel 0, x&lt;y", ""]
    assert record["title"] == "&lt;t&gt;"
    assert record["settings"]["direction"] == "rtl"
    bare = json.loads(displacy_line(both, show_probability=False))
    assert [arc["label"] for arc in bare["arcs"]] == ["channel 0", "mean"]


def test_an_empty_sentence() -> None:
    record = json.loads(displacy_line(Drawing((), ())))
    assert record["words"] == record["arcs"] == []


def test_displacy_draws_hostile_words_as_words() -> None:
    displacy = pytest.importorskip("spacy.displacy")
    arcs = tuple(Arc(i + 1, head, 0.5, "<b>") for i, head in enumerate(range(len(HOSTILE))))
    hostile = Drawing(HOSTILE, (*arcs, Arc(1, 2, 0.4, 1)), HOSTILE[0], tuple((word,) for word in HOSTILE))
    for tree in (hostile, Drawing((), ()), drawing("it rains", [2, 1])):
        record = json.loads(displacy_line(tree))
        markup = displacy.render([record], style="dep", manual=True, jupyter=False)
        names = {element.tag.split("}")[-1] for element in ElementTree.fromstring(f"<all>{markup}</all>").iter()}
        assert names <= {"all", "h2", "svg", "text", "tspan", "g", "path", "textPath"}
