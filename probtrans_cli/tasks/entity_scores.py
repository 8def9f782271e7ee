"""Precision, recall and F1 of named entities: an entity is right where both its ends and its type are.

An entity is read by seqeval in its strict mode, only where it is written as the scheme asks for: in iob2 from a ``B``
over the ``I`` of its type that follow, in bioes from ``B`` to ``E`` or as one ``S``. Other tags are no part of any.
iob1 is not scored: where its tags are invalid, seqeval begins an entity inside another (``O B-X I-X`` has X at its last
word only).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

Scheme = Literal["iob2", "bioes"]


def scheme_of(sentences: Iterable[Iterable[str]]) -> Scheme:
    """The scheme that valid tags are in: bioes where one ends an entity, else iob2."""
    return "bioes" if any(tag.startswith(("S-", "E-")) for tags in sentences for tag in tags) else "iob2"


def entity_counts(gold: Sequence[list[str]], predicted: Sequence[list[str]], scheme: Scheme) -> Counter[Any]:
    """How many entities there are, were predicted, and are right, by type: under ``(type, "gold")``, ``(type,
    "predicted")``, ``(type, "right")``. The counts of several batches add up.

    Args:
        gold: valid tags of every sentence.
        predicted: as many tags for every sentence; they need not be valid.
        scheme: the scheme of both.

    Raises:
        ValueError: the sides have other numbers of sentences or tags.
    """
    if [len(tags) for tags in gold] != [len(tags) for tags in predicted]:
        raise ValueError("inconsistent: gold and predicted tags are of different sentences")
    there, found = (
        {(number, *one) for number, of in enumerate(tags) for one in entities_in(of, scheme)}
        for tags in (gold, predicted)
    )
    counts: Counter[Any] = Counter()
    for name, entities in (("gold", there), ("predicted", found), ("right", there & found)):
        counts.update((type_, name) for _, type_, _, _ in entities)
    return counts


def entities_in(tags: list[str], scheme: Scheme) -> list[tuple[str, int, int]]:
    """The type of each entity of a sentence, its first word from 0, and the word behind its last."""
    # Imported here: seqeval loads scikit-learn, which takes longer than many an evaluation.
    from seqeval.scheme import IOB2, IOBES, Tokens  # noqa: PLC0415

    rules = {"iob2": IOB2, "bioes": IOBES}[scheme]
    return [(one.tag, one.start, one.end) for one in Tokens(tags, scheme=rules).entities]


def scores_of(counts: Mapping[Any, float]) -> dict[str, float]:
    """``f1``, ``precision`` and ``recall`` over all entities, and ``f1_TYPE`` for every type on either side, as shares;
    0 where there is nothing to divide by. ``counts``: of :func:`entity_counts`."""
    sums: Counter[str] = Counter()
    of_type: dict[str, Counter[str]] = {}
    for (type_, name), number in counts.items():
        sums[name] += int(number)
        of_type.setdefault(type_, Counter())[name] += int(number)
    return _scores(sums) | {f"f1_{type_}": _scores(of_type[type_])["f1"] for type_ in sorted(of_type)}


def _scores(counts: Counter[str]) -> dict[str, float]:
    precision = counts["right"] / max(counts["predicted"], 1)
    recall = counts["right"] / max(counts["gold"], 1)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"f1": f1, "precision": precision, "recall": recall}


def entity_scores(gold: Sequence[list[str]], predicted: Sequence[list[str]], scheme: Scheme) -> dict[str, float]:
    """The scores of some sentences; see :func:`entity_counts` and :func:`scores_of`."""
    return scores_of(entity_counts(gold, predicted, scheme))
