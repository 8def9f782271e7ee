"""Pictures of numbers as SVG: learning curves of a page, and the reliability diagram. Imports no torch.

A chart of curves stands in a page, whose style gives it its colours, in light and in dark, and whose script tells what
a reader points at, from the same numbers as JSON. A reliability diagram stands alone: it has no link and no script, and
follows a viewer's light or dark setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from probtrans_cli.reports.scores import is_share, shown
from probtrans_cli.statistics.uncertainty import BINS
from probtrans_cli.text import visible
from probtrans_cli.trees.drawing.html import safe_json
from probtrans_cli.trees.drawing.svg import COLOURS, FONT, decimal

LOGARITHMIC = 30  # from this ratio of the largest to the smallest value
MARGIN = 0.04  # of the range of values, above and below it
NARROWEST = 1e-9  # of the range of values, relative to the largest


@dataclass(frozen=True)
class Axis:
    """A scale of a picture: values from ``low`` to ``high`` stand from ``start`` to ``end``, in pixels."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    @classmethod
    def of(
        cls, values: np.ndarray, start: float, end: float, *, logarithmic: bool = False, share: bool = False
    ) -> Axis:
        """Make an axis with some room around the values: ``logarithmic`` where their ratios are large; a ``share`` is
        at most 1."""
        low, high = float(values.min()), float(values.max())
        most = 1.0 if share else math.inf
        if high - low <= NARROWEST * max(abs(low), abs(high)):
            room = 0.05 * abs(high) or 1.0
            return cls(max(low - room, 0.0 if low >= 0 else -math.inf), min(high + room, most), start, end)
        if logarithmic and low > 0 and high / low >= LOGARITHMIC:
            room = (high / low) ** MARGIN
            return cls(low / room, high * room, start, end, logarithmic=True)
        room = MARGIN * (high - low)
        return cls(low - room * (low != 0), min(high + room, most), start, end)

    def place(self, value: Any) -> Any:
        """Return where a value stands, or an array of values."""
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = np.log(value), math.log(low), math.log(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values within the range: 1, 2 or 5 times a power of ten, about three to seven of them."""
        if self.logarithmic:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            digits = (1,) if last - first > 4 else (1, 3) if last - first > 2 else (1, 2, 5)
            values = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
        else:
            rough = (self.high - self.low) / 6
            power = 10.0 ** math.floor(math.log10(rough))
            step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= rough)
            values = [step * number for number in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        return [value for value in values if self.low <= value <= self.high]

    def rules(
        self,
        first: float,
        last: float,
        write: Callable[[float], str] | None,
        *,
        across: bool = False,
        ticks: Iterable[float] | None = None,
    ) -> str:
        """Draw a line and, with ``write``, a number for each tick: upright lines from ``first`` to ``last`` of an axis
        that goes across the picture, level ones of an axis that goes up."""
        parts = []
        for value in self.ticks() if ticks is None else ticks:
            at = decimal(self.place(value))
            line = f"M{at} {first:g}V{last:g}" if across else f"M{first:g} {at}H{last:g}"
            x, y, anchor = (at, f"{last + 17:g}", "middle") if across else (f"{first - 7:g}", at, "end")
            lower = "" if across else ' dy=".35em"'
            text = "" if write is None else write(value)
            text = text and f'<text class="tick" x="{x}" y="{y}"{lower} text-anchor="{anchor}">{text}</text>'
            parts.append(f'<path class="rule" d="{line}"/>{text}')
        return "".join(parts)


# --- learning curves --------------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 560, 270
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 12, 40
MOST_POINTS = 400  # of a curve that is drawn
DASH_PATTERNS = 4  # of report.css


@dataclass(frozen=True)
class Curve:
    """Values over the updates of a training. ``colour``: a number; ``points``: each is marked, as there are few."""

    name: str
    steps: np.ndarray
    values: np.ndarray
    colour: int = 0
    points: bool = False

    @classmethod
    def of(cls, name: str, pairs: Iterable[tuple[Any, Any]], colour: int = 0, *, points: bool = False) -> Curve:
        """Make a curve of steps and values; only finite numbers count, and many points are thinned to means."""
        finite = [
            pair
            for pair in pairs
            if all(isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < 1e300 for x in pair)
        ]
        both = np.array(finite, dtype=np.float64).reshape(-1, 2)
        if len(both) > MOST_POINTS:
            both = np.array([part.mean(axis=0) for part in np.array_split(both, MOST_POINTS)])
        return cls(name, both[:, 0], both[:, 1], colour, points)


def chart(
    title: str,
    curves: Sequence[Curve],
    *,
    score: str = "",
    marked: int | None = None,
    zero: bool = False,
    named: bool = False,
) -> str:
    """Draw curves over the same axis of updates as a figure; empty where there is nothing to draw.

    ``score``: the name of what is drawn, which says how numbers are written; ``marked``: an update to be marked;
    ``zero``: the axis begins at 0; ``named``: a single curve is named, too.
    """
    curves = [curve for curve in curves if len(curve.steps)]
    if not curves:
        return ""
    values = np.concatenate([curve.values for curve in curves])
    right, bottom, share = WIDTH - RIGHT, HEIGHT - BOTTOM, is_share(score)
    across = Axis.of(np.concatenate([[0.0], *(curve.steps for curve in curves)]), LEFT, right)
    up = Axis.of(np.append(values, 0.0) if zero else values, bottom, TOP, logarithmic=not (zero or share), share=share)
    parts = [
        up.rules(LEFT, right, lambda value: _tick(value, score)),
        across.rules(TOP, bottom, lambda value: f"{value:,.10g}", across=True),
        f'<text class="tick" x="{right}" y="{HEIGHT - 5}" text-anchor="end">updates</text>',
    ]
    if marked is not None:
        parts.append(f'<path class="marked" d="M{decimal(across.place(marked))} {TOP}V{bottom}"/>')
    styles: dict[int, str] = {}
    names: dict[int, list[str]] = {}
    for curve in curves:
        style = f"channel-{curve.colour % len(COLOURS)} dash-{curve.colour // len(COLOURS) % DASH_PATTERNS}"
        styles[curve.colour] = style
        names.setdefault(curve.colour, []).append(curve.name)
        places = zip(across.place(curve.steps), up.place(curve.values), strict=True)
        dots = [f"{decimal(float(x))} {decimal(float(y))}" for x, y in places]
        parts.append(f'<path class="curve {style}" d="M{"L".join(dots)}"/>')
        if curve.points or len(dots) == 1:
            marks = "".join(f"M{dot}h0" for dot in dots)
            parts.append(f'<path class="points {style}" d="{marks}"/>')
    of_curves = [
        {
            "name": curve.name,
            "steps": [float(f"{step:.7g}") for step in curve.steps],
            "shown": [shown(score, y) for y in curve.values],
        }
        for curve in curves
    ]
    record = {"left": LEFT, "right": right, "from": across.low, "to": across.high, "curves": of_curves}
    entries = [
        f'<li class="{styles[colour]}"><svg viewBox="0 0 22 10" aria-hidden="true">'
        f'<path class="curve" d="M1 5H21"/></svg>{escape(", ".join(dict.fromkeys(of_colour)))}</li>'
        for colour, of_colour in names.items()
    ]
    legend = f'<ul class="legend">{"".join(entries)}</ul>' if named or len(curves) > 1 else ""
    ends = "; ".join(f"{curve.name} ends at {shown(score, curve.values[-1])}" for curve in curves[:4])
    return (
        f'<figure class="chart"><figcaption>{escape(title)}{" (logarithmic)" if up.logarithmic else ""}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(f"{title}: {ends}")}">{"".join(parts)}'
        f'<path class="cursor" d=""/></svg>{legend}<p class="told quiet" aria-live="polite"></p>'
        f'<script type="application/json">{safe_json(record)}</script></figure>\n'
    )


def _tick(value: float, score: str) -> str:
    if is_share(score):
        return f"{100 * value:.4g} %"
    if 1e3 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e3 or not value else f"{value:.3g}".replace("e-0", "e-")


# --- the reliability diagram ------------------------------------------------------------------------------------------

EDGE = 68, 412, 46  # left, right and top of the square
COUNTS, GAP, BELOW = 62, 30, 44  # heights: of the histogram, above it, below it
CAP = 4.0  # half the width of the end of an error bar
STYLE = (
    ":root{color-scheme:light dark;--ink:#1a1a1a;--quiet:#5c5c5c;--line:#d9d9d9;--paper:#ffffff;--point:"
    f"{COLOURS[0]}}}"
    "@media(prefers-color-scheme:dark){:root{--ink:#ececec;--quiet:#a9a9a9;--line:#3d3d3d;--paper:#16181b;"
    f"--point:{COLOURS[4]}}}}}"
    ".paper{fill:var(--paper)}.rule{stroke:var(--line);fill:none}"
    ".ideal{stroke:var(--quiet);stroke-dasharray:5 4;fill:none}"
    ".bar{stroke:var(--point);stroke-width:1.5;fill:none}.path{stroke:var(--point);stroke-opacity:.45;fill:none}"
    ".point,.count{fill:var(--point)}.count{fill-opacity:.65}"
    "text{fill:var(--quiet);font-size:11px}.title{fill:var(--ink);font-size:13px;font-weight:600}"
)


def reliability_diagram(title: str, scores: Mapping[str, Any]) -> str:
    """Draw a split's `uncertainty` as an SVG picture that stands alone.

    A point for every bin (of equal width) of answers with similar confidence, at their mean confidence and the share of
    them that is right, with one binomial standard error on either side; on the diagonal, probabilities are calibrated.
    Below it stand the numbers of answers.
    """
    bins: Sequence[Mapping[str, Any]] = scores["reliability"]["width"]
    left, right, top = EDGE
    bottom = top + right - left
    base, height = bottom + GAP + COUNTS, bottom + GAP + COUNTS + BELOW
    width = right + 18
    across, up = Axis(0.0, 1.0, left, right), Axis(0.0, 1.0, bottom, top)
    counts = Axis(0.5, max(group["number"] for group in bins), base, base - COUNTS, logarithmic=True)
    path, points, columns, texts = [], [], [], []
    for group in bins:
        confidence, accuracy, error, number = (group[key] for key in ("confidence", "accuracy", "error", "number"))
        text = f"confidence {confidence:.3f}, {accuracy:.3f} ± {error:.3f} right, {number:,} answers"
        x, y = decimal(across.place(confidence)), decimal(up.place(accuracy))
        low, high = (decimal(up.place(end)) for end in (max(accuracy - error, 0.0), min(accuracy + error, 1.0)))
        cap = decimal(float(x) - CAP)
        ends = f"M{cap} {low}h{2 * CAP:g}M{cap} {high}h{2 * CAP:g}"
        path.append(f"{x} {y}")
        points.append(
            f'<g><title>{escape(text)}</title><path class="bar" d="M{x} {low}V{high}{ends}"/>'
            f'<circle class="point" cx="{x}" cy="{y}" r="3.2"/></g>'
        )
        start, rise = across.place(min(int(confidence * BINS), BINS - 1) / BINS) + 1, decimal(counts.place(number))
        columns.append(
            f'<rect class="count" x="{decimal(start)}" y="{rise}" width="{decimal((right - left) / BINS - 2)}" '
            f'height="{decimal(base - float(rise))}"><title>{escape(text)}</title></rect>'
        )
        texts.append(text)
    sparse = counts.ticks()
    names = [
        (f"translate(14 {decimal((top + bottom) / 2)}) rotate(-90)", "share that is right"),
        (f"translate(14 {decimal(base - COUNTS / 2)}) rotate(-90)", "answers"),
        (f"translate({decimal((left + right) / 2)} {base + 34})", "confidence"),
    ]
    parts = [
        up.rules(left, right, "{:.1f}".format),
        across.rules(top, bottom, None, across=True),
        f'<path class="ideal" d="M{left} {bottom}L{right} {top}"/><path class="path" d="M{"L".join(path)}"/>',
        *points,
        counts.rules(left, right, "{:,.0f}".format, ticks=sparse[:: max(1, math.ceil(len(sparse) / 3))]),
        *columns,
        across.rules(base, base, "{:.1f}".format, across=True),
        f'<path class="rule" d="M{left} {base}H{right}"/>',
        *(f'<text transform="{move}" text-anchor="middle">{name}</text>' for move, name in names),
    ]
    heading = f"Reliability on {visible(title, longest=36)}"
    summary = f"{scores['number']:,} answers, ece {scores['ece']:.4f} (of calibrated ones {scores['ece_floor']:.4f})"
    description = f"{summary}. By confidence, the share that is right: {'; '.join(texts)}"
    title_texts = [
        f'<text class="title" x="{left}" y="19">{escape(heading)}</text>',
        f'<text x="{left}" y="35">{escape(summary)}</text>',
    ]
    return standalone(width, height, heading, [*title_texts, *parts], description)


def standalone(width: int, height: int, title: str, parts: Iterable[str], description: str = "") -> str:
    """Return an SVG picture that stands alone, with the style of :data:`STYLE`."""
    about = f"<title>{escape(title)}</title>" + (f"<desc>{escape(description)}</desc>" if description else "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="{FONT}" role="img">{about}<style>{STYLE}</style>'
        f'<rect class="paper" width="{width}" height="{height}"/>{"".join(parts)}</svg>\n'
    )
