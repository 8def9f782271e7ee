"""From a transformer of ours to a folder that `transformers` opens as BERT.

What BERT has and a model of ours has not is written as what changes nothing: zeros for biases and segments, and an
identity for the pooler that nothing reads. What BERT cannot compute is refused by the name of the option.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from probtrans_cli.errors import UsageError
from probtrans_cli.hf.bert import PREFIX, Bert, to_theirs
from probtrans_cli.hf.files import WEIGHTS, write_folder
from probtrans_cli.recipe.bert import ACTIVATIONS, CONFIG
from probtrans_cli.recipe.model import ModelSection, Transformer

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
_LEAST_HALF = 6e-8  # of float16
_ALL_BIASES = ("projections", "output", "widen", "narrow")


def obstacles(section: ModelSection, *, expand_shared: bool = False) -> list[str]:
    """The options, by name and value, that BERT has no form for; ``expand_shared``: shared tensors may be repeated."""
    if not section.facts.has_bert_output:
        return [f"model.kind: {section.kind}"]
    section = cast("Transformer", section)
    size = section.head_size or section.width // section.heads
    unlike = {
        f"positions: {section.positions.kind}": section.positions.table_rows is None,
        f"norm: {section.norm}": section.norm != "post",
        "embedding_norm: false": not section.embedding_norm,
        f"head_size: {size}": size * section.heads != section.width,
    }
    shared = {name: getattr(section, name) for name in ("share_layers", "tie_kv", "tie_qo")}
    if not expand_shared:
        unlike |= {
            f"{name}: true (--expand-shared writes what is shared several times)": shared[name] for name in shared
        }
    return [f"model.{option}" for option, found in unlike.items() if found]


def bert_of(
    section: ModelSection,
    tensors: Mapping[str, Tensor],
    base: Mapping[str, Any] | None = None,
    *,
    expand_shared: bool = False,
) -> Bert:
    """A model of ours as BERT.

    Args:
        section: its ``model`` section.
        tensors: its weights by the names of :mod:`probtrans_cli.hf.bert`.
        base: a config.json whose other keys are kept.
        expand_shared: repeat tensors that several layers or projections share.

    Raises:
        UsageError: it is not expressible as BERT; all options in the way are named.
    """
    if faults := obstacles(section, expand_shared=expand_shared):
        hint = "choose another --format, or train with `model.preset: bert`"
        raise UsageError(f"not expressible as BERT: {'; '.join(faults)}", hint=hint)
    section = cast("Transformer", section).resolved()
    given = dict(tensors)
    notes = list(_filled(section, given))
    for index in range(section.layers):
        _repeat_shared(section, given, index)
    shared = {"share_layers": False, "tie_kv": False, "tie_qo": False}
    plain = {"bias": "all", "pooler": True, "segments": section.segments or 1}
    section = section.model_copy(update=shared | plain)
    config = _config(section, len(given["unary.weight"]), base or {})
    config["tie_word_embeddings"] = "words.decoder" not in given
    if section.embedding_dropout != section.dropout:
        notes.append(
            f"embedding_dropout {section.embedding_dropout}: BERT has one for all, {section.dropout} is written"
        )
    return Bert(config, section, given, notes=notes)


def _filled(section: Transformer, tensors: dict[str, Tensor]) -> Iterator[str]:
    """Add what BERT has and the model has not, as what changes nothing; says so."""
    table = tensors["unary.weight"]
    width = section.width
    if section.bias != "all":
        sizes = {"projections": (3 - section.tie_kv) * width, "output": width, "widen": section.inner, "narrow": width}
        for index in range(1 if section.share_layers else section.layers):
            for name in _ALL_BIASES:
                tensors.setdefault(f"encoder.layers.{index}.{name}.bias", table.new_zeros(sizes[name]))
        yield f"bias: {section.bias}: the others are written as zeros"
    if not section.segments:
        tensors["encoder.segments.weight"] = table.new_zeros(1, width)
        yield "segments: 0: one is written, of zeros"
    if not section.pooler:
        tensors["encoder.pooler.weight"] = torch.eye(width, dtype=table.dtype)
        yield "pooler: false: an identity is written where the architecture has one"
    tensors.setdefault("encoder.pooler.bias", table.new_zeros(width))


def _repeat_shared(section: Transformer, tensors: dict[str, Tensor], index: int) -> None:
    """Give a layer its own copies of what it shares."""
    layer, width = f"encoder.layers.{index}.", section.width
    if section.share_layers and index:
        first = {key: value for key, value in tensors.items() if key.startswith("encoder.layers.0.")}
        tensors |= {key.replace("encoder.layers.0.", layer, 1): value for key, value in first.items()}
        return
    weight, bias = f"{layer}projections.weight", f"{layer}projections.bias"
    if section.tie_qo:
        tensors[f"{layer}output.weight"] = tensors[weight][:width].T
        tensors[f"{layer}output.bias"] = tensors[bias].new_zeros(width)
    if section.tie_kv:
        for name in (weight, bias):
            tensors[name] = torch.cat([tensors[name], tensors[name][width:]])


def _config(section: Transformer, vocabulary: int, base: Mapping[str, Any]) -> dict[str, Any]:
    """The content of config.json: what ``base`` has, and the section."""
    activation = base.get("hidden_act")
    if ACTIVATIONS.get(str(activation)) != section.activation:
        activation = next(name for name, ours in ACTIVATIONS.items() if ours == section.activation)
    own = {
        "model_type": "bert",
        "vocab_size": vocabulary,
        "hidden_size": section.width,
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
    }
    return {**base, **own}


def architecture_of(bert: Bert) -> Architecture:
    """The class of `transformers` that has all parts of a BERT, or as many as one class can."""
    there = _parts(bert)
    if "words" in there:
        return "BertForPreTraining" if "pair" in there else "BertForMaskedLM"
    return "BertForTokenClassification" if "classifier" in there else "BertModel"


def _parts(bert: Bert) -> set[str]:
    pooler = {"pooler"} if "encoder.pooler.weight" in bert.tensors else set()
    return pooler | {name.partition(".")[0] for name in bert.tensors}


def write_bert(
    bert: Bert,
    folder: Path,
    architecture: Architecture | None = None,
    *,
    texts: Mapping[str, str | bytes] | None = None,
    dtype: torch.dtype = torch.float32,
) -> list[str]:
    """Write a folder that `transformers` opens without a missing or an unexpected tensor; returns what to tell of it.

    Args:
        bert: the model.
        folder: must not exist, or be empty.
        architecture: the class in which it is opened; None = that with all its parts.
        texts: further files by name, a vocabulary's.
        dtype: of the weights.

    Raises:
        UsageError: the model lacks a part of the architecture, or the folder cannot be written.
    """
    architecture = architecture or architecture_of(bert)
    notes = list(bert.notes)
    if lacking := [name for name in PARTS[architecture] if name not in _parts(bert)]:
        hint = f"write it as {architecture_of(bert)}"
        raise UsageError(f"a {architecture} has what this model has not: {', '.join(lacking)}", hint=hint)
    if dtype == torch.float16 and bert.section.norm_eps < _LEAST_HALF:
        notes.append(f"warning: norm_eps {bert.section.norm_eps} is 0 in float16: a constant vector has no norm")
    kind = "torch_dtype" if "torch_dtype" in bert.config else "dtype"
    config = bert.config | {"architectures": [architecture], kind: str(dtype).removeprefix("torch.")}
    weights = {name: value.detach().to("cpu", dtype, copy=True) for name, value in _chosen(bert, architecture).items()}
    files: dict[str, str | bytes] = {CONFIG: json.dumps(config, indent=2, ensure_ascii=False) + "\n", **(texts or {})}
    write_folder(folder, files, {WEIGHTS: weights})
    return notes


def _chosen(bert: Bert, architecture: Architecture) -> dict[str, Tensor]:
    """The tensors of an architecture, by the names that they have there."""
    parts = PARTS[architecture]
    pooler = "encoder.pooler."
    kept = {
        name: value
        for name, value in bert.tensors.items()
        if name.partition(".")[0] in ("unary", "encoder", *parts) and ("pooler" in parts or not name.startswith(pooler))
    }
    theirs = to_theirs(kept, bert.section.layers)
    if "words.decoder" in kept:  # then this one is computed with, and nothing is tied
        theirs["cls.predictions.decoder.bias"] = theirs["cls.predictions.bias"]
    if architecture == "BertModel":
        return theirs
    heads = ("cls.", "classifier.")
    return {name if name.startswith(heads) else f"{PREFIX}{name}": value for name, value in theirs.items()}
