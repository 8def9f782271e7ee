"""A whole corpus, part by part: vocabulary and labels from the counts of all parts, then the shards of each.

    FOLDER/counted.json             vocabulary and labels are there; how often each label occurs
    FOLDER/part-train-00003.json    the shards of this part are there, and what is said of it

These two are there while the folder is being made, and let another process go on with it after a kill.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from probtrans_cli import atomic, console
from probtrans_cli.data.corpus.encode import Encoding, encoding_of
from probtrans_cli.data.corpus.gold import OddLabels, header_warnings
from probtrans_cli.data.corpus.identity import FORMAT, LABELS, canonical, fingerprint
from probtrans_cli.data.corpus.lengths import Shortened
from probtrans_cli.data.corpus.parts import (
    SELECTED,
    SHORTENED,
    Labelled,
    Told,
    begin_counting,
    begin_encoding,
    load_labels,
    sentences_of,
)
from probtrans_cli.data.corpus.selection import Selected
from probtrans_cli.data.corpus.sources import SPLITS, Source, require_sentences, without_sentences
from probtrans_cli.data.corpus.store import Labels, Split
from probtrans_cli.data.corpus.units import Unit, units_of
from probtrans_cli.data.processes import Begin, Pool
from probtrans_cli.data.vocabularies import VOCABULARIES, build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.data.vocabularies.enclosed import enclosing
from probtrans_cli.folders import regular
from probtrans_cli.recipe.data import ABSENT, FORMATS, Data
from probtrans_cli.text import from_json
from probtrans_cli.version import __version__

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
