"""A corpus in parts, each of which any process can count and encode alone; then vocabulary, shards and manifest.

Parts depend on the files and the recipe alone, not on the number of processes. Formats whose sentences stand alone are
cut at about `BYTES`; a small corpus is one part, whatever its format.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from probtrans_cli import atomic, console
from probtrans_cli.data.blocks import Block, cut, in_file, lines_of, total
from probtrans_cli.data.corpus.encode import Encoding, encode_corpus, encoding_of
from probtrans_cli.data.corpus.filters import KeptRows, Selected, Shortened
from probtrans_cli.data.corpus.gold import NewLabels, OddLabels, header_warnings
from probtrans_cli.data.corpus.manifest import FORMAT, LABELS, canonical, fingerprint
from probtrans_cli.data.corpus.sources import SPLITS, Source, require_sentences, sha256, without_sentences
from probtrans_cli.data.corpus.store import Labels, Split, write_split
from probtrans_cli.data.files import display_name, is_compressed
from probtrans_cli.data.processes import Begin, Pool
from probtrans_cli.data.readers import READERS, format_of
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import VOCABULARIES, build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.base import Vocabulary, enclosing
from probtrans_cli.errors import DataError
from probtrans_cli.folders import regular
from probtrans_cli.recipe.data import ABSENT, FORMATS, Data
from probtrans_cli.text import from_json
from probtrans_cli.version import __version__

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


BYTES = 32 << 20
"""Of a part; of a compressed file, four bytes count for each."""
_PACKED = 4


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a split, in order: blocks of files; or all sources of a split that must be read as a whole."""

    split: str
    number: int
    """In its split, from 0."""
    size: int
    blocks: tuple[Block, ...] = ()
    sources: tuple[Source, ...] = ()


def units_of(data: Data, sources: Sequence[Source], alone: bool) -> list[Unit]:
    """The parts of a corpus, split by split; ``alone``: whether a sentence of this format is encoded by itself."""
    units: list[Unit] = []
    for split in SPLITS:
        given = [source for source in sources if source.split == split]
        if not given:
            continue
        drawn = split == "train" and data.select.sentences is not None
        if alone and not drawn and all(source.lines is None for source in given):
            units += _divided(split, given)
        else:
            units.append(Unit(split, 0, sum(map(_weight, given)), sources=tuple(given)))
    return units


def _weight(source: Source) -> int:
    return source.size * (_PACKED if is_compressed(source.path) else 1)


def _divided(split: str, sources: Sequence[Source]) -> Iterator[Unit]:
    """Blocks one after the other, as many together as a part may have."""
    together: list[Block] = []
    room = BYTES
    number = 0
    for source in sources:
        whole = READERS[source.format].ends is None
        found = [Block(str(source.path), source.size)] if whole else cut(str(source.path), source.size, BYTES)
        for block in found:
            weight = block.size * (_PACKED if is_compressed(block.path) else 1)
            if together and weight > room:
                yield Unit(split, number, total(together), tuple(together))
                together, room, number = [], BYTES, number + 1
            together.append(block)
            room -= weight
    yield Unit(split, number, total(together), tuple(together))


@dataclass
class SentencesOf:
    """The sentences of blocks that have a word; ``found``: how many, by file."""

    blocks: Sequence[Block]
    data: Data
    found: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[Sentence]:
        """
        Raises:
            DataError: a file is malformed.
        """
        self.found.clear()
        for block in self.blocks:
            name = display_name(block.path)
            self.found[name] += 0
            reader = READERS[format_of(block.path, self.data.format)]
            ends = reader.ends or "line"  # of a whole file, it says nothing
            try:
                for sentence in reader.read(lines_of(block, ends), name, self.data):
                    if sentence.words:
                        self.found[name] += 1
                        yield sentence
            except DataError as error:
                raise DataError(in_file(block, ends, error.message), hint=error.hint) from None


QUANTILES = {"min": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "95%": 0.95, "99%": 0.99, "max": 1.0}
COUNTED = "counted.json"


def parts_of(data: Data, sources: Sequence[Source]) -> list[Unit]:
    """The parts that a corpus is encoded in."""
    return units_of(data, sources, alone=encoding_of(data).alone)


