"""Learning curves from `metrics.jsonl`, and their pictures as SVG that stands in a page. Imports no torch.

A picture has no colour of its own: the page's style gives it, in light and in dark. What a reader points at is told by
the page's script, from the same numbers as JSON.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from probtrans_cli.folders import regular
from probtrans_cli.reports.scores import is_share, shown
from probtrans_cli.text import from_json
from probtrans_cli.trees.drawing.html import safe_json
from probtrans_cli.trees.drawing.svg import COLOURS, decimal

WIDTH, HEIGHT = 560, 270
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 12, 40
MOST_POINTS = 400  # of a curve that is drawn
LOGARITHMIC = 30  # from this ratio of the largest to the smallest value
DASH_PATTERNS = 4  # of report.css
MARGIN = 0.04  # of the range of values, above and below it
NARROWEST = 1e-9  # of the range of values, relative to the largest


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
        finite = [(float(x), float(y)) for x, y in pairs if _is_number(x) and _is_number(y)]
        both = np.array(finite, dtype=np.float64).reshape(-1, 2)
        if len(both) > MOST_POINTS:
            both = np.array([part.mean(axis=0) for part in np.array_split(both, MOST_POINTS)])
        return cls(name, both[:, 0], both[:, 1], colour, points)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a `metrics.jsonl`; what is not one of ours, as the last one after a kill may be, is left out."""
    if not os.path.lexists(path):
        return
    with regular.open_file(path) as file:
        for line in file:
            try:
                values = from_json(line.decode("utf-8", "replace"))
            except ValueError:
                continue
            if isinstance(values, dict) and {"step", "split"} <= values.keys():
                yield values


# --- the picture of one chart -----------------------------------------------------------------------------------------


def chart(
    title: str,
    curves: Sequence[Curve],
    *,
    score: str = "",
    marked: int | None = None,
    zero: bool = False,
    named: bool = False,
) -> str:
    """A figure of curves over the same axis of updates; empty where there is nothing to draw.

    ``score``: the name of what is drawn, which says how numbers are written; ``marked``: an update to be marked;
    ``zero``: the axis begins at 0; ``named``: a single curve is named, too.
    """
    curves = [curve for curve in curves if len(curve.steps)]
    if not curves:
        return ""
    values = np.concatenate([curve.values for curve in curves])
    across = _Axis.of(np.concatenate([[0.0], *(curve.steps for curve in curves)]), logarithmic=False)
    share = is_share(score)
    up = _Axis.of(np.append(values, 0.0) if zero else values, logarithmic=not (zero or share), share=share)
    parts = [*_frame(across, up, score)]
    if marked is not None:
        x = decimal(across.place(marked, LEFT, WIDTH - RIGHT))
        parts.append(f'<path class="marked" d="M{x} {TOP}V{HEIGHT - BOTTOM}"/>')
    for curve in curves:
        xs = across.place(curve.steps, LEFT, WIDTH - RIGHT)
        ys = up.place(curve.values, HEIGHT - BOTTOM, TOP)
        dots = [f"{decimal(float(x))} {decimal(float(y))}" for x, y in zip(xs, ys, strict=True)]
        colour = _style(curve.colour)
        parts.append(f'<path class="curve {colour}" d="M{"L".join(dots)}"/>')
        if curve.points or len(dots) == 1:
            marks = "".join(f"M{dot}h0" for dot in dots)
            parts.append(f'<path class="points {colour}" d="{marks}"/>')
    of_curves = [
        {"name": curve.name, "steps": list(map(_short, curve.steps)), "shown": [shown(score, y) for y in curve.values]}
        for curve in curves
    ]
    record = {"left": LEFT, "right": WIDTH - RIGHT, "from": across.low, "to": across.high, "curves": of_curves}
    names = legend(curves) if named or len(curves) > 1 else ""
    ends = "; ".join(f"{curve.name} ends at {shown(score, curve.values[-1])}" for curve in curves[:4])
    return (
        f'<figure class="chart"><figcaption>{escape(title)}{" (logarithmic)" if up.logarithmic else ""}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(f"{title}: {ends}")}">{"".join(parts)}'
        f'<path class="cursor" d=""/></svg>{names}<p class="told quiet" aria-live="polite"></p>'
        f'<script type="application/json">{safe_json(record)}</script></figure>\n'
    )


def legend(curves: Sequence[Curve]) -> str:
    """The names of curves beside their colours."""
    names: dict[int, list[str]] = {}
    for curve in curves:
        names.setdefault(curve.colour, []).append(curve.name)
    entries = "".join(
        f'<li class="{_style(colour)}"><svg viewBox="0 0 22 10" aria-hidden="true">'
        f'<path class="curve" d="M1 5H21"/></svg>{escape(", ".join(dict.fromkeys(of_colour)))}</li>'
        for colour, of_colour in names.items()
    )
    return f'<ul class="legend">{entries}</ul>'


def _style(colour: int) -> str:
    """The classes of a colour, and of a dash pattern where there are more than there are colours."""
    return f"channel-{colour % len(COLOURS)} dash-{colour // len(COLOURS) % DASH_PATTERNS}"


def _frame(across: _Axis, up: _Axis, score: str) -> Iterator[str]:
    """Lines and numbers of both axes."""
    for value in up.ticks():
        y = decimal(up.place(value, HEIGHT - BOTTOM, TOP))
        yield f'<path class="rule" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'
        yield f'<text class="tick" x="{LEFT - 7}" y="{y}" dy=".35em" text-anchor="end">{_tick(value, score)}</text>'
    for value in across.ticks():
        x = decimal(across.place(value, LEFT, WIDTH - RIGHT))
        yield f'<path class="rule" d="M{x} {TOP}V{HEIGHT - BOTTOM}"/>'
        yield f'<text class="tick" x="{x}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{value:,.10g}</text>'
    yield f'<text class="tick" x="{WIDTH - RIGHT}" y="{HEIGHT - 5}" text-anchor="end">updates</text>'


@dataclass(frozen=True)
class _Axis:
    """From values to places: the range that is shown, and whether equal ratios have equal lengths."""

    low: float
    high: float
    logarithmic: bool

    @classmethod
    def of(cls, values: np.ndarray, *, logarithmic: bool, share: bool = False) -> _Axis:
        low, high = float(values.min()), float(values.max())
        if high - low <= NARROWEST * max(abs(low), abs(high)):
            room = 0.05 * abs(high) or 1.0
            least = 0.0 if low >= 0 else -math.inf
            return cls(max(low - room, least), min(high + room, 1.0 if share else math.inf), logarithmic=False)
        if logarithmic and low > 0 and high / low >= LOGARITHMIC:
            room = (high / low) ** MARGIN
            return cls(low / room, high * room, logarithmic=True)
        room = MARGIN * (high - low)
        return cls(low - room * (low != 0), min(high + room, 1.0 if share else math.inf), logarithmic=False)

    def place(self, value: Any, start: float, end: float) -> Any:
        """Where a value stands between two ends."""
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = np.log(value), math.log(low), math.log(high)
        return start + (value - low) / (high - low) * (end - start)

    def ticks(self) -> list[float]:
        """Round values within the range: 1, 2 or 5 times a power of ten, about three to seven of them."""
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


def _tick(value: float, score: str) -> str:
    if is_share(score):
        return f"{100 * value:.4g} %"
    if 1e3 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e3 or not value else f"{value:.3g}".replace("e-0", "e-")


def _short(value: float) -> float:
    return float(f"{value:.7g}")
