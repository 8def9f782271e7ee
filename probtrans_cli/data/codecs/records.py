"""From the labels of a sentence to what a line of JSON says of it: entities, tuples, coordinations, logical forms.

Nothing here needs torch: the program beside an exported graph has these functions, too, as they stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from probtrans_cli.data.codecs.coordinations import (
    Coordination,
    coordinations_to_sentences,
    rows_to_coordinations,
    splitting,
)
from probtrans_cli.data.codecs.entities import read_spans
from probtrans_cli.data.codecs.extractions import NONE, Extraction, characters_of, rows_to_tuples
from probtrans_cli.data.codecs.logical_forms import (
    GraphLabels,
    categories,
    kinds_of_words,
    logical_form,
    parent_by_category,
    places_of_kinds,
)

Characters = Sequence[tuple[int, int]]
"""The characters ``[begin, end)`` of every word of a text."""
Confidence = Literal["mean", "min", "product"]
PARTS = ("arg1", "rel", "arg2")
LABELS_OF_WORDS = ("role", "category", "noun_type", "verb_name")
OUTSIDE = -3
"""A parent that is no word of the sentence."""


# --- entities ---------------------------------------------------------------------------------------------------------


def entity_records(tags: Sequence[str], probabilities: Sequence[float]) -> list[dict[str, Any]]:
    """The type of each entity, its words from, to, and its probability: the product of those of its tags."""
    return [
        {
            "type": span.type,
            "words": [span.start, span.end],
            "probability": math.prod(probabilities[span.start : span.end]),
        }
        for span in read_spans(tags)
    ]


def located_span(span: Mapping[str, Any], text: str, characters: Characters) -> dict[str, Any]:
    """A stretch of ``words`` with its text and where in the sentence's text it stands."""
    first, last = span["words"][0], span["words"][1] - 1
    start, end = characters[first][0], characters[last][1]
    return {**span, "characters": [start, end], "text": text[start:end]}


# --- tuples -----------------------------------------------------------------------------------------------------------


def tuple_confidence(labels: Sequence[int], log_probability: Sequence[float], how: Confidence) -> float:
    """Of the labels of a row that are not none: the geometric mean of their probabilities, or another ``how``."""
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
    """The tuples of rows of labels; ``words``: of the sentence, without the extra ones."""
    confidences = [
        tuple_confidence(labels, chances, confidence) for labels, chances in zip(rows, log_probability, strict=True)
    ]
    return rows_to_tuples(words, rows, confidences=confidences, extra_words=extra_words, location_time=location_time)


def tuple_record(extraction: Extraction, words: Sequence[str]) -> dict[str, Any]:
    """A tuple as a line of JSON has it."""
    texts = extraction.texts(words)
    return {
        "arg1": texts.arg1, "rel": texts.relation, "arg2": texts.arg2,
        "confidence": extraction.confidence, "row": extraction.row,
        "words": {name: list(places) for name, places in extraction.parts.items()},
        "location_time": list(extraction.location_time), "added": list(extraction.added),
    }  # fmt: skip


def located_tuple(record: Mapping[str, Any], text: str, characters: Characters) -> dict[str, Any]:
    """With ``chars``: the characters of each part; and the words as the text has them."""
    part = {name: [text[slice(*characters[i])] for i in places] for name, places in record["words"].items()}
    part["rel"] = [*record["added"][:1], *part["rel"], *record["added"][1:]]
    chars = {name: characters_of(places, characters) for name, places in record["words"].items()}
    return {**record, **{name: " ".join(part[name]) for name in PARTS}, "chars": chars}


# --- coordinations ----------------------------------------------------------------------------------------------------


