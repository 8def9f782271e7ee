"""Precision, recall and F1 of named entities: an entity is right where both its ends and its type are."""

from __future__ import annotations

from typing import Literal


def entity_scores(
    gold: list[list[str]], predicted: list[list[str]], scheme: Literal["iob2", "bioes"]
) -> dict[str, float]:
    """Score predicted tags by seqeval in its strict mode; predictions need not be valid.

    An entity is read only where it is written as the scheme asks for: in iob2 from a ``B`` over the ``I`` of its type
    that follow, in bioes from ``B`` to ``E`` or as one ``S``. Other tags are no part of any. iob1 is not scored:
    where its tags are invalid, seqeval begins an entity inside another (``O B-X I-X`` has X at its last word only).

    Args:
        gold: valid tags of every sentence.
        predicted: as many tags for every sentence.
        scheme: the scheme of both.

    Returns:
        ``f1``, ``precision`` and ``recall`` over all entities, and ``f1_TYPE`` for every type that occurs on either
        side, as shares; 0 where there is nothing to divide by.
    """
    # Imported here: seqeval loads scikit-learn, which takes longer than many an evaluation.
    from seqeval.metrics.v1 import precision_recall_fscore_support  # noqa: PLC0415
    from seqeval.scheme import IOB2, IOBES, Entities  # noqa: PLC0415

    rules = {"iob2": IOB2, "bioes": IOBES}[scheme]
    entities = {"entities_true": Entities(gold, rules), "entities_pred": Entities(predicted, rules)}
    types = sorted(set().union(*(side.unique_tags for side in entities.values())))
    if not types:
        return {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    options = {"scheme": rules, "zero_division": 0, **entities}
    precision, recall, f1, _ = precision_recall_fscore_support(gold, predicted, average="micro", **options)
    _, _, of_types, _ = precision_recall_fscore_support(gold, predicted, average=None, **options)
    scores = {"f1": float(f1), "precision": float(precision), "recall": float(recall)}
    return scores | {f"f1_{name}": float(value) for name, value in zip(types, of_types, strict=True)}
