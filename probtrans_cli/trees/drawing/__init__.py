"""What is drawn: a sentence with its arcs. Every picture is made of one :class:`Drawing`.

Words are data from anywhere: nothing in them is ever markup, and characters that hide or reorder text are shown as
escapes (:func:`probtrans_cli.text.visible`).

Trees as lines of JSON: those of this project, and displaCy's manual input.

displaCy (`displacy.render([json.loads(line), ...], style="dep", manual=True)`) escapes markup in a word's `text` but in
no label, tag or title, so those come escaped. It knows no arc from outside the sentence: the root's word says so in its
tag.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import accumulate
from typing import Any, Literal, TypeVar

import numpy as np
from jaxtyping import Float, Int

from probtrans_cli.text import LONGEST_WORD, rounded, visible

LONGEST_TITLE = 200  # columns


@dataclass(frozen=True)
class Arc:
    """One arc: words count from 1, head 0 is the root; ``probability`` None means that none is known. ``deviation``:
    the standard deviation of that over draws of the weights, where they are drawn. ``relation``: its name, where it has
    one."""

    dependent: int
    head: int
    probability: float | None
    channel: int | str = "mean"
    deviation: float | None = None
    relation: str = ""

    def text(self, plus_minus: str = "±") -> str:
        """Write its probability as pictures have it, with its standard deviation where there is one."""
        mean, spread = probability_text(self.probability), probability_text(self.deviation)
        return f"{mean}{plus_minus}{spread}" if mean and spread else mean

    def label(self, *, ascii_only: bool = False, show_probability: bool = True, root: str = "") -> str:
        """Write its relation and its probability; ``root`` is the relation of an arc from the root without one."""
        relation = visible(self.relation, ascii_only=ascii_only) if self.relation else "" if self.head else root
        chance = self.text("+-" if ascii_only else "±") if show_probability else ""
        return f"{relation} {chance}".strip()


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

    ``notes``: for every word the lines that stand below it; or none at all. ``spans``: none overlaps another one of its
    line. ``right_to_left``: word 1 is at the right.
    """

    words: tuple[str, ...]
    arcs: tuple[Arc, ...]
    title: str = ""
    notes: tuple[tuple[str, ...], ...] = ()
    spans: tuple[Span, ...] = ()
    right_to_left: bool = False

    @property
    def lines(self) -> int:
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
    directions = [unicodedata.bidirectional(character) for word in words for character in word[:LONGEST_WORD]]
    return sum(direction in ("R", "AL") for direction in directions) > directions.count("L")


def named_channels(arcs: Sequence[Arc]) -> dict[int | str, str]:
    """Return the channels that a legend names, with their names: all of them where there are several, numbers first."""
    channels = {arc.channel for arc in arcs}
    if len(channels) < 2:
        return {}
    ordered = sorted(channels, key=lambda channel: (isinstance(channel, str), str(channel).zfill(9)))
    return {channel: channel if isinstance(channel, str) else f"channel {channel}" for channel in ordered}


def probability_text(value: float | None) -> str:
    """Write two decimals without the zero before the point."""
    if value is None or not math.isfinite(value):
        return ""
    return "1.0" if value >= 0.995 else f"{max(value, 0.0):.2f}".removeprefix("0")


