"""What every drawing of a tree shares: the arcs, their heights, their order at a word, and words made safe to show."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LONGEST_WORD = 40  # columns
LONGEST_TITLE = 200
JOINERS = "\u200c\u200d"  # spell Persian and Indic words and join emoji


@dataclass(frozen=True)
class Arc:
    """One arc: words count from 1, head 0 is the root; ``probability`` None means that none is known."""

    dependent: int
    head: int
    probability: float | None
    channel: int | str = "mean"


@dataclass(frozen=True)
class Drawing:
    """A sentence with its arcs, any number for each word. Raises ValueError for an impossible arc.

    ``notes``: for every word lines that stand below it; or none at all. ``right_to_left``: word 1 is at the right.
    """

    words: tuple[str, ...]
    arcs: tuple[Arc, ...]
    title: str = ""
    notes: tuple[tuple[str, ...], ...] = ()
    right_to_left: bool = False

    def __post_init__(self) -> None:
        if self.notes and len(self.notes) != len(self.words):
            raise ValueError(f"notes for {len(self.notes)} of {len(self.words)} words")
        for arc in self.arcs:
            if not (1 <= arc.dependent <= len(self.words) and 0 <= arc.head <= len(self.words)):
                raise ValueError(f"{arc} is outside a sentence of {len(self.words)} words")
            if arc.dependent == arc.head:
                raise ValueError(f"{arc} joins a word to itself")


def reads_right_to_left(words: Iterable[str]) -> bool:
    """Whether most letters with a direction of their own are of a script that is written from right to left."""
    directions = [unicodedata.bidirectional(character) for word in words for character in word[:LONGEST_WORD]]
    return sum(one in ("R", "AL") for one in directions) > directions.count("L")


def levels(arcs: Sequence[Arc]) -> list[int]:
    """Height of each arc, from 1: the lowest above every arc within it; overlapping arcs never share one. Root: 0."""
    spans = [(min(arc.dependent, arc.head), max(arc.dependent, arc.head)) for arc in arcs]
    skyline = [0] * (max((right for _, right in spans), default=0) + 1)  # height above the gap after each word
    result = [0] * len(arcs)
    for index in sorted(range(len(arcs)), key=lambda i: (spans[i][1] - spans[i][0], spans[i][0], i)):
        left, right = spans[index]
        if left == 0:
            continue
        result[index] = 1 + max(skyline[left:right])
        skyline[left:right] = [result[index]] * (right - left)
    return result


def ends(drawing: Drawing, heights: Sequence[int]) -> list[list[int]]:
    """For each word the indices of its arcs from left to right, so that nested arcs do not cross on their way up.

    Arcs to the left come first, near ones before far ones, then root arcs, then arcs to the right, far ones first.
    """
    at: list[list[tuple[int, int, int, int]]] = [[] for _ in drawing.words]
    for index, arc in enumerate(drawing.arcs):
        if arc.head == 0:
            at[arc.dependent - 1].append((1, 0, 0, index))
            continue
        left, right = sorted((arc.dependent, arc.head))
        at[right - 1].append((0, right - left, heights[index], index))
        at[left - 1].append((2, left - right, -heights[index], index))
    return [[end[3] for end in sorted(word)] for word in at]


def visible(word: str, *, ascii_only: bool = False, longest: int = LONGEST_WORD) -> str:
    """The word as it may be shown anywhere: controls, bidirectional and invisible characters as escapes, shortened.

    At most ``longest`` columns; a mark without a letter gets a dotted circle, an empty word is shown as ∅.
    """
    result, used = "", 0
    ellipsis = "..." if ascii_only else "…"
    for number, character in enumerate(word):
        shown = _escape(character) if _hidden(character) or (ascii_only and not character.isascii()) else character
        if number == 0 and unicodedata.combining(character) and not ascii_only:
            shown = "\u25cc" + shown
        # The ellipsis must fit, unless this is the end; marks without width must not make the word endless.
        room = longest - (len(ellipsis) if number + 1 < len(word) else 0)
        if used + columns(shown) > room or number >= 3 * longest:
            return result + ellipsis
        result += shown
        used += columns(shown)
    return result or ("(empty)" if ascii_only else "∅")


def columns(text: str) -> int:
    """Width on a terminal: two columns for wide characters, none for marks and what a joiner attaches."""
    return sum(character_columns(text[i - 1] if i else "", character) for i, character in enumerate(text))


def character_columns(previous: str, character: str) -> int:
    """Columns that one character adds after another."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or previous == "\u200d":
        return 0
    code = ord(character)
    if 0x1160 <= code <= 0x11FF or (0x1F3FB <= code <= 0x1F3FF and previous):  # jamo inside a syllable, skin tones
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _hidden(character: str) -> bool:
    """Whether a character must not be shown as it is: controls, surrogates, separators, invisible marks."""
    code = ord(character)
    nonsense = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return nonsense or (unicodedata.category(character) in ("Cc", "Cs", "Cf", "Zl", "Zp") and character not in JOINERS)


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
