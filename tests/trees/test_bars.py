"""Bars of several lines below the words: the parts of tuples and coordinations, in every picture."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from test_draw import drawing

from probtrans_cli.text import columns
from probtrans_cli.trees.drawing import Drawing, Span, displacy_line
from probtrans_cli.trees.drawing.latex import latex
from probtrans_cli.trees.drawing.svg import BAR, svg
from probtrans_cli.trees.drawing.terminal import terminal

WORDS = ["Rome", "is", "the", "capital", "of", "Italy", "and", "is", "known", "."]
SPANS = (
    Span(1, 1, "arg1", 0, "arg1"), Span(2, 5, "rel .93", 0, "rel"), Span(6, 6, "arg2", 0, "arg2"),
    Span(8, 9, "rel", 1, "rel"), Span(1, 1, "arg1", 1, "arg1"),
)  # fmt: skip
TUPLES = Drawing(tuple(WORDS), (), spans=SPANS)
COLOUR = re.compile("\x1b\\[[0-9]+m")

PICTURE = """\
 Rome   is  the  capital  of  Italy   and  is  known  .
└arg1┘  └─────rel .93──────┘  └arg2┘
└arg1┘                                     └──rel──┘"""

CONTINUED = """\
 Rome   is  the  capital  of
└arg1┘  └─────rel .93──────┘
└arg1┘
Italy   and  is  known  .
└arg2┘
             └──rel──┘"""


def test_terminal() -> None:
    widest = max(map(len, PICTURE.split("\n")))
    assert terminal(TUPLES, width=widest) == PICTURE
    assert terminal(TUPLES, width=widest, ascii_only=True) == PICTURE.translate(str.maketrans("└┘─", "`'-"))


def test_terminal_goes_on_below_where_it_is_narrow() -> None:
    assert terminal(TUPLES, width=29) == CONTINUED
    for width in range(1, 60):
        picture = terminal(TUPLES, width=width)
        assert [word for line in picture.split("\n") for word in line.split() if word in WORDS] == WORDS
        assert max(map(columns, picture.split("\n"))) <= max(width, len("└rel .93┘"))


def test_terminal_with_a_tree_that_is_indented() -> None:
    heads = [0, 1, 2, 2, 3, 4, 1, 1, 2, 1]
    tree = replace(drawing(tuple(WORDS), heads, [0.9, 0.8] + [0.5] * 8), spans=SPANS)
    lines = terminal(tree, width=30).split("\n")
    assert len(lines) == len(WORDS)
    of = {line.split()[0]: line for line in lines}
    first, second = of["1"].index("arg1"), of["1"].rindex("arg1")
    assert first <= of["2"].index("rel .93") < second
    assert of["8"].rindex("rel") == of["9"].rindex("rel") == second
    assert of["6"].rstrip().endswith("arg2")
    assert of["10"].split() == ["10", "└─", ".", ".50"]


@pytest.mark.parametrize("width", [100, 29])
def test_colours_change_nothing_but_colours(width: int) -> None:
    heads = [0, 1, 2, 2, 3, 4, 1, 1, 2, 1]
    for one in (TUPLES, replace(drawing(tuple(WORDS), heads), spans=SPANS)):
        coloured = terminal(one, width=width, coloured=True)
        assert [COLOUR.sub("", line).rstrip() for line in coloured.split("\n")] == terminal(one, width=width).split(
            "\n"
        )
        assert len(set(COLOUR.findall(coloured))) == 4  # three kinds, and the end of a colour
        assert coloured.count("\x1b[0m") * 2 == len(COLOUR.findall(coloured))
    entity = Drawing(("a", "b"), (), spans=(Span(1, 2, "PER"),))
    assert terminal(entity, coloured=True) == terminal(entity)


def boxes(picture: str) -> list[dict[str, str]]:
    return [dict(one.attrib) for one in ElementTree.fromstring(picture).iter() if one.get("rx") == "3"]


def test_svg() -> None:
    found = boxes(svg(TUPLES))
    assert len(found) == len(SPANS)
    tops = {float(box["y"]) for box in found}
    colours = {"arg1": ("#E6F1F7", "#0072B2"), "rel": ("#FBEFE6", "#D55E00"), "arg2": ("#E6F5F1", "#009E73")}
    assert max(tops) - min(tops) == BAR
    for box, span in zip(found, SPANS, strict=True):
        assert (box["fill"], box["stroke"]) == colours[span.kind]
        assert float(box["y"]) == min(tops) + BAR * span.line
    assert "line 2: rel: is known (8 to 9)" in svg(TUPLES)


def test_svg_bars_of_a_line_do_not_overlap_and_have_room_for_their_names() -> None:
    for right_to_left in (False, True):
        narrow = Drawing(("a", "b", "c"), (), spans=(
            Span(1, 1, "a long name", 0, "arg1"), Span(2, 2, "another one", 0, "rel"), Span(1, 2, "x", 1, "arg1"),
        ), right_to_left=right_to_left)  # fmt: skip
        sides = [(float(box["x"]), float(box["x"]) + float(box["width"])) for box in boxes(svg(narrow))]
        first, second, both = sides
        assert first[1] < second[0] if not right_to_left else second[1] < first[0]
        assert both == pytest.approx((min(first[0], second[0]), max(first[1], second[1])))


def test_notes_stand_below_all_bars() -> None:
    noted = replace(TUPLES, notes=tuple(("note",) for _ in WORDS))
    texts = [one for one in ElementTree.fromstring(svg(noted)).iter() if one.text == "note"]
    lowest = max(float(box["y"]) + float(box["height"]) for box in boxes(svg(noted)))
    assert all(float(text.get("y", "0")) > lowest + 5 for text in texts)


def test_latex() -> None:
    lines = [line for line in "".join(latex([TUPLES])).split("\n") if line.startswith("\\draw[") and "midway" in line]
    assert len(lines) == len(SPANS)
    assert [line.split("]")[0] for line in lines] == [f"\\draw[colour{i}, thick" for i in (0, 1, 2, 1, 0)]
    assert [re.findall(r"yshift=-(\d+)pt", line) for line in lines] == [["2", "2"]] * 3 + [["14", "14"]] * 2


def test_displacy() -> None:
    record = json.loads(displacy_line(TUPLES))
    assert record["tokens"] == WORDS
    assert record["spans"][1] == {"start_token": 1, "end_token": 5, "label": "rel .93"}
    assert "ents" not in record
    entity = json.loads(displacy_line(Drawing(("a", "b"), (), spans=(Span(1, 2, "PER"),))))
    assert (entity["text"], entity["ents"]) == ("a b", [{"start": 0, "end": 3, "label": "PER"}])
    assert not {"spans", "tokens"} & set(entity)
