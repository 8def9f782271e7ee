"""Draw the learning curve of a parser from the table of `docs/parsing.md`: ``python tests/text/learning_curve.py``."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import numpy as np

from probtrans_cli.reports.charts import Axis
from probtrans_cli.trees.drawing.svg import COLOURS, FONT, INK, decimal

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE, PICTURE = DOCS / "parsing.md", DOCS / "few-sentences.svg"
MARK = "<!-- the curve few-sentences.svg -->\n"
LEFT, RIGHT, TOP, BOTTOM, WIDTH, HEIGHT = 52, 420, 40, 280, 596, 324
STYLE = (
    f".rule{{stroke:#D9D9D9;fill:none}}text{{fill:#5C5C5C;font-size:11px}}.title{{fill:{INK};font-size:13px;"
    "font-weight:600}"
)


def read_table() -> tuple[list[str], np.ndarray]:
    """Return the names of the curves, and a row ``[sentences, value of each curve]`` for each line of the table."""
    lines = PAGE.read_text("utf-8").partition(MARK)[2].strip().split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    numbers = [[float(re.sub(",", "", cell.split()[0])) for cell in row] for row in cells[2:]]
    return cells[0][1:], np.array(numbers)


def drawn() -> str:
    """Return the picture."""
    names, rows = read_table()
    sentences, values = rows[:, 0], rows[:, 1:]
    across = Axis.of(sentences, LEFT, RIGHT, logarithmic=True)
    up = Axis(40.0, 90.0, BOTTOM, TOP)
    parts = [
        up.rules(LEFT, RIGHT, "{:.0f} %".format),
        across.rules(TOP, BOTTOM, "{:,.0f}".format, across=True, ticks=sentences),
        f'<text class="title" x="{LEFT}" y="22">Test scores by the number of training sentences</text>',
        f'<text x="{RIGHT}" y="{HEIGHT - 8}" text-anchor="end">sentences with a tree, English Web Treebank</text>',
    ]
    for number in range(len(names)):
        colour, places = COLOURS[number // 2], zip(across.place(sentences), up.place(values[:, number]), strict=True)
        dots = [f"{decimal(float(x))} {decimal(float(y))}" for x, y in places]
        dashes = ' stroke-dasharray="5 4"' if number % 2 else ""
        parts.append(f'<path d="M{"L".join(dots)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        marks = "".join(f"M{dot}h0" for dot in dots)
        parts.append(f'<path d="{marks}" stroke="{colour}" stroke-width="6" stroke-linecap="round"/>')
    by_height = sorted(range(len(names)), key=lambda number: -values[-1, number])
    for place, number in enumerate(by_height):  # beside the ends of the curves, none upon another
        y = TOP + 16 + 18 * place
        dashes = ' stroke-dasharray="5 4"' if number % 2 else ""
        line = f'<path d="M{RIGHT + 14} {y - 4}h22" stroke="{COLOURS[number // 2]}" stroke-width="2"{dashes}/>'
        parts.append(f'{line}<text x="{RIGHT + 42}" y="{y}">{escape(names[number])}</text>')
    rows_said = "; ".join(
        f"{int(count):,} sentences: {', '.join(f'{name} {value:g}' for name, value in zip(names, row, strict=True))}"
        for count, row in zip(sentences, values, strict=True)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="{FONT}" role="img"><title>Learning curve of a parser</title><desc>{escape(rows_said)}</desc>'
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#FFFFFF"/>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
