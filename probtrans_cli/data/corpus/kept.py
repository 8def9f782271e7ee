"""What becomes of the tuples and coordinations of files: how many are rows of labels, and why others are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from probtrans_cli.data.corpus.sources import Source, require_sentences
from probtrans_cli.data.files import display_name
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data

QUALITIES = ("in pieces", "one of several places", "shortened", "without some words")
"""What may be said of tuples that are kept; see :mod:`probtrans_cli.openie.extraction_rows`."""
LINES = ("cut", "padded")
"""What may be done to lines of tags of another length than their sentence."""
_MORE = {
    "too many": "more than {rows} in a sentence",
    "too deep": "more than {rows} levels",
    "incomplete": "without arg1 or relation",
    "extra word": "with an extra word that data.grid.extra_words lacks",
}
_HINT = "`probtrans prepare RECIPE` with this file as data.dev says why they are dropped"


@dataclass(slots=True)
class OfFile:
    """The sentences of a file, how many of them have no row, and what the ``counts`` of all of them say."""

    sentences: int = 0
    without: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, counts: Mapping[str, int], *, has_rows: bool) -> None:
        """One sentence more."""
        self.sentences += 1
        self.counts.update(counts)
        self.without += not has_rows

    def told(self, name: str, units: str, rows: int | None, left_out: str = "") -> str:
        """A line about the file.

        Args:
            name: of the file.
            units: what a row is.
            rows: the most of them that a sentence may have.
            left_out: what is said behind the sentences without a row.
        """
        counts = Counter(self.counts)
        noted = [f"{counts.pop(key):,} {key}" for key in QUALITIES if key in counts]
        lines = [f"{counts.pop(key):,} lines of tags {key}" for key in LINES if key in counts]
        kept = counts.pop("kept", 0)
        dropped = [f"{_MORE.get(key, key).format(rows=rows)} ({count:,})" for key, count in counts.most_common()]
        told = f"{name}: {self.sentences:,} sentences, {kept + counts.total():,} {units}: {kept:,} kept"
        told += f" ({', '.join(noted)})" if noted else ""
        told += f", {counts.total():,} dropped: {', '.join(dropped)}" if dropped else ""
        told = "; ".join([told, *lines])
        return told + (f"; {self.without:,} sentences without {units}{left_out}" if self.without else "")


class KeptRows:
    """The sentences of files, and what their ``counts`` say, by file.

    ``units`` is what a row is, in messages. Where ``leave_out``, sentences without a row are counted, not yielded.

    Raises:
        DataError: while it is read: a file is malformed, or all sentences are left out.
    """

    def __init__(self, sources: Sequence[Source], data: Data, units: str, *, leave_out: bool) -> None:
        self.sources, self.data, self.units, self.leave_out = sources, data, units, leave_out
        self.files: dict[str, OfFile] = {}

    def __iter__(self) -> Iterator[Sentence]:
        self.files = {}
        left = not self.leave_out
        for source in self.sources:
            file = self.files.setdefault(display_name(source.path), OfFile())
            for sentence in source.sentences(self.data):
                has_rows = any(map(any, sentence.grid or ()))
                file.add(sentence.counts, has_rows=has_rows)
                if has_rows or not self.leave_out:
                    left = True
                    yield sentence
        require_sentences(self.found, self.sources[0].split)
        if not left:
            raise DataError(f"{', '.join(self.files)}: no sentence has {self.units} that are kept", hint=_HINT)

    @property
    def found(self) -> dict[str, int]:
        """How many sentences there are, by file."""
        return {name: file.sentences for name, file in self.files.items()}

    def report(self) -> list[str]:
        """A line for each file."""
        left_out = " are left out of train" if self.leave_out else ""
        return [file.told(name, self.units, self.data.rows, left_out) for name, file in self.files.items()]
