"""A tree as a stand-alone SVG picture; and the colours, dashes and widths of texts that all pictures share."""

from __future__ import annotations

import math
from html import escape

from probtrans_cli.text import columns, visible
from probtrans_cli.trees.drawing import Arc, Drawing, EveryTree, Layout, Span, named_channels, shown

# Okabe and Ito's colours without yellow, told apart with any colour vision; black is for the mean.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#5B4B8A")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 4", "9 3 2 3 2 3", "1 5")
KINDS = {"arg1": 0, "rel": 1, "arg2": 2, "conj": 0, "cc": 3}
"""The colour of a bar of each kind, by its place in COLOURS; of another kind it is the first one."""
INK, FAINT = "#1A1A1A", "#555555"
WORD_SIZE = 15  # pixels
NARROW, BROAD = frozenset("iljtfrI.,;:'|!()[]{} "), frozenset("mwMW@%")
FONT = "'DejaVu Sans', 'Noto Sans', 'Helvetica Neue', Arial, sans-serif"
STEP, SLOT, MARGIN, CELL, LABEL_SIZE, ARROW = 27.0, 11.0, 14.0, 46.0, 10, 7.0
NOTE, NOTE_STEP = LABEL_SIZE / WORD_SIZE, 13.0
BAR = 18.0  # what a line of bars takes below the words


def svg(drawing: Drawing, *, show_probability: bool = True) -> str:
    """Return a stand-alone SVG picture, the same to the byte for the same input; no script, no link, no id.

    Arcs rise by nesting, end in an arrow at the dependent, and are the fainter the less probable. Every channel has its
    colour and its dashes, named below the picture where there are several.
    """
    drawing = shown(drawing)
    words, title = drawing.words, drawing.title
    notes = drawing.notes or ((),) * len(words)
    layout = Layout(drawing)
    widths = [
        max(width, SLOT * len(slots) + 10, CELL) for width, slots in zip(widths_of(drawing), layout.ends, strict=True)
    ]
    centres = [MARGIN + sum(widths[:i]) + widths[i] / 2 for i in range(len(words))]
    legend = named_channels(drawing.arcs)
    width = max(
        2 * MARGIN + sum(widths),
        2 * MARGIN + 95.0 * len(legend),
        2 * MARGIN + 0.8 * text_width(title),
        2 * MARGIN + 40,
    )
    base = (24.0 if title else 6.0) + STEP * max(layout.rises, default=0.0) + 22.0
    below = base + BAR * drawing.lines  # of which the notes hang
    height = below + 30.0 + NOTE_STEP * max(map(len, notes), default=0) + (24.0 if legend else 0.0)

    def mirrored(x: float) -> float:
        return width - x if drawing.right_to_left else x

    def place(word: int, index: int) -> float:
        return mirrored(centres[word - 1] + SLOT * layout.offset(word, index))

    lines, labels = [], []
    for index in sorted(range(len(drawing.arcs)), key=lambda i: -layout.levels[i]):
        arc = drawing.arcs[index]
        end, peak = place(arc.dependent, index), base - STEP * layout.rises[index]
        start = place(arc.head, index) if arc.head else end
        lines.append(_curve(arc, start, end, base, peak))
        if text := arc.label(show_probability=show_probability, root="root"):
            labels.append(_label((start + end) / 2, peak - 4, text))
    elements = [_text(mirrored(x), base + 18, word, size=WORD_SIZE) for x, word in zip(centres, words, strict=True)]
    for x, texts in zip(centres, notes, strict=True):
        for line, text in enumerate(texts, start=1):
            elements.append(_text(mirrored(x), below + 20 + NOTE_STEP * line, text, fill=FAINT))
    for span in drawing.spans:
        left = centres[span.first - 1] - widths[span.first - 1] / 2 + 4
        right = centres[span.last - 1] + widths[span.last - 1] / 2 - 4
        left, right = sorted((mirrored(left), mirrored(right)))
        elements.append(_bar(left, right, base + 24 + BAR * span.line, span))
    size = f'width="{decimal(width)}" height="{decimal(height)}" viewBox="0 0 {decimal(width)} {decimal(height)}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">',
        f"<title>{escape(title or ' '.join(words) or '(empty sentence)')}</title>",
        f"<desc>{escape(_description(drawing))}</desc>",
        '<rect width="100%" height="100%" fill="#FFFFFF"/>',
    ]
    if title:
        side, anchor = (width - MARGIN, "end") if drawing.right_to_left else (MARGIN, "start")
        head.append(_text(side, 18, title, size=12, anchor=anchor, fill=FAINT))
    for order, (channel, name) in enumerate(legend.items()):
        x = MARGIN + 95.0 * order
        elements.append(
            f'<path d="M{decimal(x)} {decimal(height - 14)}h26" {stroke(*channel_style(channel))}/>'
            f'<text x="{decimal(x + 31)}" y="{decimal(height - 10)}" font-size="11" fill="{INK}">'
            f"{escape(visible(name))}</text>"
        )
    return "\n".join([*head, *lines, *labels, *elements, "</svg>"]) + "\n"