class Layout:
    """How the arcs of a drawing stand above its words, whatever draws them.

    Attributes:
        levels: Height of each arc, from 1: the lowest above every arc within it; overlapping arcs never share a height.
            Root: 0.
        rises: The same in steps of a picture; a root's arrow starts above all arcs over its word, and above an earlier
            root's arrow there.
        ends: For each word the indices of its arcs from left to right, so that nested arcs do not cross on their way
            up: arcs to the left, near ones first, then root arcs, then arcs to the right, far ones first.
    """

    def __init__(self, drawing: Drawing) -> None:
        arcs = drawing.arcs
        spans = [(min(arc.dependent, arc.head), max(arc.dependent, arc.head)) for arc in arcs]
        skyline = [0] * (max((right for _, right in spans), default=0) + 1)  # height above the gap after each word
        self.levels = [0] * len(arcs)
        for index in sorted(range(len(arcs)), key=lambda i: (spans[i][1] - spans[i][0], spans[i][0], i)):
            left, right = spans[index]
            if left:
                self.levels[index] = 1 + max(skyline[left:right])
                skyline[left:right] = [self.levels[index]] * (right - left)
        self.rises = [float(level) for level in self.levels]
        at: list[list[tuple[int, int, int, int]]] = [[] for _ in drawing.words]
        for index, (left, right) in enumerate(spans):
            height = self.levels[index]
            if left:
                at[right - 1].append((0, right - left, height, index))
                at[left - 1].append((2, left - right, -height, index))
            else:
                over = [
                    level for (low, high), level in zip(spans, self.levels, strict=True) if 0 < low <= right <= high
                ]
                earlier = sum(end[0] == 1 for end in at[right - 1])
                self.rises[index] = max(over, default=0) + 0.9 + 0.6 * earlier
                at[right - 1].append((1, 0, 0, index))
        self.ends = [[end[3] for end in sorted(word)] for word in at]

    def offset(self, word: int, arc: int) -> float:
        """Return where an arc ends, in places to the right of the middle of a word (from 1)."""
        ends = self.ends[word - 1]
        return ends.index(arc) - (len(ends) - 1) / 2


@dataclass(frozen=True)
class EveryTree:
    """A sentence with its trees of every iteration ``t`` and channel ``c``, the last of which is the channels' mean.

    ``heads``: 0 = root, 1..n. ``probabilities``: of these arcs, NaN where not known; ``deviations``: the standard
    deviations of these over draws of the weights, where they are drawn. ``marginals``: of every word
    (columns 0..n-1) and of the root (column n, where the model has one) as the head; None where there are too many.
    ``channel`` (from 0) and ``iteration`` (from 1, -1 is the last) are the model's own choice, ``gold`` are the
    treebank's heads. ``title``, ``notes`` and ``spans``: as of :class:`~probtrans_cli.trees.drawing.Drawing`.
    Raises ValueError for what does not fit together.
    """

    words: tuple[str, ...]
    heads: Int[np.ndarray, "t c n"]
    probabilities: Float[np.ndarray, "t c n"]
    marginals: Float[np.ndarray, "t c n m"] | None = None
    deviations: Float[np.ndarray, "t c n"] | None = None
    gold: tuple[int, ...] | None = None
    channel: int | Literal["mean"] = "mean"
    iteration: int = -1
    title: str = ""
    notes: tuple[tuple[str, ...], ...] = ()
    spans: tuple[Span, ...] = ()
    right_to_left: bool = False

    def __post_init__(self) -> None:
        iterations, channels, count = self.heads.shape
        if count != len(self.words) or self.probabilities.shape != self.heads.shape:
            raise ValueError(f"heads {self.heads.shape} and probabilities of {len(self.words)} words")
        if self.deviations is not None and self.deviations.shape != self.heads.shape:
            raise ValueError(f"heads {self.heads.shape} and deviations {self.deviations.shape}")
        if self.marginals is not None and self.marginals.shape not in (
            (*self.heads.shape, count),
            (*self.heads.shape, count + 1),
        ):
            raise ValueError(f"marginals {self.marginals.shape} for heads {self.heads.shape}")
        if self.gold is not None and len(self.gold) != count:
            raise ValueError(f"{len(self.gold)} gold heads for {count} words")
        outside = self.heads.size and not 0 <= self.heads.min() <= self.heads.max() <= count
        if outside or any(not 0 <= head <= count for head in self.gold or ()):
            raise ValueError(f"a head is outside a sentence of {count} words")
        if self.channel != "mean" and not 0 <= self.channel < channels - 1:
            raise ValueError(f"channel {self.channel} of {channels - 1}")
        if self.iteration != -1 and not 1 <= self.iteration <= iterations:
            raise ValueError(f"iteration {self.iteration} of {iterations}")


_Shown = TypeVar("_Shown", Drawing, EveryTree)


