"""How answers are told: their alternatives, and the doubt about them, in JSON, in comments and in pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from probtrans_cli.models.base import Outputs
from probtrans_cli.trees.drawing.drawing import probability_text

DOUBT = ("entropy", "expected_entropy", "mutual_information")
"""The parts of the doubt about an answer; the last two only where a model has members that can disagree."""
ABSTAINED = "_"
"""Stands for an answer that is not probable enough."""


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
