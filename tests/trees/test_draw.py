"""Drawings: golden pictures, heights by nesting, and words that try to be more than words."""

from __future__ import annotations

import itertools
import json
import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hostile import HOSTILE
from hypothesis import given, settings
from hypothesis import strategies as st

from probtrans_cli.text import columns, json_line, rounded, visible
from probtrans_cli.trees.drawing import Arc, Drawing, Layout, displacy_line, tree_record
from probtrans_cli.trees.drawing.svg import svg
from probtrans_cli.trees.drawing.terminal import terminal


def drawing(words: str | tuple[str, ...], heads: list[int], probabilities: list[float] | None = None) -> Drawing:
    words = tuple(words.split()) if isinstance(words, str) else words
    values = probabilities or [None] * len(heads)
    return Drawing(words, tuple(Arc(i + 1, h, p) for i, (h, p) in enumerate(zip(heads, values, strict=True))))


FOX = drawing(
    "the quick brown fox jumped over the lazy dog .",
    [4, 4, 4, 5, 0, 5, 9, 9, 6, 5],
    [0.93, 0.41, 0.88, 0.97, 0.99, 0.72, 0.95, 0.55, 0.81, 1.0],
)

FOX_ARCS = """\
                          root
                           │┌───────────────────────────┐
 ┌───────────────────┐     ││      ┌────────────────┐   │
 │     ┌────────────┐│     ││      │    ┌──────────┐│   │
 │     │      ┌────┐││┌───┐││┌────┐│    │    ┌────┐││   │
 ▼     ▼      ▼    │││▼   │▼││    ▼│    ▼    ▼    ││▼   ▼
the  quick  brown  fox   jumped  over  the  lazy  dog   .
.93   .41    .88   .97    .99    .72   .95  .55   .81  1.0"""

FOX_INDENTED = """\
 5  jumped  .99  (root)
 4  ├─ fox  .97
 1  │  ├─ the  .93
 2  │  ├─ quick  .41
 3  │  └─ brown  .88
 6  ├─ over  .72
 9  │  └─ dog  .81
 7  │     ├─ the  .95
 8  │     └─ lazy  .55
10  └─ .  1.0"""


# --- terminal ---


def test_terminal() -> None:
    needed = max(map(len, FOX_ARCS.split("\n")))
    assert terminal(FOX, width=needed) == terminal(FOX, width=200) == FOX_ARCS
    assert terminal(FOX, width=needed - 1) == FOX_INDENTED


def test_terminal_in_ascii() -> None:
    plain = terminal(FOX, ascii_only=True, width=100)
    assert plain == FOX_ARCS.translate(str.maketrans("│─┌┐▼", "|-..v"))
    assert terminal(Drawing(("a", "b"), (), "Überschrift"), ascii_only=True, width=10).isascii()
    assert terminal(drawing("é 日本", [2, 0]), ascii_only=True, width=100).isascii()


def test_terminal_counts_wide_and_combining_characters() -> None:
    picture = terminal(drawing(("日本語", "cafe\u0301", "x"), [2, 0, 2]), width=80).split("\n")
    assert picture[-1] == "日本語  cafe\u0301  x"
    # 日本語 takes columns 0-5, the word after it 8-11, the last one 14
    assert picture[-2].index("▼") == 2
    assert [i for i, character in enumerate(picture[-2]) if character == "▼"] == [2, 9, 14]


def test_terminal_circle_of_two_words() -> None:
    circle = drawing("it rains", [2, 1], [0.6, 0.3])
    assert terminal(circle, width=80) == "┌──────┐\n│┌────┐│\n│▼    │▼\nit   rains\n.60   .30"
    assert terminal(circle, width=3) == "1  it  .60  (circle: head is 2)\n2  └─ rains  .30"


def test_terminal_crossing_arcs() -> None:
    assert "┼" in terminal(drawing("a b c d", [3, 4, 0, 3]), width=80)


def test_terminal_shows_each_word_once_whatever_the_arcs_are() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        n = int(random.integers(1, 12))
        heads = [int(random.choice([h for h in range(n + 1) if h != i + 1])) for i in range(n)]
        shown = terminal(drawing(tuple(f"w{i}" for i in range(n)), heads), width=1).split("\n")
        assert sorted(int(line.split()[0]) for line in shown) == list(range(1, n + 1))


def test_terminal_without_arcs_or_words() -> None:
    assert terminal(Drawing((), ())) == "(empty sentence)"
    assert terminal(Drawing(("a", "b"), (), "title"), width=80) == "title\na  b"
    assert terminal(Drawing(("a", "b"), ()), width=1) == "1  a  (no arc)\n2  b  (no arc)"


def test_a_picture_without_arcs_or_words_says_so() -> None:
    assert "<title>(empty sentence)</title>\n<desc>no arcs</desc>" in svg(Drawing((), ()))
    assert "<title>a b</title>\n<desc>no arcs</desc>" in svg(Drawing(("a", "b"), ()))