def coordination_records(
    rows: Sequence[Sequence[int]], log_probability: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    """The coordinations of rows of labels: the number of the coordinating word, ``cc``, the ``conjuncts``, each its
    words from, to, the ``level`` of nesting, and ``confidence``, the geometric mean of the probabilities of its
    labels."""
    return [
        _coordination_record(coordination, log_probability[coordination.level])
        for coordination in rows_to_coordinations(rows).values()
        if coordination is not None
    ]


def _coordination_record(coordination: Coordination, log_probability: Sequence[float]) -> dict[str, Any]:
    chances = log_probability[coordination.start : coordination.end]
    return {
        "cc": coordination.cc, "conjuncts": [list(conjunct) for conjunct in coordination.conjuncts],
        "level": coordination.level, "confidence": math.exp(sum(chances) / len(chances)),
    }  # fmt: skip


def located_coordinations(
    records: Sequence[Mapping[str, Any]], text: str, characters: Characters, options: Mapping[str, Any]
) -> dict[str, Any]:
    """``coordinations`` with ``chars``, the characters of each conjunct, and its text. ``sentences``: the simple
    sentences that the sentence can be split into, none where it stays whole; ``splits``: the numbers of their words.

    ``options``: of :func:`probtrans_cli.data.codecs.coordinations.splitting`.
    """
    words = [text[start:end] for start, end in characters]
    found = {
        record["cc"]: Coordination(
            record["cc"], tuple((start, end) for start, end in record["conjuncts"]), level=record["level"]
        )
        for record in records
    }
    split = coordinations_to_sentences(words, splitting(words, found, **options))
    return {
        "coordinations": [_located_conjuncts(record, text, characters) for record in records],
        "splits": [list(places) for places in split],
        "sentences": [" ".join(words[i] for i in places) for places in split],
    }


def _located_conjuncts(record: Mapping[str, Any], text: str, characters: Characters) -> dict[str, Any]:
    chars = [characters_of(range(*conjunct), characters)[0] for conjunct in record["conjuncts"]]
    return {**record, "chars": chars, "texts": [text[start:end] for start, end in chars]}


# --- logical forms ----------------------------------------------------------------------------------------------------


def graph_labels(
    texts: Mapping[str, Sequence[str]], parent: str, by_attention: Sequence[int] | None = None
) -> GraphLabels:
    """The labels of a sentence of COGS.

    Args:
        texts: the label of every word, by column.
        parent: how parents are learned, a key of ``PARENTS``, or ``attention``.
        by_attention: in that case the parents, -1 = none.
    """
    labels = {name: list(of_words) for name, of_words in texts.items()}
    if "kind" in labels:
        labels["category"] = categories(labels["role"], labels["kind"])
    else:
        labels["kind"] = kinds_of_words(labels["role"], labels["category"], labels["verb_name"])
    parents = PARENTS[parent](labels) if by_attention is None else list(by_attention)
    return GraphLabels(parents, labels["role"], labels["category"], labels["noun_type"], labels["verb_name"])


def graph_record(labels: GraphLabels, words: Sequence[str] | None) -> dict[str, Any]:
    """The ``labels`` of the words, column by column, and their ``logical_form``; None where words are not known."""
    columns = {name: list(getattr(labels, name)) for name in LABELS_OF_WORDS}
    form = None if words is None else logical_form(words, labels)
    return {"labels": {**columns, "parent": list(labels.parents)}, "logical_form": form}


def _by_offset(texts: Mapping[str, list[str]]) -> list[int]:
    where = texts["offset"]
    return [_parent(text, i, len(where)) for i, text in enumerate(where)]


def _by_position(texts: Mapping[str, list[str]]) -> list[int]:
    where = texts["position"]
    return [_parent(text, 0, len(where)) for text in where]


def _by_category(texts: Mapping[str, list[str]]) -> list[int]:
    places = places_of_kinds(texts["kind"])
    found = [parent_by_category(text, i, places) for i, text in enumerate(texts["by_category"])]
    return [OUTSIDE if parent is None else parent for parent in found]


PARENTS: Mapping[str, Callable[[Mapping[str, list[str]]], list[int]]] = {
    "relative": _by_offset,
    "absolute": _by_position,
    "category": _by_category,
}
"""From the labels of a sentence to its parents, by the way in which these are learned."""


def _parent(text: str, start: int, words: int) -> int:
    """The position that a label says, counted from ``start``. One before the first word is not the same as none."""
    if not text:
        return -1
    parent = start + int(text)
    return parent if 0 <= parent < words else OUTSIDE
