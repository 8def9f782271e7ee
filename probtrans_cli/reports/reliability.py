"""Whether probabilities can be relied on: the table of `eval --uncertainty`, and the reliability diagram as SVG.

The diagram: a point for every bin of answers with similar confidence, at their mean confidence and the share of them
that is right, with one binomial standard error on either side; on the diagonal, probabilities are calibrated. Below it
stand the numbers of answers. It has no link and no script, and follows a viewer's light or dark setting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from probtrans_cli.console import render
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

Scores = Mapping[str, Any]
ROWS = {
    "nll": "nll: loss of the right answer",
    "brier": "brier",
    "ece": "ece: distance of confidence and accuracy",
    "ece_floor": "  of calibrated answers",
    "ece_width": "  with bins of equal width",
    "aurc": "aurc: errors among the most confident",
    "error_auroc": "errors told by 1 - probability",
    "error_auroc_mi": "  by the mutual information",
    "error_auroc_latent_labels": "  by the latent label's entropy",
    "error_auroc_heads": "  by the heads' entropy",
    "arc_error_auroc": "wrong arcs told by the head's entropy",
    "entropy": "entropy",
    "expected_entropy": "  expected: the data's part",
    "mutual_information": "  mutual information: the model's part",
    "latent_label_entropy": "  of the latent label",
    "head_entropy": "  of the heads",
}
OOD_ROWS = {
    "ood_auroc": "other text told by the entropy",
    "ood_auroc_mi": "  by the mutual information",
    "entropy": "entropy there",
    "mutual_information": "  mutual information there",
}


def uncertainty_report(name: str, found: Scores, ood: Scores | None = None) -> str:
    """The table of a split's `uncertainty`, and of its `ood`."""
    other = next((key for key in ("with_temperature", "without_temperature") if key in found), None)
    title = f"{visible(name)}: uncertainty of {found['number']:,} answers"
    rows = []
    for key, text in ROWS.items():
        if key in found:
            cells = [_short(found[key])]
            if other is not None:
                cells.append(_short(found[other][key]) if key in found[other] else "")
            rows.append([text, *cells])
    names = ["", "" if other is None else "as predicted"]
    if other is not None:
        names.append(f"{other.replace('_', ' ')} {found['temperature']:.4g}")
    text = f"{title}\n{render(names, rows)}"
    if ood is not None:
        told = [[label, _short(ood[key])] for key, label in OOD_ROWS.items() if key in ood]
        text += f"{visible(name)} beside {ood['sentences']:,} sentences of {visible(ood['file'])}\n"
        text += render(["", ""], told)
    return text


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


# --- the diagram ------------------------------------------------------------------------------------------------------


def reliability_diagram(title: str, found: Scores) -> str:
    """The diagram of a split's `uncertainty` as an SVG picture that stands alone; its bins are of equal width."""
    bins: Sequence[Scores] = found["reliability"]["width"]
    height = TOP + SIDE + GAP + COUNTS + BOTTOM
    line = "L".join(f"{_across(one['confidence'])} {_up(one['accuracy'])}" for one in bins)
    parts = [*_square(), f'<path class="path" d="M{line}"/>', *map(_point, bins), *_counts(bins)]
    heading = f"Reliability on {visible(title, longest=36)}"
    told = f"{found['number']:,} answers, ece {found['ece']:.4f} (of calibrated ones {found['ece_floor']:.4f})"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="{FONT}" role="img"><title>{escape(heading)}</title>'
        f"<desc>{escape(_description(bins, told))}</desc><style>{STYLE}</style>"
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>'
        f'<text class="title" x="{LEFT}" y="19">{escape(heading)}</text><text x="{LEFT}" y="35">{escape(told)}</text>'
        f"{''.join(parts)}</svg>\n"
    )


def _description(bins: Sequence[Scores], told: str) -> str:
    """The diagram in words, for those who do not see it."""
    return f"{told}. By confidence, the share that is right: {'; '.join(map(_told, bins))}"


def _told(one: Scores) -> str:
    """A bin in words."""
    right = f"{one['accuracy']:.3f} ± {one['error']:.3f} right"
    return f"confidence {one['confidence']:.3f}, {right}, {one['number']:,} answers"


def _across(share: float) -> str:
    return decimal(LEFT + share * SIDE)


def _up(share: float) -> str:
    return decimal(TOP + (1.0 - share) * SIDE)


def _square() -> Iterator[str]:
    """Lines, numbers and the diagonal of the square."""
    for tenth in range(0, 11, 2):
        share = tenth / 10
        lines = f"M{_across(0)} {_up(share)}H{_across(1)}M{_across(share)} {_up(0)}V{_up(1)}"
        yield f'<path class="rule" d="{lines}"/>'
        yield f'<text x="{LEFT - 7}" y="{_up(share)}" dy=".35em" text-anchor="end">{share:.1f}</text>'
    yield f'<path class="ideal" d="M{_across(0)} {_up(0)}L{_across(1)} {_up(1)}"/>'
    yield _aside(TOP + SIDE / 2, "share that is right")


def _aside(y: float, text: str) -> str:
    """The name of an upright axis."""
    return f'<text transform="translate(14 {decimal(y)}) rotate(-90)" text-anchor="middle">{text}</text>'


def _point(one: Scores) -> str:
    """A bin, with its standard error."""
    x, y = _across(one["confidence"]), _up(one["accuracy"])
    low, high = _up(max(one["accuracy"] - one["error"], 0.0)), _up(min(one["accuracy"] + one["error"], 1.0))
    left = decimal(float(x) - CAP)
    ends = f"M{left} {low}h{2 * CAP:g}M{left} {high}h{2 * CAP:g}"
    return (
        f'<g><title>{escape(_told(one))}</title><path class="bar" d="M{x} {low}V{high}{ends}"/>'
        f'<circle class="point" cx="{x}" cy="{y}" r="3.2"/></g>'
    )


def _counts(bins: Sequence[Scores]) -> Iterator[str]:
    """The numbers of answers of the bins, on a logarithmic scale from one half."""
    base, top = TOP + SIDE + GAP + COUNTS, TOP + SIDE + GAP
    most = max(math.log10(2 * one["number"]) for one in bins)

    def rise(number: float) -> str:
        return decimal(base - COUNTS * math.log10(2 * number) / most)

    powers = [10**power for power in range(int(most) + 1) if 2 * 10**power <= 10**most * 1.0001]
    for number in powers[:: max(1, math.ceil(len(powers) / 3))]:
        yield f'<path class="rule" d="M{LEFT} {rise(number)}H{LEFT + SIDE}"/>'
        yield f'<text x="{LEFT - 7}" y="{rise(number)}" dy=".35em" text-anchor="end">{number:,}</text>'
    wide = SIDE / BINS
    for one in bins:
        place = min(int(one["confidence"] * BINS), BINS - 1)
        x, y = decimal(LEFT + place * wide + 1), rise(one["number"])
        yield (
            f'<rect class="count" x="{x}" y="{y}" width="{decimal(wide - 2)}" height="{decimal(base - float(y))}">'
            f"<title>{escape(_told(one))}</title></rect>"
        )
    yield f'<path class="rule" d="M{LEFT} {base}H{LEFT + SIDE}"/>'
    for tenth in range(0, 11, 2):
        yield f'<text x="{_across(tenth / 10)}" y="{base + 16}" text-anchor="middle">{tenth / 10:.1f}</text>'
    yield f'<text x="{LEFT + SIDE / 2:g}" y="{base + 34}" text-anchor="middle">confidence</text>'
    yield _aside((base + top) / 2, "answers")
