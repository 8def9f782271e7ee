r"""Trees as one LaTeX document: a tikz-dependency picture a sentence, each on a page of its own size.

Words are data from anywhere: every character that TeX reads as more than itself is written as a command for its shape,
so `\write18{}`, `%` or `&` are only ever printed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, groupby, zip_longest

from probtrans_cli.text import LONGEST_WORD, visible
from probtrans_cli.trees.drawing import Arc, Drawing, Layout, Span, named_channels, shown
from probtrans_cli.trees.drawing.svg import (
    COLOURS,
    DASHES,
    KINDS,
    WORD_SIZE,
    channel_style,
    decimal,
    opacity,
    text_width,
)

STEP, SLOT, NARROWEST, FONT_SIZE, BAR = 13.0, 6.0, 24.0, 10, 12.0  # TeX points
WIDEST = 12_000.0  # TeX has no length above 16383 points

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\symbol{38}",  # \& parts the words of a deptext
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    " ": r"\ ",
    # No ligatures, and the quotation marks that the sentence has.
    "-": "-{}",
    ",": ",{}",
    "?": "?{}",
    "!": "!{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "∅": r"$\emptyset$",
}
PRINTED = str.maketrans(SPECIAL)
# What pdflatex's fonts have; anything else asks for lualatex and its other fonts.
LATIN = frozenset(map(chr, [*range(0x20, 0x7F), *range(0xA0, 0x180)])) - set("ĦħĸſŦŧŀĿŉ") | set("–—‘’‚“”„†‡•…‰‹›€™∅")

PREAMBLE = r"""% Compile with lualatex; where all words are Latin, pdflatex does as well.
\documentclass[multi=dependency,border=6pt]{standalone}
\usepackage{iftex,tikz-dependency}
\ifluatex
  \usepackage{fontspec}
  \newcommand\rtl[1]{\bgroup\textdir TRT #1\egroup}
  \newcommand\ltr[1]{\bgroup\textdir TLT #1\egroup}
  % Fonts for what Latin Modern lacks, the first that has a character; of these, those that are installed.
  \newcommand\otherfont[2]{\IfFontExistsTF{#1}{\directlua{table.insert(otherfonts, "name:#1:mode=harf;#2")}}{}}
  \newcommand\otherscripts{%
    \gdef\otherscripts{}%
    \directlua{otherfonts = {}}%
    \otherfont{Noto Sans}{}%
    \otherfont{Noto Sans Hebrew}{script=hebr;}%
    \otherfont{Noto Naskh Arabic}{script=arab;}%
    \otherfont{Noto Sans Devanagari}{script=dev2;}%
    \otherfont{Noto Sans CJK SC}{}%
    \otherfont{Noto Color Emoji}{}%
    \otherfont{DejaVu Sans}{}%
    \directlua{luaotfload.add_fallback("otherfonts", otherfonts)}%
    \setmainfont{Latin Modern Roman}[RawFeature={fallback=otherfonts}]}
\else
  \usepackage[T1]{fontenc}
  \usepackage{textcomp}
  \newcommand\otherscripts{\PackageError{probtrans}{These words are not all Latin: compile with lualatex}{}}
\fi
% word, offset, height, style, label
\newcommand\rootarc[5]{\draw[/depgraph/.cd, edge style={#4}, reserved/edge style]
  ([xshift=#2, yshift=#3]\wordref{1}{#1}.north) node[above, black, opacity=1, scale=.7, inner sep=1pt] {#5}
  -- ([xshift=#2]\wordref{1}{#1}.north);}
\depkeys{edge horizontal padding=0pt, edge slant=2pt, label style={draw=none, inner sep=1pt}}
"""


def latex(drawings: Iterable[Drawing], *, show_probability: bool = True) -> Iterator[str]:
    """Yield a compilable document in pieces, a picture a sentence, with the arcs and heights of the SVG picture.

    Every channel has its colour and its dashes, named below the picture where there are several; arcs are the fainter
    the less probable. The first line names the engine that is needed. In place of a sentence that is too wide for TeX
    stands a line that says so.
    """
    styles = [f"\\definecolor{{colour{i}}}{{HTML}}{{{colour[1:]}}}" for i, colour in enumerate(COLOURS)]
    for i, dashes in enumerate(DASHES):
        parts = [f"{word} {float(length) / 2:g}pt" for word, length in zip(cycle(["on", "off"]), dashes.split())]
        pattern = f"dash pattern={' '.join(parts)}" if parts else "solid"
        styles.append(f"\\tikzset{{dash{i}/.style={{{pattern}}}}}")
    yield PREAMBLE + "\n".join([*styles, "\\begin{document}"]) + "\n"
    for drawing in drawings:
        drawing = shown(drawing, _shown)  # noqa: PLW2901
        words, title, layout = drawing.words, drawing.title, Layout(drawing)
        rows = [words, *zip_longest(*drawing.notes, fillvalue="")]
        legend = {channel: _shown(name) for channel, name in named_channels(drawing.arcs).items()}
        lines = ["\\begin{dependency}"]
        names = [span.name for span in drawing.spans]
        if not set("".join([title, *legend.values(), *names, *(text for row in rows for text in row)])) <= LATIN:
            lines.insert(0, "\\otherscripts")
        widths = [max(SLOT * len(ends_here) + 4, NARROWEST) for ends_here in layout.ends]
        count = len(words)
        if not words:
            lines.append("\\node {(empty sentence)};")
        elif sum(widths) + sum(map(text_width, words)) * FONT_SIZE / WORD_SIZE > WIDEST:
            lines.append(f"\\node {{(a sentence of {count} words is too wide for \\TeX)}};")
        else:
            order = range(count - 1, -1, -1) if drawing.right_to_left else range(count)
            columns = [count - word if drawing.right_to_left else word + 1 for word in range(count)]
            lines += _words(rows, widths, order)
            slot = -SLOT if drawing.right_to_left else SLOT
            for index, arc in enumerate(drawing.arcs):
                end = slot * layout.offset(arc.dependent, index)
                start = slot * layout.offset(arc.head, index) if arc.head else None
                chance = arc.text(r"\,$\pm$\,") if show_probability else ""
                relation = _escaped(_shown(arc.relation)) if arc.relation else "" if arc.head else "root"
                label = f"{relation} {chance}".strip()
                lines.append(_edge(arc, columns, end, start, STEP * layout.rises[index], label))
            for span in drawing.spans:
                first, last = sorted((columns[span.first - 1], columns[span.last - 1]))
                lines.append(_bar(len(rows), first, last, span))
            if legend:
                lines.append("\\coordinate (legend) at ([yshift=-8pt]current bounding box.south west);")
            for place, (channel, name) in enumerate(legend.items()):
                lines.append(
                    f"\\draw[{_style(channel)}] ([xshift={70 * place}pt]legend) -- +(20pt, 0) "
                    f"node[right, black, scale=.7] {{{_escaped(name)}}};"
                )
        if title:
            side = "east" if drawing.right_to_left else "west"
            corner = f"current bounding box.north {side}"
            lines.append(f"\\node[anchor=south {side}, scale=.8, text=black!65] at ({corner}) {{{_escaped(title)}}};")
        yield "\n".join([*lines, "\\end{dependency}"]) + "\n"
    yield "\\end{document}\n"


def _words(rows: Sequence[Sequence[str]], widths: Sequence[float], order: Sequence[int]) -> list[str]:
    lines = ["\\begin{deptext}[column sep=4pt]"]
    for number, row in enumerate(rows):
        small = "scale=.7, text=black!65" if number else ""
        cells = [f"|[{small or f'minimum width={decimal(widths[word])}pt'}]| {_escaped(row[word])}" for word in order]
        lines.append(" \\&\n".join(cells) + " \\\\")
    return [*lines, "\\end{deptext}"]


def _bar(rows: int, first: int, last: int, span: Span) -> str:
    """A line below all rows, from the first to the last column of a span, and its name."""
    colour = f"colour{KINDS[span.kind]}, thick" if span.kind in KINDS else "black!65"
    down = decimal(2 + BAR * span.line)
    ends = [
        f"([yshift=-{down}pt]\\wordref{{1}}{{{column}}}.{side} |- \\wordref{{{rows}}}{{{column}}}.south)"
        for column, side in ((first, "west"), (last, "east"))
    ]
    label = f"node[midway, below, black!65, scale=.7, inner sep=2pt] {{{_escaped(span.name)}}}"
    return f"\\draw[{colour}] {ends[0]} -- {ends[1]} {label};"


def _edge(arc: Arc, columns: Sequence[int], end: float, start: float | None, height: float, label: str) -> str:
    style = f"{_style(arc.channel)}, opacity={opacity(arc.probability)}"
    column = columns[arc.dependent - 1]
    if start is None:
        return f"\\rootarc{{{column}}}{{{decimal(end)}pt}}{{{decimal(height)}pt}}{{{style}}}{{{label}}}"
    options = [
        f"edge height={decimal(height)}pt",
        f"edge start x offset={decimal(start)}pt",
        f"edge end x offset={decimal(end)}pt",
        f"edge style={{{style}}}",
        *([] if label else ["hide label"]),
    ]
    return f"\\depedge[{', '.join(options)}]{{{columns[arc.head - 1]}}}{{{column}}}{{{label}}}"


def _style(channel: int | str) -> str:
    colour, dashes = channel_style(channel)
    return f"colour{COLOURS.index(colour)}, dash{DASHES.index(dashes)}" if colour in COLOURS else "black, solid"


def _shown(text: str, *, longest: int = LONGEST_WORD) -> str:
    return unicodedata.normalize("NFC", visible(text, longest=longest))


def _escaped(text: str) -> str:
    """Text that TeX prints as it is; in words written from right to left, numbers and Latin letters stay as they are.

    TeX is told the direction, as it does not find it out by itself.
    """
    if not any(unicodedata.bidirectional(character) in ("R", "AL") for character in text):
        return text.translate(PRINTED)
    parts = []
    for left_to_right, run in groupby(text, key=lambda text: unicodedata.bidirectional(text) in ("L", "EN", "AN")):
        printed = "".join(run).translate(PRINTED)
        parts.append(f"\\ltr{{{printed}}}" if left_to_right else printed)
    return f"\\rtl{{{''.join(parts)}}}"
