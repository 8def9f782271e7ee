"""A corpus in parts, each of which any process can count and encode alone; then vocabulary, shards and manifest.

Parts depend on the files and the recipe alone, not on the number of processes. Formats whose sentences stand alone are
cut at about :data:`BYTES`; a small corpus is one part, whatever its format.

The folder is that of a :class:`probtrans_cli.folders.job.Job` while it is being made, so that another process can go on
with it after a kill. Block 0 of the job says how often each label occurs, once vocabulary and labels are written; block
``i + 1`` describes the shards of part ``i``.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
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
from probtrans_cli.folders.job import Job
from probtrans_cli.recipe.data import ABSENT, FORMATS, Data
from probtrans_cli.text import from_json
from probtrans_cli.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

Report = dict[str, Any]
"""Counts and notes of a part, as JSON values."""
BYTES = 32 << 20
"""Of a part; each byte of a compressed file counts as `_PACKED`."""
_PACKED = 4
QUANTILES = {"min": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "95%": 0.95, "99%": 0.99, "max": 1.0}
SELECTED = ("too_long", "not_drawn", "missing")
SHORTENED = ("divided", "left_out", "skipped", "rows")
"""What :class:`Selected` and :class:`Shortened` count."""


# --- parts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a split: blocks of files in order, or all sources of a split that must be read at once."""

    split: str
    number: int
    """In its split, from 0."""
    size: int
    blocks: tuple[Block, ...] = ()
    sources: tuple[Source, ...] = ()


def parts_of(data: Data, sources: Sequence[Source]) -> list[Part]:
    """Return the parts that a corpus is encoded in, split by split."""
    parts: list[Part] = []
    for split in SPLITS:
        of_split = [source for source in sources if source.split == split]
        drawn = split == "train" and data.select.sentences is not None
        if encoding_of(data).alone and not drawn and all(source.lines is None for source in of_split):
            parts += _divided(split, of_split)
        elif of_split:
            size = sum(source.size * (_PACKED if is_compressed(source.path) else 1) for source in of_split)
            parts.append(Part(split, 0, size, sources=tuple(of_split)))
    return parts


def _divided(split: str, sources: Sequence[Source]) -> Iterator[Part]:
    together: list[Block] = []
    room, number = BYTES, 0
    for source in sources:
        path = str(source.path)
        can_be_cut = READERS[source.format].ends is not None
        for block in cut(path, source.size, BYTES) if can_be_cut else [Block(path, source.size)]:
            weight = block.size * (_PACKED if is_compressed(path) else 1)
            if together and weight > room:
                yield Part(split, number, total(together), tuple(together))
                together, room, number = [], BYTES, number + 1
            together.append(block)
            room -= weight
    if together:
        yield Part(split, number, total(together), tuple(together))


@dataclass
class BlockSentences:
    """The sentences of blocks that have a word; iterating raises a DataError where a file is malformed."""

    blocks: Sequence[Block]
    data: Data
    by_file: Counter[str] = field(default_factory=Counter)
    """Number of sentences by file."""

    def __iter__(self) -> Iterator[Sentence]:
        self.by_file.clear()
        for block in self.blocks:
            name = display_name(block.path)
            self.by_file[name] += 0
            reader = READERS[format_of(block.path, self.data.format)]
            ends = reader.ends or "line"  # a block that is a file is read to its end
            try:
                for sentence in reader.read(lines_of(block, ends), name, self.data):
                    if sentence.words:
                        self.by_file[name] += 1
                        yield sentence
            except DataError as error:
                raise DataError(in_file(block, ends, error.message), hint=error.hint) from None


def sentences_of(part: Part, data: Data) -> tuple[KeptRows | BlockSentences, Selected]:
    """Return the sentences of a part, and those of them that `data.select` leaves."""
    if part.blocks:
        blocks = BlockSentences(part.blocks, data)
        return blocks, Selected(lambda: blocks, data.select, part.split, part=True)
    encoding = encoding_of(data)
    leave_out = encoding.learns_from_rows and part.split == "train"
    kept = KeptRows(part.sources, data, encoding.units or "rows", leave_out=leave_out)
    return kept, Selected(lambda: kept, data.select, part.split)


