"""What is drawn: a sentence with its arcs. Every picture is made of one :class:`Drawing`.

Words are data from anywhere: nothing in them is ever markup, and characters that hide or reorder text are shown as
escapes (:func:`probtrans_cli.text.visible`).
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from probtrans_cli.text import LONGEST_WORD

LONGEST_TITLE = 200  # columns


@dataclass(frozen=True)
class Arc:
    """One arc: words count from 1, head 0 is the root; ``probability`` None means that none is known. ``deviation``:
    the standard deviation of that over draws of the weights, where they are drawn."""

    dependent: int
    head: int
    probability: float | None
    channel: int | str = "mean"
    deviation: float | None = None

    def text(self, plus_minus: str = "±") -> str:
        """Its probability as pictures have it, with its standard deviation where there is one."""
        known, spread = probability_text(self.probability), probability_text(self.deviation)
        return f"{known}{plus_minus}{spread}" if known and spread else known


@dataclass(frozen=True)
class Span:
    """A stretch of words with a name, drawn as a bar below them: words ``first`` to ``last``, counted from 1.

    ``line``: of bars, from 0; those of one line do not overlap. ``kind``: what it is, where colours tell kinds apart.
    """

    first: int
    last: int
    name: str
    line: int = 0
    kind: str = ""


@dataclass(frozen=True)
class Drawing:
    """A sentence with its arcs, any number for each word. Raises ValueError for an impossible arc or span.

    ``notes``: for every word lines that stand below it; or none at all. ``spans``: none overlaps another one
    of its line.
    ``right_to_left``: word 1 is at the right.
    """

    words: tuple[str, ...]
    arcs: tuple[Arc, ...]
    title: str = ""
    notes: tuple[tuple[str, ...], ...] = ()
    spans: tuple[Span, ...] = ()
    right_to_left: bool = False

    @property
    def lines(self) -> int:
        """How many lines its bars take."""
        return max((span.line + 1 for span in self.spans), default=0)

    def __post_init__(self) -> None:
        if self.notes and len(self.notes) != len(self.words):
            raise ValueError(f"notes for {len(self.notes)} of {len(self.words)} words")
        ends: dict[int, int] = {}
        for span in sorted(self.spans, key=lambda span: (span.line, span.first)):
            if not ends.get(span.line, 0) < span.first <= span.last <= len(self.words) or span.line < 0:
                raise ValueError(f"{span} is outside a sentence of {len(self.words)} words, or overlaps another one")
            ends[span.line] = span.last
        for arc in self.arcs:
            if not (1 <= arc.dependent <= len(self.words) and 0 <= arc.head <= len(self.words)):
                raise ValueError(f"{arc} is outside a sentence of {len(self.words)} words")
            if arc.dependent == arc.head:
                raise ValueError(f"{arc} joins a word to itself")


def reads_right_to_left(words: Iterable[str]) -> bool:
    """Whether most letters with a direction of their own are of a script that is written from right to left."""
    directions = [unicodedata.bidirectional(character) for word in words for character in word[:LONGEST_WORD]]
    return sum(one in ("R", "AL") for one in directions) > directions.count("L")


def named_channels(arcs: Sequence[Arc]) -> list[int | str]:
    """The channels that a legend names: all of them where there are several, numbers first."""
    channels = {arc.channel for arc in arcs}
    return sorted(channels, key=lambda c: (isinstance(c, str), str(c).zfill(9))) if len(channels) > 1 else []


def probability_text(value: float | None) -> str:
    """Two decimals without the zero before the point."""
    if value is None or not math.isfinite(value):
        return ""
    return "1.0" if value >= 0.995 else f"{max(value, 0.0):.2f}".removeprefix("0")