def encode_all(data: Data, sources: Sequence[Source], folder: Path, jobs: int = 1) -> dict[str, Any]:
    """Build the vocabulary and the labels of the training files, and encode all splits, into a folder.

    What a kill has left there is taken: it must be of the same data and sources. ``jobs``: so many processes count and
    encode, which changes nothing about the result.

    Returns:
        The manifest of the folder, as far as it is known before the files have their last names: with these names.

    Raises:
        DataError: a file is malformed or empty, or the vocabulary would be empty.
        RecipeError: a vocabulary of this size cannot be made from the corpus.
    """
    units = parts_of(data, sources)
    if any(source.lines is not None for source in sources):
        jobs = 1
    if not (folder / COUNTED).exists():
        _count_all(data, sources, units, folder, jobs)
    counts = _counters(from_json(regular.read_text(folder / COUNTED)))
    told: dict[int, Told] = {}
    for number, unit in enumerate(units):
        if (path := _marker(folder, unit)).exists():
            told[number] = from_json(regular.read_text(path))
    if told:
        console.log(f"{folder.name}: going on with the corpus, {len(told):,} of {len(units):,} parts are encoded")
    missing = [number for number in range(len(units)) if number not in told]
    for number, of_unit in _each(missing, units, "encoding", jobs, begin_encoding, (data, units, folder)):
        atomic.replace_text(_marker(folder, units[number]), json.dumps(of_unit, ensure_ascii=False))
        told[number] = of_unit
    vocabulary, labels = load_vocabulary(folder), load_labels(folder)
    return _manifest(
        data, sources, folder, [(unit, told[i]) for i, unit in enumerate(units)], vocabulary, labels, counts
    )


def _each(
    numbers: Sequence[int], units: Sequence[Unit], title: str, jobs: int, begin: Begin, given: tuple[Any, ...]
) -> Iterator[tuple[int, Told]]:
    """Do something with parts, in some processes or in this one; in any order."""
    work = console.Work(sum(units[number].size for number in numbers), title)
    try:
        if jobs > 1 and len(numbers) > 1:
            done = Pool(jobs, begin, given).each(numbers)
        else:
            do = begin(*given)
            done = ((number, from_json(json.dumps(do(number)))) for number in numbers)
        for number, told in done:
            work.advance(units[number].size)
            yield number, told
    finally:
        work.end()


def _marker(folder: Path, unit: Unit) -> Path:
    return folder / f"part-{unit.split}-{unit.number:05d}.json"


# --- counting ---------------------------------------------------------------------------------------------------------