# --- counting ---------------------------------------------------------------------------------------------------------


def _words_counting_labels(
    sentences: Iterable[Sentence], counts: defaultdict[str, Counter[str]]
) -> Iterator[list[str]]:
    for sentence in sentences:
        for column, tags in sentence.tags.items():
            counts[column].update(tags)
        for column, label in sentence.labels.items():
            counts[column][label] += 1
        yield sentence.words


def begin_counting(data: Data, parts: Sequence[Part]) -> Callable[[int], Report]:
    """Return a function that counts the words, labels and sentences of a part, by its number."""

    def count(number: int) -> Report:
        sentences, selected = sentences_of(parts[number], data)
        labels: defaultdict[str, Counter[str]] = defaultdict(Counter)
        words = Counter(chain.from_iterable(_words_counting_labels(selected, labels)))
        return {"words": words, "labels": labels, "by_file": sentences.by_file, "too_long": selected.too_long}

    return count


def _count_all(
    data: Data, sources: Sequence[Source], parts: Sequence[Part], folder: Path, jobs: int
) -> Mapping[str, Counter[str]]:
    encoding = encoding_of(data)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    counts |= {column: Counter() for source in sources for column in FORMATS[source.format].columns}
    training = [number for number, part in enumerate(parts) if part.split == "train"]
    if VOCABULARIES[data.vocabulary.kind].from_counts and not data.extra_words:
        words: Counter[str] = Counter()
        by_file: Counter[str] = Counter()
        selected = Selected(list, data.select, "train")
        for _, report in _each(training, parts, "counting", jobs, begin_counting, (data, parts)):
            words.update(report["words"])
            by_file.update(report["by_file"])
            selected.too_long += report["too_long"]
            for column, of_column in report["labels"].items():
                counts[column].update(of_column)
        require_sentences(by_file, "train")
        selected.require_some(bool(words))
        vocabulary = build_vocabulary(data.vocabulary, words)
        del words
    else:
        selections = (sentences_of(parts[number], data)[1] for number in training)
        in_order = _words_counting_labels(chain.from_iterable(selections), counts)
        vocabulary = build_vocabulary(data.vocabulary, in_order, len(data.extra_words))
        for _ in in_order:  # a vocabulary may stop early, but all labels are counted
            pass
    if encoding.enclosed:
        vocabulary = enclosing(vocabulary)
    labels: dict[str, list[str]] = {}
    for column, counter in counts.items():  # by falling count, then alphabetically; none for a column that is all `_`
        names = [label for label in counter if label != ABSENT.get(column)] if counter.keys() != {"_"} else []
        labels[column] = sorted(names, key=lambda label: (-counter[label], label))
    labels |= {column: list(names) for column, names in encoding.labels(data).items()}
    vocabulary.save(folder)
    (folder / LABELS).write_text(json.dumps(labels, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return counts


# --- encoding ---------------------------------------------------------------------------------------------------------


def begin_encoding(data: Data, parts: Sequence[Part], folder: Path) -> Callable[[int], Report]:
    """Return a function that encodes a part, by its number, with the vocabulary and labels of a folder and into it."""
    vocabulary, labels = load_vocabulary(folder), load_labels(folder)
    return lambda number: encode(data, parts[number], vocabulary, labels, folder)


def load_labels(folder: Path) -> dict[str, list[str]]:
    """Return the labels of every column, as `prepare` wrote them.

    Raises:
        DataError: the file is missing or damaged.
    """
    try:
        text = regular.read_text(folder / LABELS)
        return TypeAdapter(dict[str, list[str]]).validate_python(from_json(text), strict=True)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / LABELS}: {error}", hint="run `probtrans prepare --force`") from None


def encode(data: Data, part: Part, vocabulary: Vocabulary, labels: Labels, folder: Path) -> Report:
    """Write the shards of a part into a folder.

    Returns:
        ``files``: the shards in order, each with name, size and sha256; and counts and notes of the sentences.

    Raises:
        DataError: a file is malformed, or a sentence cannot be stored.
    """
    sentences, selected = sentences_of(part, data)
    odd = OddLabels(selected)
    # Dev and test are scored by all tuples of a sentence, so only training sentences are split.
    unsplit = data.too_long == "split" and part.split != "train"
    limits = data.model_copy(update={"too_long": "error"}) if unsplit else data
    shortened = Shortened(odd, vocabulary, limits, part=bool(part.blocks))
    noted = NewLabels(shortened, labels)
    files = []
    for number, table in enumerate(_tables(data, part, iter(noted), vocabulary, labels)):
        path = folder / f"{part.split}-{part.number:05d}-{number:03d}.arrow"
        write_split(path, table)
        atomic.sync(path)
        files.append({"name": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)})
    return {
        "files": files,
        "by_file": sentences.by_file,
        "notes": sentences.report() if isinstance(sentences, KeptRows) else [],
        "new_labels": noted.counts,
        "faults": odd.faults,
        "first_rows": odd.first,
        "other_rows": sorted(odd.later),
        "selected": {name: getattr(selected, name) for name in SELECTED},
        "shortened": {name: getattr(shortened, name) for name in SHORTENED},
    }


