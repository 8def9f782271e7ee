"""Trees as one HTML page for exploring them: offline, self-contained, and of any number of sentences.

Its markup, style and script are files of the folder `page`. Words reach it as JSON that holds no character of markup,
and its script writes them as text; the page's policy lets no other script run and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from string import Template

import numpy as np

from probtrans_cli.text import visible
from probtrans_cli.trees.analysis import Analysis
from probtrans_cli.trees.drawing.drawing import LONGEST_TITLE
from probtrans_cli.trees.drawing.style import COLOURS, WORD_SIZE, text_width
from probtrans_cli.trees.drawing.svg import ARROW, CELL, LABEL_SIZE, MARGIN, SLOT, STEP

LONGEST_WITH_MARGINALS = 200  # words; the marginals grow with their square
SCRIPTS = ("geometry.js", "pictures.js", "controls.js")
SENTENCES = "<!-- sentences -->"
GEOMETRY = {
    "step": STEP,
    "slot": SLOT,
    "margin": MARGIN,
    "cell": CELL,
    "arrow": ARROW,
    "word": WORD_SIZE,
    "label": LABEL_SIZE,
    "colours": len(COLOURS),
}


def page(analyses: Iterable[Analysis], *, title: str = "Dependency trees") -> Iterator[str]:
    """The page in pieces, one a sentence, so that a file of any length needs the memory of one sentence.

    Probabilities have two decimals. A sentence of more than 200 words has those of its arcs, but no heat map.
    """
    style, script = _part("page.css"), "\n".join(map(_part, SCRIPTS))
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    document = Template(_part("page.html")).substitute(
        title=escape(visible(title, longest=LONGEST_TITLE)),
        policy=policy,
        style=style,
        script=script,
        geometry=_json(GEOMETRY),
    )
    before, after = document.split(SENTENCES)
    yield before
    for analysis in analyses:
        yield f'<script type="application/json" class="sentence">{_json(_record(analysis))}</script>\n'
    yield after


def _record(analysis: Analysis) -> dict[str, object]:
    """What the script reads; words and their widths are those of the other pictures."""
    iterations, channels, count = analysis.heads.shape
    words = [visible(word) for word in analysis.words]
    marginals = analysis.marginals if count <= LONGEST_WITH_MARGINALS else None
    percent = _percent(analysis.probabilities).astype(int)
    return {
        "title": visible(analysis.title, longest=LONGEST_TITLE) if analysis.title else "",
        "words": words,
        "widths": [round(text_width(word) + 16, 2) for word in words],
        "heads": analysis.heads.tolist(),
        "percent": np.where(np.isnan(analysis.probabilities), -1, percent).tolist(),
        "marginals": None if marginals is None else _packed(marginals),
        "columns": count if marginals is None else marginals.shape[3],
        "gold": None if analysis.gold is None else list(analysis.gold),
        "channel": channels - 1 if analysis.channel == "mean" else analysis.channel,
        "iteration": (iterations if analysis.iteration == -1 else analysis.iteration) - 1,
        "rightToLeft": analysis.right_to_left,
    }


def _percent(probabilities: np.ndarray) -> np.ndarray:
    return np.asarray(np.rint(100 * np.clip(np.nan_to_num(probabilities), 0, 1)), dtype=np.uint8)


def _packed(marginals: np.ndarray) -> str:
    """One byte a percent, all in the array's order, deflated, in base 64."""
    return base64.b64encode(zlib.compress(_percent(marginals).tobytes())).decode("ascii")


def _json(value: object) -> str:
    """JSON in ASCII without a character of markup, so that no word can end the element that it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _part(name: str) -> str:
    return files("probtrans_cli.trees.drawing").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
