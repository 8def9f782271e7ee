"""Trees for people and programs: a terminal picture, a stand-alone SVG, a JSON line.

All pictures come from one :class:`Drawing` and one layout (:mod:`probtrans_cli.trees.drawing.layout`). Words are data from
anywhere: nothing in them is ever markup, and characters that hide or reorder text are shown as escapes.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from html import escape
from itertools import zip_longest

import numpy as np

from probtrans_cli.trees.drawing.layout import LONGEST_TITLE, Arc, Drawing, columns, ends, levels, visible

__all__ = ["Arc", "Drawing", "json_line", "svg", "terminal"]

WIDTH_WITHOUT_TERMINAL = 100
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
BOX = {UP | DOWN: "│", LEFT | RIGHT: "─", DOWN | RIGHT: "┌", DOWN | LEFT: "┐", UP | DOWN | LEFT | RIGHT: "┼"}
ASCII_BOX = {UP | DOWN: "|", LEFT | RIGHT: "-", DOWN | RIGHT: ".", DOWN | LEFT: ".", UP | DOWN | LEFT | RIGHT: "+"}


# --- terminal ---


def terminal(drawing: Drawing, *, ascii_only: bool = False, width: int | None = None) -> str:
    """The tree in box-drawing characters, no newline at the end; with ``ascii_only`` every character is ASCII.

    Arcs stand above the words, the arrow at the dependent, each word's probability and notes below it. Where that is
    wider than ``width`` columns (default: the terminal's, or 100) the tree is indented instead, with the word numbers
    at the left.
    """
    room = width if width is not None else shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns
    lines = _arcs_above(drawing, ascii_only=ascii_only)
    if max(columns(line.rstrip()) for line in lines) > room:
        lines = _indented(drawing, ascii_only=ascii_only)
    if drawing.title:
        lines.insert(0, visible(drawing.title, ascii_only=ascii_only, longest=LONGEST_TITLE))
    return "\n".join(line.rstrip() for line in lines)


def _arcs_above(drawing: Drawing, *, ascii_only: bool) -> list[str]:
    words = [visible(word, ascii_only=ascii_only) for word in drawing.words]
    if not words:
        return ["(empty sentence)"]
    heights = levels(drawing.arcs)
    at = ends(drawing, heights)
    below = _below(drawing, ascii_only=ascii_only)
    roots = {arc.dependent for arc in drawing.arcs if arc.head == 0}
    cells = [
        max(len(at[i]), 4 if i + 1 in roots else 1, columns(word), *(columns(row[i]) for row in below))
        for i, word in enumerate(words)
    ]
    starts = [sum(cells[:i]) + 2 * i for i in range(len(cells))]
    slot = {  # column of each end: (word, arc)
        (i + 1, arc): starts[i] + (cells[i] - len(at[i])) // 2 + order
        for i in range(len(words))
        for order, arc in enumerate(at[i])
    }
    top = max(heights, default=0)
    canvas = [[0] * (starts[-1] + cells[-1]) for _ in range(top + 1)]  # row 0 is the highest, the last has arrows
    label = [" "] * (len(canvas[0]) + 4)
    for index, arc in enumerate(drawing.arcs):
        end = slot[arc.dependent, index]
        row = top - heights[index] if arc.head else -1
        if arc.head == 0:
            begin = max(0, end - 1)
            label[begin : begin + 4] = "root"
        else:
            left, right = sorted((end, slot[arc.head, index]))
            canvas[row][left] |= DOWN | RIGHT
            canvas[row][right] |= DOWN | LEFT
            for column in range(left + 1, right):
                canvas[row][column] |= LEFT | RIGHT
            for line in canvas[row + 1 :]:
                line[slot[arc.head, index]] |= UP | DOWN
        for line in canvas[row + 1 :]:
            line[end] |= UP | DOWN
    box = ASCII_BOX if ascii_only else BOX
    picture = [[box.get(bits, " ") for bits in line] for line in canvas]
    for index, arc in enumerate(drawing.arcs):
        picture[-1][slot[arc.dependent, index]] = "v" if ascii_only else "▼"
    rows = ["".join(label)] if roots else []
    rows += ["".join(line) for line in picture] if drawing.arcs else []
    for texts in (words, *below):
        rows.append("  ".join(_centred(text, cell) for text, cell in zip(texts, cells, strict=True)))
    return rows


def _below(drawing: Drawing, *, ascii_only: bool) -> list[list[str]]:
    """The rows below the words, where there is something in them: probabilities of the words' arcs, then notes.

    No probabilities where words have several arcs, as it would not be clear whose they are.
    """
    count = len(drawing.words)
    probabilities = [""] * count
    if len({arc.dependent for arc in drawing.arcs}) == len(drawing.arcs):
        for arc in drawing.arcs:
            probabilities[arc.dependent - 1] = probability_text(arc.probability)
    notes = [[visible(text, ascii_only=ascii_only) for text in texts] for texts in drawing.notes or [()] * count]
    rows = [probabilities, *(list(row) for row in zip_longest(*notes, fillvalue=""))]
    return [row for row in rows if any(row)]


def probability_text(value: float | None) -> str:
    """Two decimals without the zero before the point."""
    if value is None or not math.isfinite(value):
        return ""
    return "1.0" if value >= 0.995 else f"{max(value, 0.0):.2f}".removeprefix("0")


def _centred(text: str, width: int) -> str:
    free = width - columns(text)
    return " " * (free // 2) + text + " " * (free - free // 2)


def _indented(drawing: Drawing, *, ascii_only: bool) -> list[str]:
    """Root on top, children below their head in sentence order, word numbers at the left; circles come last."""
    branch, last, pipe = ("|- ", "`- ", "|  ") if ascii_only else ("├─ ", "└─ ", "│  ")
    arc_of: dict[int, Arc] = {}
    children: dict[int, list[int]] = {}
    for arc in sorted(drawing.arcs, key=lambda arc: arc.dependent):
        if arc.dependent not in arc_of:  # of several arcs the first is drawn
            arc_of[arc.dependent] = arc
            children.setdefault(arc.head, []).append(arc.dependent)
    digits = len(str(len(drawing.words)))
    lines: list[str] = []
    numbers: list[int] = []  # of the words, line by line
    drawn: set[int] = set()

    def draw(top: int, note: str) -> None:
        stack = [(top, "", "", note)]
        while stack:
            number, here, beneath, remark = stack.pop()
            drawn.add(number)
            arc = arc_of.get(number)
            word = visible(drawing.words[number - 1], ascii_only=ascii_only)
            tail = f"  {probability_text(arc.probability)}" if arc else ""
            lines.append(f"{number:>{digits}}  {here}{word}{tail}{remark}")
            numbers.append(number)
            below = [child for child in children.get(number, []) if child != top]
            for order, child in reversed(list(enumerate(below))):
                final = order + 1 == len(below)
                stack.append((child, beneath + (last if final else branch), beneath + ("   " if final else pipe), ""))

    for top in children.get(0, []):
        draw(top, "  (root)")
    for number in range(1, len(drawing.words) + 1):
        if number not in drawn and number not in arc_of:
            draw(number, "  (no arc)")
    for number in range(1, len(drawing.words) + 1):
        if number not in drawn:
            seen: list[int] = []
            while number not in seen:
                seen.append(number)
                number = arc_of[number].head  # noqa: PLW2901
            top = min(seen[seen.index(number) :])
            draw(top, f"  (circle: head is {arc_of[top].head})")
    if not drawing.notes:
        return lines
    widest = max(map(columns, lines), default=0)
    notes = ["".join(f"  {visible(text, ascii_only=ascii_only)}" for text in drawing.notes[n - 1]) for n in numbers]
    return [line + " " * (widest - columns(line)) + note for line, note in zip(lines, notes, strict=True)]


# --- SVG ---

# Okabe and Ito's colours without yellow, told apart with any colour vision; black is for the mean.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#5B4B8A")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 4", "9 3 2 3 2 3", "1 5")
INK = "#1A1A1A"
FONT = "'DejaVu Sans', 'Noto Sans', 'Helvetica Neue', Arial, sans-serif"
STEP, SLOT, MARGIN, CELL, WORD_SIZE, LABEL_SIZE, ARROW = 27.0, 11.0, 14.0, 46.0, 15, 10, 7.0
NOTE, NOTE_STEP = LABEL_SIZE / WORD_SIZE, 13.0
NARROW, BROAD = frozenset("iljtfrI.,;:'|!()[]{} "), frozenset("mwMW@%")


def svg(drawing: Drawing, *, show_probability: bool = True) -> str:
    """A stand-alone SVG picture, the same to the byte for the same input; no script, no link, no id.

    Arcs rise by nesting, end in an arrow at the dependent, and are the fainter the less probable. Every channel has its
    colour and its dashes, named below the picture where there are several.
    """
    words = [visible(word) for word in drawing.words]
    heights = levels(drawing.arcs)
    at = ends(drawing, heights)
    notes = [[visible(text) for text in texts] for texts in drawing.notes or [()] * len(words)]
    widths = [
        max(text_width(word) + 16, SLOT * len(at[i]) + 10, CELL, *(NOTE * text_width(text) + 16 for text in notes[i]))
        for i, word in enumerate(words)
    ]
    centres = [MARGIN + sum(widths[:i]) + widths[i] / 2 for i in range(len(words))]
    legend = named_channels(drawing.arcs)
    title = visible(drawing.title, longest=LONGEST_TITLE) if drawing.title else ""
    width = max(
        2 * MARGIN + sum(widths),
        2 * MARGIN + 95.0 * len(legend),
        2 * MARGIN + 0.8 * text_width(title),
        2 * MARGIN + 40,
    )
    rises = [rise(drawing, heights, index) for index in range(len(drawing.arcs))]
    base = (24.0 if title else 6.0) + STEP * max(rises, default=0.0) + 22.0
    height = base + 30.0 + NOTE_STEP * max(map(len, notes), default=0) + (24.0 if legend else 0.0)

    def mirrored(x: float) -> float:
        return width - x if drawing.right_to_left else x

    def place(word: int, index: int) -> float:
        order = at[word - 1].index(index) - (len(at[word - 1]) - 1) / 2
        x = centres[word - 1] + SLOT * order
        return mirrored(x)

    lines, labels = [], []
    for index in sorted(range(len(drawing.arcs)), key=lambda i: -heights[i]):
        arc = drawing.arcs[index]
        end, peak = place(arc.dependent, index), base - STEP * rises[index]
        start = place(arc.head, index) if arc.head else end
        lines.append(_curve(arc, start, end, base, peak))
        text = probability_text(arc.probability) if show_probability else ""
        if arc.head == 0:
            labels.append(_label(end, peak - 4, f"root {text}".strip()))
        elif text:
            labels.append(_label((start + end) / 2, peak - 4, text))
    shown = [
        f'<text x="{decimal(mirrored(x))}" y="{decimal(base + 18)}" font-size="{WORD_SIZE}" '
        f'text-anchor="middle" fill="{INK}">{escape(word)}</text>'
        for x, word in zip(centres, words, strict=True)
    ]
    shown += [
        f'<text x="{decimal(mirrored(x))}" y="{decimal(base + 20 + NOTE_STEP * line)}" '
        f'font-size="{LABEL_SIZE}" text-anchor="middle" fill="#555555">{escape(text)}</text>'
        for x, texts in zip(centres, notes, strict=True)
        for line, text in enumerate(texts, start=1)
    ]
    size = f'width="{decimal(width)}" height="{decimal(height)}" viewBox="0 0 {decimal(width)} {decimal(height)}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">',
        f"<title>{escape(title or ' '.join(words) or '(empty sentence)')}</title>",
        f"<desc>{escape(_description(drawing, words))}</desc>",
        '<rect width="100%" height="100%" fill="#FFFFFF"/>',
    ]
    if title:
        side, anchor = (width - MARGIN, "end") if drawing.right_to_left else (MARGIN, "start")
        style = f'font-size="12" text-anchor="{anchor}" fill="#555555"'
        head.append(f'<text x="{decimal(side)}" y="18" {style}>{escape(title)}</text>')
    return "\n".join([*head, *lines, *labels, *shown, *_legend(legend, height), "</svg>"]) + "\n"


def rise(drawing: Drawing, heights: Sequence[int], index: int) -> float:
    """Height of an arc in steps; a root's arrow starts above all arcs over its word, and above an earlier one there."""
    arc = drawing.arcs[index]
    if arc.head:
        return float(heights[index])
    over = [
        heights[i]
        for i, other in enumerate(drawing.arcs)
        if other.head and min(other.dependent, other.head) <= arc.dependent <= max(other.dependent, other.head)
    ]
    earlier = sum(other.head == 0 and other.dependent == arc.dependent for other in drawing.arcs[:index])
    return max(over, default=0) + 0.9 + 0.6 * earlier


def _curve(arc: Arc, start: float, end: float, base: float, peak: float) -> str:
    """One arc as a path with a flat top and elliptic shoulders, and its arrow head as a triangle of its own.

    No marker: it would need an id, which clashes when several pictures stand in one page.
    """
    colour, dash = channel_style(arc.channel)
    probability = 1.0 if arc.probability is None or not math.isfinite(arc.probability) else arc.probability
    opacity = decimal(0.3 + 0.7 * min(max(probability, 0.0), 1.0))
    foot = base - ARROW
    if arc.head == 0:
        path = f"M{decimal(end)} {decimal(peak)}V{decimal(foot)}"
    else:
        side = 1.0 if end > start else -1.0
        bend = side * min(abs(end - start) / 2, 26.0)
        rise = base - peak
        # 0.5523: a cubic curve with these controls is a quarter of an ellipse
        path = (
            f"M{decimal(start)} {decimal(base)}"
            f"C{decimal(start)} {decimal(base - 0.5523 * rise)} {decimal(start + 0.4477 * bend)} {decimal(peak)} "
            f"{decimal(start + bend)} {decimal(peak)}H{decimal(end - bend)}"
            f"C{decimal(end - 0.4477 * bend)} {decimal(peak)} {decimal(end)} {decimal(foot - 0.5523 * (foot - peak))} "
            f"{decimal(end)} {decimal(foot)}"
        )
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    triangle = (
        f"M{decimal(end)} {decimal(base)}L{decimal(end - 3.5)} {decimal(foot)}L{decimal(end + 3.5)} {decimal(foot)}Z"
    )
    return (
        f'<g opacity="{opacity}"><path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>'
        f'<path d="{triangle}" fill="{colour}"/></g>'
    )


def _label(x: float, y: float, text: str) -> str:
    """Small text on a white plate, so that an arc that crosses here does not strike it through.

    A plate, not a white outline with ``paint-order``: several converters paint the outline over the letters.
    """
    width = 0.5 * LABEL_SIZE + text_width(text) * LABEL_SIZE / WORD_SIZE - 3
    return (
        f'<rect x="{decimal(x - width / 2)}" y="{decimal(y - 8.5)}" width="{decimal(width)}" height="10" '
        'fill="#FFFFFF"/>'
        f'<text x="{decimal(x)}" y="{decimal(y)}" font-size="{LABEL_SIZE}" text-anchor="middle" '
        f'fill="{INK}">{escape(text)}</text>'
    )


def _legend(channels: Sequence[int | str], height: float) -> list[str]:
    result = []
    for order, channel in enumerate(channels):
        colour, dash = channel_style(channel)
        x, dashes = MARGIN + 95.0 * order, f' stroke-dasharray="{dash}"' if dash else ""
        name = visible(channel) if isinstance(channel, str) else f"channel {channel}"
        result.append(
            f'<path d="M{decimal(x)} {decimal(height - 14)}h26" stroke="{colour}" stroke-width="1.6"{dashes}/>'
            f'<text x="{decimal(x + 31)}" y="{decimal(height - 10)}" font-size="11" fill="{INK}">{escape(name)}</text>'
        )
    return result


def named_channels(arcs: Sequence[Arc]) -> list[int | str]:
    """The channels that a legend names: all of them where there are several, numbers first."""
    channels = {arc.channel for arc in arcs}
    return sorted(channels, key=lambda c: (isinstance(c, str), str(c).zfill(9))) if len(channels) > 1 else []


def channel_style(channel: int | str) -> tuple[str, str]:
    """Colour and dash pattern of a channel; the mean and other named ones are black and solid."""
    if isinstance(channel, str):
        return INK, ""
    return COLOURS[channel % len(COLOURS)], DASHES[channel % len(DASHES)]


def _description(drawing: Drawing, words: Sequence[str]) -> str:
    """The arcs in words, for those who do not see them."""
    parts = []
    for arc in sorted(drawing.arcs, key=lambda arc: arc.dependent):
        head = f"{words[arc.head - 1]} ({arc.head})" if arc.head else "root"
        text = probability_text(arc.probability)
        parts.append(f"{words[arc.dependent - 1]} ({arc.dependent}) from {head}{', ' + text if text else ''}")
    return "; ".join(parts) or "no arcs"


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


# --- JSON lines ---

# Legal inside a JSON string, but they split lines for some readers, hide text on a terminal, or cannot be encoded.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def json_line(
    sentence_words: Sequence[str],
    heads: Sequence[int] | np.ndarray,
    probabilities: Sequence[float | None] | np.ndarray | None,
    *,
    channel: int | str,
    iteration: int,
    decode: str,
    extra: Mapping[str, object] | None = None,
) -> str:
    """One sentence as one line of JSON without the newline: words, heads, probabilities, channel, iteration, decode.

    Reading it back gives the words to the character. Probabilities have 6 decimals, null where not known; ``extra`` is
    appended. Raises ValueError for lists of different lengths and for a key of ``extra`` that is taken.
    """
    if len(sentence_words) != len(heads) or (probabilities is not None and len(probabilities) != len(heads)):
        raise ValueError("words, heads and probabilities differ in length")
    record: dict[str, object] = {
        "words": [str(word) for word in sentence_words],
        "heads": [int(head) for head in heads],
        "probabilities": None if probabilities is None else [_rounded(value) for value in probabilities],
        "channel": channel,
        "iteration": iteration,
        "decode": decode,
    }
    for key, value in (extra or {}).items():
        if key in record:
            raise ValueError(f"the key {key!r} is taken")
        record[key] = value
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", line)


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(float(value), 6)
