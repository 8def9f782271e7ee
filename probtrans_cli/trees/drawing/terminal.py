"""A tree as a picture of characters, for a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from probtrans_cli.text import columns, visible
from probtrans_cli.trees.drawing import Arc, Drawing, Layout, Span, shown

WIDTH_WITHOUT_TERMINAL = 100
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
BOX = {UP | DOWN: "│", LEFT | RIGHT: "─", DOWN | RIGHT: "┌", DOWN | LEFT: "┐", UP | DOWN | LEFT | RIGHT: "┼"}
ASCII_BOX = {UP | DOWN: "|", LEFT | RIGHT: "-", DOWN | RIGHT: ".", DOWN | LEFT: ".", UP | DOWN | LEFT | RIGHT: "+"}

KIND_COLOURS = {"arg1": "\x1b[34m", "rel": "\x1b[31m", "arg2": "\x1b[32m", "conj": "\x1b[34m", "cc": "\x1b[35m"}
PLAIN = "\x1b[0m"
"""How the bars of each kind are coloured, in the terminal's own colours, and how a colour ends."""


def terminal(drawing: Drawing, *, ascii_only: bool = False, width: int | None = None, coloured: bool = False) -> str:
    """Return the tree in box-drawing characters, no newline at the end; with ``ascii_only`` every character is ASCII.

    Arcs stand above the words, the arrow at the dependent, each word's probability and notes below it. Where that is
    wider than ``width`` columns (default: the terminal's, or 100) the tree is indented instead, with the word numbers
    at the left; where there is none, but bars, the sentence goes on below them. ``coloured``: bars of a kind that has a
    colour have it.
    """
    drawing = shown(drawing, partial(visible, ascii_only=ascii_only))
    room = width if width is not None else shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns
    lines = _arcs_above(drawing, ascii_only=ascii_only)
    if _width(lines) <= room:
        lines = _arcs_above(drawing, ascii_only=ascii_only, coloured=coloured)
    elif drawing.arcs or not drawing.spans:
        lines = _indented(drawing, ascii_only=ascii_only, coloured=coloured)
    else:
        lines, first = [], 1
        while first <= len(drawing.words):
            last = first
            while last < len(drawing.words):
                longer = _arcs_above(_part(drawing, first, last + 1), ascii_only=ascii_only)
                if _width(longer) > room:
                    break
                last += 1
            lines += _arcs_above(_part(drawing, first, last), ascii_only=ascii_only, coloured=coloured)
            first = last + 1
    if drawing.title:
        lines.insert(0, drawing.title)
    return "\n".join(line.rstrip() for line in lines)


def _width(lines: Sequence[str]) -> int:
    return max(columns(line.rstrip()) for line in lines)


def _part(drawing: Drawing, first: int, last: int) -> Drawing:
    """The words from ``first`` to ``last`` without arcs; a bar has its name in each part."""
    spans = [
        replace(span, first=max(span.first, first) - first + 1, last=min(span.last, last) - first + 1)
        for span in drawing.spans
        if span.first <= last and span.last >= first
    ]
    notes = drawing.notes[first - 1 : last]
    return replace(drawing, words=drawing.words[first - 1 : last], arcs=(), notes=notes, spans=tuple(spans))


def _arcs_above(drawing: Drawing, *, ascii_only: bool, coloured: bool = False) -> list[str]:
    words = drawing.words
    if not words:
        return ["(empty sentence)"]
    layout = Layout(drawing)
    heights, at = layout.levels, layout.ends
    labels = [""] * len(words)
    if len({arc.dependent for arc in drawing.arcs}) == len(drawing.arcs):  # else it is not clear whose they are
        for arc in drawing.arcs:
            labels[arc.dependent - 1] = arc.label(ascii_only=ascii_only)
    below = [row for row in (labels, *zip_longest(*drawing.notes, fillvalue="")) if any(row)]
    roots = {arc.dependent for arc in drawing.arcs if arc.head == 0}
    cells = [
        max(len(at[i]), 4 if i + 1 in roots else 1, columns(word), *(columns(row[i]) for row in below))
        for i, word in enumerate(words)
    ]
    for span in drawing.spans:  # the last word makes room for the name and two corners
        free = sum(cells[span.first - 1 : span.last]) + 2 * (span.last - span.first) - columns(span.name) - 2
        cells[span.last - 1] += max(0, -free)
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
    rows.append(_row(words, cells))
    for number in range(drawing.lines):
        spans = sorted((span for span in drawing.spans if span.line == number), key=lambda span: span.first)
        rows.append(_bars(spans, starts, cells, ascii_only=ascii_only, coloured=coloured))
    return rows + [_row(texts, cells) for texts in below]


def _row(texts: Sequence[str], cells: Sequence[int]) -> str:
    spare = [cell - columns(text) for text, cell in zip(texts, cells, strict=True)]
    return "  ".join(
        " " * (free // 2) + text + " " * (free - free // 2) for text, free in zip(texts, spare, strict=True)
    )


def _bars(
    spans: Sequence[Span], starts: Sequence[int], cells: Sequence[int], *, ascii_only: bool, coloured: bool
) -> str:
    """Below the words a bar from the first to the last of every span of a line, with its name: `└ PER ┘`."""
    left, right, line = "`'-" if ascii_only else "└┘─"
    row, used = "", 0
    for span in spans:
        start, end = starts[span.first - 1], starts[span.last - 1] + cells[span.last - 1]
        free = end - start - columns(span.name) - 2
        bar = left + line * (free // 2) + span.name + line * (free - free // 2) + right
        row += " " * (start - used) + _painted(bar, span, coloured=coloured)
        used = end
    return row


def _painted(text: str, span: Span, *, coloured: bool) -> str:
    colour = KIND_COLOURS.get(span.kind) if coloured else None
    return text if colour is None else colour + text + PLAIN


def _indented(drawing: Drawing, *, ascii_only: bool, coloured: bool = False) -> list[str]:
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
            word = drawing.words[number - 1]
            tail = f"  {arc.label(ascii_only=ascii_only)}" if arc else ""
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
            circle: list[int] = []
            while number not in circle:
                circle.append(number)
                number = arc_of[number].head  # noqa: PLW2901
            top = min(circle[circle.index(number) :])
            draw(top, f"  (circle: head is {arc_of[top].head})")
    if not drawing.notes and not drawing.spans:
        return lines
    widest = max(map(columns, lines), default=0)
    notes = ["".join(f"  {text}" for text in texts) for texts in drawing.notes or [()] * len(drawing.words)]
    bars = _bars_of_words(drawing, coloured=coloured)
    if bars:
        broadest = max(map(columns, notes), default=0)
        notes = [note + " " * (broadest - columns(note)) + bar for note, bar in zip(notes, bars, strict=True)]
    behind = [notes[number - 1] for number in numbers]
    return [line + " " * (widest - columns(line)) + note for line, note in zip(lines, behind, strict=True)]


def _bars_of_words(drawing: Drawing, *, coloured: bool) -> list[str]:
    """For each word the names of its spans, a column for each line of them; nothing where there are no spans."""
    texts = [""] * len(drawing.words) if drawing.lines else []
    for line in range(drawing.lines):
        of_line = [span for span in drawing.spans if span.line == line]
        room = max((columns(span.name) for span in of_line), default=0)
        cells = [" " * room] * len(texts)
        for span in of_line:
            cell = _painted(span.name, span, coloured=coloured) + " " * (room - columns(span.name))
            cells[span.first - 1 : span.last] = [cell] * (span.last - span.first + 1)
        texts = [f"{text}  {cell}" for text, cell in zip(texts, cells, strict=True)]
    return texts
