"""Which labels a model takes for which: a matrix and the worst faults, as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from probtrans_cli.reports.markup import quiet, table
from probtrans_cli.text import columns, visible

Confusions = Mapping[str, Mapping[str, int]]
MOST_LABELS = 40  # of a matrix; the rest stands together
MOST_FAULTS = 15
LONGEST = 200  # columns of a name
CELL, SIDE = 19, 134  # pixels: a cell, the labels on the left
OTHERS = "all others"


def matrix(confusions: Confusions) -> str:
    """The matrix as SVG: a row a gold label, the most frequent first, darker the larger the share of its row."""
    names = _names(confusions)
    if len(names) < 2:
        return ""
    rest = len(names) > MOST_LABELS
    kept = names[: MOST_LABELS - 1] if rest else names
    place = {name: index for index, name in enumerate(kept)}
    counts = [[0] * (len(kept) + rest) for _ in range(len(kept) + rest)]
    for gold, row in confusions.items():
        for given, number in row.items():
            counts[place.get(gold, len(kept))][place.get(given, len(kept))] += number
    told = [visible(name, longest=LONGEST) for name in kept] + [f"{OTHERS} ({len(names) - len(kept):,})"] * rest
    labels = [visible(name, longest=12) for name in kept] + [OTHERS] * rest
    if len(set(labels)) < len(labels):  # long names that begin alike
        labels = [f"{number} {label}" for number, label in enumerate(labels, start=1)]
    size, head = len(labels) * CELL, round(14 + 6.5 * max(map(columns, labels)))
    parts = [_line(index, labels, told, numbers, head) for index, numbers in enumerate(counts)]
    parts.append(f'<rect class="grid" x="{SIDE}" y="{head}" width="{size}" height="{size}"/>')
    width, height = SIDE + size + 60, head + size + 4
    return (
        f'<div class="scroll"><svg class="matrix" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="Confusion matrix of {len(names):,} labels; the worst confusions stand in the table">'
        f"{''.join(parts)}</svg></div>\n"
    )


def _line(index: int, labels: Sequence[str], names: Sequence[str], numbers: Sequence[int], head: int) -> str:
    """A row of the matrix with its label, and the label of the same column; the names are whole where one points."""
    label, name, y, total = labels[index], names[index], head + index * CELL, max(sum(numbers), 1)
    x = SIDE + (index + 0.5) * CELL
    parts = [
        f'<text class="tick" x="{SIDE - 6}" y="{y + CELL / 2}" dy=".35em" text-anchor="end">{escape(label)}</text>',
        f'<text class="tick" transform="translate({x} {head - 6}) rotate(-60)" dy=".35em">{escape(label)}</text>',
    ]
    for other, number in enumerate(numbers):
        if number:
            what = "right" if other == index and not name.startswith(OTHERS) else "wrong"
            told = f"{name} given as {names[other]}: {number:,} ({100 * number / total:.1f} % of {name})"
            parts.append(
                f'<rect class="{what}" x="{SIDE + other * CELL}" y="{y}" width="{CELL}" height="{CELL}" '
                f'fill-opacity="{0.08 + 0.92 * (number / total) ** 0.5:.3f}"><title>{escape(told)}</title></rect>'
            )
    return "".join(parts)


def worst(confusions: Confusions) -> str:
    """The most frequent faults as a table."""
    faults = [
        (number, gold, given) for gold, row in confusions.items() for given, number in row.items() if given != gold
    ]
    if not faults:
        return quiet("There are none.")
    total = sum(number for number, _, _ in faults)
    rows = []
    for number, gold, given in sorted(faults, key=lambda fault: (-fault[0], fault[1:]))[:MOST_FAULTS]:
        shares = [number / sum(confusions[gold].values()), number / total]
        rows.append(
            [
                visible(gold, longest=LONGEST),
                visible(given, longest=LONGEST),
                f"{number:,}",
                *(f"{100 * share:.1f} %" for share in shares),
            ]
        )
    return table(("gold", "given", "number", "of gold", "of all faults"), rows, texts=2)


def _names(confusions: Confusions) -> list[str]:
    """All labels, the most frequent gold one first; then those that were only given."""
    number = {gold: sum(row.values()) for gold, row in confusions.items()}
    for row in confusions.values():
        for given in row:
            number.setdefault(given, 0)
    return sorted(number, key=lambda name: (-number[name], name))
