"""Models of ours as folders that `transformers` opens: as BERT, or with classes of ours.

What BERT has and a model of ours has not is written as what changes nothing: zeros for biases and segments, and an
identity for the pooler that nothing reads. What BERT cannot compute is refused by the name of the option.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from probtrans_cli import checkpoint
from probtrans_cli.errors import CheckpointError, UsageError
from probtrans_cli.hf.bert import PREFIX, Bert, to_theirs
from probtrans_cli.hf.tensors import WEIGHTS
from probtrans_cli.recipe.hf import ACTIVATIONS, CONFIG
from probtrans_cli.recipe.model import ModelSection, ProbabilisticTransformer, Transformer

Architecture = Literal[
    "BertModel",
    "BertForMaskedLM",
    "BertForPreTraining",
    "BertForTokenClassification",
    "BertForSequenceClassification",
]
PARTS: dict[Architecture, tuple[str, ...]] = {  # besides the encoder
    "BertModel": ("pooler",),
    "BertForMaskedLM": ("words",),
    "BertForPreTraining": ("pooler", "words", "pair"),
    "BertForTokenClassification": ("classifier",),
    "BertForSequenceClassification": ("pooler", "classifier"),
}
MODEL_TYPE = "probtrans"
_LEAST_HALF = 6e-8  # of float16
Files = Mapping[str, str | bytes]


def obstacles(section: ModelSection, *, expand_shared: bool = False) -> list[str]:
    """Return the options, by name and value, that BERT has no form for; of a causal transformer, that GPT-2 has none
    for."""
    if not section.facts.has_bert_output:
        return [f"model.kind: {section.kind}"]
    section = cast("Transformer", section)
    size = section.head_size or section.width // section.heads
    embedding_norm = str(section.embedding_norm).lower()
    unlike = {
        f"positions: {section.positions.kind}": section.positions.table_rows is None,
        f"norm: {section.norm}": section.norm != ("pre" if section.causal else "post"),
        f"embedding_norm: {embedding_norm}": section.embedding_norm == section.causal,
        "chain: true": section.chain,
        f"segments: {section.segments}": section.causal and section.segments > 0,
        f"base_width: {section.base_width}": section.base_width not in (None, section.width),
        f"head_size: {size}": size * section.heads != section.width,
    }
    for name in () if expand_shared else ("share_layers", "tie_kv", "tie_qo"):
        unlike[f"{name}: true (--expand-shared writes what is shared several times)"] = getattr(section, name)
    return [f"model.{option}" for option, is_unlike in unlike.items() if is_unlike]


def bert_of(
    section: ModelSection,
    tensors: Mapping[str, Tensor],
    base: Mapping[str, Any] | None = None,
    *,
    expand_shared: bool = False,
) -> Bert:
    """Return a model of ours as BERT.

    Args:
        base: a config.json whose other keys are kept.
        expand_shared: repeat tensors that several layers or projections share.

    Raises:
        UsageError: it is not expressible as BERT; all options in the way are named.
    """
    if faults := obstacles(section, expand_shared=expand_shared):
        hint = "choose another --format, or train with `model.preset: bert`"
        raise UsageError(f"not expressible as BERT: {'; '.join(faults)}", hint=hint)
    section = cast("Transformer", section).resolved()
    all_tensors = dict(tensors)
    notes = fill_layers(section, all_tensors)
    table, width = all_tensors["unary.weight"], section.width
    if not section.segments:
        all_tensors["encoder.segments.weight"] = table.new_zeros(1, width)
        notes.append("segments: 0: one is written, of zeros")
    if not section.pooler:
        all_tensors["encoder.pooler.weight"] = torch.eye(width, dtype=table.dtype)
        notes.append("pooler: false: an identity is written where the architecture has one")
    all_tensors.setdefault("encoder.pooler.bias", table.new_zeros(width))
    shared = {"share_layers": False, "tie_kv": False, "tie_qo": False}
    plain = {"bias": "all", "pooler": True, "segments": section.segments or 1}
    section = section.model_copy(update=shared | plain)
    base = base or {}
    activation = base.get("hidden_act")
    if ACTIVATIONS.get(str(activation)) != section.activation:
        activation = next(name for name, ours in ACTIVATIONS.items() if ours == section.activation)
    config = {
        **base,
        "model_type": "bert",
        "vocab_size": len(table),
        "hidden_size": width,
        "num_hidden_layers": section.layers,
        "num_attention_heads": section.heads,
        "intermediate_size": section.inner,
        "hidden_act": activation,
        "hidden_dropout_prob": section.dropout,
        "attention_probs_dropout_prob": section.attention_dropout,
        "max_position_embeddings": section.positions.table_rows,
        "type_vocab_size": section.segments,
        "initializer_range": section.std,
        "layer_norm_eps": section.norm_eps,
        "tie_word_embeddings": "words.decoder" not in all_tensors,
    }
    if section.embedding_dropout != section.dropout:
        notes.append(
            f"embedding_dropout {section.embedding_dropout}: BERT has one for all, {section.dropout} is written"
        )
    return Bert(config, section, all_tensors, notes=notes)


def fill_layers(section: Transformer, tensors: dict[str, Tensor]) -> list[str]:
    """Add to every layer the biases that it lacks, as zeros, and its own copies of what it shares; return notes."""
    width, notes = section.width, []
    if section.bias != "all":
        sizes = {"projections": (3 - section.tie_kv) * width, "output": width, "widen": section.inner, "narrow": width}
        for index in range(1 if section.share_layers else section.layers):
            for name, size in sizes.items():
                zeros = tensors["unary.weight"].new_zeros(size)
                tensors.setdefault(f"encoder.layers.{index}.{name}.bias", zeros)
        notes.append(f"bias: {section.bias}: the others are written as zeros")
    for index in range(section.layers):
        layer = f"encoder.layers.{index}."
        if section.share_layers and index:
            first = {key: value for key, value in tensors.items() if key.startswith("encoder.layers.0.")}
            tensors |= {key.replace("encoder.layers.0.", layer, 1): value for key, value in first.items()}
            continue
        weight, bias = f"{layer}projections.weight", f"{layer}projections.bias"
        if section.tie_qo:
            tensors[f"{layer}output.weight"] = tensors[weight][:width].T
            tensors[f"{layer}output.bias"] = tensors[bias].new_zeros(width)
        if section.tie_kv:
            for name in (weight, bias):
                tensors[name] = torch.cat([tensors[name], tensors[name][width:]])
    return notes


def write_bert(
    bert: Bert,
    folder: Path,
    architecture: Architecture | None = None,
    *,
    texts: Files | None = None,
    dtype: torch.dtype = torch.float32,
) -> list[str]:
    """Write a folder that `transformers` opens without a missing or an unexpected tensor; return notes for people.

    Args:
        folder: must not exist, or be empty.
        architecture: the class in which it is opened; None = the class with all its parts.
    """
    parts = {name.partition(".")[0] for name in bert.tensors}
    parts |= {"pooler"} if "encoder.pooler.weight" in bert.tensors else set()
    largest: Architecture = "BertForTokenClassification" if "classifier" in parts else "BertModel"
    if "words" in parts:
        largest = "BertForPreTraining" if "pair" in parts else "BertForMaskedLM"
    architecture = architecture or largest
    wanted, notes = PARTS[architecture], list(bert.notes)
    if lacking := [name for name in wanted if name not in parts]:
        fault = f"a {architecture} has what this model has not: {', '.join(lacking)}"
        raise UsageError(fault, hint=f"write it as {largest}")
    if dtype == torch.float16 and bert.section.norm_eps < _LEAST_HALF:
        notes.append(f"warning: norm_eps {bert.section.norm_eps} is 0 in float16: a constant vector has no norm")
    kind = "torch_dtype" if "torch_dtype" in bert.config else "dtype"
    config = bert.config | {"architectures": [architecture], kind: str(dtype).removeprefix("torch.")}
    chosen = {
        name: value
        for name, value in bert.tensors.items()
        if name.partition(".")[0] in ("unary", "encoder", *wanted)
        and ("pooler" in wanted or not name.startswith("encoder.pooler."))
    }
    theirs = to_theirs(chosen, bert.section.layers)
    if "words.decoder" in chosen:  # then this bias is computed with, and nothing is tied
        theirs["cls.predictions.decoder.bias"] = theirs["cls.predictions.bias"]
    if architecture != "BertModel":
        heads = ("cls.", "classifier.")
        theirs = {name if name.startswith(heads) else f"{PREFIX}{name}": value for name, value in theirs.items()}
    write_folder(folder, config, theirs, dtype, texts)
    return notes


def write_probabilistic(
    section: ProbabilisticTransformer,
    tensors: Mapping[str, Tensor],
    folder: Path,
    *,
    pad: int,
    texts: Files | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a folder that `transformers` opens after :func:`probtrans_cli.hf.register`: config.json and the tensors of
    unary scores and encoder.

    Args:
        pad: the id of padding.
    """
    weights = {key: value for key, value in tensors.items() if key.startswith(("unary.", "encoder."))}
    config = {
        "model_type": MODEL_TYPE,
        "architectures": ["ProbabilisticModel"],
        "vocab_size": len(weights["unary.weight"]),
        "pad_token_id": pad,
        "dtype": str(dtype).removeprefix("torch."),
        "model": section.resolved().model_dump(mode="json", exclude={"init_from"}),
    }
    write_folder(folder, config, weights, dtype, texts)


def write_folder(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], dtype: torch.dtype, texts: Files | None
) -> None:
    """Write config.json, the tensors in a precision, and other texts: the folder as a whole or not at all."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists already", hint="choose another folder, or remove it")
    # Copies, as layers may share a tensor, which the format of the file refuses.
    weights = {name: value.detach().to("cpu", dtype, copy=True) for name, value in tensors.items()}
    files = {CONFIG: json.dumps(config, indent=2, ensure_ascii=False) + "\n", **(texts or {})}
    try:
        checkpoint.write(folder.absolute(), files, {WEIGHTS: weights}, replace=False)
    except CheckpointError as error:
        raise UsageError(error.message, hint="choose another folder") from None
