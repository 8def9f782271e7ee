"""Tags of entities that must be valid, for tests: spans as a strict reader takes them, and from scheme to scheme."""

from __future__ import annotations

from collections.abc import Sequence

from probtrans_cli.data.entities import Scheme, Span, compare, faults, read_spans, scores_of, tags_of


def problems(tags: Sequence[str], scheme: Scheme) -> tuple[int, str] | None:
    """Where and why the tags first break the rules of the scheme; None if they are valid."""
    return next(((fault.index, fault.reason) for fault in faults(tags, scheme)), None)


def entity_scores(
    gold: Sequence[list[str]], predicted: Sequence[list[str]], scheme: Scheme | None = None
) -> dict[str, float]:
    return scores_of(compare(gold, predicted, scheme).counts())


def spans(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    if problem := problems(tags, scheme):
        raise ValueError(f"tag at index {problem[0]}: {problem[1]}")
    return read_spans(tags)


def convert(tags: Sequence[str], source: Scheme, target: Scheme) -> list[str]:
    return tags_of(spans(tags, source), len(tags), target)
