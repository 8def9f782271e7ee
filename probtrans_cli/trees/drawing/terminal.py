"""A tree as a picture of characters, for a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import zip_longest

from probtrans_cli.text import columns, visible
from probtrans_cli.trees.drawing.drawing import LONGEST_TITLE, Arc, Drawing
from probtrans_cli.trees.drawing.layout import ends, levels

WIDTH_WITHOUT_TERMINAL = 100
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
BOX = {UP | DOWN: "│", LEFT | RIGHT: "─", DOWN | RIGHT: "┌", DOWN | LEFT: "┐", UP | DOWN | LEFT | RIGHT: "┼"}
ASCII_BOX = {UP | DOWN: "|", LEFT | RIGHT: "-", DOWN | RIGHT: ".", DOWN | LEFT: ".", UP | DOWN | LEFT | RIGHT: "+"}


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
    names = [visible(span.name, ascii_only=ascii_only) for span in drawing.spans]
    for span, name in zip(drawing.spans, names, strict=True):  # the last word makes room for the name and two corners
        free = sum(cells[span.first - 1 : span.last]) + 2 * (span.last - span.first) - columns(name) - 2
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
    rows += [_bars(drawing, names, starts, cells, ascii_only=ascii_only)] if names else []
    return rows + [_row(texts, cells) for texts in below]


def _row(texts: Sequence[str], cells: Sequence[int]) -> str:
    return "  ".join(_centred(text, cell) for text, cell in zip(texts, cells, strict=True))


def _bars(
    drawing: Drawing, names: Sequence[str], starts: Sequence[int], cells: Sequence[int], *, ascii_only: bool
) -> str:
    """Below the words a bar from the first to the last of every span, with its name: `└ PER ┘`."""
    left, right, line = "`'-" if ascii_only else "└┘─"
    row = ""
    for span, name in zip(drawing.spans, names, strict=True):
        start, end = starts[span.first - 1], starts[span.last - 1] + cells[span.last - 1]
        free = end - start - columns(name) - 2
        row += " " * (start - columns(row)) + left + line * (free // 2) + name + line * (free - free // 2) + right
    return row


def _below(drawing: Drawing, *, ascii_only: bool) -> list[list[str]]:
    """The rows below the words, where there is something in them: probabilities of the words' arcs, then notes.

    No probabilities where words have several arcs, as it would not be clear whose they are.
    """
    count = len(drawing.words)
    probabilities = [""] * count
    if len({arc.dependent for arc in drawing.arcs}) == len(drawing.arcs):
        for arc in drawing.arcs:
            probabilities[arc.dependent - 1] = arc.text("+-" if ascii_only else "±")
    notes = [[visible(text, ascii_only=ascii_only) for text in texts] for texts in drawing.notes or [()] * count]
    rows = [probabilities, *(list(row) for row in zip_longest(*notes, fillvalue=""))]
    return [row for row in rows if any(row)]


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
            tail = f"  {arc.text('+-' if ascii_only else '±')}" if arc else ""
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
    if not drawing.notes and not drawing.spans:
        return lines
    widest = max(map(columns, lines), default=0)
    of_words = [list(texts) for texts in drawing.notes or [()] * len(drawing.words)]
    for span in drawing.spans:
        for word in range(span.first, span.last + 1):
            of_words[word - 1].append(span.name)
    notes = ["".join(f"  {visible(text, ascii_only=ascii_only)}" for text in of_words[n - 1]) for n in numbers]
    return [line + " " * (widest - columns(line)) + note for line, note in zip(lines, notes, strict=True)]
