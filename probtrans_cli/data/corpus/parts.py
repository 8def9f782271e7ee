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
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from probtrans_cli import atomic, console
from probtrans_cli.data.blocks import Block, cut, in_file, lines_of
from probtrans_cli.data.corpus.encode import encode_corpus, encoding_of
from probtrans_cli.data.corpus.manifest import FORMAT, LABELS, SPLITS, Source, canonical, fingerprint, sha256
from probtrans_cli.data.corpus.store import Labels, Split, write_split
from probtrans_cli.data.corpus.tally import RowCounts, Tally, chosen, in_blocks, noting_new_labels, shortened
from probtrans_cli.data.files import display_name, ending_of
from probtrans_cli.data.processes import Begin, Pool
from probtrans_cli.data.readers import READERS
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import VOCABULARIES, build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.base import Vocabulary, enclosing
from probtrans_cli.errors import DataError
from probtrans_cli.folders import regular
from probtrans_cli.folders.job import Job
from probtrans_cli.recipe.data import ABSENT, FORMATS, Data
from probtrans_cli.text import first_of, from_json
from probtrans_cli.version import __version__

Report = dict[str, Any]  # what was counted of a part, as JSON values
BYTES = 32 << 20  # of a part; each byte of a compressed file counts as `_PACKED`
_PACKED = 4
QUANTILES = {"min": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "95%": 0.95, "99%": 0.99, "max": 1.0}
_TALLY = TypeAdapter(Tally)


# --- parts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a split: blocks of its files, in order."""

    split: str
    number: int  # in its split, from 0
    blocks: tuple[tuple[Source, Block], ...]
    whole: bool = False  # whether the split has this part alone, as its sentences do not stand alone


def parts_of(data: Data, sources: Sequence[Source]) -> list[Part]:
    """Return the parts that a corpus is encoded in, split by split."""
    parts: list[Part] = []
    for split in SPLITS:
        of_split = [source for source in sources if source.split == split]
        drawn = split == "train" and data.select.sentences is not None
        if not encoding_of(data).alone or drawn or any(source.lines is not None for source in of_split):
            blocks = tuple((source, Block(str(source.path), source.size)) for source in of_split)
            parts += [Part(split, 0, blocks, whole=True)] if blocks else []
            continue
        together: list[tuple[Source, Block]] = []
        first, room = len(parts), BYTES
        for source in of_split:
            path = str(source.path)
            can_be_cut = READERS[source.format].ends is not None
            # Blocks go together until a part is full: a small file shares one, a large one has several.
            for block in cut(path, source.size, BYTES) if can_be_cut else [Block(path, source.size)]:
                weight = block.size * (_PACKED if ending_of(path) else 1)
                if together and weight > room:
                    parts.append(Part(split, len(parts) - first, tuple(together)))
                    together, room = [], BYTES
                together.append((source, block))
                room -= weight
        parts += [Part(split, len(parts) - first, tuple(together))] if together else []
    return parts


def sentences_of(part: Part, data: Data, tally: Tally) -> Iterator[Sentence]:
    """Yield the sentences of a part that `data.select` leaves."""
    encoding = encoding_of(data)
    rows_only = encoding.learns_from_rows and part.split == "train"

    def read(tally: Tally) -> Iterator[Sentence]:
        left = not rows_only
        for source, block in part.blocks:
            name, reader = display_name(source.path), READERS[source.format]
            file = tally.files.setdefault(name, RowCounts())
            ends = reader.ends or "line"  # a block that is a file is read to its end
            lines = lines_of(block, ends) if source.lines is None else source.lines
            try:
                for sentence in reader.read(lines, name, data):
                    if part.split == "raw":
                        sentence = Sentence(sentence.words, where=sentence.where)  # noqa: PLW2901
                    if sentence.words:
                        has_rows = sentence.grid is not None and any(map(any, sentence.grid))
                        file.add(sentence.counts, has_rows=has_rows)
                        if has_rows or not rows_only:
                            left = True
                            yield sentence
            except DataError as error:
                raise DataError(in_file(block, ends, error.message), hint=error.hint) from None
        if part.whole:
            tally.require_some(data)
            if not left:
                names = ", ".join(tally.files)
                hint = "`probtrans prepare RECIPE` with this file as data.dev says why they are dropped"
                raise DataError(f"{names}: no sentence has {encoding.units} that are kept", hint=hint)

    yield from in_blocks(chosen(read, data.select, tally), data.blocks)
    if part.whole:
        tally.require_some(data)


