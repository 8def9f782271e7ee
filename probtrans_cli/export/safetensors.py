"""A model as a folder that `parse` and `eval` accept: a checkpoint without what only training needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from probtrans_cli import checkpoint
from probtrans_cli.errors import CheckpointError, UsageError
from probtrans_cli.export import ExportOptions
from probtrans_cli.export.measure import change_of_score, representations, source_of
from probtrans_cli.trained.base import texts_of, weights_of
from probtrans_cli.trained.model import Model


def write(
    model: Model,
    out: Path,
    options: ExportOptions,
    more: Mapping[str, str] | None = None,
    *,
    format: str = "safetensors",
    finish: Callable[[Path], object] | None = None,
) -> dict[str, Any]:
    """Write the folder; ``largest_difference`` is that of the word representations of random sentences.

    Args:
        more: further texts by the names of their files, or others in the place of its own.
        finish: adds to the folder before it gets its name.
    """
    assert model.folder is not None, "it was loaded"
    # A pruned model predicts other things than the model that was scored.
    scores = {} if "pruned" in options.about else checkpoint.verify(model.folder).json("eval.json", dict[str, Any])
    weights = {key: value.to(getattr(torch, options.dtype)) for key, value in weights_of(model.network).items()}
    score = change_of_score(model, options)
    before = representations(model)
    model.network.load_state_dict({key: value.float() for key, value in weights.items()})
    difference = float((representations(model) - before).abs().max())
    report = source_of(model, format, options.dtype) | {"largest_difference": difference}
    report |= {**score, **options.about}
    report["bytes"] = sum(value.numel() * value.element_size() for value in weights.values())
    texts = texts_of(model, scores) | {"EXPORT.json": json.dumps(report, indent=1) + "\n", **(more or {})}
    try:
        checkpoint.write(out.absolute(), texts, {"model.safetensors": weights}, replace=False, finish=finish)
    except CheckpointError as error:
        raise UsageError(error.message, hint="choose another OUT folder") from None
    return report
