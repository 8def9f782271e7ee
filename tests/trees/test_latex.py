"""LaTeX documents: the same to the byte, the geometry of the SVG, and what TeX makes of them where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hostile import HOSTILE
from hypothesis import given, settings
from hypothesis import strategies as st
from test_draw import FOX, drawing

from probtrans_cli.trees.drawing import Arc, Drawing
from probtrans_cli.trees.drawing.latex import LATIN, PREAMBLE, latex

GOLDEN = Path(__file__).parent / "golden"

CHANNELS = Drawing(
    ("she", "sees", "it"),
    (Arc(1, 2, 0.9, 0), Arc(2, 0, 0.8, 0), Arc(3, 2, 0.7, 0), Arc(1, 3, 0.4, 1), Arc(2, 0, 0.3, 1), Arc(3, 1, 0.2, 1)),
    "two channels & 100 %",
    (("SBJ",), ("V", "past_tense"), ()),
)


def compiled(engine: str, text: str, folder: Path) -> str:
    """The log of a document that an engine sets without an error; skips where there is no such engine."""
    if shutil.which(engine) is None or shutil.which("kpsewhich") is None:
        pytest.skip(f"{engine} is not installed")
    if subprocess.run(["kpsewhich", "tikz-dependency.sty"], capture_output=True).returncode:
        pytest.skip("TeX has no tikz-dependency")
    (folder / "trees.tex").write_text(text, encoding="utf-8")
    command = [engine, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "trees.tex"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, timeout=300)
    assert ran.returncode == 0, ran.stdout.decode("utf-8", "replace")[-3000:]
    return (folder / "trees.log").read_text(encoding="utf-8", errors="replace").replace("\n", "")


def body(*drawings: Drawing, **options: bool) -> str:
    return "".join(islice(latex(drawings, **options), 1, None))


def test_the_document_is_the_same_to_the_byte() -> None:
    assert "".join(latex([FOX, CHANNELS, Drawing((), ())])) == (GOLDEN / "trees.tex").read_text(encoding="utf-8")


LETTERS = sorted(LATIN - {" "})
PLAIN = tuple(word for word in HOSTILE if word.isascii())
LATIN_PICTURES = (
    *(Drawing(tuple(LETTERS[i : i + 60]), ()) for i in range(0, len(LETTERS), 60)),
    Drawing(PLAIN, (), PLAIN[9], tuple((word, word) for word in PLAIN)),
    Drawing(("a",) * 250, ()),
    drawing("it rains", [2, 1]),
    Drawing(("one",), (Arc(1, 0, None),)),
    Drawing((), ()),
    FOX,
    CHANNELS,
)


def test_latin_compiles_with_pdflatex(tmp_path: Path) -> None:
    log = compiled("pdflatex", "".join(latex(LATIN_PICTURES)), tmp_path)
    assert f"({len(LATIN_PICTURES)} pages" in log
    assert "Missing character" not in log


def test_everything_compiles_with_lualatex(tmp_path: Path) -> None:
    others = drawing("שלום 2024ב مرحبا 日本語 हिन्दी cafe\u0301 Ελληνικά", [2, 0, 2, 3, 4, 5, 6])
    arcs = tuple(Arc(word, word - 1, 0.5, word % 3) for word in range(1, len(HOSTILE) + 1))
    hostile = Drawing(HOSTILE, arcs, " ".join(HOSTILE[:16]), tuple((word,) for word in HOSTILE))
    pictures = [*LATIN_PICTURES, others, hostile]
    log = compiled("lualatex", "".join(latex([replace(one, right_to_left=True) for one in pictures])), tmp_path)
    assert f"({len(pictures)} pages" in log
    assert not set(re.findall("There is no (.) ", log)) & LATIN


def test_a_sentence_that_is_too_wide_for_tex() -> None:
    huge = body(drawing(("word",) * 5000, list(range(5000))))
    assert "5000 words is too wide" in huge
    assert len(huge) < 300
    assert "too wide" not in body(LATIN_PICTURES[-6])


@given(st.text(st.characters(), max_size=30))
@settings(max_examples=300)
def test_nothing_in_a_word_is_a_command(word: str) -> None:
    """What is left without the commands for shapes has no character that TeX treats as more than itself."""
    text = body(Drawing((word,), (), word))
    text.encode("utf-8")
    cell = re.search(r"\|\[minimum width=24pt\]\| (.*) \\\\\n", text)
    assert cell
    left = re.sub(r"\\(textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar)\{\}", "", cell[1])
    left = re.sub(r"\\(textquotedbl|textquotesingle|textasciigrave)\{\}|\\symbol\{38\}|\\[{}$#%_ ]", "", left)
    left = re.sub(r"\\(rtl|ltr)\{|(?<=[-,?!])\{\}|\$\\emptyset\$", "", left)
    assert not set(left.replace("}", "")) & set("\\{$&#%_^~|\n\t\r"), cell[1]
    braces = re.sub(r"\\[{}]", "", cell[1])
    assert braces.count("{") == braces.count("}")


def test_only_what_is_not_latin_asks_for_other_fonts() -> None:
    assert "\\otherscripts" not in body(FOX, CHANNELS)
    assert "\\otherscripts" not in body(drawing("cafe\u0301 naïve", [2, 0]))
    assert body(drawing("日本 b", [2, 0])).startswith("\\otherscripts")
    assert PREAMBLE.isascii()


def test_channels_probabilities_and_direction() -> None:
    text = body(CHANNELS)
    assert "\\rootarc{2}" in text
    assert "edge style={colour0, dash0, opacity=0.93}]{2}{1}{.90}" in text
    assert "edge style={colour1, dash1, opacity=0.58}]{3}{1}{.40}" in text
    assert "{channel\\ 0}" in text
    bare = body(CHANNELS, show_probability=False)
    assert ".90" not in bare
    assert "hide label" in bare
    mirrored = body(replace(CHANNELS, right_to_left=True))
    assert mirrored.index("it \\&") < mirrored.index("she")
    assert "]{2}{3}{.90}" in mirrored