# --- counting ---------------------------------------------------------------------------------------------------------


def _counting_labels(sentences: Iterable[Sentence], counts: defaultdict[str, Counter[str]]) -> Iterator[list[str]]:
    for sentence in sentences:
        for column, tags in sentence.tags.items():
            counts[column].update(tags)
        for column, label in sentence.labels.items():
            counts[column][label] += 1
        yield sentence.words


def _count(data: Data, parts: Sequence[Part], number: int) -> Report:
    """Count the words, labels and sentences of a part, by its number."""
    tally = Tally(parts[number].split)
    labels: defaultdict[str, Counter[str]] = defaultdict(Counter)
    words = Counter(chain.from_iterable(_counting_labels(sentences_of(parts[number], data, tally), labels)))
    return {"words": words, "labels": labels, "tally": _TALLY.dump_python(tally, mode="json")}


def _count_all(
    data: Data, sources: Sequence[Source], parts: Sequence[Part], folder: Path, jobs: int
) -> Mapping[str, Counter[str]]:
    encoding, tally = encoding_of(data), Tally("train")
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    counts |= {column: Counter() for source in sources for column in FORMATS[source.format].columns}
    training = [number for number, part in enumerate(parts) if part.split in ("train", "raw")]
    if VOCABULARIES[data.vocabulary.kind].from_counts and not data.extra_words:
        words: Counter[str] = Counter()
        # A process has nothing to load before it counts: it begins with `partial(_count, data, parts)`.
        for _, report in _each(training, parts, "counting", jobs, partial, (_count, data, parts)):
            words.update(report["words"])
            tally.add(_TALLY.validate_python(report["tally"]))
            for column, of_column in report["labels"].items():
                counts[column].update(of_column)
        tally.require_some(data)
        vocabulary = build_vocabulary(data.vocabulary, words)
        del words
    else:
        selections = (sentences_of(parts[number], data, tally) for number in training)
        in_order = _counting_labels(chain.from_iterable(selections), counts)
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


def load_labels(folder: Path) -> dict[str, list[str]]:
    """Return the labels of every column, as `prepare` wrote them."""
    try:
        text = regular.read_text(folder / LABELS)
        return TypeAdapter(dict[str, list[str]]).validate_python(from_json(text), strict=True)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / LABELS}: {error}", hint="run `probtrans prepare --force`") from None


def begin_encoding(data: Data, parts: Sequence[Part], folder: Path) -> Callable[[int], Report]:
    """Return a function that writes the shards of a part, by its number, into the folder of vocabulary and labels."""
    vocabulary, labels = load_vocabulary(folder), load_labels(folder)

    def encode(number: int) -> Report:
        part, size = parts[number], data.shard_sentences
        training, tally = part.split == "train", Tally(part.split)
        # Dev and test are scored by all tuples of a sentence, so only training sentences are split.
        unsplit = data.too_long == "split" and not training
        limits = data.model_copy(update={"too_long": "error"}) if unsplit else data
        left = shortened(sentences_of(part, data, tally), vocabulary, limits, tally)
        sentences = noting_new_labels(left, labels, tally)
        if encoding_of(data).alone:  # then a shard is encoded as soon as it is read
            shards = (chain([first], islice(sentences, size - 1)) for first in sentences)
            tables = (encode_corpus(data, shard, vocabulary, labels, training=training) for shard in shards)
        else:
            table = encode_corpus(data, sentences, vocabulary, labels, training=training)
            tables = (table.slice(begin, size) for begin in range(0, table.num_rows, size))
        written = []
        for place, table in enumerate(tables):
            path = folder / f"{part.split}-{part.number:05d}-{place:03d}.arrow"
            write_split(path, table)
            atomic.sync(path)
            written.append({"name": path.name, "sha256": sha256(path)})
        return {"shards": written, "tally": _TALLY.dump_python(tally, mode="json")}

    return encode


def begin_job(data: Data, sources: Sequence[Source], folder: Path) -> Job:
    """Begin or resume the job of encoding a corpus into a folder.

    Raises:
        UsageError: the folder holds the job of another corpus or version, or something else.
    """
    identity = {
        "version": __version__,
        "reports": 2,  # their form
        "data": canonical(data),
        "fingerprint": fingerprint(data, sources),
    }
    return Job.begin(folder, "json", identity)


