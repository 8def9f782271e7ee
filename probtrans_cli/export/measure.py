"""What every export measures and reports: where the model is from, and how much what is written differs from it."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import numpy as np
import torch

from probtrans_cli.export import ExportOptions
from probtrans_cli.models.base import Features, Inputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.trained.evaluation import evaluate
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.predictor import Predictor
from probtrans_cli.version import __version__

PROBE_SENTENCES, PROBE_WORDS, PROBE_FEATURES = 8, 12, 5


def source_of(model: Model, form: str, dtype: str) -> dict[str, Any]:
    """What every report begins with: the tool, the model that was read, and how it is written."""
    assert model.folder is not None, "it was loaded"
    return {
        "tool": f"probtrans {__version__}",
        "source": str(model.folder),
        "source_weights_sha256": hashlib.sha256((model.folder / "model.safetensors").read_bytes()).hexdigest(),
        "format": form,
        "dtype": dtype,
    }


def rounded(network: Network, dtype: str) -> Network:
    """A copy whose weights are those of another precision."""
    found = copy.deepcopy(network)
    weights = network.state_dict()
    found.load_state_dict(
        {
            key: value.to(getattr(torch, dtype)).to(value.dtype) if value.is_floating_point() else value
            for key, value in weights.items()
        }
    )
    return found


def change_of_score(model: Model, written: Network | Predictor, options: ExportOptions) -> dict[str, Any]:
    """``score``, where precision changes: the task's on dev of the model, by one plain pass, and of what is written;
    None where there is no dev to score."""
    if options.dtype == "float32":
        return {}
    if options.dev is None:
        return {"score": None}
    task, how, dev = model.task, model.evaluation(), options.dev
    before, after = (evaluate(task, one, dev, how, final=False)[task.metric] for one in (model.network, written))
    return {"score": {"metric": task.metric, "dev": before, "dev_exported": after, "change": after - before}}


def random_sentences(model: Model, random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask of random sentences of several lengths."""
    n = min(PROBE_WORDS, model.network.longest or PROBE_WORDS)
    ids = torch.from_numpy(random.integers(0, model.vocabulary.size, (PROBE_SENTENCES, n)))
    ids = ids.masked_fill(ids == model.vocabulary.PAD, model.vocabulary.UNKNOWN)
    lengths = torch.arange(PROBE_SENTENCES) * (n - 1) // (PROBE_SENTENCES - 1) + 1
    mask = torch.arange(n) < lengths[:, None]
    return ids.masked_fill(~mask, model.vocabulary.PAD), mask


@torch.no_grad()
def representations(model: Model) -> torch.Tensor:
    """Representations of random sentences."""
    random = np.random.default_rng(0)
    ids, mask = (one.to(model.machine.device) for one in random_sentences(model, random))
    of_words = None
    if model.network.features is not None:
        table = len(model.network.features.weight)
        rows = torch.from_numpy(random.integers(0, table, ids.numel() * PROBE_FEATURES)).to(ids.device)
        of_words = Features(rows, torch.arange(0, len(rows), PROBE_FEATURES, device=ids.device))
    states = model.network(Inputs(ids=ids, mask=mask, features=of_words), Wants(states=True)).states
    assert states is not None, "they are wanted"
    found: torch.Tensor = states.float().cpu()
    return found
