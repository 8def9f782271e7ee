"""Whether the example beside a graph says what the model says: every export compares the two on a few texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from probtrans_cli.data.sentence import divided
from probtrans_cli.export.answers import Answers
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import ParseOptions, Parser
from probtrans_cli.trained.predictor import plain

TEXTS, WORDS = 24, 12
"""Texts of a comparison, and words of the longest."""
MARKS = ("–", "—", "“", "”", "’", "…", "n’t", "1,234.5", "№", "Zażółć", "[MASK]", "[UNK]", "<unk>", ",", ".", "(")
"""What stands in the texts beside entries of the vocabulary."""
SHARE_OF_MARKS = 0.3
NEAR = 1e-3
"""What numbers of two records may differ by."""


def compared(model: Model, answers: Answers) -> tuple[int, int]:
    """Of how many texts answers were compared, and of how many they are the same; of uncertain weights those of their
    means. Where the model is, is where it computes: on the CPU as the graph."""
    texts = list(_texts(model))
    said = Parser(model, ParseOptions(trees=False), predictor=plain(model)).analyses([divided(text) for text in texts])
    records = answers.records((f"text {number}", text) for number, text in enumerate(texts, start=1))
    pairs = zip(said, records, strict=True)
    return len(texts), sum(alike(analysis.record(), record) for analysis, (record, _, _) in pairs)


def _texts(model: Model) -> Iterator[str]:
    """Texts of entries of the vocabulary and of marks, which are short enough for the model."""
    random, vocabulary = np.random.default_rng(0), model.vocabulary
    most = WORDS if model.network.longest is None else max(1, min(WORDS, model.network.longest // 16))
    for number in range(TEXTS):
        entries = [vocabulary.decode(int(id)) for id in random.integers(vocabulary.size, size=number % most + 1)]
        marks = [MARKS[id] for id in random.integers(len(MARKS), size=len(entries))]
        chosen = random.random(len(entries)) < SHARE_OF_MARKS
        yield " ".join(np.where(chosen, marks, entries).tolist())


def alike(record: Any, other: Any) -> bool:
    """Whether two records are the same, but for the rounding of numbers."""
    if isinstance(record, Mapping):
        return (
            isinstance(other, Mapping)
            and record.keys() == other.keys()
            and all(alike(value, other[key]) for key, value in record.items())
        )
    if isinstance(record, list | tuple):
        return isinstance(other, list | tuple) and len(record) == len(other) and all(map(alike, record, other))
    if isinstance(record, float) and isinstance(other, float | int):
        return math.isclose(record, other, abs_tol=NEAR)
    return bool(record == other)
