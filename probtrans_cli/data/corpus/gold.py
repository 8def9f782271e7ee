"""What is told of gold labels: which of them train lacks, which are perhaps the name of a column, and which tags break
the rules of their scheme."""

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
        self.known = {column: {*names, ABSENT.get(column, None if names else "_")} for column, names in labels.items()}
        self.counts: dict[str, Counter[str]] = {column: Counter() for column in labels}

    def __iter__(self) -> Iterator[Sentence]:
        for sentence in self.sentences:
            for column, known in self.known.items():
                given = [sentence.labels[column]] if column in sentence.labels else sentence.tags.get(column, ())
                self.counts[column].update(label for label in given if label not in known)
            yield sentence


class FaultyTags:
    """The sentences of an iterable. ``faults``: of every file and way to read such a tag, the first tag that is not as
    it should be and is read all the same, and how many there are; as JSON can hold it."""

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
        """Add so many tags of a group, of which ``first`` is told unless there are earlier ones."""
        told, _, before = self.faults.get(group, (first, reading, 0))
        self.faults[group] = told, reading, before + number

    def warnings(self, *, refusal: bool = True) -> list[str]:
        """One for each file and way to read such tags; ``refusal``: it says which key refuses them."""
        return [
            _faulty(printable(first, 400), reading, number, refusal=refusal)
            for first, reading, number in self.faults.values()
        ]


class OddLabels(FaultyTags):
    """The same, and the labels of tables' first rows, which may be names of columns. ``first``: of every table, by
    `file:line`, the label in its first row; ``others``: all labels of other rows."""

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        super().__init__(sentences)
        self.first: dict[str, str] = {}
        self.others: set[str] = set()

    def __iter__(self) -> Iterator[Sentence]:
        for sentence in super().__iter__():
            if sentence.may_be_header:
                self.first[sentence.where] = sentence.labels[LABEL]
            elif LABEL in sentence.labels:
                self.others.add(sentence.labels[LABEL])
            yield sentence

    def all_warnings(self, known: Labels | None = None) -> list[str]:
        """One for each file that has such tags, and for each label that only first rows have, and that is not
        ``known``."""
        others = {*self.others, *(known or {}).get(LABEL, ())} if self.others else ()
        return [*self.warnings(), *header_warnings(self.first, others)]


def header_warnings(first: Mapping[str, str], others: Collection[str]) -> list[str]:
    """A warning for each label that only first rows of tables have, as the names of columns do.

    Args:
        first: the labels of first rows, each by its row, `file:line`.
        others: the labels of other rows.
    """
    rows: dict[str, list[str]] = {}
    for where, label in first.items():
        if others and label not in others:
            rows.setdefault(label, []).append(where)
    remedy = "if it is the name of a column, set data.table.header=true"
    return [
        f"warning: {first_of(where)}: no other row has the label {printable(label)!r}: {remedy}"
        for label, where in rows.items()
    ]


def _faulty(first: str, reading: str | None, number: int, *, refusal: bool) -> str:
    them, what = ("it", "This tag is") if number == 1 else ("them", f"{number:,} such tags in this file are")
    way = f"as conlleval reads {them}" if reading is None else reading
    return f"warning: {first}. {what} read {way}" + (f"; data.columns.strict=true refuses {them}" if refusal else "")


def unlearned(name: str, task: TaskSection, split: Split, new: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """A warning for each column of a task in which a corpus has no label, or one that train lacks.

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
            what = f"{missed:,} of {sum(ids.size for ids in split.columns(column)):,} labels in column {column}"
            verb = "is" if missed == 1 else "are"
            yield (
                f"warning: {name}: {what} {verb} not in train: counted as wrong, left out of the loss: "
                f"{first_of(names)}"
            )


def label_warnings(
    task: TaskSection, labels: Labels, splits: Mapping[str, Split], manifest: Mapping[str, Any]
) -> list[str]:
    """Warnings about the labels of a prepared corpus: dev or test has labels that train lacks, or train has but one
    label."""
    columns, new = task.learned, manifest.get("new_labels")
    found = []
    if columns and all(len(labels.get(column, ())) == 1 for column in columns):
        every = ", ".join(f"{column} {labels[column][0]}" for column in columns)
        found.append(f"warning: data.train: all labels are the same ({every}): there is nothing to learn")
    if new is not None:  # a folder of an earlier version does not know
        for name, split in splits.items():
            found += [] if name == "train" else unlearned(f"data.{name}", task, split, new[name])
    return found
