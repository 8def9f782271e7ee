"""Which sentences of a recipe's files are read at all: `data.select`."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import compress

from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Select


class Selected:
    """The sentences that `data.select` leaves of a split, and how many are left out.

    ``read`` begins to read the split; it is called twice where training sentences are drawn, first to count them.
    ``part``: it is but a part of the split, of which nothing may be left; see :meth:`require_some`.

    Raises:
        DataError: while it is read: all sentences are too long.
    """

    def __init__(
        self, read: Callable[[], Iterable[Sentence]], section: Select, split: str, *, part: bool = False
    ) -> None:
        self.read, self.section, self.split, self.part = read, section, split, part
        self.number = section.sentences if split == "train" else None
        self.too_long = self.not_drawn = self.missing = 0

    def __iter__(self) -> Iterator[Sentence]:
        self.too_long = self.not_drawn = 0
        if self.number is None:
            yield from self._short(self.read())
            return
        there = sum(1 for _ in self._short(self.read()))
        self.too_long = 0
        drawn = array("q", range(there))
        random.Random(self.section.seed).shuffle(drawn)  # noqa: S311
        wanted = bytearray(there)
        for index in drawn[: self.number]:
            wanted[index] = True
        self.not_drawn, self.missing = max(there - self.number, 0), max(self.number - there, 0)
        yield from compress(self._short(self.read()), wanted)

    def _short(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        """Those of no more words than are allowed."""
        most, left = self.section.words, False
        for sentence in sentences:
            if most is None or len(sentence.words) - sentence.extra <= most:
                left = True
                yield sentence
            else:
                self.too_long += 1
        if not self.part:
            self.require_some(left)

    def require_some(self, left: bool) -> None:
        """
        Raises:
            DataError: no sentence is ``left``, as all are too long.
        """
        if self.too_long and not left:
            what = f"data.select: every sentence of data.{self.split} has more than {self.section.words} words"
            raise DataError(what, hint="raise data.select.words")

    def report(self) -> str | None:
        """A line that says what was left out; None where nothing was."""
        reasons = []
        if self.too_long:
            reasons.append(f"{self.too_long:,} sentences of more than {self.section.words} words")
        if self.not_drawn:
            reasons.append(f"{self.not_drawn:,} others, as {self.number:,} were drawn")
        told = f"data.select leaves out {', and '.join(reasons)}" if reasons else ""
        if self.missing:
            more = f"data.select.sentences is {self.number:,}, {self.missing:,} more than there are"
            told = f"{told}; {more}" if told else more
        return f"data.{self.split}: {told}" if told else None
