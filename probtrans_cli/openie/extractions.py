"""Open information extraction: how a grid of labels and a list of tuples (arg1; relation; arg2) become each other.

A grid has a row for each tuple and a label for each word, behind the words of the sentence also for a few extra words
that are not in it: iterative grid labelling, OpenIE6 (Kolluru et al. 2020, arXiv 2010.03147, section 3). The extra
words let a relation have an "is", "is ... of" or "is ... from" that the sentence does not say: "US president Donald
Trump" has the tuple (Donald Trump; is president of; US).

How tuples of text are found in a sentence is in :mod:`probtrans_cli.openie.alignment`. Nothing here needs torch: the
program beside an exported graph has this module, too, as it stands.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

LABELS = ("NONE", "ARG1", "REL", "ARG2", "LOC/TIME", "TYPE")
NONE, ARG1, REL, ARG2, LOC_TIME, TYPE = range(6)
TAGS = {"NONE": 0, "ARG1": 1, "REL": 2, "ARG2": 3, "ARGS": 3, "LOC": 4, "TIME": 4, "LOC/TIME": 4, "TYPE": 5}
"""The number of every tag that files of labels have. TYPE occurs in no data and is read as NONE."""
EXTRA_WORDS = ("is", "of", "from")
"""What the extra words stand for: the first begins a relation; each of the rest ends one that the first begins."""
Characters = Sequence[tuple[int, int]]  # the characters ``[begin, end)`` of every word of a text
Confidence = Literal["mean", "min", "product"]
PARTS = ("arg1", "rel", "arg2")


class Texts(NamedTuple):
    """The parts of a tuple as text; ``arg2`` may be empty."""

    arg1: str
    relation: str
    arg2: str

    @property
    def key(self) -> str:
        return f"{self.arg1} {self.arg2} {self.relation}"


@dataclass(frozen=True, slots=True)
class Extraction:
    """A tuple of a sentence, as positions of its words, from 0 and ascending."""

    arg1: tuple[int, ...]
    relation: tuple[int, ...]
    arg2: tuple[int, ...] = ()
    location_time: tuple[int, ...] = ()  # where and when; it stands behind the words of arg2
    added: tuple[str, ...] = ()
    """Words of the relation that the sentence lacks: none, or the first, or the first and the last of the relation."""
    row: int = 0
    confidence: float = 1.0

    @property
    def parts(self) -> dict[str, tuple[int, ...]]:
        """Return the words of ``arg1``, ``rel`` and ``arg2``, the last with location and time behind it."""
        return {"arg1": self.arg1, "rel": self.relation, "arg2": self.arg2 + self.location_time}

    def texts(self, words: Sequence[str]) -> Texts:
        arg1, relation, arg2 = ([words[i] for i in part] for part in self.parts.values())
        return Texts(" ".join(arg1), " ".join([*self.added[:1], *relation, *self.added[1:]]), " ".join(arg2))

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Extraction:
        """Return the tuple of a :func:`tuple_record`."""
        arg1, relation, second = (tuple(record["words"][name]) for name in PARTS)
        location_time = tuple(record["location_time"])
        arg2 = tuple(position for position in second if position not in location_time)
        added, confidence = tuple(record["added"]), record["confidence"]
        return cls(arg1, relation, arg2, location_time, added, confidence=confidence)


def rows_to_tuples(
    words: Sequence[str],
    rows: Iterable[Sequence[int]],
    *,
    confidences: Sequence[float] | None = None,
    extra_words: Sequence[str] = EXTRA_WORDS,
    location_time: bool = True,
    dropped: Counter[str] | None = None,
) -> list[Extraction]:
    """Return the tuples of a grid of labels, by the rules of OpenIE6.

    Rows are read in order up to the first one without any label. A row without arg1 or relation is dropped, and so is
    one whose text has come before.

    Args:
        rows: a label for every word and every extra word; see :data:`LABELS`.
        confidences: of every row; None: all are 1.
        extra_words: see :data:`EXTRA_WORDS`; of several that are labelled REL, the last one counts.
        location_time: whether words labelled LOC/TIME are part of a tuple.
        dropped: how many rows were dropped is added here, under ``incomplete`` and ``repeated``.
    """
    keys: set[str] = set()
    dropped = Counter() if dropped is None else dropped
    extractions = []
    for number, row in enumerate(rows):
        if len(row) != len(words) + len(extra_words):
            raise ValueError(
                f"row {number}: {len(row)} labels of {len(words)} words and {len(extra_words)} extra words"
            )
        if all(label in (NONE, TYPE) for label in row):
            break
        parts: dict[int, list[int]] = {label: [] for label in range(len(LABELS))}
        for position in range(len(words)):
            parts[row[position]].append(position)
        chosen = [i for i in range(len(extra_words)) if row[len(words) + i] == REL]
        extraction = Extraction(
            tuple(parts[ARG1]),
            tuple(parts[REL]),
            tuple(parts[ARG2]),
            tuple(parts[LOC_TIME]) if location_time else (),
            () if not chosen else tuple(extra_words[i] for i in sorted({0, chosen[-1]})),
            number,
            1.0 if confidences is None else confidences[number],
        )
        texts = extraction.texts(words)
        if not (texts.arg1 and texts.relation):
            dropped["incomplete"] += 1
        elif texts.key in keys:
            dropped["repeated"] += 1
        else:
            keys.add(texts.key)
            extractions.append(extraction)
    return extractions


def tuple_to_row(extraction: Extraction, length: int, extra_words: Sequence[str] = EXTRA_WORDS) -> list[int]:
    """Return the row of labels of a tuple of a sentence of ``length`` words; :func:`rows_to_tuples` reads it again.

    Raises:
        ValueError: a word is in two parts, or what was added are no extra words.
    """
    row = [NONE] * (length + len(extra_words))
    parts = (extraction.arg1, extraction.relation, extraction.arg2, extraction.location_time)
    for label, part in zip((ARG1, REL, ARG2, LOC_TIME), parts, strict=True):
        for position in part:
            if row[position] != NONE:
                raise ValueError(f"word {position} is {LABELS[row[position]]} and {LABELS[label]}")
            row[position] = label
    if added := extraction.added:
        if added[0] not in extra_words[:1] or len(added) > 2 or added[-1] not in extra_words:
            raise ValueError(f"{added} are not of the extra words {tuple(extra_words)}")
        row[length + list(extra_words).index(added[-1])] = REL
    return row


def characters_of(part: Iterable[int], characters: Characters) -> list[tuple[int, int]]:
    """Return the characters ``[begin, end)`` that some words cover: a span for every run of neighbouring words, in the
    order of the words."""
    return [(characters[first][0], characters[last][1]) for first, last in runs(list(part))]


def runs(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of every run of positions, each of which is one more than that before it."""
    first = 0
    for i, position in enumerate(positions):
        if i + 1 == len(positions) or positions[i + 1] != position + 1:
            yield positions[first], position
            first = i + 1


