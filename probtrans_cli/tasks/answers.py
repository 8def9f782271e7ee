"""How answers are written, in JSON, comments and pictures: alternatives and doubt; and their confusions, as counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from probtrans_cli.models.base import Outputs
from probtrans_cli.tasks.batch import UNLEARNED
from probtrans_cli.trees.drawing.drawing import probability_text

DOUBT = ("entropy", "expected_entropy", "mutual_information")
"""The parts of the doubt about an answer; the last two only where a model has members that can disagree."""
ABSTAINED = "_"
"""Stands for an answer that is not probable enough."""
UNSEEN = "(not in training)"
"""Stands for all labels that the training file does not have."""


def doubt_of(outputs: Outputs, name: str, prefix: str = "") -> dict[str, list[float]]:
    """The parts of the doubt about some answers, as JSON has them; nothing where it was not asked for."""
    doubt = outputs.doubt.get(name)
    return {} if doubt is None else {prefix + part: getattr(doubt, part).tolist() for part in DOUBT}


def without_members(value: Any) -> Any:
    """A prediction without the parts of the doubt that only members have."""
    if isinstance(value, Mapping):
        return {key: without_members(item) for key, item in value.items() if not str(key).endswith(DOUBT[1:])}
    return [without_members(item) for item in value] if isinstance(value, list) else value


def alternatives(
    probabilities: Float[Tensor, "m o"], names: Sequence[str], top: int, key: str
) -> list[list[dict[str, Any]]]:
    """Of every row the ``top`` most probable names, the best first, as JSON has them; ``key``: what a name is."""
    best, ids = probabilities.topk(min(top, probabilities.shape[-1]), dim=-1)
    return [
        [{key: names[id], "probability": chance} for id, chance in zip(of_row, chances, strict=True)]
        for of_row, chances in zip(ids.tolist(), best.tolist(), strict=True)
    ]


def with_probability(name: str, probability: float | None) -> str:
    """A name as it stands in a picture, with its probability where that is shown."""
    return name if probability is None else f"{name} {probability_text(probability)}"


def doubt_text(entropy: float | None) -> str:
    """An entropy as it stands in a picture."""
    return "" if entropy is None else f"H {entropy:.2f}"


def doubt_comment(entropy: Sequence[float], information: Sequence[float] | None) -> dict[str, str]:
    """The comment of a sentence: the mean entropy, and the mean mutual information where there is one."""
    means = [sum(values) / len(values) for values in (entropy, information) if values]
    return {"uncertainty": " ".join(f"{value:.4f}" for value in means)} if means else {}


def confusions(
    gold: Int[Tensor, " m"], predicted: Int[Tensor, " m"], names: Sequence[str]
) -> dict[tuple[str, str, str], float]:
    """How often each label was given where another one, or the same, is right."""
    pairs, numbers = torch.unique(torch.stack([gold, predicted]), dim=1, return_counts=True)
    return {
        ("confusion", UNSEEN if right == UNLEARNED else names[right], names[best]): float(number)
        for right, best, number in zip(*pairs.tolist(), numbers.tolist(), strict=True)
    }


def confusion_table(counts: Mapping[Any, float]) -> dict[str, dict[str, int]]:
    """``{gold: {predicted: number}}``, both in the order of their names."""
    table: dict[str, dict[str, int]] = {}
    for key in sorted(key for key in counts if isinstance(key, tuple) and key[0] == "confusion"):
        _, gold, predicted = key
        table.setdefault(gold, {})[predicted] = int(counts[key])
    return table
