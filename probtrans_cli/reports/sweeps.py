"""Width transfer to look at: the loss over the rate for each width, and the coordinate check. Imports no torch.

Of every activation x, in the first updates, the check has its mean absolute coordinate |x|, the same of its change
since the start, |x - x_0|, and as exponent the slope of the logarithm of either over that of the width. Scores are
exempt at the start: a sum of as many terms as there are ranks, whose signs are random then, becomes the smaller the
more terms its mean is of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import compress
from typing import Any

import numpy as np

from probtrans_cli import console
from probtrans_cli.errors import UsageError
from probtrans_cli.reports.charts import Axis, standalone
from probtrans_cli.reports.scores import flattened, shown
from probtrans_cli.text import visible
from probtrans_cli.trees.drawing.svg import COLOURS, DASHES, decimal, stroke

FAR = 0.1  # an exponent that is not 0
PANEL, HEIGHT, LEFT, TOP, BELOW, GAP = 330, 250, 62, 46, 44, 58
LINE = 17  # pixels, of a legend
Points = Sequence[tuple[float, float]]


def sweep_report(result: dict[str, Any]) -> str:
    """Write what `train --sweep` prints: a line a point."""
    metric, keys = result["metric"], list(result["grid"])
    rows = []
    for point in result["points"]:
        scores = flattened(point.get("dev", {}))
        value = "not finite" if "failed" in point else shown(metric, scores.get(metric))
        rows.append([*(point["settings"][key] for key in keys), value, visible(point["run"], longest=120)])
    names = [row[-1] for row in rows]
    runs = " ".join(names)
    if len(names) > 2:
        axis = f"-{keys[0].rpartition('.')[2]}="
        runs = f"{names[0].partition(axis)[0]}{axis}*"
    table = console.render([*keys, f"dev {metric}", "run"], rows, title=result["name"], left=["run"])
    return f"{table}\nnext: probtrans table {runs} -f sweep > sweep.svg\n" if runs else f"{table}\n"


def sweep_picture(result: dict[str, Any]) -> str:
    """Draw the rows of `table` as SVG: the score on dev over the rate, a curve for each width, its best point marked;
    models that differ in more, as in `model.base_width`, stand beside each other."""
    curves: dict[tuple[str, ...], dict[int, dict[float, float]]] = {}
    runs: dict[tuple[Any, ...], str] = {}
    metrics = {row["metric"] for row in result["rows"]}
    larger = {row["larger_is_better"] for row in result["rows"]}
    if len(metrics) > 1:
        raise UsageError(f"runs with different scores have no picture in common: {', '.join(sorted(metrics))}")
    for row in sorted(result["rows"], key=lambda row: row["base_width"] or 0):
        score = (row["dev"] or row["test"] or {}).get(row["metric"])
        if score is not None:
            base = "no base width" if row["base_width"] is None else f"base width {row['base_width']}"
            title = (row["recipe"], row["model"], base)
            first = runs.setdefault((title, row["width"], row["lr"]), row["runs"][0])
            if first != row["runs"][0]:
                message = f"{first} and {row['runs'][0]} have one width and one rate, and differ in what no curve tells"
                raise UsageError(message, hint="give the runs of one setting")
            curves.setdefault(title, {}).setdefault(row["width"], {})[row["lr"]] = score["mean"]
    if not any(len(points) > 1 for panel in curves.values() for points in panel.values()):
        raise UsageError("there is no curve: no model was trained at several rates", hint="try train --sweep")
    widths = sorted({width for panel in curves.values() for width in panel})
    # Above several panels stands in what they differ.
    apart = [len(set(part)) > 1 or len(curves) == 1 for part in zip(*curves, strict=True)]
    panels = {
        ", ".join(compress(title, apart)): {f"width {width}": sorted(panel.get(width, {}).items()) for width in widths}
        for title, panel in curves.items()
    }
    return lines(panels, "learning rate", f"dev {metrics.pop()}", best=max if larger.pop() else min)


def coordinate_report(result: dict[str, Any]) -> str:
    """Write what `train --check-width` prints."""
    widths = result["widths"]
    rows = [
        [name, *(f"{value:.3g}" for value in sizes["change"]), *map(_exponent, sizes["exponents"].values())]
        for name, sizes in result["activations"].items()
    ]
    title = f"{result['name']}: mean absolute coordinate of what {result['updates']} updates at the full rate change"
    text = console.render(["", *map(str, widths), "exponent", "of |x|"], rows, title=title)
    return (
        f"{text}\nexponent: of the change, the slope over the width; 0 is right (* is further away). of |x|: of the "
        "size itself, which may fall for scores: they start as sums of random terms.\n"
    )


def _exponent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}{' ' if abs(value) <= FAR else '*'}"


def coordinate_picture(result: dict[str, Any]) -> str:
    """Draw the changes of the coordinate check over the width as SVG."""
    curves = {
        f"{name} ({_exponent(sizes['exponents']['change']).strip()})": list(
            zip(result["widths"], sizes["change"], strict=True)
        )
        for name, sizes in result["activations"].items()
    }
    return lines({f"{result['name']}: change in {result['updates']} updates": curves}, "width", "mean |x - x_0|")


def lines(
    panels: Mapping[str, Mapping[str, Points]],
    across: str,
    up: str,
    *,
    best: Callable[..., tuple[float, float]] | None = None,
) -> str:
    """Draw curves as an SVG picture that stands alone, on logarithmic scales, with a dot at each point."""
    points = np.array([point for panel in panels.values() for curve in panel.values() for point in curve])
    points = points[np.isfinite(points).all(1) & (points > 0.0).all(1)]
    if not len(points):
        raise UsageError("there is nothing to draw: no value is a positive number")
    (low, least), (high, most) = points.min(0), points.max(0)
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    styles = {
        name: (COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)])
        for number, name in enumerate(names)
    }
    rooms = (max(high / low, 1.01) ** 0.04, max(most / least, 1.01) ** 0.06)
    bottom = TOP + HEIGHT
    upright = Axis(least / rooms[1], most * rooms[1], bottom, TOP, logarithmic=True)
    ticks = upright.ticks() if len(upright.ticks()) > 2 else [float(v) for v in np.geomspace(least, most, 5)]
    heading = f"{up} over {across}"
    parts = [f'<text class="title" x="{LEFT}" y="17">{escape(heading)}</text>']
    for number, (title, panel) in enumerate(panels.items()):
        left = LEFT + number * (PANEL + GAP)
        level = Axis(low / rooms[0], high * rooms[0], left, left + PANEL, logarithmic=True)
        places = sorted({x for curve in panel.values() for x, _ in curve})
        parts += [
            f'<text class="title" x="{left}" y="{TOP - 14}">{escape(visible(title, longest=PANEL // 7))}</text>',
            upright.rules(left, left + PANEL, "{:.3g}".format, ticks=ticks),
            level.rules(TOP, bottom, "{:g}".format, across=True, ticks=places),
            f'<text x="{left + PANEL}" y="{bottom + 34}" text-anchor="end">{escape(across)}</text>',
        ]
        for name, curve in panel.items():
            parts.append(_curve(name, curve, styles[name], level, upright, best))
    legend = LEFT + len(panels) * (PANEL + GAP) - GAP + 18
    for number, name in enumerate(names):
        y = TOP + 8 + LINE * number
        parts.append(f'<path d="M{legend} {y}h22" fill="none" {stroke(*styles[name])}/>')
        parts.append(f'<text x="{legend + 28}" y="{y}" dy=".35em">{escape(visible(name, longest=40))}</text>')
    width = legend + 40 + max(7 * min(len(name), 40) for name in names)
    height = max(bottom + BELOW, TOP + LINE * (len(names) + 1))
    return standalone(width, height, heading, parts)


def _curve(
    name: str,
    curve: Points,
    style: tuple[str, str],
    level: Axis,
    upright: Axis,
    best: Callable[..., tuple[float, float]] | None,
) -> str:
    drawn = [point for point in curve if all(0.0 < value < np.inf for value in point)]
    if not drawn:
        return ""
    chosen = None if best is None else best(drawn, key=lambda point: point[1])
    places = [(decimal(float(level.place(x))), decimal(float(upright.place(y)))) for x, y in drawn]
    dots = [
        f'<circle cx="{x}" cy="{y}" r="{6 if point == chosen else 2.6:g}" fill="{style[0]}">'
        f"<title>{escape(visible(name, longest=60))}: {point[0]:g}, {point[1]:.4g}</title></circle>"
        for point, (x, y) in zip(drawn, places, strict=True)
    ]
    path = "L".join(f"{x} {y}" for x, y in places)
    return f'<path d="M{path}" fill="none" {stroke(*style)}/>{"".join(dots)}'


def exponent(widths: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of ``log values`` over ``log widths``."""
    if min(values) <= 0.0:
        return math.nan
    return float(np.polyfit(np.log(widths), np.log(values), 1)[0])


def exponents(widths: Sequence[int], sizes: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, Any]]:
    """Return, by the name of an activation, ``size`` and ``change`` at every width, and the ``exponents`` of both; None
    where there is none, as of a change of 0."""
    table: dict[str, dict[str, Any]] = {}
    for name in sizes[0]:
        columns = {key: [of_width[name][key] for of_width in sizes] for key in ("change", "size")}
        slopes = {key: exponent(widths, values) for key, values in columns.items()}
        finite = {key: slope if math.isfinite(slope) else None for key, slope in slopes.items()}
        table[name] = {**columns, "exponents": finite}
    return table