def widths_of(drawing: Drawing | EveryTree) -> list[float]:
    """Return the width of each word with its notes; the last word of a span makes room for the name of it."""
    widths = [text_width(word) + 16 for word in drawing.words]
    for word, texts in enumerate(drawing.notes):
        widths[word] = max(widths[word], *(NOTE * text_width(text) + 16 for text in texts), 0.0)
    for span in drawing.spans:
        of_words = sum(widths[span.first - 1 : span.last])
        widths[span.last - 1] += max(0.0, NOTE * text_width(span.name) + 16 - of_words)
    return widths


def _curve(arc: Arc, start: float, end: float, base: float, peak: float) -> str:
    """One arc as a path with a flat top and elliptic shoulders, and its arrow head as a triangle of its own.

    No marker: it would need an id, which clashes when several pictures stand in one page.
    """
    colour, dash = channel_style(arc.channel)
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
    triangle = (
        f"M{decimal(end)} {decimal(base)}L{decimal(end - 3.5)} {decimal(foot)}L{decimal(end + 3.5)} {decimal(foot)}Z"
    )
    return (
        f'<g opacity="{opacity(arc.probability)}">'
        f'<path d="{path}" fill="none" {stroke(colour, dash)}/>'
        f'<path d="{triangle}" fill="{colour}"/></g>'
    )


def _bar(left: float, right: float, top: float, span: Span) -> str:
    colour = COLOURS[KINDS.get(span.kind, 0)]
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    light = "#" + "".join(f"{round(255 - 0.1 * (255 - part)):02X}" for part in parts)  # a tenth of it on white
    return (
        f'<rect x="{decimal(left)}" y="{decimal(top)}" width="{decimal(right - left)}" height="14" rx="3" '
        f'fill="{light}" stroke="{colour}" stroke-width="0.8"/>'
    ) + _text((left + right) / 2, top + 10.5, span.name)


def _label(x: float, y: float, text: str) -> str:
    """Small text on a white plate, so that an arc that crosses here does not strike it through.

    A plate, not a white outline with ``paint-order``: several converters paint the outline over the letters.
    """
    width = 0.5 * LABEL_SIZE + text_width(text) * LABEL_SIZE / WORD_SIZE - 3
    return (
        f'<rect x="{decimal(x - width / 2)}" y="{decimal(y - 8.5)}" width="{decimal(width)}" height="10" '
        'fill="#FFFFFF"/>'
    ) + _text(x, y, text)


def _text(x: float, y: float, text: str, *, size: int = LABEL_SIZE, anchor: str = "middle", fill: str = INK) -> str:
    place = f'x="{decimal(x)}" y="{decimal(y)}"'
    return f'<text {place} font-size="{size}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'


def _description(drawing: Drawing) -> str:
    words = drawing.words
    parts = []
    for arc in sorted(drawing.arcs, key=lambda arc: arc.dependent):
        head = f"{words[arc.head - 1]} ({arc.head})" if arc.head else "root"
        text = arc.label()
        parts.append(f"{words[arc.dependent - 1]} ({arc.dependent}) from {head}{', ' + text if text else ''}")
    for span in drawing.spans:
        of_words = " ".join(words[span.first - 1 : span.last])
        line = f"line {span.line + 1}: " if drawing.lines > 1 else ""
        parts.append(f"{line}{span.name}: {of_words} ({span.first} to {span.last})")
    return "; ".join(parts) or "no arcs"


def channel_style(channel: int | str) -> tuple[str, str]:
    """Return the colour and the dash pattern of a channel; the mean and other named ones are black and solid."""
    if isinstance(channel, str):
        return INK, ""
    return COLOURS[channel % len(COLOURS)], DASHES[channel % len(DASHES)]


def stroke(colour: str, dash: str) -> str:
    return f'stroke="{colour}" stroke-width="1.6"' + (f' stroke-dasharray="{dash}"' if dash else "")


def opacity(probability: float | None) -> str:
    """Return how dark an arc is: the fainter the less probable, but never invisible."""
    value = 1.0 if probability is None or not math.isfinite(probability) else probability
    return decimal(0.3 + 0.7 * min(max(value, 0.0), 1.0))


def text_width(text: str) -> float:
    """Estimated pixels: the viewer's font is unknown, so rather a little too wide."""
    em = 0.0
    for index, character in enumerate(text):
        cells = columns(text[max(index - 1, 0) : index + 1]) - (columns(text[index - 1]) if index else 0)
        narrow = 0.36 if character in NARROW else 0.95 if character in BROAD else 0.72 if character.isupper() else 0.62
        em += narrow if cells == 1 else 0.55 * max(cells, 0)
    return em * WORD_SIZE


def decimal(value: float) -> str:
    """Write at most two decimals, the same text on every machine."""
    return f"{value + 0.0:.2f}".rstrip("0").rstrip(".")