def _tables(
    data: Data, part: Part, sentences: Iterator[Sentence], vocabulary: Vocabulary, labels: Labels
) -> Iterator[pa.Table]:
    size, training = data.shard_sentences, part.split == "train"
    if not encoding_of(data).alone:
        table = encode_corpus(data, sentences, vocabulary, labels, training=training)
        yield from (table.slice(begin, size) for begin in range(0, table.num_rows, size))
        return
    for first in sentences:
        shard = chain([first], islice(sentences, size - 1))
        yield encode_corpus(data, shard, vocabulary, labels, training=training)


def begin_job(data: Data, sources: Sequence[Source], folder: Path) -> Job:
    """Begin or resume the job of encoding a corpus into a folder.

    Raises:
        UsageError: the folder holds the job of another corpus or version, or something else.
    """
    identity = {"version": __version__, "data": canonical(data), "fingerprint": fingerprint(data, sources)}
    return Job.begin(folder, "json", identity)


def encode_all(data: Data, sources: Sequence[Source], folder: Path, jobs: int = 1) -> dict[str, Any]:
    """Build the vocabulary and the labels of the training files, and encode all splits, into a folder.

    Blocks of the job that are done are not done again.

    Args:
        data: the section of the recipe.
        sources: the files of all splits.
        folder: a new one, or one that a killed process has left.
        jobs: processes that count and encode; the result is the same for any number.

    Returns:
        The manifest, with the names that the shards have until the folder is complete.

    Raises:
        DataError: a file is malformed or empty, or the vocabulary would be empty.
        RecipeError: a vocabulary of this size cannot be made from the corpus.
    """
    job = begin_job(data, sources, folder)
    parts = parts_of(data, sources)
    if any(source.lines is not None for source in sources):
        jobs = 1
    if not job.is_done(0):
        with job.writing(0, {}) as file:
            file.write(json.dumps(_count_all(data, sources, parts, folder, jobs), ensure_ascii=False))

    def block(number: int) -> Any:
        return from_json(regular.read_text(job.result(number)))

    counts = defaultdict(Counter, {column: Counter(dict(labels)) for column, labels in block(0).items()})
    reports: dict[int, Report] = {number - 1: block(number) for number in job.done() if number}
    if reports:
        console.log(f"{folder.name}: going on with the corpus, {len(reports):,} of {len(parts):,} parts are encoded")
    missing = [number for number in range(len(parts)) if number not in reports]
    for number, report in _each(missing, parts, "encoding", jobs, begin_encoding, (data, parts, folder)):
        with job.writing(number + 1, {}) as file:
            file.write(json.dumps(report, ensure_ascii=False))
        reports[number] = report
    vocabulary, labels = load_vocabulary(folder), load_labels(folder)
    in_order = [(part, reports[number]) for number, part in enumerate(parts)]
    return _manifest(data, sources, folder, in_order, vocabulary, labels, counts)