def encode_all(data: Data, sources: Sequence[Source], folder: Path, jobs: int = 1) -> dict[str, Any]:
    """Build the vocabulary and the labels of the training files, and encode all splits, into a folder.

    Blocks of the job that are done are not done again.

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
    blocks: dict[int, Report] = {number: from_json(regular.read_text(job.result(number))) for number in job.done()}
    counts = defaultdict(Counter, {column: Counter(dict(labels)) for column, labels in blocks.pop(0).items()})
    reports = {number - 1: report for number, report in blocks.items()}
    if reports:
        console.log(f"{folder.name}: going on with the corpus, {len(reports):,} of {len(parts):,} parts are encoded")
    missing = [number for number in range(len(parts)) if number not in reports]
    for number, report in _each(missing, parts, "encoding", jobs, begin_encoding, (data, parts, folder)):
        with job.writing(number + 1, {}) as file:
            file.write(json.dumps(report, ensure_ascii=False))
        reports[number] = report
    return _manifest(data, sources, folder, [(part, reports[number]) for number, part in enumerate(parts)], counts)


def _each(
    numbers: Sequence[int], parts: Sequence[Part], title: str, jobs: int, begin: Begin, arguments: tuple[Any, ...]
) -> Iterator[tuple[int, Report]]:
    sizes = {number: sum(block.size for _, block in parts[number].blocks) for number in numbers}
    work = console.Work(sum(sizes.values()), title)
    try:
        if jobs > 1 and len(numbers) > 1:
            done = Pool(jobs, begin, arguments).each(numbers)
        else:
            do = begin(*arguments)
            done = ((number, from_json(json.dumps(do(number)))) for number in numbers)
        for number, report in done:
            work.advance(sizes[number])
            yield number, report
    finally:
        work.end()


# --- the manifest -----------------------------------------------------------------------------------------------------


def _manifest(
    data: Data,
    sources: Sequence[Source],
    folder: Path,
    parts: Sequence[tuple[Part, Report]],
    counts: defaultdict[str, Counter[str]],
) -> dict[str, Any]:
    encoding, vocabulary, labels = encoding_of(data), load_vocabulary(folder), load_labels(folder)
    tallies: dict[str, Tally] = {}
    shards: dict[str, list[str]] = {}
    for part, report in parts:
        tallies.setdefault(part.split, Tally(part.split)).add(_TALLY.validate_python(report["tally"]))
        shards.setdefault(part.split, []).extend(shard["name"] for shard in report["shards"])
    notes: list[str] = []
    warnings: dict[str, None] = {}  # each once
    together = Tally("")
    for split, tally in tallies.items():
        tally.require_some(data)
        together.add(tally)
        if encoding.units is not None:
            left_out = ", left out of train" if encoding.learns_from_rows and split == "train" else ""
            reports = (file.report(name, encoding.units, data.rows, left_out) for name, file in tally.files.items())
            notes += [f"data.{split}: {report}" for report in reports]
        notes += tally.notes(f"data.{split}", data)
        if empty := [name for name, file in tally.files.items() if not file.sentences]:
            message = f"{len(empty):,} of {len(tally.files):,} files have no sentence: {first_of(empty)}"
            warnings[f"data.{split}: {message}"] = None
        warnings |= dict.fromkeys(tally.tag_warnings())
    warnings |= dict.fromkeys(together.header_warnings(data.format))
    splits = {name: Split(*(folder / file for file in files)) for name, files in shards.items()}
    entries: dict[str, list[dict[str, Any]]] = {name: [] for name in splits}
    for source in sources:
        entry = {"path": str(source.path), "bytes": source.size, "mtime_ns": source.mtime_ns, "sha256": source.sha256}
        entries[source.split].append(entry)
    for column in encoding.makes:
        if splits["train"].has(column):
            for ids in splits["train"].columns(column):
                counts[column].update(labels[column][label] for label in ids)
    manifest = {
        "format": FORMAT,
        "version": __version__,
        "data": canonical(data),
        "fingerprint": fingerprint(data, sources),
        "sources": entries,
        "vocabulary": {"kind": data.vocabulary.kind, "size": vocabulary.size, "special": len(vocabulary.specials)},
        "labels": {column: {label: counts[column][label] for label in names} for column, names in labels.items()},
        "splits": {name: _statistics(split, labels, vocabulary) for name, split in splits.items()},
        "new_labels": {
            name: {column: tally.new_labels.get(column, {}) for column in labels} for name, tally in tallies.items()
        },
        "notes": notes,
        "shards": shards,
        "sha256": {shard["name"]: shard["sha256"] for _, report in parts for shard in report["shards"]},
    }
    return manifest | ({"warnings": list(warnings)} if warnings else {})


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
