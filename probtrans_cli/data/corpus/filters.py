"""What sentences pass between reader and store: selection, limits of length, and counts of rows kept or dropped."""

from __future__ import annotations

import random
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, compress

from probtrans_cli.data.codecs.entities import TAG_END
from probtrans_cli.data.corpus.sources import Source, require_sentences
from probtrans_cli.data.files import display_name
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data, Select


class Selected:
    """The sentences that `data.select` leaves of a split, and how many it leaves out.

    Args:
        read: begins to read the split; it is called twice where training sentences are drawn, first to count them.
        section: `data.select`.
        split: the name of the split.
        part: only a part of the split is read, of which nothing may be left; see :meth:`require_some`.

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
        total = sum(1 for _ in self._short(self.read()))
        self.too_long = 0
        order = array("q", range(total))
        random.Random(self.section.seed).shuffle(order)  # noqa: S311
        drawn = bytearray(total)
        for index in order[: self.number]:
            drawn[index] = True
        self.not_drawn, self.missing = max(total - self.number, 0), max(self.number - total, 0)
        yield from compress(self._short(self.read()), drawn)

    def _short(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        limit, left = self.section.words, False
        for sentence in sentences:
            if limit is None or len(sentence.words) - sentence.extra <= limit:
                left = True
                yield sentence
            else:
                self.too_long += 1
        if not self.part:
            self.require_some(left)

    def require_some(self, left: bool) -> None:
        """Raise a DataError if no sentence is ``left``, as all are too long."""
        if self.too_long and not left:
            what = f"data.select: every sentence of data.{self.split} has more than {self.section.words} words"
            raise DataError(what, hint="raise data.select.words")

    def report(self) -> str | None:
        """Return a line that says what was left out; None if nothing was."""
        reasons = []
        if self.too_long:
            reasons.append(f"{self.too_long:,} sentences of more than {self.section.words} words")
        if self.not_drawn:
            reasons.append(f"{self.not_drawn:,} others, as {self.number:,} were drawn")
        parts = [f"data.select leaves out {', and '.join(reasons)}"] if reasons else []
        if self.missing:
            parts.append(f"data.select.sentences is {self.number:,}, {self.missing:,} more than there are")
        return f"data.{self.split}: {'; '.join(parts)}" if parts else None


# --- length -----------------------------------------------------------------------------------------------------------

BETWEEN_CLAUSES = frozenset([".", ",", ";", ":", "!", "?", "...", "--", "–", "—"])
"""The words behind which a sentence of tuples may be divided."""


class Shortened:
    """The sentences of an iterable, with those of more tokens than `data.longest` divided or left out, and counted.

    A sentence is divided between words. With `too_long: cut` its first portion stands for it; with `window` every
    portion is a sentence of its own; with `skip` it is left out. Portions have no gold tree, because a part of a tree
    is no tree. An entity is not divided, unless it is longer than a portion may be. With `split`, of rows of labels,
    every portion that ends behind punctuation, where there is any, is a sentence; a row is kept where all words that it
    labels lie in a single portion.

    ``part``: the sentences are only a part of a corpus, of which nothing may be left; see :meth:`require_some`.

    Raises:
        DataError: while it is read: a sentence or, when it may be divided, a single word of it is too long; or all
            sentences are, and left out.
    """

    def __init__(
        self, sentences: Iterable[Sentence], vocabulary: Vocabulary, data: Data, *, part: bool = False
    ) -> None:
        self.sentences, self.vocabulary, self.data, self.part = sentences, vocabulary, data, part
        self.divided = self.left_out = self.skipped = self.rows = 0
        """Sentences that were divided; words that are in no portion of them; sentences that were left out; rows of
        labels that lie in no portion."""

    def __iter__(self) -> Iterator[Sentence]:
        longest = self.data.longest
        if longest is None:
            yield from self.sentences
            return
        left = False
        around = len(self.vocabulary.encode_words([]).ids)  # tokens that enclose every sentence
        for sentence in self.sentences:
            encoded = self.vocabulary.encode_words(sentence.words, sentence.extra)
            if len(encoded.ids) <= longest:
                left = True
                yield sentence
            elif self.data.too_long == "skip":
                self.skipped += 1
            elif self.data.too_long == "error":
                values = "skip (tuples in train: split)" if self.data.rows else "cut, window or skip"
                hint = f"divide it, raise data.longest, or set data.too_long to {values}"
                message = f"{sentence.where}: a sentence of {len(encoded.ids)} tokens, more than {longest}"
                raise DataError(message, hint=hint)
            else:
                yield from self._portions(sentence, encoded.sizes, longest - around)
        if not self.part:
            self.require_some(left)

    def _portions(self, sentence: Sentence, sizes: Sequence[int], room: int) -> Iterator[Sentence]:
        """Yield the portions of a sentence that is too long; ``sizes``: tokens of its words, then its extra words."""
        words = len(sentence.words) - sentence.extra
        room -= sum(sizes[words:])
        totals = [0, *accumulate(sizes[:words])]
        self.divided += 1
        start = kept = 0
        while start < words and not (start and self.data.too_long == "cut"):
            end = bisect_right(totals, totals[start] + room) - 1
            if end == start:
                word = f"{sentence.where}: word {start + 1} alone has {sizes[start]} tokens"
                raise DataError(f"{word}, more than {room}", hint="leave it out, or raise data.longest")
            if self.data.too_long == "split":
                if end < words:  # at the last mark between clauses, if there is any
                    marks = (end for end in range(end, start, -1) if sentence.words[end - 1] in BETWEEN_CLAUSES)
                    end = next(marks, end)
                portion = _portion_with_rows(sentence, start, end)
                kept += len(portion.grid or ())
                if portion.grid:
                    yield portion
            else:
                end = _between_entities(sentence, start, end)
                yield _portion(sentence, start, end)
            start = end
        self.rows += len(sentence.grid or ()) - kept
        self.left_out += words - start

    def require_some(self, left: bool) -> None:
        """Raise a DataError if no sentence is ``left``, as all are too long."""
        if self.skipped and not left:
            raise DataError(f"every sentence has more than {self.data.longest} tokens", hint="raise data.longest")

    def report(self, name: str) -> str | None:
        """Return a line that says how many sentences of a file were divided or left out; None if none was."""
        if self.skipped:
            return f"{name}: {self.skipped:,} sentences of more than {self.data.longest} tokens were left out"
        if not self.divided:
            return None
        if self.data.too_long == "split":
            how = f"split; {self.rows:,} rows of labels reach over several parts and were left out"
        else:
            how = f"cut, without {self.left_out:,} words" if self.data.too_long == "cut" else "read in portions"
        return f"{name}: {self.divided:,} sentences of more than {self.data.longest} tokens were {how}"


def _between_entities(sentence: Sentence, start: int, end: int) -> int:
    if sentence.form is None or "tag" not in sentence.tags:
        return end
    tags = sentence.tags["tag"]
    earlier = end
    while start < earlier < len(tags) and tags[earlier].startswith(("I-", "E-")):
        earlier -= 1
    return end if earlier == start else earlier


def _portion_with_rows(sentence: Sentence, start: int, end: int) -> Sentence:
    words = len(sentence.words) - sentence.extra
    grid = [
        row[start:end] + row[words:]
        for row in sentence.grid or ()
        if any(row[start:end]) and not any(row[:start]) and not any(row[end:words])
    ]
    return Sentence(
        sentence.words[start:end] + sentence.words[words:], grid=grid, extra=sentence.extra, where=sentence.where
    )


def _portion(sentence: Sentence, start: int, end: int) -> Sentence:
    tags = {column: labels[start:end] for column, labels in sentence.tags.items()}
    form = None if sentence.form is None else TAG_END.join(sentence.form.split(TAG_END)[start:end])
    without = replace(sentence, heads=None, relations=None, lines=None, rows=None)
    return replace(without, words=sentence.words[start:end], tags=tags, form=form, begins=sentence.begins and not start)


# --- rows of labels ---------------------------------------------------------------------------------------------------

QUALITIES = ("in pieces", "one of several places", "shortened", "without some words")
"""What may be said of tuples that are kept; see :mod:`probtrans_cli.openie.alignment`."""
LINES = ("cut", "padded")
"""What may be done to lines of tags of another length than their sentence."""
_REASONS = {
    "too many": "more than {rows} in a sentence",
    "too deep": "more than {rows} levels",
    "incomplete": "without arg1 or relation",
    "extra word": "with an extra word that data.grid.extra_words lacks",
}
_HINT = "`probtrans prepare RECIPE` with this file as data.dev says why they are dropped"


@dataclass(slots=True)
class RowCounts:
    """How many sentences a file has, how many of them have no row, and the sum of the sentences' ``counts``."""

    sentences: int = 0
    without: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, counts: Mapping[str, int], *, has_rows: bool) -> None:
        """Count a sentence."""
        self.sentences += 1
        self.counts.update(counts)
        self.without += not has_rows

    def report(self, name: str, units: str, rows: int | None, left_out: str = "") -> str:
        """Return a line about the file.

        Args:
            name: of the file.
            units: what a row is.
            rows: the largest number of them that a sentence may have.
            left_out: what to say behind the sentences without a row.
        """
        counts = Counter(self.counts)
        qualities = [f"{counts.pop(key):,} {key}" for key in QUALITIES if key in counts]
        lines = [f"{counts.pop(key):,} lines of tags {key}" for key in LINES if key in counts]
        kept = counts.pop("kept", 0)
        dropped = [f"{_REASONS.get(key, key).format(rows=rows)} ({count:,})" for key, count in counts.most_common()]
        text = f"{name}: {self.sentences:,} sentences, {kept + counts.total():,} {units}: {kept:,} kept"
        text += f" ({', '.join(qualities)})" if qualities else ""
        text += f", {counts.total():,} dropped: {', '.join(dropped)}" if dropped else ""
        without = [f"{self.without:,} sentences without {units}{left_out}"] if self.without else []
        return "; ".join([text, *lines, *without])


