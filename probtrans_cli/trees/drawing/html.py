"""Trees as one HTML page for exploring them: offline, self-contained, and of any number of sentences.

Its markup, style and script are files of the folder `page`. Words reach it as JSON that holds no character of markup,
and its script writes them as text; see ``offline.py``.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator

import numpy as np

from probtrans_cli.text import visible
from probtrans_cli.trees.drawing.drawing import LONGEST_TITLE
from probtrans_cli.trees.drawing.offline import HERE, document, safe_json
from probtrans_cli.trees.drawing.style import COLOURS, KINDS, WORD_SIZE
from probtrans_cli.trees.drawing.svg import ARROW, BAR, CELL, LABEL_SIZE, MARGIN, NOTE_STEP, SLOT, STEP, widths_of
from probtrans_cli.trees.every_tree import EveryTree

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
    "noteStep": NOTE_STEP,
    "bar": BAR,
    "colours": len(COLOURS),
}


def page(sentences: Iterable[EveryTree], *, title: str = "Dependency trees") -> Iterator[str]:
    """The page in pieces, one a sentence, so that a file of any length needs the memory of one sentence.

    Probabilities have two decimals. A sentence of more than 200 words has those of its arcs, but no heat map.
    """
    whole = document(HERE, "page.html", title=title, styles=["page.css"], scripts=SCRIPTS, geometry=safe_json(GEOMETRY))
    before, after = whole.split(SENTENCES)
    yield before
    for sentence in sentences:
        yield f'<script type="application/json" class="sentence">{safe_json(_record(sentence))}</script>\n'
    yield after


def _record(sentence: EveryTree) -> dict[str, object]:
    """What the script reads; words and their widths are those of the other pictures."""
    iterations, channels, count = sentence.heads.shape
    words = [visible(word) for word in sentence.words]
    notes = [[visible(text) for text in texts] for texts in sentence.notes]
    spans = [(span.first, span.last, visible(span.name)) for span in sentence.spans]
    widths = widths_of(words, notes, spans)
    bars = [
        (*shown, span.line, span.kind if span.kind in KINDS else "")
        for shown, span in zip(spans, sentence.spans, strict=True)
    ]
    marginals = sentence.marginals if count <= LONGEST_WITH_MARGINALS else None
    return {
        "title": visible(sentence.title, longest=LONGEST_TITLE) if sentence.title else "",
        "words": words,
        "widths": [round(width, 2) for width in widths],
        "heads": sentence.heads.tolist(),
        "percent": _known(sentence.probabilities),
        "spread": None if sentence.deviations is None else _known(sentence.deviations),
        "marginals": None if marginals is None else _packed(marginals),
        "columns": count if marginals is None else marginals.shape[3],
        "gold": None if sentence.gold is None else list(sentence.gold),
        "channel": channels - 1 if sentence.channel == "mean" else sentence.channel,
        "iteration": (iterations if sentence.iteration == -1 else sentence.iteration) - 1,
        "rightToLeft": sentence.right_to_left,
        "notes": notes,
        "spans": bars,
    }


def _known(values: np.ndarray) -> list[object]:
    """Whole percents, -1 where a value is not known."""
    found: list[object] = np.where(np.isnan(values), -1, _percent(values).astype(int)).tolist()
    return found


def _percent(probabilities: np.ndarray) -> np.ndarray:
    return np.asarray(np.rint(100 * np.clip(np.nan_to_num(probabilities), 0, 1)), dtype=np.uint8)


def _packed(marginals: np.ndarray) -> str:
    """One byte a percent, all in the array's order, deflated, in base 64."""
    return base64.b64encode(zlib.compress(_percent(marginals).tobytes())).decode("ascii")
