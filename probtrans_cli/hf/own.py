"""A probabilistic transformer as a folder that `transformers` opens after :func:`probtrans_cli.hf.register`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from probtrans_cli.hf.files import WEIGHTS, write_folder
from probtrans_cli.recipe.bert import CONFIG
from probtrans_cli.recipe.model import ProbabilisticTransformer

MODEL_TYPE = "probtrans"


def write_probabilistic(
    section: ProbabilisticTransformer,
    tensors: Mapping[str, Tensor],
    folder: Path,
    *,
    pad: int,
    texts: Mapping[str, str | bytes] | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a folder with its config.json and the tensors of unary scores and encoder.

    Args:
        section: the ``model`` section of its recipe.
        tensors: of the network; those of an output layer are left out.
        folder: must not exist, or be empty.
        pad: the id of padding.
        texts: further files by name.
        dtype: of the weights.

    Raises:
        UsageError: the folder cannot be written.
    """
    kept = {key: value for key, value in tensors.items() if key.startswith(("unary.", "encoder."))}
    config = {
        "model_type": MODEL_TYPE,
        "architectures": ["ProbabilisticModel"],
        "vocab_size": len(kept["unary.weight"]),
        "pad_token_id": pad,
        "dtype": str(dtype).removeprefix("torch."),
        "model": section.resolved().model_dump(mode="json", exclude={"init_from"}),
    }
    files: dict[str, str | bytes] = {CONFIG: json.dumps(config, indent=2) + "\n", **(texts or {})}
    write_folder(folder, files, {WEIGHTS: {key: value.detach().to("cpu", dtype) for key, value in kept.items()}})
