"""What is done with one part of a corpus: counting its words and labels, and encoding it into shards.

Both give JSON values that add up over parts, so any process may do them, and what is done need not be done again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from probtrans_cli import atomic
from probtrans_cli.data.corpus.encode import encode_corpus, encoding_of
from probtrans_cli.data.corpus.gold import NewLabels, OddLabels
from probtrans_cli.data.corpus.identity import LABELS
from probtrans_cli.data.corpus.kept import KeptRows
from probtrans_cli.data.corpus.lengths import Shortened
from probtrans_cli.data.corpus.selection import Selected
from probtrans_cli.data.corpus.sources import sha256
from probtrans_cli.data.corpus.store import Labels, write_split
from probtrans_cli.data.corpus.units import SentencesOf, Unit
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import load_vocabulary
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import DataError
from probtrans_cli.folders import regular
from probtrans_cli.recipe.data import Data
from probtrans_cli.text import from_json

if TYPE_CHECKING:
    import pyarrow as pa

Told = dict[str, Any]
"""What is told of a part, as JSON values."""


def sentences_of(unit: Unit, data: Data) -> tuple[KeptRows | SentencesOf, Selected]:
    """The sentences of a part that can be read, and those of them that are read at all."""
    if unit.blocks:
        blocks = SentencesOf(unit.blocks, data)
        return blocks, Selected(lambda: blocks, data.select, unit.split, part=True)
    encoding = encoding_of(data)
    leave_out = encoding.learns_from_rows and unit.split == "train"
    read = KeptRows(unit.sources, data, encoding.units or "rows", leave_out=leave_out)
    return read, Selected(lambda: read, data.select, unit.split)


# --- counting ---------------------------------------------------------------------------------------------------------


class Labelled:
    """The words of sentences; ``counts``: how often every label occurs in them, by column."""

    def __init__(self, sentences: Selected | SentencesOf) -> None:
        self.sentences = sentences
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def __iter__(self) -> Iterator[list[str]]:
        for sentence in self.sentences:
            for column, tags in sentence.tags.items():
                self.counts[column].update(tags)
            for column, label in sentence.labels.items():
                self.counts[column][label] += 1
            yield sentence.words


def begin_counting(data: Data, units: Sequence[Unit]) -> Callable[[int], Told]:
    """What counts a part by its number."""
    return lambda number: count(data, units[number])


def count(data: Data, unit: Unit) -> Told:
    """The ``words`` of a part with their counts, its ``labels``, by column, and how many sentences were ``found``.

    Some of these were ``too_long`` for `data.select`.
    """
    read, selected = sentences_of(unit, data)
    labelled = Labelled(selected)
    words: Counter[str] = Counter()
    for of_sentence in labelled:
        words.update(of_sentence)
    return {"words": words, "labels": labelled.counts, "found": read.found, "too_long": selected.too_long}


# --- encoding ---------------------------------------------------------------------------------------------------------


def begin_encoding(data: Data, units: Sequence[Unit], folder: Path) -> Callable[[int], Told]:
    """What encodes a part by its number, with the vocabulary and the labels of a folder, and into it."""
    vocabulary, labels = load_vocabulary(folder), load_labels(folder)
    return lambda number: encode(data, units[number], vocabulary, labels, folder)


def load_labels(folder: Path) -> dict[str, list[str]]:
    """The labels of every column, as `prepare` wrote them.

    Raises:
        DataError: the file is missing or damaged.
    """
    try:
        text = regular.read_text(folder / LABELS)
        return TypeAdapter(dict[str, list[str]]).validate_python(from_json(text), strict=True)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / LABELS}: {error}", hint="run `probtrans prepare --force`") from None


def encode(data: Data, unit: Unit, vocabulary: Vocabulary, labels: Labels, folder: Path) -> Told:
    """Write the shards of a part into a folder.

    Returns:
        ``files``: the shards, in order, each with name, size and sha256; and what is to be said of the sentences.

    Raises:
        DataError: a file is malformed, or a sentence cannot be stored.
    """
    read, selected = sentences_of(unit, data)
    given = OddLabels(selected)
    # What is scored by all tuples of a sentence is not split.
    whole = data.too_long == "split" and unit.split != "train"
    limits = data.model_copy(update={"too_long": "error"}) if whole else data
    shortened = Shortened(given, vocabulary, limits, part=bool(unit.blocks))
    noted = NewLabels(shortened, labels)
    files = []
    for number, table in enumerate(_tables(data, unit, iter(noted), vocabulary, labels)):
        path = folder / f"{unit.split}-{unit.number:05d}-{number:03d}.arrow"
        write_split(path, table)
        atomic.sync(path)
        files.append({"name": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)})
    return {
        "files": files,
        "found": read.found,
        "notes": read.report() if isinstance(read, KeptRows) else [],
        "new_labels": noted.counts,
        "faults": given.faults,
        "first_rows": given.first,
        "other_rows": sorted(given.others),
        "selected": {name: getattr(selected, name) for name in SELECTED},
        "shortened": {name: getattr(shortened, name) for name in SHORTENED},
    }


SELECTED = ("too_long", "not_drawn", "missing")
SHORTENED = ("divided", "left_out", "skipped", "rows")
"""What :class:`Selected` and :class:`Shortened` count."""


def _tables(
    data: Data, unit: Unit, sentences: Iterator[Sentence], vocabulary: Vocabulary, labels: Labels
) -> Iterator[pa.Table]:
    """Tables of at most so many rows as a shard has."""
    most, training = data.shard_sentences, unit.split == "train"
    if not encoding_of(data).alone:
        table = encode_corpus(data, sentences, vocabulary, labels, training=training)
        yield from (table.slice(begin, most) for begin in range(0, table.num_rows, most))
        return
    for first in sentences:
        portion = _and_then(first, islice(sentences, most - 1))
        yield encode_corpus(data, portion, vocabulary, labels, training=training)


def _and_then(first: Sentence, others: Iterator[Sentence]) -> Iterator[Sentence]:
    yield first
    yield from others
