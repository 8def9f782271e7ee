"""Sentences of more tokens than `data.longest` are refused, cut, read in portions, or left out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate

from probtrans_cli.data.codecs.entities import TAG_END
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data

BETWEEN_CLAUSES = frozenset([".", ",", ";", ":", "!", "?", "...", "--", "–", "—"])
"""The words behind which a sentence of tuples may be divided."""


class Shortened:
    """The sentences of an iterable, with those of more tokens than `data.longest` divided or left out, and how many
    those were.

    A sentence is divided between words. With `too_long: cut` its first portion stands for it; with `window` every
    portion is a sentence of its own; with `skip` it is left out. Portions have no gold tree, because a part of a tree
    is no tree. An entity is not divided, unless it is longer than a portion may be. With `split`, of rows of labels,
    every portion that ends behind punctuation, where there is any, is a sentence; a row is kept where all words that it
    labels lie in one portion.

    ``part``: they are but a part of a corpus, of which nothing may be left; see :meth:`require_some`.

    Raises:
        DataError: while it is read: a sentence or, when it may be divided, one word of it is too long; or all are, and
            left out.
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
        around = len(self.vocabulary.encode_words([]).ids)  # what encloses every sentence
        for sentence in self.sentences:
            encoded = self.vocabulary.encode_words(sentence.words, sentence.extra)
            if len(encoded.ids) <= longest:
                left = True
                yield sentence
                continue
            if self.data.too_long == "skip":
                self.skipped += 1
                continue
            ways = "skip (tuples in train: split)" if self.data.rows else "cut, window or skip"
            hint = f"divide it, raise data.longest, or set data.too_long to {ways}"
            if self.data.too_long == "error":
                raise DataError(
                    f"{sentence.where}: a sentence of {len(encoded.ids)} tokens, more than {longest}", hint=hint
                )
            own = len(sentence.words) - sentence.extra
            sizes = encoded.sizes[:own]
            self.divided += 1
            start, room = 0, longest - around - sum(encoded.sizes[own:])
            kept = 0
            totals = [0, *accumulate(sizes)]
            while start < len(sizes) and not (start and self.data.too_long == "cut"):
                end = bisect_right(totals, totals[start] + room) - 1
                if end == start:
                    word = f"{sentence.where}: word {start + 1} alone has {sizes[start]} tokens"
                    raise DataError(f"{word}, more than {room}", hint="leave it out, or raise data.longest")
                if self.data.too_long == "split":
                    portion = _portion_with_rows(sentence, start, end := _behind_punctuation(sentence, start, end))
                    kept += len(portion.grid or ())
                    if portion.grid:
                        yield portion
                else:
                    yield _portion(sentence, start, end := _between_entities(sentence, start, end))
                start = end
            self.rows += len(sentence.grid or ()) - kept
            self.left_out += len(sizes) - start
        if not self.part:
            self.require_some(left)

    def require_some(self, left: bool) -> None:
        """
        Raises:
            DataError: no sentence is ``left``, as all are too long.
        """
        if self.skipped and not left:
            raise DataError(f"every sentence has more than {self.data.longest} tokens", hint="raise data.longest")

    def report(self, name: str) -> str | None:
        """A line that says how many sentences of a file were divided or left out; None if none was."""
        if self.skipped:
            return f"{name}: {self.skipped:,} sentences of more than {self.data.longest} tokens were left out"
        if not self.divided:
            return None
        if self.data.too_long == "split":
            where = f"{name}: {self.divided:,} sentences of more than {self.data.longest} tokens"
            return f"{where} were split; {self.rows:,} rows of labels reach over several parts and were left out"
        how = f"cut, without {self.left_out:,} words" if self.data.too_long == "cut" else "read in portions"
        return f"{name}: {self.divided:,} sentences of more than {self.data.longest} tokens were {how}"


def _between_entities(sentence: Sentence, start: int, end: int) -> int:
    """The end of a portion, moved back so that it divides no entity; unmoved where one entity fills the portion."""
    if sentence.form is None or "tag" not in sentence.tags:
        return end
    tags = sentence.tags["tag"]
    earlier = end
    while start < earlier < len(tags) and tags[earlier].startswith(("I-", "E-")):
        earlier -= 1
    return end if earlier == start else earlier


def _behind_punctuation(sentence: Sentence, start: int, end: int) -> int:
    """The end of a portion, moved back to stand behind the last mark between clauses; unmoved where there is none, and
    at the end of the sentence."""
    if end == len(sentence.words) - sentence.extra:
        return end
    marks = (place for place in range(end, start, -1) if sentence.words[place - 1] in BETWEEN_CLAUSES)
    return next(marks, end)


def _portion_with_rows(sentence: Sentence, start: int, end: int) -> Sentence:
    """Some words of a sentence and the extra words behind them, with the rows that label none of its other words."""
    own = len(sentence.words) - sentence.extra
    grid = [
        row[start:end] + row[own:]
        for row in sentence.grid or ()
        if any(row[start:end]) and not any(row[:start]) and not any(row[end:own])
    ]
    return Sentence(
        sentence.words[start:end] + sentence.words[own:], grid=grid, extra=sentence.extra, where=sentence.where
    )


def _portion(sentence: Sentence, start: int, end: int) -> Sentence:
    """Some words of a sentence, with their labels; `form` is cut like the tags, which it repeats."""
    tags = {column: labels[start:end] for column, labels in sentence.tags.items()}
    form = None if sentence.form is None else TAG_END.join(sentence.form.split(TAG_END)[start:end])
    without = replace(sentence, heads=None, relations=None, lines=None, rows=None)
    return replace(without, words=sentence.words[start:end], tags=tags, form=form, begins=sentence.begins and not start)
