"""Draw learning curves from the tables of pages: ``python tests/text/learning_curve.py``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from probtrans_cli.reports.charts import Axis
from probtrans_cli.trees.drawing.svg import COLOURS, FONT, INK, decimal

DOCS = Path(__file__).parent.parent.parent / "docs"
LEFT, RIGHT, TOP, BOTTOM, WIDTH, HEIGHT = 52, 420, 40, 280, 596, 324
STYLE = (
    f".rule{{stroke:#D9D9D9;fill:none}}text{{fill:#5C5C5C;font-size:11px}}.title{{fill:{INK};font-size:13px;"
    "font-weight:600}"
)


@dataclass(frozen=True)
class Picture:
    """A picture of the table that stands behind a mark in a page.

    ``across``, ``row``: what its first column is, below the picture and in a row's description. ``up``: the values that
    the picture shows, and ``unit`` how they are written. ``in_pairs``: of two curves in a row, the second is dashed, in
    the colour of the first. ``at_rows``: a rule stands at each row, of a logarithmic scale. ``above_first``:
    what is drawn of the other rows is how far they are above the first one. ``logarithmic``: the scale of the values.
    """

    name: str
    page: str
    title: str
    heading: str
    across: str
    row: str
    up: tuple[float, float]
    unit: str
    in_pairs: bool = False
    at_rows: bool = False
    above_first: bool = False
    logarithmic: bool = False

    @property
    def path(self) -> Path:
        """Return where the picture is."""
        return DOCS / self.name

    def read_table(self) -> tuple[list[str], np.ndarray]:
        """Return the names of the curves, and a row ``[first column, value of each curve]`` for each line; NaN where a
        curve has no point."""
        text = (DOCS / self.page).read_text("utf-8").partition(f"<!-- the curve {self.name} -->\n")[2]
        lines = text.strip().split("\n\n")[0].splitlines()
        cells = [[re.sub(",", "", cell).split() for cell in line.strip("|").split("|")] for line in lines]
        names = [cell.strip() for cell in lines[0].strip("|").split("|")]
        return names[1:], np.array([[float(cell[0]) if cell else np.nan for cell in row] for row in cells[2:]])

    def drawn(self) -> str:
        """Return the picture."""
        names, rows = self.read_table()
        if self.above_first:
            rows = np.column_stack([rows[1:, 0], (rows[1:, 1:] - rows[0, 1:]).round(2)])
        first, values = rows[:, 0], rows[:, 1:]
        across = Axis.of(first, LEFT, RIGHT, logarithmic=self.at_rows)
        up = Axis(*self.up, BOTTOM, TOP, logarithmic=self.logarithmic)
        ticks = {"ticks": first} if self.at_rows else {}
        parts = [
            up.rules(LEFT, RIGHT, self.unit.format),
            across.rules(TOP, BOTTOM, "{:,.0f}".format, across=True, **ticks),
            f'<text class="title" x="{LEFT}" y="22">{self.heading}</text>',
            f'<text x="{RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{self.across}</text>',
        ]

        def look(number: int) -> tuple[str, str]:
            dashes = ' stroke-dasharray="5 4"' if self.in_pairs and number % 2 else ""
            return COLOURS[number // 2 if self.in_pairs else number], dashes

        has = ~np.isnan(values)
        for number in range(len(names)):
            (colour, dashes), at = look(number), has[:, number]
            places = zip(across.place(first[at]), up.place(values[at, number]), strict=True)
            dots = [f"{decimal(float(x))} {decimal(float(y))}" for x, y in places]
            parts.append(f'<path d="M{"L".join(dots)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
            marks = "".join(f"M{dot}h0" for dot in dots)
            parts.append(f'<path d="{marks}" stroke="{colour}" stroke-width="6" stroke-linecap="round"/>')
        by_height = sorted(range(len(names)), key=lambda number: -values[has[:, number], number][-1])
        for place, number in enumerate(by_height):  # beside the ends of the curves, none upon another
            (colour, dashes), y = look(number), TOP + 16 + 18 * place
            line = f'<path d="M{RIGHT + 14} {y - 4}h22" stroke="{colour}" stroke-width="2"{dashes}/>'
            parts.append(f'{line}<text x="{RIGHT + 42}" y="{y}">{escape(names[number])}</text>')
        rows_said = "; ".join(
            f"{count:,g} {self.row}: "
            + ", ".join(f"{name} {value:g}" for name, value in zip(names, row, strict=True) if not np.isnan(value))
            for count, row in zip(first, values, strict=True)
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'font-family="{FONT}" role="img"><title>{self.title}</title><desc>{escape(rows_said)}</desc>'
            f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#FFFFFF"/>{"".join(parts)}</svg>\n'
        )


PICTURES = (
    Picture(
        name="few-sentences.svg",
        page="parsing.md",
        title="Learning curve of a parser",
        heading="Test scores by the number of training sentences",
        across="sentences with a tree, English Web Treebank",
        row="sentences",
        up=(40.0, 90.0),
        unit="{:.0f} %",
        in_pairs=True,
        at_rows=True,
    ),
    Picture(
        name="causal.svg",
        page="research/causal.md",
        title="Learning curves of causal language models",
        heading="Perplexity on dev by minutes of one core",
        across="minutes, English Web Treebank in blocks of 64 words",
        row="minutes",
        up=(120.0, 180.0),
        unit="{:.0f}",
    ),
    Picture(
        name="gold-trees.svg",
        page="trees.md",
        title="UAS of a parser from few trees above that of no tree",
        heading="UAS above that of the bias alone, points",
        across="sentences with a tree",
        row="sentences",
        up=(-30.0, 20.0),
        unit="{:.0f}",
        in_pairs=True,
        at_rows=True,
        above_first=True,
    ),
    Picture(
        name="speed-by-length.svg",
        page="speed.md",
        title="Speed by the length of a sentence",
        heading="Thousands of words per second of one core",
        across="words of a sentence",
        row="words",
        up=(1.0, 1500.0),
        unit="{:,g}",
        in_pairs=True,
        at_rows=True,
        logarithmic=True,
    ),
)

if __name__ == "__main__":
    for picture in PICTURES:
        picture.path.write_text(picture.drawn(), encoding="utf-8")
