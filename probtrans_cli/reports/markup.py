"""Parts of HTML that the reports share: tables, remarks, the confusion matrix. Cells are escaped here, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from probtrans_cli.text import columns, visible


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> str:
    """Return a table; the first ``texts`` columns are words, the rest numbers."""
    head = _row("th", header, texts)
    body = "".join(_row("td", row, texts) for row in rows)
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>\n{body}</tbody></table></div>\n'


def _row(element: str, cells: Sequence[str], texts: int) -> str:
    of_kind = [f'<{element} class="text">'] * texts + [f"<{element}>"] * (len(cells) - texts)
    return (
        "<tr>"
        + "".join(f"{start}{escape(cell)}</{element}>" for start, cell in zip(of_kind, cells, strict=True))
        + "</tr>\n"
    )


def quiet(text: str) -> str:
    return f'<p class="quiet">{escape(text)}</p>\n'


Confusions = Mapping[str, Mapping[str, int]]
MOST_LABELS = 40  # of a matrix; the rest stands together
MOST_FAULTS = 15
LONGEST = 200  # columns of a name
CELL, SIDE = 19, 134  # pixels: a cell, the labels on the left
OTHERS = "all others"


def confusion_matrix(confusions: Confusions) -> str:
    """Draw the matrix as SVG: a row a gold label, the most frequent first, darker the larger the share of its row."""
    counted = Counter({gold: sum(row.values()) for gold, row in confusions.items()})
    counted.update(dict.fromkeys((predicted for row in confusions.values() for predicted in row), 0))
    names = sorted(counted, key=lambda name: (-counted[name], name))
    if len(names) < 2:
        return ""
    rest = len(names) > MOST_LABELS
    shown = names[: MOST_LABELS - 1] if rest else names
    place = {name: index for index, name in enumerate(shown)}
    counts = [[0] * (len(shown) + rest) for _ in range(len(shown) + rest)]
    for gold, row in confusions.items():
        for predicted, number in row.items():
            counts[place.get(gold, len(shown))][place.get(predicted, len(shown))] += number
    titles = [visible(name, longest=LONGEST) for name in shown] + [f"{OTHERS} ({len(names) - len(shown):,})"] * rest
    labels = [visible(name, longest=12) for name in shown] + [OTHERS] * rest
    if len(set(labels)) < len(labels):  # long names that begin alike
        labels = [f"{number} {label}" for number, label in enumerate(labels, start=1)]
    size, head = len(labels) * CELL, round(14 + 6.5 * max(map(columns, labels)))
    parts = [_line(index, labels, titles, numbers, head) for index, numbers in enumerate(counts)]
    parts.append(f'<rect class="grid" x="{SIDE}" y="{head}" width="{size}" height="{size}"/>')
    width, height = SIDE + size + 60, head + size + 4
    return (
        f'<div class="scroll"><svg class="matrix" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="Confusion matrix of {len(names):,} labels; the worst confusions stand in the table">'
        f"{''.join(parts)}</svg></div>\n"
    )


def _line(index: int, labels: Sequence[str], names: Sequence[str], numbers: Sequence[int], head: int) -> str:
    label, name, y, total = labels[index], names[index], head + index * CELL, max(sum(numbers), 1)
    x = SIDE + (index + 0.5) * CELL
    parts = [
        f'<text class="tick" x="{SIDE - 6}" y="{y + CELL / 2}" dy=".35em" text-anchor="end">{escape(label)}</text>',
        f'<text class="tick" transform="translate({x} {head - 6}) rotate(-60)" dy=".35em">{escape(label)}</text>',
    ]
    for column, number in enumerate(numbers):
        if number:
            hit = "right" if column == index and not name.startswith(OTHERS) else "wrong"
            title = f"{name} predicted as {names[column]}: {number:,} ({100 * number / total:.1f} % of {name})"
            parts.append(
                f'<rect class="{hit}" x="{SIDE + column * CELL}" y="{y}" width="{CELL}" height="{CELL}" '
                f'fill-opacity="{0.08 + 0.92 * (number / total) ** 0.5:.3f}"><title>{escape(title)}</title></rect>'
            )
    return "".join(parts)


def worst_confusions(confusions: Confusions) -> str:
    """Return the most frequent faults as a table."""
    faults = [
        (number, gold, predicted)
        for gold, row in confusions.items()
        for predicted, number in row.items()
        if predicted != gold
    ]
    if not faults:
        return quiet("There are none.")
    total = sum(number for number, _, _ in faults)
    rows = []
    for number, gold, predicted in sorted(faults, key=lambda fault: (-fault[0], fault[1:]))[:MOST_FAULTS]:
        shares = [number / sum(confusions[gold].values()), number / total]
        names = [visible(name, longest=LONGEST) for name in (gold, predicted)]
        rows.append([*names, f"{number:,}", *(f"{100 * share:.1f} %" for share in shares)])
    return table(("gold", "predicted", "number", "of gold", "of all faults"), rows, texts=2)