def test_long_chains_do_not_recurse() -> None:
    assert len(terminal(drawing(("w",) * 3000, list(range(3000))), width=80).split("\n")) == 3000


# --- words ---


def test_visible() -> None:
    assert visible("plain") == "plain"
    assert visible("\x1b[0m") == "\\x1b[0m"
    assert visible("\u202ea\ud800") == "\\u202ea\\ud800"
    assert visible("") == "∅"
    assert visible("\u0301") == "\u25cc\u0301"
    assert visible("x" * 40) == "x" * 40
    assert visible("x" * 41) == "x" * 39 + "…"
    assert visible("日" * 30) == "日" * 19 + "…"
    assert visible("می\u200cروم") == "می\u200cروم"
    assert columns("👍🏽") == 2
    assert columns("한국") == 4


@given(st.text(st.characters(), max_size=60))
@settings(max_examples=200)
def test_visible_is_short_and_safe(word: str) -> None:
    shown = visible(word)
    assert columns(shown) <= 40
    shown.encode("utf-8")
    ElementTree.fromstring(svg(Drawing((word,), (Arc(1, 0, 0.5),), word)))
    assert visible(word, ascii_only=True).isascii()


# --- layout ---


@given(st.integers(2, 12).flatmap(lambda n: st.lists(st.tuples(st.integers(1, n), st.integers(1, n)), max_size=20)))
@settings(max_examples=200)
def test_heights(pairs: list[tuple[int, int]]) -> None:
    arcs = tuple(Arc(a, b, None) for a, b in pairs if a != b)
    heights = Layout(Drawing(("x",) * 12, arcs)).levels
    for (one, low), (two, high) in itertools.permutations(zip(arcs, heights, strict=True), 2):
        a, b = sorted((one.dependent, one.head))
        c, d = sorted((two.dependent, two.head))
        if max(a, c) < min(b, d):
            assert low != high
            if c <= a and b <= d and (a, b) != (c, d):
                assert low < high


def test_heights_are_as_low_as_nesting_allows() -> None:
    assert Layout(FOX).levels == [3, 2, 1, 1, 0, 1, 2, 1, 3, 4]


def test_nested_arcs_do_not_cross_at_a_word() -> None:
    """The brown-quick-the arcs arrive at fox (word 4) near ones first, the arc to jumped last."""
    assert Layout(FOX).ends[3] == [2, 1, 0, 3]
    circle = Layout(drawing("it rains", [2, 1]))
    outer = circle.levels.index(2)
    assert circle.ends == [[outer, 1 - outer], [1 - outer, outer]]


@pytest.mark.parametrize("arc", [Arc(0, 1, None), Arc(3, 1, None), Arc(1, 3, None), Arc(1, -1, None), Arc(2, 2, None)])
def test_impossible_arcs_are_refused(arc: Arc) -> None:
    with pytest.raises(ValueError, match=r"sentence of 2 words|to itself"):
        Drawing(("a", "b"), (arc,))


# --- SVG ---

GOLDEN = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="128.7" height="109.3" viewBox="0 0 128.7 109.3" role='
    "\"img\" font-family=\"'DejaVu Sans', 'Noto Sans', 'Helvetica Neue', Arial, sans-serif\">\n"
    "<title>it rains</title>\n"
    "<desc>it (1) from rains (2), .60; rains (2) from root, .30</desc>\n"
    '<rect width="100%" height="100%" fill="#FFFFFF"/>\n'
    '<g opacity="0.72"><path d="M81.85 79.3C81.85 64.39 71.81 52.3 59.42 52.3H59.42C47.04 52.3 37 61.25 3'
    '7 72.3" fill="none" stroke="#1A1A1A" stroke-width="1.6"/><path d="M37 79.3L33.5 72.3L40.5 72.3Z" fil'
    'l="#1A1A1A"/></g>\n'
    '<g opacity="0.51"><path d="M92.85 28V72.3" fill="none" stroke="#1A1A1A" stroke-width="1.6"/><path d='
    '"M92.85 79.3L89.35 72.3L96.35 72.3Z" fill="#1A1A1A"/></g>\n'
    '<rect x="50.42" y="39.8" width="18" height="10" fill="#FFFFFF"/><text x="59.42" y="48.3" font-size="'
    '10" text-anchor="middle" fill="#1A1A1A">.60</text>\n'
    '<rect x="72.25" y="15.5" width="41.2" height="10" fill="#FFFFFF"/><text x="92.85" y="24" font-size="'
    '10" text-anchor="middle" fill="#1A1A1A">root .30</text>\n'
    '<text x="37" y="97.3" font-size="15" text-anchor="middle" fill="#1A1A1A">it</text>\n'
    '<text x="87.35" y="97.3" font-size="15" text-anchor="middle" fill="#1A1A1A">rains</text>\n'
    "</svg>\n"
)


