"""F1, one formula for all that is found and scored."""

from __future__ import annotations


def f1(precision: float, recall: float) -> float:
    """The harmonic mean of precision and recall; 0 where both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
