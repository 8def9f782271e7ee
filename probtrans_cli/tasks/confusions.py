"""Which label was given where another one is right: counts that add up, and the table of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from probtrans_cli.tasks.batch import UNLEARNED

UNSEEN = "(not in training)"
"""Stands for all labels that the training file does not have."""


def confusions(
    gold: Int[Tensor, " m"], predicted: Int[Tensor, " m"], names: Sequence[str]
) -> dict[tuple[str, str, str], float]:
    """How often each label was given where another one, or the same, is right."""
    pairs, numbers = torch.unique(torch.stack([gold, predicted]), dim=1, return_counts=True)
    return {
        ("confusion", UNSEEN if right == UNLEARNED else names[right], names[given]): float(number)
        for right, given, number in zip(*pairs.tolist(), numbers.tolist(), strict=True)
    }


def confusion_table(counts: Mapping[Any, float]) -> dict[str, dict[str, int]]:
    """``{gold: {predicted: number}}``, both in the order of their names."""
    table: dict[str, dict[str, int]] = {}
    for key in sorted(key for key in counts if isinstance(key, tuple) and key[0] == "confusion"):
        _, gold, predicted = key
        table.setdefault(gold, {})[predicted] = int(counts[key])
    return table
