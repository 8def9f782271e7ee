"""A model as a folder for Hugging Face's `transformers`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from probtrans_cli import atomic, console
from probtrans_cli.export import ExportOptions
from probtrans_cli.export.measure import change_of_score, random_sentences, rounded, source_of
from probtrans_cli.hf.export import difference_there, write_model
from probtrans_cli.trained.model import Model

ANSWERS = (
    "answers: transformers computes scores of the ids that it is given; how parse divides texts, looks typographic "
    "marks up and decides answers is not part of the folder"
)


def write(model: Model, out: Path, options: ExportOptions) -> dict[str, Any]:
    """Write the folder; ``largest_difference`` is that of representations and scores to what `transformers` computes.

    `transformers` may not be installed: then the difference is null, and a line on stderr says so.

    Raises:
        UsageError: the model has no form there, or the folder cannot be written.
    """
    sentences = random_sentences(model, np.random.default_rng(0))
    written = write_model(model, out, expand_shared=options.expand_shared, dtype=getattr(torch, options.dtype))
    difference = difference_there(model, out, written.architecture, *sentences)
    for note in written.notes:
        console.log(note)
    if difference is None:
        console.log("transformers is not installed: what it makes of the folder was not measured")
    report = source_of(model, "hf", options.dtype) | {
        "architecture": written.architecture,
        "notes": written.notes,
        "largest_difference": difference,
        "bytes": (out / "model.safetensors").stat().st_size,
        **change_of_score(model, rounded(model.network, options.dtype), options),
        **({} if model.recipe.uncertain_weights is None else {"weights": "posterior means"}),
        "left_out": [ANSWERS],
        **options.about,
    }
    atomic.replace_text(out / "EXPORT.json", json.dumps(report, indent=1) + "\n")
    return report
