"""What the pictures share of their look: colours, dashes, shades, and the estimated width of a text."""

from __future__ import annotations

import math

from probtrans_cli.text import columns

# Okabe and Ito's colours without yellow, told apart with any colour vision; black is for the mean.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#5B4B8A")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 4", "9 3 2 3 2 3", "1 5")
KINDS = {"arg1": 0, "rel": 1, "arg2": 2, "conj": 0, "cc": 3}
"""The colour of a bar of each kind, by its place in COLOURS; of another kind it is the first one."""
INK = "#1A1A1A"
WORD_SIZE = 15  # pixels
NARROW, BROAD = frozenset("iljtfrI.,;:'|!()[]{} "), frozenset("mwMW@%")


def channel_style(channel: int | str) -> tuple[str, str]:
    """Colour and dash pattern of a channel; the mean and other named ones are black and solid."""
    if isinstance(channel, str):
        return INK, ""
    return COLOURS[channel % len(COLOURS)], DASHES[channel % len(DASHES)]


def bar_colours(kind: str) -> tuple[str, str]:
    """What a bar is filled with, a tenth of its colour on white, and the colour."""
    colour = COLOURS[KINDS.get(kind, 0)]
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - 0.1 * (255 - part)):02X}" for part in parts), colour


def opacity(probability: float | None) -> str:
    """How dark an arc is: the fainter the less probable, but never invisible."""
    known = 1.0 if probability is None or not math.isfinite(probability) else probability
    return decimal(0.3 + 0.7 * min(max(known, 0.0), 1.0))


def text_width(text: str) -> float:
    """Estimated pixels: the viewer's font is unknown, so rather a little too wide."""
    em = 0.0
    for index, character in enumerate(text):
        cells = columns(text[max(index - 1, 0) : index + 1]) - (columns(text[index - 1]) if index else 0)
        narrow = 0.36 if character in NARROW else 0.95 if character in BROAD else 0.72 if character.isupper() else 0.62
        em += narrow if cells == 1 else 0.55 * max(cells, 0)
    return em * WORD_SIZE


def decimal(value: float) -> str:
    """At most two decimals, and the same text on every machine."""
    return f"{value + 0.0:.2f}".rstrip("0").rstrip(".")
