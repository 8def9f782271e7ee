"""The sentences of a split on their way from reader to store: chosen, shortened, and counted in a :class:`Tally`.

Each step is a generator over the sentences of the step before. Tallies of the parts of a split add up. In the end they
say what was left out, and which labels are new, may be the name of a column, or are not as they should be.
"""

from __future__ import annotations

import random
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, compress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from probtrans_cli.data.entities import TAG_END
from probtrans_cli.data.readers.columns import TAG
from probtrans_cli.data.readers.conllu import UNKNOWN
from probtrans_cli.data.readers.lines import LABEL
from probtrans_cli.data.sentence import Sentence, TagFault
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import ABSENT, Data, Select
from probtrans_cli.recipe.task import TaskSection
from probtrans_cli.text import counted, first_of, printable

if TYPE_CHECKING:
    from probtrans_cli.data.corpus.store import Labels, Split

BETWEEN_CLAUSES = frozenset([".", ",", ";", ":", "!", "?", "...", "--", "–", "—"])
"""The words behind which a sentence of tuples may be divided."""
QUALITIES = ("in pieces", "one of several places", "shortened", "without some words")
"""What may be said of tuples that are kept; see :mod:`probtrans_cli.openie.alignment`."""
LINES = ("cut", "padded")  # what may be done to lines of tags of another length than their sentence
_REASONS = {
    "too many": "more than {rows} in a sentence",
    "too deep": "more than {rows} levels",
    "incomplete": "without arg1 or relation",
    "extra word": "with an extra word that data.grid.extra_words lacks",
}


@dataclass(slots=True)
class RowCounts:
    """How many sentences a file has, how many of them have no row, and the sum of the sentences' ``counts``."""

    sentences: int = 0
    without: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, counts: Mapping[str, int], *, has_rows: bool) -> None:
        self.sentences += 1
        self.without += not has_rows
        if counts:
            self.counts.update(counts)

    def report(self, name: str, units: str, rows: int | None, left_out: str = "") -> str:
        """Return a line about the file."""
        counts = Counter(self.counts)
        qualities = [f"{counts.pop(key):,} {key}" for key in QUALITIES if key in counts]
        lines = [f"{counted(counts.pop(key), 'line')} of tags {key}" for key in LINES if key in counts]
        kept = counts.pop("kept", 0)
        dropped = [f"{_REASONS.get(key, key).format(rows=rows)} ({count:,})" for key, count in counts.most_common()]
        rows_of_file = counted(kept + counts.total(), units.removesuffix("s"))
        text = f"{name}: {counted(self.sentences, 'sentence')}, {rows_of_file}: {kept:,} kept"
        text += f" ({', '.join(qualities)})" if qualities else ""
        text += f", {counts.total():,} dropped: {', '.join(dropped)}" if dropped else ""
        without = [f"{counted(self.without, 'sentence')} without {units}{left_out}"] if self.without else []
        return "; ".join([text, *lines, *without])


