"""Warnings about gold labels: those that train lacks, those that may be the name of a column, and faulty tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from probtrans_cli.data.corpus.store import Labels, Split
from probtrans_cli.data.readers.lines import LABEL
from probtrans_cli.data.sentence import Sentence, TagFault
from probtrans_cli.recipe.data import ABSENT
from probtrans_cli.recipe.task import TaskSection
from probtrans_cli.text import first_of, printable


class NewLabels:
    """The sentences of an iterable; ``counts`` has, by column, their labels that are not among those of train."""

    def __init__(self, sentences: Iterable[Sentence], labels: Labels) -> None:
        self.sentences = sentences
        self.of_train = {
            column: {*names, ABSENT.get(column, None if names else "_")} for column, names in labels.items()
        }
        self.counts: dict[str, Counter[str]] = {column: Counter() for column in labels}

    def __iter__(self) -> Iterator[Sentence]:
        for sentence in self.sentences:
            for column, names in self.of_train.items():
                labels = [sentence.labels[column]] if column in sentence.labels else sentence.tags.get(column, ())
                self.counts[column].update(label for label in labels if label not in names)
            yield sentence


class FaultyTags:
    """The sentences of an iterable, with counts of the tags that are read although they are not as they should be.

    ``faults`` has, by file and way to read such a tag, the first tag and how many there are; as JSON can hold it.
    """

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        self.sentences = sentences
        self.faults: dict[str, tuple[str, str | None, int]] = {}

    def __iter__(self) -> Iterator[Sentence]:
        for sentence in self.sentences:
            self.add(sentence.faults)
            yield sentence

    def add(self, faults: Iterable[TagFault]) -> None:
        """Count some tags."""
        for fault in faults:
            file = fault.where.rpartition(":")[0]
            self.count(f"{file}\n{fault.reading}", f"{fault.where}: {fault.reason}", fault.reading)

    def count(self, group: str, first: str, reading: str | None, number: int = 1) -> None:
        """Add ``number`` tags of a group, whose warning names ``first`` unless there are earlier ones."""
        earlier, _, before = self.faults.get(group, (first, reading, 0))
        self.faults[group] = earlier, reading, before + number

    def warnings(self, *, refusal: bool = True) -> list[str]:
        """Return a warning for each file and way to read such tags; ``refusal``: name the key that refuses them."""
        warnings = []
        for first, reading, number in self.faults.values():
            them = "it" if number == 1 else "them"
            subject = "This tag is" if number == 1 else f"{number:,} such tags in this file are"
            text = f"warning: {printable(first, 400)}. {subject} read {reading or f'as conlleval reads {them}'}"
            warnings.append(text + (f"; data.columns.strict=true refuses {them}" if refusal else ""))
        return warnings


class OddLabels(FaultyTags):
    """The same, with the labels of tables' first rows, which may be names of columns.

    ``first`` has the label in the first row of every table, by `file:line`; ``later`` all labels of later rows.
    """

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        super().__init__(sentences)
        self.first: dict[str, str] = {}
        self.later: set[str] = set()

    def __iter__(self) -> Iterator[Sentence]:
        for sentence in super().__iter__():
            if sentence.may_be_header:
                self.first[sentence.where] = sentence.labels[LABEL]
            elif LABEL in sentence.labels:
                self.later.add(sentence.labels[LABEL])
            yield sentence

    def all_warnings(self, labels: Labels) -> list[str]:
        """Return the warnings about tags, and about labels of first rows that are not in ``labels`` of train either."""
        later = {*self.later, *labels.get(LABEL, ())} if self.later else ()
        return [*self.warnings(), *header_warnings(self.first, later)]


def header_warnings(first: Mapping[str, str], later: Collection[str]) -> list[str]:
    """Return a warning for each label that only first rows of tables have, as the names of columns do.

    Args:
        first: the labels of first rows, each by its row, `file:line`.
        later: the labels of other rows.
    """
    rows: dict[str, list[str]] = {}
    for where, label in first.items():
        if later and label not in later:
            rows.setdefault(label, []).append(where)
    remedy = "if it is the name of a column, set data.table.header=true"
    return [
        f"warning: {first_of(where)}: no other row has the label {printable(label)!r}: {remedy}"
        for label, where in rows.items()
    ]


def unlearned(name: str, task: TaskSection, split: Split, new: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a warning for each column of a task in which a corpus has no label, or labels that train lacks.

    Args:
        name: what the corpus is called.
        task: what is learned.
        split: the corpus.
        new: its labels that train lacks with their counts, by column.
    """
    for column in task.learned:
        missed = sum(int((ids < 0).sum()) for ids in split.columns(column)) if split.has(column) else 0
        if missed:
            counts = Counter(new.get(column, {}))
            names = [f"{label} ({count:,})" for label, count in counts.most_common()]
            names += [f"none ({missed - counts.total():,})"] if missed > counts.total() else []
            share = f"{missed:,} of {sum(ids.size for ids in split.columns(column)):,} labels in column {column}"
            verb = "is" if missed == 1 else "are"
            yield (
                f"warning: {name}: {share} {verb} not in train: counted as wrong, left out of the loss: "
                f"{first_of(names)}"
            )


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
