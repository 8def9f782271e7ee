"""Trees as lines of JSON: those of this project, and displaCy's manual input.

displaCy (`displacy.render([json.loads(line), ...], style="dep", manual=True)`) escapes markup in a word's `text` but in
no label, tag or title, so those come escaped. It knows no arc from outside the sentence: the root's word says so in its
tag.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import Any

import numpy as np

from probtrans_cli.text import LONGEST_WORD, rounded, visible
from probtrans_cli.trees.drawing.drawing import LONGEST_TITLE, Arc, Drawing, named_channels


def tree_record(
    words: Sequence[str],
    heads: Sequence[int] | np.ndarray,
    probabilities: Sequence[float | None] | np.ndarray | None,
    *,
    channel: int | str,
    iteration: int,
    decode: str,
    deviations: Sequence[float | None] | np.ndarray | None = None,
) -> dict[str, Any]:
    """A tree for JSON: words, heads, probabilities, channel, iteration, decode; and the standard deviations of the
    probabilities over draws of the weights, where there are some.

    Probabilities have 6 decimals, None where not known. Raises ValueError for lists of different lengths.
    """
    if len(words) != len(heads) or (probabilities is not None and len(probabilities) != len(heads)):
        raise ValueError("words, heads and probabilities differ in length")
    return {
        "words": [str(word) for word in words],
        "heads": [int(head) for head in heads],
        "probabilities": None if probabilities is None else [rounded(value) for value in probabilities],
        **({} if deviations is None else {"probability_deviations": [rounded(value) for value in deviations]}),
        "channel": channel,
        "iteration": iteration,
        "decode": decode,
    }


def displacy_line(drawing: Drawing, *, show_probability: bool = True) -> str:
    """One sentence as one line of ASCII JSON without the newline: words, arcs, settings, and the title if it has one.

    A label is the arc's relation, if it has one, and its probability, after the channel's name where there are several
    channels. A word's tag has `root` with its probability and the word's notes. Words are shown as in every picture,
    not kept to the character. Where there are spans, the same line is manual input of another style, too: `ent`, or
    where they have kinds, such as the parts of tuples, which overlap, `span`.
    """
    several = bool(named_channels(drawing.arcs))

    def label(arc: Arc) -> str:
        name = f"channel {arc.channel}" if isinstance(arc.channel, int) else arc.channel
        parts = [arc.relation or ("root" if arc.head == 0 else ""), name if several else ""]
        parts.append(arc.text() if show_probability else "")
        return _markup(" ".join(part for part in parts if part))

    tags = [[_markup(text) for text in texts] for texts in drawing.notes] or [[] for _ in drawing.words]
    arcs: list[dict[str, object]] = []
    for arc in drawing.arcs:
        if arc.head == 0:
            tags[arc.dependent - 1].insert(0, label(arc))
            continue
        start, end = sorted((arc.dependent - 1, arc.head - 1))
        side = "left" if arc.dependent < arc.head else "right"
        arcs.append({"start": start, "end": end, "label": label(arc), "dir": side})
    edges = [0, *accumulate(len(visible(word)) + 1 for word in drawing.words)]  # where each word begins in the text
    entities = [
        {"start": edges[span.first - 1], "end": edges[span.last] - 1, "label": _markup(span.name)}
        for span in drawing.spans
        if not span.kind
    ]
    parts = [
        {"start_token": span.first - 1, "end_token": span.last, "label": _markup(span.name)}
        for span in drawing.spans
        if span.kind
    ]
    tokens = [visible(word) for word in drawing.words]
    words = [{"text": visible(word), "tag": ", ".join(tag)} for word, tag in zip(drawing.words, tags, strict=True)]
    record: Mapping[str, object] = {
        "words": words,
        "arcs": arcs,
        "settings": {"direction": "rtl" if drawing.right_to_left else "ltr", "lang": "und"},
        **({"text": " ".join(tokens)} if drawing.spans else {}),
        **({"ents": entities} if entities else {}),
        **({"tokens": tokens, "spans": parts} if parts else {}),
        **({"title": _markup(drawing.title, longest=LONGEST_TITLE)} if drawing.title else {}),
    }
    return json.dumps(record)


def _markup(text: str, *, longest: int = LONGEST_WORD) -> str:
    return escape(visible(text, longest=longest)) if text else ""