@dataclass(slots=True)
class Tally:
    """Counts of the sentences of a split, or of a part of one, and what is odd about them. JSON can hold it."""

    split: str
    files: dict[str, RowCounts] = field(default_factory=dict)
    """Sentences as they are read, by the name of the file in messages."""
    counts: Counter[str] = field(default_factory=Counter)
    """Of :func:`chosen`: sentences ``chosen``, ``too long``, ``not drawn`` and ``missing``. Of :func:`shortened`:
    sentences ``left``, ``divided`` and ``skipped``, and what lies in no portion, ``words`` and ``rows`` of labels."""
    faults: dict[str, tuple[str, str | None, int]] = field(default_factory=dict)
    """By file and reading: the first tag that is read so although it is odd, its reading, and the number of them."""
    first_rows: dict[str, str] = field(default_factory=dict)
    """Labels in the first rows of tables, and tags of the first words of columns, which may be names of columns, by
    `file:line`."""
    later_labels: set[str] = field(default_factory=set)  # labels of other rows
    new_labels: dict[str, Counter[str]] = field(default_factory=dict)  # labels that train lacks, by column
    first_new: dict[str, str] = field(default_factory=dict)  # `file:line` of the first sentence with one, by column

    def add(self, more: Tally) -> None:
        """Add the counts of a further part of the split."""
        for name, file in more.files.items():
            total = self.files.setdefault(name, RowCounts())
            total.sentences += file.sentences
            total.without += file.without
            total.counts.update(file.counts)
        self.counts.update(more.counts)
        for group, (first, reading, number) in more.faults.items():
            earlier, _, before = self.faults.get(group, (first, reading, 0))
            self.faults[group] = earlier, reading, before + number
        self.first_rows |= more.first_rows
        self.later_labels |= more.later_labels
        for column, labels in more.new_labels.items():
            self.new_labels.setdefault(column, Counter()).update(labels)
        self.first_new = more.first_new | self.first_new

    def note_faults(self, faults: Iterable[TagFault]) -> None:
        """Count tags that are read although they are not as they should be."""
        for fault in faults:
            group = f"{fault.where.rpartition(':')[0]}\n{fault.reading}"
            first, _, before = self.faults.get(group, (f"{fault.where}: {fault.reason}", None, 0))
            self.faults[group] = first, fault.reading, before + 1

    def require_some(self, data: Data) -> None:
        """Raise a DataError if the split has no sentence, or none is left of it."""
        if self.files and not any(file.sentences for file in self.files.values()):
            several = len(self.files) > 1
            hint = f"check the file{'s' * several} of data.{self.split}"
            message = f"{first_of(list(self.files))}: no sentence in {'them' if several else 'it'}"
            raise DataError(message, hint=hint)
        if self.counts["too long"] and not self.counts["chosen"]:
            message = f"data.select: every sentence of data.{self.split} has more than {data.select.words} words"
            raise DataError(message, hint="raise data.select.words")
        if self.counts["skipped"] and not self.counts["left"]:
            where = f"{first_of(list(self.files))}: " if self.files else ""
            message = f"{where}every sentence has more than {data.longest} tokens"
            raise DataError(message, hint="raise data.longest")

    def notes(self, name: str, data: Data) -> list[str]:
        """Return a line each about what `data.select` and `data.longest` left out; ``name``: of the corpus."""
        counts, select, notes, reasons = self.counts, data.select, [], []
        if counts["too long"]:
            reasons.append(f"{counted(counts['too long'], 'sentence')} of more than {select.words} words")
        if counts["not drawn"]:
            reasons.append(f"{counts['not drawn']:,} others, as {select.sentences:,} were drawn")
        parts = [f"data.select leaves out {', and '.join(reasons)}"] if reasons else []
        if counts["missing"]:
            parts.append(f"data.select.sentences is {select.sentences:,}, {counts['missing']:,} more than there are")
        if parts:
            notes.append(f"data.{self.split}: {'; '.join(parts)}")
        if counts["skipped"]:
            how = "was" if counts["skipped"] == 1 else "were"
            text = f"{counted(counts['skipped'], 'sentence')} of more than {data.longest} tokens {how} left out"
            notes.append(f"{name}: {text}")
        elif counts["divided"]:
            how = {
                "split": f"split; {counts['rows']:,} rows of labels reach over several parts and were left out",
                "cut": f"cut, without {counts['words']:,} words",
                "window": "read in portions",
            }[data.too_long]
            text = f"{counted(counts['divided'], 'sentence')} of more than {data.longest} tokens"
            notes.append(f"{name}: {text} {'was' if counts['divided'] == 1 else 'were'} {how}")
        return notes

    def tag_warnings(self, *, refusal: bool = True) -> list[str]:
        """Return a warning for each file and way to read odd tags; ``refusal``: name the key that refuses them."""
        warnings = []
        for first, reading, number in self.faults.values():
            them = "it" if number == 1 else "them"
            subject = "This tag is" if number == 1 else f"{number:,} such tags in this file are"
            text = f"warning: {printable(first, 400)}. {subject} read {reading or f'as conlleval reads {them}'}"
            warnings.append(text + (f"; data.columns.strict=true refuses {them}" if refusal else ""))
        return warnings

    def header_warnings(self, format: str, labels: Iterable[str] = ()) -> list[str]:
        """Return a warning for each label, or tag, that only first rows of files have, as the names of columns do.

        ``labels``: further labels of rows that are no first ones.
        """
        later = self.later_labels.union(labels)
        rows: dict[str, list[str]] = {}
        for where, label in self.first_rows.items():
            if self.later_labels and label not in later:
                rows.setdefault(label, []).append(where)
        called, remedy = "label", "if it is the name of a column, set data.table.header=true"
        if format == "columns":
            called, remedy = "tag", "if it is the name of a column, take the line away"
        return [
            f"warning: {first_of(where)}: no other row has the {called} {printable(label)!r}: {remedy}"
            for label, where in rows.items()
        ]


# --- the steps --------------------------------------------------------------------------------------------------------


