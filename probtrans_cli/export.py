"""The verb `export`: a model as a folder of its own, without what only training needs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from probtrans_cli import __version__, checkpoint
from probtrans_cli.errors import CheckpointError, UsageError
from probtrans_cli.model import Model, weights_of
from probtrans_cli.models.heads import Features

PROBE_SENTENCES, PROBE_WORDS, PROBE_FEATURES = 8, 12, 5


def export(name: str, out: Path, *, form: str, dtype: str) -> dict[str, Any]:
    """Write the model of a CKPT argument to the folder ``out``; returns the report, which is also its EXPORT.json.

    The report's ``largest_difference`` is that of the word representations of random sentences between the model that
    was read and the one that was written.

    Raises:
        UsageError: ``out`` exists and is not an empty folder.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already", hint="choose another folder, or remove it")
    model = Model.load(name)
    assert model.folder is not None
    scores = json.loads((model.folder / "eval.json").read_text(encoding="utf-8"))
    weights = {key: value.to(getattr(torch, dtype)) for key, value in weights_of(model.network).items()}
    before = _probe(model)
    model.network.load_state_dict({key: value.float() for key, value in weights.items()})
    report = {
        "tool": f"probtrans {__version__}",
        "source": str(model.folder),
        "source_weights_sha256": hashlib.sha256((model.folder / "model.safetensors").read_bytes()).hexdigest(),
        "format": form,
        "dtype": dtype,
        "largest_difference": float((_probe(model) - before).abs().max()),
    }
    report["bytes"] = sum(value.numel() * value.element_size() for value in weights.values())
    texts = model.texts(scores) | {"EXPORT.json": json.dumps(report, indent=1) + "\n"}
    if out.exists():
        out.rmdir()
    try:
        checkpoint.write(out.absolute(), texts, {"model.safetensors": weights})
    except CheckpointError as error:
        raise UsageError(error.message, hint="choose another OUT folder") from None
    return report


@torch.no_grad()
def _probe(model: Model) -> torch.Tensor:
    """Representations of random sentences of several lengths."""
    random = np.random.default_rng(0)
    ids = torch.from_numpy(random.integers(1, model.vocabulary.size, (PROBE_SENTENCES, PROBE_WORDS)))
    lengths = torch.arange(PROBE_SENTENCES) * (PROBE_WORDS - 1) // (PROBE_SENTENCES - 1) + 1
    mask = torch.arange(PROBE_WORDS) < lengths[:, None]
    ids, mask = (ids * mask).to(model.machine.device), mask.to(model.machine.device)
    of_words = None
    if model.network.features is not None:
        table = len(model.network.features.weight)
        rows = torch.from_numpy(random.integers(0, table, ids.numel() * PROBE_FEATURES)).to(ids.device)
        of_words = Features(rows, torch.arange(0, len(rows), PROBE_FEATURES, device=ids.device))
    return model.network.encode(ids, mask, of_words).states.float().cpu()