# --- records of JSON --------------------------------------------------------------------------------------------------


def tuple_confidence(labels: Sequence[int], log_probability: Sequence[float], how: Confidence) -> float:
    """Return the geometric mean of the probabilities of a row's labels but NONE; or the smallest, or their product."""
    chances = [chance for label, chance in zip(labels, log_probability, strict=True) if label != NONE]
    if not chances:
        return 1.0
    return math.exp(min(chances) if how == "min" else sum(chances) / (len(chances) if how == "mean" else 1))


def tuples_in(
    words: Sequence[str],
    rows: Sequence[Sequence[int]],
    log_probability: Iterable[Sequence[float]],
    *,
    confidence: Confidence,
    extra_words: Sequence[str],
    location_time: bool,
) -> list[Extraction]:
    """Return the tuples of rows of labels with their confidences; ``words``: without the extra words."""
    confidences = [
        tuple_confidence(labels, chances, confidence) for labels, chances in zip(rows, log_probability, strict=True)
    ]
    return rows_to_tuples(words, rows, confidences=confidences, extra_words=extra_words, location_time=location_time)


def tuple_record(extraction: Extraction, words: Sequence[str]) -> dict[str, Any]:
    """Return a tuple as a line of JSON has it."""
    texts = extraction.texts(words)
    return {
        "arg1": texts.arg1, "rel": texts.relation, "arg2": texts.arg2,
        "confidence": extraction.confidence, "row": extraction.row,
        "words": {name: list(places) for name, places in extraction.parts.items()},
        "location_time": list(extraction.location_time), "added": list(extraction.added),
    }  # fmt: skip


def located_tuple(record: Mapping[str, Any], text: str, characters: Characters) -> dict[str, Any]:
    """Return a record with ``chars``, the characters of each part, and with the words as the text has them."""
    part = {name: [text[slice(*characters[i])] for i in places] for name, places in record["words"].items()}
    part["rel"] = [*record["added"][:1], *part["rel"], *record["added"][1:]]
    chars = {name: characters_of(places, characters) for name, places in record["words"].items()}
    return {**record, **{name: " ".join(part[name]) for name in PARTS}, "chars": chars}