def chosen(read: Callable[[Tally], Iterable[Sentence]], section: Select, tally: Tally) -> Iterator[Sentence]:
    """Yield the sentences that `data.select` leaves of the tally's split, and note what is odd about them."""
    limit = section.words

    def short(sentences: Iterable[Sentence], counts: Counter[str]) -> Iterator[Sentence]:
        for sentence in sentences:
            if limit is None or len(sentence.words) - sentence.extra <= limit:
                yield sentence
            else:
                counts["too long"] += 1

    sentences = short(read(tally), tally.counts)
    if tally.split == "train" and section.sentences is not None:
        total = sum(1 for _ in short(read(Tally("train")), Counter()))
        order = array("q", range(total))
        random.Random(section.seed).shuffle(order)  # noqa: S311
        drawn = bytearray(total)
        for index in order[: section.sentences]:
            drawn[index] = True
        tally.counts["not drawn"] = max(total - section.sentences, 0)
        tally.counts["missing"] = max(section.sentences - total, 0)
        sentences = compress(sentences, drawn)
    for sentence in sentences:
        tally.counts["chosen"] += 1
        if sentence.faults:
            tally.note_faults(sentence.faults)
        labels = [sentence.labels[LABEL]] if LABEL in sentence.labels else sentence.tags.get(TAG, [])
        if sentence.may_be_header:
            tally.first_rows[sentence.where] = labels[0]
        tally.later_labels.update(labels[sentence.may_be_header :])
        yield sentence


END = "</s>"  # the word at the end of a sentence in a block; see `data.blocks`


def in_blocks(sentences: Iterable[Sentence], words: int | None) -> Iterator[Sentence]:
    """Yield the words of sentences in blocks of ``words``, the last one shorter; None: the sentences as they are."""
    if words is None:
        yield from sentences
        return
    block: list[str] = []
    where = ""
    for sentence in sentences:
        where = where or sentence.where
        block += [*sentence.words, END]
        while len(block) >= words:
            yield Sentence(block[:words], where=where)
            block, where = block[words:], sentence.where
    if block:
        yield Sentence(block, where=where)


def shortened(sentences: Iterable[Sentence], vocabulary: Vocabulary, data: Data, tally: Tally) -> Iterator[Sentence]:
    """Yield sentences, with those of more tokens than `data.longest` divided or left out, and counted.

    A sentence is divided between words. With `too_long: cut` its first portion stands for it; with `window` every
    portion is a sentence of its own; with `skip` it is left out. Portions have no gold tree, because a part of a tree
    is no tree. An entity is not divided, unless it is longer than a portion may be. With `split`, of rows of labels,
    every portion that ends behind punctuation, where there is any, is a sentence; a row is kept where all words that it
    labels lie in a single portion.

    Raises:
        DataError: a sentence or, when it may be divided, a single word of it is too long.
    """
    longest = data.longest
    around = 0 if longest is None else len(vocabulary.encode_words([]).ids)  # tokens that enclose every sentence
    for sentence in sentences:
        if longest is not None:
            encoded = vocabulary.encode_words(sentence.words, sentence.extra)
            if len(encoded.ids) > longest:
                if data.too_long == "skip":
                    tally.counts["skipped"] += 1
                elif data.too_long == "error":
                    values = "skip (tuples in train: split)" if data.rows else "cut, window or skip"
                    hint = f"divide it, raise data.longest, or set data.too_long to {values}"
                    message = f"{sentence.where}: a sentence of {len(encoded.ids)} tokens, more than {longest}"
                    raise DataError(message, hint=hint)
                else:
                    yield from _portions(sentence, encoded.sizes, longest - around, data.too_long, tally)
                continue
        tally.counts["left"] += 1
        yield sentence