def shown(drawing: _Shown, show: Callable[..., str] = visible) -> _Shown:
    """Return the same picture with texts that are safe to show: its words, notes, names of spans, and title."""
    return replace(
        drawing,
        words=tuple(map(show, drawing.words)),
        notes=tuple(tuple(map(show, texts)) for texts in drawing.notes),
        spans=tuple(replace(span, name=show(span.name)) for span in drawing.spans),
        title=show(drawing.title, longest=LONGEST_TITLE) if drawing.title else "",
    )


def tree_record(
    words: Sequence[str],
    heads: Sequence[int] | np.ndarray,
    probabilities: Sequence[float | None] | np.ndarray | None,
    *,
    channel: int | str,
    iteration: int,
    decode: str,
    deviations: Sequence[float | None] | np.ndarray | None = None,
) -> dict[str, Any]:
    """Return a tree for JSON: words, heads, probabilities, channel, iteration, decode; and the standard deviations of
    the probabilities over draws of the weights, where there are some.

    Probabilities have 6 decimals, None where not known. Raises ValueError for lists of different lengths.
    """
    if len(words) != len(heads) or (probabilities is not None and len(probabilities) != len(heads)):
        raise ValueError("words, heads and probabilities differ in length")
    return {
        "words": [str(word) for word in words],
        "heads": [int(head) for head in heads],
        "probabilities": None if probabilities is None else [rounded(value) for value in probabilities],
        **({} if deviations is None else {"probability_deviations": [rounded(value) for value in deviations]}),
        "channel": channel,
        "iteration": iteration,
        "decode": decode,
    }


def displacy_line(drawing: Drawing, *, show_probability: bool = True) -> str:
    """Write a sentence as a line of ASCII JSON without the newline: words, arcs, settings, and the title if it has one.

    A label is the arc's relation, if it has one, and its probability, after the channel's name where there are several
    channels. A word's tag has `root` with its probability and the word's notes. Words are shown as in every picture,
    not kept to the character. Where there are spans, the same line is manual input of another style, too: `ent`, or
    where they have kinds, such as the parts of tuples, which overlap, `span`.
    """
    channels = named_channels(drawing.arcs)
    tags = [[_markup(text) for text in texts] for texts in drawing.notes] or [[] for _ in drawing.words]
    arcs: list[dict[str, object]] = []
    for arc in drawing.arcs:
        relation = arc.relation or ("root" if arc.head == 0 else "")
        names = [relation, channels.get(arc.channel, ""), arc.text() if show_probability else ""]
        label = _markup(" ".join(filter(None, names)))
        if arc.head == 0:
            tags[arc.dependent - 1].insert(0, label)
            continue
        start, end = sorted((arc.dependent - 1, arc.head - 1))
        side = "left" if arc.dependent < arc.head else "right"
        arcs.append({"start": start, "end": end, "label": label, "dir": side})
    tokens = [visible(word) for word in drawing.words]
    edges = [0, *accumulate(len(token) + 1 for token in tokens)]  # where each word begins in the text
    entities = [
        {"start": edges[span.first - 1], "end": edges[span.last] - 1, "label": _markup(span.name)}
        for span in drawing.spans
        if not span.kind
    ]
    parts = [
        {"start_token": span.first - 1, "end_token": span.last, "label": _markup(span.name)}
        for span in drawing.spans
        if span.kind
    ]
    words = [{"text": token, "tag": ", ".join(tag)} for token, tag in zip(tokens, tags, strict=True)]
    record: Mapping[str, object] = {
        "words": words,
        "arcs": arcs,
        "settings": {"direction": "rtl" if drawing.right_to_left else "ltr", "lang": "und"},
        **({"text": " ".join(tokens)} if drawing.spans else {}),
        **({"ents": entities} if entities else {}),
        **({"tokens": tokens, "spans": parts} if parts else {}),
        **({"title": _markup(drawing.title, longest=LONGEST_TITLE)} if drawing.title else {}),
    }
    return json.dumps(record)


def _markup(text: str, *, longest: int = LONGEST_WORD) -> str:
    return escape(visible(text, longest=longest)) if text else ""
