"""The reliability diagram as SVG.

A point for every bin of answers with similar confidence, at their mean confidence and the share of them that is right,
with one binomial standard error on either side; on the diagonal, probabilities are calibrated. Below it stand the
numbers of answers. It has no link and no script, and follows a viewer's light or dark setting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from probtrans_cli.statistics.uncertainty import BINS
from probtrans_cli.text import visible
from probtrans_cli.trees.drawing.svg import COLOURS, decimal

WIDTH, LEFT, RIGHT, TOP = 430, 68, 18, 46
SIDE = WIDTH - LEFT - RIGHT  # of the square
COUNTS, GAP, BOTTOM = 62, 30, 44  # heights: of the histogram, above it, below it
FONT = "'DejaVu Sans', 'Noto Sans', 'Helvetica Neue', Arial, sans-serif"
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
    """Draw a split's `uncertainty` as an SVG picture that stands alone; its bins are of equal width."""
    bins: Sequence[Mapping[str, Any]] = scores["reliability"]["width"]
    height = TOP + SIDE + GAP + COUNTS + BOTTOM
    line = "L".join(f"{_across(group['confidence'])} {_up(group['accuracy'])}" for group in bins)
    parts = [*_square(), f'<path class="path" d="M{line}"/>', *map(_point, bins), *_counts(bins)]
    heading = f"Reliability on {visible(title, longest=36)}"
    summary = f"{scores['number']:,} answers, ece {scores['ece']:.4f} (of calibrated ones {scores['ece_floor']:.4f})"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="{FONT}" role="img"><title>{escape(heading)}</title>'
        f"<desc>{escape(_description(bins, summary))}</desc><style>{STYLE}</style>"
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>'
        f'<text class="title" x="{LEFT}" y="19">{escape(heading)}</text>'
        f'<text x="{LEFT}" y="35">{escape(summary)}</text>'
        f"{''.join(parts)}</svg>\n"
    )


def _description(bins: Sequence[Mapping[str, Any]], summary: str) -> str:
    return f"{summary}. By confidence, the share that is right: {'; '.join(map(_bin_text, bins))}"


def _bin_text(group: Mapping[str, Any]) -> str:
    right = f"{group['accuracy']:.3f} ± {group['error']:.3f} right"
    return f"confidence {group['confidence']:.3f}, {right}, {group['number']:,} answers"


def _across(share: float) -> str:
    return decimal(LEFT + share * SIDE)


def _up(share: float) -> str:
    return decimal(TOP + (1.0 - share) * SIDE)


def _square() -> Iterator[str]:
    for tenth in range(0, 11, 2):
        share = tenth / 10
        lines = f"M{_across(0)} {_up(share)}H{_across(1)}M{_across(share)} {_up(0)}V{_up(1)}"
        yield f'<path class="rule" d="{lines}"/>'
        yield f'<text x="{LEFT - 7}" y="{_up(share)}" dy=".35em" text-anchor="end">{share:.1f}</text>'
    yield f'<path class="ideal" d="M{_across(0)} {_up(0)}L{_across(1)} {_up(1)}"/>'
    yield _aside(TOP + SIDE / 2, "share that is right")


def _aside(y: float, text: str) -> str:
    return f'<text transform="translate(14 {decimal(y)}) rotate(-90)" text-anchor="middle">{text}</text>'


def _point(group: Mapping[str, Any]) -> str:
    x, y = _across(group["confidence"]), _up(group["accuracy"])
    low, high = _up(max(group["accuracy"] - group["error"], 0.0)), _up(min(group["accuracy"] + group["error"], 1.0))
    left = decimal(float(x) - CAP)
    ends = f"M{left} {low}h{2 * CAP:g}M{left} {high}h{2 * CAP:g}"
    return (
        f'<g><title>{escape(_bin_text(group))}</title><path class="bar" d="M{x} {low}V{high}{ends}"/>'
        f'<circle class="point" cx="{x}" cy="{y}" r="3.2"/></g>'
    )


def _counts(bins: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Draw the numbers of answers of the bins, on a logarithmic scale from one half."""
    base, top = TOP + SIDE + GAP + COUNTS, TOP + SIDE + GAP
    most = max(math.log10(2 * group["number"]) for group in bins)

    def rise(number: float) -> str:
        return decimal(base - COUNTS * math.log10(2 * number) / most)

    powers = [10**power for power in range(int(most) + 1) if 2 * 10**power <= 10**most * 1.0001]
    for number in powers[:: max(1, math.ceil(len(powers) / 3))]:
        yield f'<path class="rule" d="M{LEFT} {rise(number)}H{LEFT + SIDE}"/>'
        yield f'<text x="{LEFT - 7}" y="{rise(number)}" dy=".35em" text-anchor="end">{number:,}</text>'
    wide = SIDE / BINS
    for group in bins:
        place = min(int(group["confidence"] * BINS), BINS - 1)
        x, y = decimal(LEFT + place * wide + 1), rise(group["number"])
        yield (
            f'<rect class="count" x="{x}" y="{y}" width="{decimal(wide - 2)}" height="{decimal(base - float(y))}">'
            f"<title>{escape(_bin_text(group))}</title></rect>"
        )
    yield f'<path class="rule" d="M{LEFT} {base}H{LEFT + SIDE}"/>'
    for tenth in range(0, 11, 2):
        yield f'<text x="{_across(tenth / 10)}" y="{base + 16}" text-anchor="middle">{tenth / 10:.1f}</text>'
    yield f'<text x="{LEFT + SIDE / 2:g}" y="{base + 34}" text-anchor="middle">confidence</text>'
    yield _aside((base + top) / 2, "answers")