def _each(
    numbers: Sequence[int], parts: Sequence[Part], title: str, jobs: int, begin: Begin, arguments: tuple[Any, ...]
) -> Iterator[tuple[int, Report]]:
    work = console.Work(sum(parts[number].size for number in numbers), title)
    try:
        if jobs > 1 and len(numbers) > 1:
            done = Pool(jobs, begin, arguments).each(numbers)
        else:
            do = begin(*arguments)
            done = ((number, from_json(json.dumps(do(number)))) for number in numbers)
        for number, report in done:
            work.advance(parts[number].size)
            yield number, report
    finally:
        work.end()


# --- the manifest -----------------------------------------------------------------------------------------------------


def _manifest(
    data: Data,
    sources: Sequence[Source],
    folder: Path,
    parts: Sequence[tuple[Part, Report]],
    vocabulary: Vocabulary,
    labels: Labels,
    counts: defaultdict[str, Counter[str]],
) -> dict[str, Any]:
    encoding = encoding_of(data)
    names = [split for split in SPLITS if any(part.split == split for part, _ in parts)]
    shards: dict[str, list[str]] = {}
    notes: list[str] = []
    warnings: list[str] = []
    new_labels: dict[str, dict[str, Counter[str]]] = {}
    for name in names:
        reports = [report for part, report in parts if part.split == name]
        shards[name] = [file["name"] for report in reports for file in report["files"]]
        new_labels[name] = {
            column: sum((Counter(report["new_labels"][column]) for report in reports), Counter()) for column in labels
        }
        more_notes, more_warnings = _notes(data, name, reports, bool(shards[name]), vocabulary, encoding)
        notes += more_notes
        warnings += [text for text in more_warnings if text not in warnings]
    first = {where: label for _, report in parts for where, label in report["first_rows"].items()}
    warnings += header_warnings(first, {label for _, report in parts for label in report["other_rows"]})
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
        "sources": {name: [source.entry() for source in sources if source.split == name] for name in names},
        "vocabulary": {"kind": data.vocabulary.kind, "size": vocabulary.size, "special": len(vocabulary.specials)},
        "labels": {column: {label: counts[column][label] for label in known} for column, known in labels.items()},
        "splits": {name: _statistics(split, labels, vocabulary) for name, split in splits.items()},
        "new_labels": new_labels,
        "notes": notes,
        "shards": shards,
        "sha256": {file["name"]: file["sha256"] for _, report in parts for file in report["files"]},
    }
    if warnings:
        manifest["warnings"] = warnings
    return manifest


def _notes(
    data: Data, name: str, reports: Sequence[Report], left: bool, vocabulary: Vocabulary, encoding: Encoding
) -> tuple[list[str], list[str]]:
    """Return notes and warnings about a split; raise a DataError where it has no sentence, or none is left."""
    by_file: Counter[str] = Counter()
    selected, shortened, odd = Selected(list, data.select, name), Shortened((), vocabulary, data), OddLabels(())
    notes: list[str] = []
    for report in reports:
        by_file.update(report["by_file"])
        for counter, attributes, key in ((selected, SELECTED, "selected"), (shortened, SHORTENED, "shortened")):
            for attribute in attributes:
                setattr(counter, attribute, getattr(counter, attribute) + report[key][attribute])
        for group, (first, reading, number) in report["faults"].items():
            odd.count(group, first, reading, number)
        notes += [f"data.{name}: {text}" for text in report["notes"]] if encoding.units else []
    require_sentences(by_file, name)
    selected.require_some(left)
    shortened.require_some(left)
    notes += [text for text in (selected.report(), shortened.report(f"data.{name}")) if text]
    return notes, [*without_sentences(by_file, name), *odd.warnings()]


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
        "unknown": unknown / tokens,  # share of the tokens that the vocabulary does not have
        "unseen": unseen / words,
        "length": {name: int(length) for name, length in zip(QUANTILES, lengths, strict=True)},
        "columns": [name for name in (*labels, "heads", "form") if split.has(name) and name not in none],
    }
