"""The files of a distributable checkpoint, beside its weights: configuration, labels, scores, recipe, model card."""

from __future__ import annotations

import json
from typing import Any

from probtrans_cli import checkpoint
from probtrans_cli.recipe.source import dump_recipe
from probtrans_cli.trained.base import ModelBase
from probtrans_cli.version import __version__


def texts_of(model: ModelBase, scores: dict[str, Any]) -> dict[str, str | bytes]:
    """Return the files of a model, but for the weights, by name; ``scores`` by split."""
    counts = model.network.parameter_counts()
    config = {
        "format": checkpoint.FORMAT,
        "tool": f"probtrans {__version__}",
        "name": model.recipe.name,
        "task": model.recipe.task.kind,
        "step": model.step,
        "vocabulary_size": model.vocabulary.size,
        "outputs": model.task.outputs,
        "parameters": counts,
        "trees": vars(model.reading),
        **model.network.output.described(),
        **({} if model.temperature is None else {"temperature": model.temperature}),
        **({} if model.origin is None else {"origin": model.origin}),
    }
    return {
        "config.json": as_json(config),
        "labels.json": as_json(model.labels),
        "eval.json": as_json(scores),
        "recipe.yaml": dump_recipe(model.recipe, [f"Recipe of this checkpoint, resolved, probtrans {__version__}"]),
        "README.md": _readme(model, counts, scores),
        **model.vocabulary_files,
    }


def store_reading(model: ModelBase) -> None:
    """Write how a model's trees are read into the checkpoint that it came from: parse and eval take it from there.

    Raises:
        CheckpointError: the checkpoint cannot be written.
    """
    assert model.folder is not None, "a model in training is saved by its trainer"
    verified = checkpoint.verify(model.folder, training=True)
    config = verified.json("config.json", dict[str, Any]) | {"trees": vars(model.reading)}
    files = {name: content for name, content in verified.files.items() if name != checkpoint.SUMS}
    checkpoint.write(model.folder, files | {"config.json": as_json(config)}, {})


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _readme(model: ModelBase, counts: dict[str, int], eval_scores: dict[str, Any]) -> str:
    scores = "\n".join(
        f"- {split}: " + ", ".join(f"{name} {value:.4g}" for name, value in values.items() if isinstance(value, float))
        for split, values in eval_scores.items()
        if isinstance(values, dict)
    )
    return f"""# {model.recipe.name}

{model.recipe.model.describe()}
Trained by probtrans {__version__}, task `{model.recipe.task.kind}`, {model.step} updates;
{counts["encoder"]:,} encoder parameters, {model.vocabulary.size:,} vocabulary entries.

{scores}

Use it with `probtrans parse FOLDER` and `probtrans eval FOLDER`. The folder is complete: weights (safetensors),
vocabulary, labels, recipe; `SHA256SUMS` holds the checksum of every file.
"""