def test_svg_is_the_same_to_the_byte() -> None:
    picture = svg(drawing("it rains", [2, 0], [0.6, 0.3]))
    assert picture == svg(drawing("it rains", [2, 0], [0.6, 0.3]))
    assert picture == GOLDEN


def test_svg_channels_differ_in_colour_and_dashes() -> None:
    styles = set()
    for channel in range(8):
        tree = ElementTree.fromstring(svg(Drawing(("a", "b"), (Arc(1, 2, 0.5, channel),))))
        path = next(element for element in tree.iter() if element.get("stroke"))
        styles.add((path.get("stroke"), path.get("stroke-dasharray")))
    assert len(styles) == 8
    both = svg(Drawing(("a", "b"), (Arc(1, 2, 0.5, 0), Arc(2, 1, 0.5, 1), Arc(1, 0, 1.0, "gold"))))
    assert all(name in both for name in ("channel 0", "channel 1", ">gold<"))


def test_svg_right_to_left_mirrors_the_words() -> None:
    for right_to_left in (False, True):
        tree = ElementTree.fromstring(svg(replace(drawing("it rains", [2, 0]), right_to_left=right_to_left)))
        texts = {element.text: element for element in tree.iter() if element.tag.endswith("text")}
        assert (float(texts["it"].get("x", "")) > float(texts["rains"].get("x", ""))) == right_to_left


def test_svg_probability() -> None:
    faint, strong = (svg(drawing("a b", [2, 0], [p, 1.0])) for p in (0.1, 0.9))
    assert 'opacity="0.37"' in faint
    assert 'opacity="0.93"' in strong
    assert ">.90<" in strong
    bare = svg(drawing("a b", [2, 0], [0.9, 1.0]), show_probability=False)
    assert ">.90<" not in bare
    assert ">root<" in bare
    ElementTree.fromstring(svg(drawing("a b", [2, 0], [math.nan, 7.0])))
    ElementTree.fromstring(svg(Drawing((), ())))


def test_root_arrows_of_several_channels_at_one_word_have_their_labels_apart() -> None:
    tree = ElementTree.fromstring(svg(Drawing(("a",), (Arc(1, 0, 0.5, 0), Arc(1, 0, 0.7, 1)))))
    labels = [
        float(e.get("y", "")) for e in tree.iter() if e.tag.endswith("text") and (e.text or "").startswith("root")
    ]
    assert labels[0] - labels[1] > 10


# --- JSON lines ---


OTHERS: dict[str, Any] = {"channel": 3, "iteration": 1, "decode": "argmax"}


def test_json_line() -> None:
    record = tree_record(["né", "b"], [2, 0], [0.123456789, None], channel="mean", iteration=-1, decode="mst")
    line = json_line(record | {"id": rounded({"p": [0.1234567, math.inf, 3]})})
    assert line == (
        '{"words": ["né", "b"], "heads": [2, 0], "probabilities": [0.123457, null], '
        '"channel": "mean", "iteration": -1, "decode": "mst", "id": {"p": [0.123457, null, 3]}}'
    )
    numpy = json_line(tree_record(["a"], np.array([0]), np.array([math.nan]), **OTHERS))
    assert json.loads(numpy)["probabilities"] == [None]
    assert json.loads(json_line(tree_record([], [], None, **OTHERS)))["probabilities"] is None


def test_json_line_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        tree_record(["a"], [0, 1], None, **OTHERS)


# --- displaCy ---


def test_displacy_of_a_sentence() -> None:
    assert json.loads(displacy_line(drawing("it rains hard", [2, 0, 2], [0.6, 0.3, 0.25]))) == {
        "words": [{"text": "it", "tag": ""}, {"text": "rains", "tag": "root .30"}, {"text": "hard", "tag": ""}],
        "arcs": [
            {"start": 0, "end": 1, "label": ".60", "dir": "left"},
            {"start": 1, "end": 2, "label": ".25", "dir": "right"},
        ],
        "settings": {"direction": "ltr", "lang": "und"},
    }


def test_displacy_of_channels_notes_title_and_direction() -> None:
    both = Drawing(("a", "b"), (Arc(1, 2, 0.5, 0), Arc(2, 1, 0.4, "mean"), Arc(1, 0, None, 0)), "<t>", (("x<y",), ()))
    record = json.loads(displacy_line(replace(both, right_to_left=True)))
    assert [arc["label"] for arc in record["arcs"]] == ["channel 0 .50", "mean .40"]
    assert [word["tag"] for word in record["words"]] == ["root channel 0, x&lt;y", ""]
    assert record["title"] == "&lt;t&gt;"
    assert record["settings"]["direction"] == "rtl"
    bare = json.loads(displacy_line(both, show_probability=False))
    assert [arc["label"] for arc in bare["arcs"]] == ["channel 0", "mean"]


def test_displacy_of_an_empty_sentence() -> None:
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
