"""Small parts of HTML that the reports share. Cells are escaped here, once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> str:
    """A table; the first ``texts`` columns are words, the others numbers."""
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
    """A remark."""
    return f'<p class="quiet">{escape(text)}</p>\n'