def _portions(sentence: Sentence, sizes: Sequence[int], room: int, too_long: str, tally: Tally) -> Iterator[Sentence]:
    """``sizes``: tokens of the sentence's words, then of its extra words; ``room``: tokens of a portion."""
    words = len(sentence.words) - sentence.extra
    room -= sum(sizes[words:])
    totals = [0, *accumulate(sizes[:words])]
    tags = sentence.tags.get("tag", ()) if sentence.form is not None else ()
    tally.counts["divided"] += 1
    start = kept = 0
    while start < words and not (start and too_long == "cut"):
        end = bisect_right(totals, totals[start] + room) - 1  # behind the last word for which there is room
        if end == start:
            word = f"{sentence.where}: word {start + 1} alone has {sizes[start]} tokens"
            raise DataError(f"{word}, more than {room}", hint="leave it out, or raise data.longest")
        if too_long == "split":
            if end < words:  # at the last mark between clauses, if there is any
                marks = (end for end in range(end, start, -1) if sentence.words[end - 1] in BETWEEN_CLAUSES)
                end = next(marks, end)
            grid = [
                row[start:end] + row[words:]
                for row in sentence.grid or ()
                if any(row[start:end]) and not any(row[:start]) and not any(row[end:words])
            ]
            kept += len(grid)
            if grid:
                of_portion = sentence.words[start:end] + sentence.words[words:]
                yield Sentence(of_portion, grid=grid, extra=sentence.extra, where=sentence.where)
        else:
            before_entity = end
            while start < before_entity < len(tags) and tags[before_entity].startswith(("I-", "E-")):
                before_entity -= 1
            end = before_entity if before_entity > start else end
            yield replace(
                sentence,
                words=sentence.words[start:end],
                tags={column: labels[start:end] for column, labels in sentence.tags.items()},
                form=None if sentence.form is None else TAG_END.join(sentence.form.split(TAG_END)[start:end]),
                begins=sentence.begins and not start,
                heads=None,
                relations=None,
                lines=None,
                rows=None,
            )
        start = end
    tally.counts["left"] += 1
    tally.counts["rows"] += len(sentence.grid or ()) - kept
    tally.counts["words"] += words - start


def noting_new_labels(sentences: Iterable[Sentence], labels: Labels, tally: Tally) -> Iterator[Sentence]:
    """Yield sentences, and count their labels that are not among ``labels``, those of train."""
    of_train = {column: {*names, ABSENT.get(column, None if names else "_")} for column, names in labels.items()}
    tally.new_labels |= {column: Counter() for column in labels}
    for sentence in sentences:
        for column, names in of_train.items():
            of_words = [sentence.labels[column]] if column in sentence.labels else sentence.tags.get(column, ())
            if new := [label for label in of_words if label not in names]:
                tally.new_labels[column].update(new)
                tally.first_new.setdefault(column, sentence.where)
        yield sentence


# --- warnings ---------------------------------------------------------------------------------------------------------


def unlearned(
    name: str,
    task: TaskSection,
    split: Split,
    new: Mapping[str, Mapping[str, int]],
    first: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield a warning for each column of a task in which a corpus has no label, or labels that train lacks.

    ``new``, ``first``: by column, how often each of these occurs, and where the first sentence with one begins.
    """
    for column in task.learned:
        missed = sum(int((ids < 0).sum()) for ids in split.columns(column)) if split.has(column) else 0
        if not missed:
            continue
        counts = Counter(new.get(column, {}))
        names = [f"{label} ({count:,})" for label, count in counts.most_common()]
        unlabelled, fate = missed - counts.total(), "counted as wrong, left out of the loss"
        words = sum(ids.size for ids in split.columns(column))
        if column == task.facts.relation_column:
            fate = "left out of the loss, scored without subtypes"
            if unlabelled:
                partly = sum(UNKNOWN in split.row("parents", index) for index in range(len(split)))
                which = f"{partly:,} of {len(split):,} sentences {'is' if partly == 1 else 'are'} not scored"
                yield f"warning: {name}: {unlabelled:,} of {words:,} words have no HEAD: {which}"
            missed, unlabelled = counts.total(), 0
        names += [f"none ({unlabelled:,})"] if unlabelled else []
        if missed:
            share = f"{missed:,} of {words:,} labels in column {column}"
            verb = "is" if missed == 1 else "are"
            where = f"; first in {first[column]}" if column in first else ""
            yield f"warning: {name}: {share} {verb} not in train: {fate}: {first_of(names)}{where}"


def label_warnings(
    task: TaskSection, labels: Labels, splits: Mapping[str, Split], manifest: Mapping[str, Any]
) -> list[str]:
    """Return warnings about a prepared corpus: dev or test has labels that train lacks, or train has a single label."""
    columns, new = task.learned, manifest.get("new_labels")
    warnings = []
    if columns and all(len(labels.get(column, ())) == 1 for column in columns):
        names = ", ".join(f"{column} {labels[column][0]}" for column in columns)
        warnings.append(f"warning: data.train: all labels are the same ({names}): there is nothing to learn")
    if new is not None:  # a folder of an earlier version does not know
        for name, split in splits.items():
            warnings += [] if name == "train" else unlearned(f"data.{name}", task, split, new[name])
    return warnings
