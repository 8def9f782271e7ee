"""From the labels of a sentence to what a line of JSON says of it: entities, logical forms.

Nothing here needs torch: the program beside an exported graph has these functions, too, as they stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from probtrans_cli.data.codecs.entities import read_spans
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
