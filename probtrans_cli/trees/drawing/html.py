"""Pages: trees to explore in a browser, and what every page of this project shares.

A page is one file that needs no network and runs no script but its own: its policy names the digests of its style and
script. Text from outside reaches it escaped, or as JSON without a character of markup, which its script writes as text.
Markup, styles and scripts are files of the folder `page`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template

import numpy as np

from probtrans_cli.text import visible
from probtrans_cli.trees.drawing import LONGEST_TITLE, EveryTree, shown
from probtrans_cli.trees.drawing.svg import (
    ARROW,
    BAR,
    CELL,
    COLOURS,
    KINDS,
    LABEL_SIZE,
    MARGIN,
    NOTE_STEP,
    SLOT,
    STEP,
    WORD_SIZE,
    widths_of,
)

HERE = "probtrans_cli.trees.drawing"
LONGEST_WITH_MARGINALS = 200  # words; the marginals grow with their square
SCRIPTS = ("geometry.js", "pictures.js", "controls.js")
GEOMETRY = {
    "step": STEP,
    "slot": SLOT,
    "margin": MARGIN,
    "cell": CELL,
    "arrow": ARROW,
    "word": WORD_SIZE,
    "label": LABEL_SIZE,
    "noteStep": NOTE_STEP,
    "bar": BAR,
    "colours": len(COLOURS),
}


def page(sentences: Iterable[EveryTree], *, title: str = "Dependency trees") -> Iterator[str]:
    """Yield the page in pieces, one a sentence, so that a file of any length needs the memory of one sentence.

    Probabilities have two decimals. A sentence of more than 200 words has those of its arcs, but no heat map.
    """
    html = document(HERE, "page.html", title=title, styles=["page.css"], scripts=SCRIPTS, geometry=safe_json(GEOMETRY))
    before, after = html.split("<!-- sentences -->")
    yield before
    for sentence in sentences:
        yield f'<script type="application/json" class="sentence">{safe_json(_record(sentence))}</script>\n'
    yield after


def _record(sentence: EveryTree) -> dict[str, object]:
    iterations, channels, count = sentence.heads.shape
    sentence = shown(sentence)
    marginals = sentence.marginals if count <= LONGEST_WITH_MARGINALS else None
    packed = None if marginals is None else zlib.compress(_percents(marginals).tobytes())
    percent, spread = (
        None if values is None else np.where(np.isnan(values), -1, _percents(values).astype(int)).tolist()
        for values in (sentence.probabilities, sentence.deviations)
    )
    return {
        "title": sentence.title,
        "words": sentence.words,
        "widths": [round(width, 2) for width in widths_of(sentence)],
        "heads": sentence.heads.tolist(),
        "percent": percent,
        "spread": spread,
        "marginals": None if packed is None else base64.b64encode(packed).decode("ascii"),
        "columns": count if marginals is None else marginals.shape[3],
        "gold": None if sentence.gold is None else list(sentence.gold),
        "channel": channels - 1 if sentence.channel == "mean" else sentence.channel,
        "iteration": (iterations if sentence.iteration == -1 else sentence.iteration) - 1,
        "rightToLeft": sentence.right_to_left,
        "notes": sentence.notes,
        "spans": [
            (span.first, span.last, span.name, span.line, span.kind if span.kind in KINDS else "")
            for span in sentence.spans
        ],
    }


def _percents(probabilities: np.ndarray) -> np.ndarray:
    return np.asarray(np.rint(100 * np.clip(np.nan_to_num(probabilities), 0, 1)), dtype=np.uint8)


def document(package: str, name: str, *, title: str, styles: Sequence[str], scripts: Sequence[str], **more: str) -> str:
    """Return a page: the shared head and style, its own styles and scripts, and the template ``page/NAME`` as its body.

    ``more``: what the template asks for besides; it must be safe.
    """
    style = "".join([part(HERE, "base.css"), *(part(package, style) for style in styles)])
    script = "\n".join(part(package, script) for script in scripts)
    of_script, of_style = (
        base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") for text in (script, style)
    )
    policy = (
        f"default-src 'none'; script-src 'sha256-{of_script}'; style-src 'sha256-{of_style}'; "
        "base-uri 'none'; form-action 'none'"
    )
    safe_title = escape(visible(title, longest=LONGEST_TITLE))
    template = Template(part(HERE, "head.html") + part(package, name))
    return template.substitute(title=safe_title, policy=policy, style=style, script=script, **more)


def part(package: str, name: str) -> str:
    return files(package).joinpath("page", name).read_text(encoding="utf-8")


def safe_json(value: object) -> str:
    """Write JSON in ASCII without a character of markup, so that no word can end the element that it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
