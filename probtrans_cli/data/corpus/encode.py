"""Encoding: from the sentences of a recipe's files to vocabulary, labels and the tables of the splits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from probtrans_cli.data.corpus import documents
from probtrans_cli.data.corpus.gold import FaultyTags, NewLabels
from probtrans_cli.data.corpus.identity import FORMAT, canonical, fingerprint
from probtrans_cli.data.corpus.kept import KeptRows
from probtrans_cli.data.corpus.lengths import Shortened
from probtrans_cli.data.corpus.selection import Selected
from probtrans_cli.data.corpus.sources import SPLITS, Source
from probtrans_cli.data.corpus.store import Labels, Split, encode_table
from probtrans_cli.data.readers import format_of
from probtrans_cli.data.readers.cogs import CASES
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.data.vocabularies.enclosed import enclosing
from probtrans_cli.recipe.data import ABSENT, FORMATS, Data
from probtrans_cli.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

QUANTILES = {"min": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "95%": 0.95, "99%": 0.99, "max": 1.0}

# --- how sentences become rows ----------------------------------------------------------------------------------------


class Encode(Protocol):
    """Makes the table of a split; ``training`` tells the training split from the others."""

    def __call__(
        self, data: Data, sentences: Iterable[Sentence], vocabulary: Vocabulary, labels: Labels, *, training: bool
    ) -> pa.Table: ...


def _one_row_each(
    data: Data,  # noqa: ARG001
    sentences: Iterable[Sentence],
    vocabulary: Vocabulary,
    labels: Labels,
    *,
    training: bool,  # noqa: ARG001
) -> pa.Table:
    return encode_table(sentences, vocabulary, labels)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the sentences of a format become rows of the store."""

    encode: Encode = _one_row_each
    """Makes the table of a split."""
    labels: Callable[[Data], Mapping[str, Sequence[str]]] = lambda _: {}
    """Columns whose labels are known beforehand, instead of being those of the training file."""
    makes: tuple[str, ...] = ()
    """Columns that sentences do not have and rows do; their labels are counted in the table."""
    enclosed: bool = False
    """Whether specials stand around every row, those of the vocabulary or `<cls>` and `<sep>`."""
    units: str | None = None
    """What a row of a sentence's grid is, in messages; None = sentences have none."""
    learns_from_rows: bool = False
    """Whether training sentences whose grid has no row are left out."""


ENCODINGS: dict[str, Encoding] = {
    "cogs": Encoding(labels=lambda _: {"case": CASES}),  # reported and not learned; the training file has a few of them
    "documents": Encoding(
        documents.encode_instances, lambda data: documents.labels_of(data.documents), (documents.PAIR,), enclosed=True
    ),
    "extractions": Encoding(
        labels=lambda data: {"extra_words": data.extra_words}, units="tuples", learns_from_rows=True
    ),
    "coordinations": Encoding(units="coordinations"),  # what has none is an example, too
}
"""The encodings of formats by name; of any other format, a sentence is one row."""
_SENTENCES = Encoding()


def encoding_of(data: Data) -> Encoding:
    """How the sentences of a recipe's files become rows."""
    return ENCODINGS.get(data.format, _SENTENCES)


def encode_corpus(
    data: Data, sentences: Iterable[Sentence], vocabulary: Vocabulary, labels: Labels, *, training: bool = False
) -> pa.Table:
    """Encode the sentences of a split, one row each; of documents, one row an instance.

    ``training``: documents give as many instances as a training takes, and must give both kinds of pairs.

    Raises:
        DataError: a sentence cannot be stored, or the documents do not give the pairs that are asked for.
    """
    return encoding_of(data).encode(data, sentences, vocabulary, labels, training=training)


# --- a whole corpus ---------------------------------------------------------------------------------------------------


class Encoded(NamedTuple):
    """All that a prepared folder holds."""

    vocabulary: Vocabulary
    labels: dict[str, list[str]]
    tables: dict[str, pa.Table]
    splits: dict[str, Split]
    manifest: dict[str, Any]


