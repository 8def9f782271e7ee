"""The verb `export`: a model as a folder of its own, without what only training needs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from probtrans_cli import __version__, checkpoint, console
from probtrans_cli.errors import CheckpointError, UsageError
from probtrans_cli.hf.export import difference_there, write_model
from probtrans_cli.models.base import Features, Inputs, Wants
from probtrans_cli.trained.card import texts_of
from probtrans_cli.trained.model import Model, weights_of

PROBE_SENTENCES, PROBE_WORDS, PROBE_FEATURES = 8, 12, 5


def export(name: str, out: Path, *, form: str, dtype: str, expand_shared: bool = False) -> dict[str, Any]:
    """Write the model of a CKPT argument to the folder ``out``; returns the report, which is also its EXPORT.json.

    The report's ``largest_difference`` is that of the word representations of random sentences between the model that
    was read and the one that was written, with ``hf`` as `transformers` opens it, and of the output scores, too.

    Raises:
        UsageError: ``out`` exists and is not an empty folder, or the model has no form in the format.
    """
    if expand_shared and form != "hf":
        raise UsageError("--expand-shared is for --format hf", hint="leave it out")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already", hint="choose another folder, or remove it")
    model = Model.load(name)
    assert model.folder is not None
    if form == "hf":
        return _export_hf(model, out, dtype, expand_shared)
    scores = json.loads((model.folder / "eval.json").read_text(encoding="utf-8"))
    weights = {key: value.to(getattr(torch, dtype)) for key, value in weights_of(model.network).items()}
    before = _probe(model)
    model.network.load_state_dict({key: value.float() for key, value in weights.items()})
    report = _report(model, form, dtype) | {"largest_difference": float((_probe(model) - before).abs().max())}
    report["bytes"] = sum(value.numel() * value.element_size() for value in weights.values())
    texts = texts_of(model, scores) | {"EXPORT.json": json.dumps(report, indent=1) + "\n"}
    if out.exists():
        out.rmdir()
    try:
        checkpoint.write(out.absolute(), texts, {"model.safetensors": weights})
    except CheckpointError as error:
        raise UsageError(error.message, hint="choose another OUT folder") from None
    return report


def _export_hf(model: Model, out: Path, dtype: str, expand_shared: bool) -> dict[str, Any]:
    """The same as a folder for `transformers`; what it is compared with is told, for it may not be installed."""
    random = np.random.default_rng(0)
    written = write_model(model, out, expand_shared=expand_shared, dtype=getattr(torch, dtype))
    difference = difference_there(model, out, written.architecture, *_sentences(model, random))
    for note in written.notes:
        console.log(note)
    if difference is None:
        console.log("transformers is not installed: what it makes of the folder was not measured")
    report = _report(model, "hf", dtype) | {
        "architecture": written.architecture,
        "notes": written.notes,
        "largest_difference": difference,
        "bytes": (out / "model.safetensors").stat().st_size,
    }
    checkpoint.replace_text(out / "EXPORT.json", json.dumps(report, indent=1) + "\n")
    return report


def _report(model: Model, form: str, dtype: str) -> dict[str, Any]:
    assert model.folder is not None, "it was loaded"
    return {
        "tool": f"probtrans {__version__}",
        "source": str(model.folder),
        "source_weights_sha256": hashlib.sha256((model.folder / "model.safetensors").read_bytes()).hexdigest(),
        "format": form,
        "dtype": dtype,
    }


def _sentences(model: Model, random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask of random sentences of several lengths."""
    n = min(PROBE_WORDS, model.network.longest or PROBE_WORDS)
    ids = torch.from_numpy(random.integers(0, model.vocabulary.size, (PROBE_SENTENCES, n)))
    ids = ids.masked_fill(ids == model.vocabulary.PAD, model.vocabulary.UNKNOWN)
    lengths = torch.arange(PROBE_SENTENCES) * (n - 1) // (PROBE_SENTENCES - 1) + 1
    mask = torch.arange(n) < lengths[:, None]
    return ids.masked_fill(~mask, model.vocabulary.PAD), mask


@torch.no_grad()
def _probe(model: Model) -> torch.Tensor:
    """Representations of random sentences."""
    random = np.random.default_rng(0)
    ids, mask = (one.to(model.machine.device) for one in _sentences(model, random))
    of_words = None
    if model.network.features is not None:
        table = len(model.network.features.weight)
        rows = torch.from_numpy(random.integers(0, table, ids.numel() * PROBE_FEATURES)).to(ids.device)
        of_words = Features(rows, torch.arange(0, len(rows), PROBE_FEATURES, device=ids.device))
    states = model.network(Inputs(ids=ids, mask=mask, features=of_words), Wants(states=True)).states
    assert states is not None, "they are wanted"
    found: torch.Tensor = states.float().cpu()
    return found