class KeptRows:
    """The sentences of files, and what their ``counts`` say, by file.

    ``units`` is what a row is, in messages. Where ``leave_out``, sentences without a row are counted, not yielded.

    Raises:
        DataError: while it is read: a file is malformed, or all sentences are left out.
    """

    def __init__(self, sources: Sequence[Source], data: Data, units: str, *, leave_out: bool) -> None:
        self.sources, self.data, self.units, self.leave_out = sources, data, units, leave_out
        self.files: dict[str, RowCounts] = {}

    def __iter__(self) -> Iterator[Sentence]:
        self.files = {}
        left = not self.leave_out
        for source in self.sources:
            file = self.files.setdefault(display_name(source.path), RowCounts())
            for sentence in source.sentences(self.data):
                has_rows = any(map(any, sentence.grid or ()))
                file.add(sentence.counts, has_rows=has_rows)
                if has_rows or not self.leave_out:
                    left = True
                    yield sentence
        require_sentences(self.by_file, self.sources[0].split)
        if not left:
            raise DataError(f"{', '.join(self.files)}: no sentence has {self.units} that are kept", hint=_HINT)

    @property
    def by_file(self) -> dict[str, int]:
        """Number of sentences by file."""
        return {name: file.sentences for name, file in self.files.items()}

    def report(self) -> list[str]:
        """Return a line for each file."""
        left_out = " are left out of train" if self.leave_out else ""
        return [file.report(name, self.units, self.data.rows, left_out) for name, file in self.files.items()]