def encode_all(data: Data, sources: Sequence[Source]) -> Encoded:
    """Build the vocabulary and the labels of the training files, and encode all splits.

    Raises:
        DataError: a file is malformed or empty, or the vocabulary would be empty.
        RecipeError: a vocabulary of this size cannot be made from the corpus.
    """
    encoding = encoding_of(data)
    formats = [FORMATS[format_of(source.path, data.format)] for source in sources]
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    counts |= {column: Counter() for format in formats for column in format.columns}

    def training_words() -> Iterator[list[str]]:
        for sentence in _sentences(sources, "train", data)[1]:
            for column, tags in sentence.tags.items():
                counts[column].update(tags)
            for column, label in sentence.labels.items():
                counts[column][label] += 1
            yield sentence.words

    passing = training_words()
    vocabulary = build_vocabulary(data.vocabulary, passing, len(data.extra_words))
    for _ in passing:  # what the vocabulary did not want to see: all labels are counted
        pass
    if encoding.enclosed:
        vocabulary = enclosing(vocabulary)
    labels = {column: _by_count(counter, absent=ABSENT.get(column)) for column, counter in counts.items()}
    labels |= {column: list(names) for column, names in encoding.labels(data).items()}
    there = [split for split in SPLITS if any(source.split == split for source in sources)]
    tables, notes, new_labels = {}, [], {}
    warnings: list[str] = []
    for name in there:
        read, selected = _sentences(sources, name, data)
        given = FaultyTags(selected)
        sentences = Shortened(given, vocabulary, data)
        noted = NewLabels(sentences, labels)
        tables[name] = encode_corpus(data, noted, vocabulary, labels, training=name == "train")
        new_labels[name] = noted.counts
        notes += [f"data.{name}: {text}" for text in read.report()] if encoding.units else []
        notes += [text for text in (selected.report(), sentences.report(f"data.{name}")) if text]
        warnings += [text for text in given.warnings() if text not in warnings]
    splits = {name: Split(table) for name, table in tables.items()}
    for column in encoding.makes:
        if splits["train"].has(column):
            counts[column].update(labels[column][label] for label in splits["train"].column(column))
    manifest = {
        "format": FORMAT,
        "version": __version__,
        "data": canonical(data),
        "fingerprint": fingerprint(data, sources),
        "sources": {name: [source.entry() for source in sources if source.split == name] for name in there},
        "vocabulary": {"kind": data.vocabulary.kind, "size": vocabulary.size, "special": len(vocabulary.specials)},
        "labels": {column: {label: counts[column][label] for label in names} for column, names in labels.items()},
        "splits": {name: _statistics(split, labels, vocabulary) for name, split in splits.items()},
        "new_labels": new_labels,
        "notes": notes,
    }
    if warnings:
        manifest["warnings"] = warnings
    return Encoded(vocabulary, labels, tables, splits, manifest)


def _sentences(sources: Sequence[Source], split: str, data: Data) -> tuple[KeptRows, Selected]:
    """The sentences of a split that can be read, and those of them that are read at all."""
    encoding = encoding_of(data)
    of_split = [source for source in sources if source.split == split]
    leave_out = encoding.learns_from_rows and split == "train"
    read = KeptRows(of_split, data, encoding.units or "rows", leave_out=leave_out)
    return read, Selected(lambda: read, data.select, split)


def _by_count(counts: Counter[str], *, absent: str | None) -> list[str]:
    """Labels by falling count, equal counts alphabetically; ``absent`` is the absence of one. None where all of them
    are `_`: a treebank without features."""
    if counts.keys() == {"_"}:
        return []
    return sorted((label for label in counts if label != absent), key=lambda label: (-counts[label], label))


def _statistics(split: Split, labels: Labels, vocabulary: Vocabulary) -> dict[str, Any]:
    words, tokens = int(split.words.sum()), int(split.lengths.sum())
    none = {column for column, names in labels.items() if not names and column not in ABSENT}
    lengths = np.quantile(split.lengths, list(QUANTILES.values()), method="inverted_cdf")
    return {
        "sentences": len(split),
        "words": words,
        "tokens": tokens,
        "unknown": int((split.column("ids") == vocabulary.UNKNOWN).sum()) / tokens,  # that the model cannot tell
        "unseen": int((split.column("frequency") == 0).sum()) / words,
        "length": {name: int(length) for name, length in zip(QUANTILES, lengths, strict=True)},
        "columns": [name for name in (*labels, "heads") if split.has(name) and name not in none],
    }