def _count_all(data: Data, sources: Sequence[Source], units: Sequence[Unit], folder: Path, jobs: int) -> None:
    """Write the vocabulary and the labels, and then the counts of the labels."""
    encoding = encoding_of(data)
    formats = [FORMATS[source.format] for source in sources]
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    counts |= {column: Counter() for format in formats for column in format.columns}
    training = [number for number, unit in enumerate(units) if unit.split == "train"]
    if VOCABULARIES[data.vocabulary.kind].from_counts and not data.extra_words:
        words: Counter[str] = Counter()
        found: Counter[str] = Counter()
        selected = Selected(list, data.select, "train")
        for _, told in _each(training, units, "counting", jobs, begin_counting, (data, units)):
            words.update(told["words"])
            _add(found, told["found"])
            selected.too_long += told["too_long"]
            for column, of_column in told["labels"].items():
                counts[column].update(of_column)
        require_sentences(found, "train")
        selected.require_some(bool(words))
        vocabulary = build_vocabulary(data.vocabulary, words)
        del words
    else:
        passing = _passing([units[number] for number in training], data, counts)
        vocabulary = build_vocabulary(data.vocabulary, passing, len(data.extra_words))
        for _ in passing:  # what the vocabulary did not want to see: all labels are counted
            pass
    if encoding.enclosed:
        vocabulary = enclosing(vocabulary)
    labels = {column: _by_count(counter, absent=ABSENT.get(column)) for column, counter in counts.items()}
    labels |= {column: list(names) for column, names in encoding.labels(data).items()}
    vocabulary.save(folder)
    (folder / LABELS).write_text(json.dumps(labels, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    atomic.replace_text(folder / COUNTED, json.dumps(counts, ensure_ascii=False))


def _add(counts: Counter[str], others: Mapping[str, int]) -> None:
    """Add counts, those of zero, too."""
    for name, number in others.items():
        counts[name] += number


def _passing(units: Sequence[Unit], data: Data, counts: defaultdict[str, Counter[str]]) -> Iterator[list[str]]:
    """The words of the sentences of parts, whose labels are counted on the way."""
    for unit in units:
        labelled = Labelled(sentences_of(unit, data)[1])
        labelled.counts = counts
        yield from labelled


def _counters(found: Mapping[str, Mapping[str, int]]) -> defaultdict[str, Counter[str]]:
    return defaultdict(Counter, {column: Counter(dict(counts)) for column, counts in found.items()})


def _by_count(counts: Counter[str], *, absent: str | None) -> list[str]:
    """Labels by falling count, equal counts alphabetically; ``absent`` is the absence of one. None where all of them
    are `_`: a treebank without features."""
    if counts.keys() == {"_"}:
        return []
    return sorted((label for label in counts if label != absent), key=lambda label: (-counts[label], label))


# --- what is said of it -----------------------------------------------------------------------------------------------


def _manifest(
    data: Data,
    sources: Sequence[Source],
    folder: Path,
    parts: Sequence[tuple[Unit, Told]],
    vocabulary: Vocabulary,
    labels: Labels,
    counts: defaultdict[str, Counter[str]],
) -> dict[str, Any]:
    """All that the manifest says."""
    encoding = encoding_of(data)
    there = [split for split in SPLITS if any(unit.split == split for unit, _ in parts)]
    shards: dict[str, list[str]] = {}
    notes: list[str] = []
    warnings: list[str] = []
    new_labels: dict[str, dict[str, Counter[str]]] = {}
    for name in there:
        of_split = [told for unit, told in parts if unit.split == name]
        shards[name] = [file["name"] for told in of_split for file in told["files"]]
        new_labels[name] = {
            column: sum((Counter(told["new_labels"][column]) for told in of_split), Counter()) for column in labels
        }
        said, warned = _said(data, name, of_split, bool(shards[name]), vocabulary, encoding)
        notes += said
        warnings += [text for text in warned if text not in warnings]
    first = {where: label for _, told in parts for where, label in told["first_rows"].items()}
    warnings += header_warnings(first, {label for _, told in parts for label in told["other_rows"]})
    splits = {name: Split.open(*(folder / file for file in files)) for name, files in shards.items()}
    for column in encoding.makes:
        if splits["train"].has(column):
            for ids in splits["train"].columns(column):
                counts[column].update(labels[column][label] for label in ids)
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
        "shards": shards,
        "sha256": {file["name"]: file["sha256"] for _, told in parts for file in told["files"]},
    }
    if warnings:
        manifest["warnings"] = warnings
    return manifest


def _said(
    data: Data, name: str, parts: Sequence[Told], left: bool, vocabulary: Vocabulary, encoding: Encoding
) -> tuple[list[str], list[str]]:
    """Notes and warnings about a split.

    Raises:
        DataError: the files have no sentence, or none is left.
    """
    found: Counter[str] = Counter()
    selected, shortened, faulty = Selected(list, data.select, name), Shortened((), vocabulary, data), OddLabels(())
    notes: list[str] = []
    for told in parts:
        _add(found, told["found"])
        for one, names, part in ((selected, SELECTED, "selected"), (shortened, SHORTENED, "shortened")):
            for attribute in names:
                setattr(one, attribute, getattr(one, attribute) + told[part][attribute])
        for group, counted in told["faults"].items():
            faulty.count(group, *counted)
        notes += [f"data.{name}: {text}" for text in told["notes"]] if encoding.units else []
    require_sentences(found, name)
    selected.require_some(left)
    shortened.require_some(left)
    notes += [text for text in (selected.report(), shortened.report(f"data.{name}")) if text]
    return notes, [*without_sentences(found, name), *faulty.warnings()]


def _statistics(split: Split, labels: Labels, vocabulary: Vocabulary) -> dict[str, Any]:
    words, tokens = int(split.words.sum()), int(split.lengths.sum())
    unknown = sum(int((ids == vocabulary.UNKNOWN).sum()) for ids in split.columns("ids"))
    unseen = sum(int((counts == 0).sum()) for counts in split.columns("frequency"))
    none = {column for column, names in labels.items() if not names and column not in ABSENT}
    lengths = np.quantile(split.lengths, list(QUANTILES.values()), method="inverted_cdf")
    return {
        "sentences": len(split),
        "words": words,
        "tokens": tokens,
        "unknown": unknown / tokens,  # that the model cannot tell
        "unseen": unseen / words,
        "length": {name: int(length) for name, length in zip(QUANTILES, lengths, strict=True)},
        "columns": [name for name in (*labels, "heads", "form") if split.has(name) and name not in none],
    }
