"""A causal transformer as the GPT-2 of Hugging Face's `transformers` (Radford et al. 2019), both ways.

ours                     GPT-2's (i: the layer)
unary                    transformer.wte, and the output, which is tied to it
encoder.positions        transformer.wpe
encoder.final_norm       transformer.ln_f
encoder.layers.i         transformer.h.i
  attention_norm, norm   ln_1, ln_2
  projections, output    attn.c_attn, attn.c_proj                  weights transposed, as of all products there
  widen, narrow          mlp.c_fc, mlp.c_proj

GPT-2 has no score of a word by itself, and no state from which the first word of a text is predicted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from probtrans_cli.errors import CheckpointError, UsageError
from probtrans_cli.hf.tensors import Foreign, by_plain_names, check, module, pairs_of_modules, read_tensors
from probtrans_cli.hf.write import Files, fill_layers, obstacles, write_folder
from probtrans_cli.recipe.hf import CONFIG, SMALLEST_EPS, Gpt2Config, read_config, read_shape
from probtrans_cli.recipe.model import Transformer
from probtrans_cli.text import first_of

PREFIX = "transformer."
HEAD = "lm_head.weight"
GENERATION = "generation_config.json"
ARCHITECTURE = "GPT2LMHeadModel"
ACTIVATION_NAMES = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new"}
_IN_LAYER = {
    "projections": "attn.c_attn",
    "output": "attn.c_proj",
    "widen": "mlp.c_fc",
    "narrow": "mlp.c_proj",
    "attention_norm": "ln_1",
    "norm": "ln_2",
}


def _pairs(layers: int) -> Iterator[tuple[str, str]]:
    """Yield our name of every tensor, and GPT-2's without prefix."""
    yield from (("unary.weight", "wte.weight"), ("encoder.positions", "wpe.weight"))
    yield from pairs_of_modules({"encoder.final_norm": "ln_f"}, _IN_LAYER, [f"h.{index}" for index in range(layers)])


def _turned(name: str, tensor: Tensor) -> Tensor:
    """Return a tensor of a layer in the other form: matrices are transposed."""
    return tensor.T.contiguous() if ".layers." in name and tensor.dim() == 2 else tensor


def read_gpt2(folder: Path, *, strict: bool = True) -> Foreign:
    """Read a folder as `transformers` writes it; the tensors become float32.

    Args:
        folder: with config.json and weights.
        strict: refuse tensors of unknown names; False = they are ``unexpected``.

    Raises:
        CheckpointError: a file is missing or damaged; config.json has options that change what is computed; the output
            is not tied; tensors are missing, have other shapes, are not finite, or not known.
    """
    content = read_config(folder)
    config = read_shape(content, folder / CONFIG, Gpt2Config)
    section, d = config.section(), config.n_embd
    shapes = {"wte.weight": (config.vocab_size, d), "wpe.weight": (config.n_positions, d), **module("ln_f", d)}
    for index in range(section.layers):
        layer = f"h.{index}."
        shapes |= module(f"{layer}ln_1", d) | module(f"{layer}ln_2", d)
        for name, (inputs, outputs) in {
            "attn.c_attn": (d, 3 * d),
            "attn.c_proj": (d, d),
            "mlp.c_fc": (d, section.inner),
            "mlp.c_proj": (section.inner, d),
        }.items():
            shapes |= {f"{layer}{name}.weight": (inputs, outputs), f"{layer}{name}.bias": (outputs,)}
    tensors, names, notes = by_plain_names(
        read_tensors(folder), folder, shapes, strict=strict, model=config.name, prefix=PREFIX
    )
    if config.layer_norm_epsilon == 0.0:
        notes.append(f"warning: layer_norm_epsilon is 0, read as {SMALLEST_EPS}")
    if unread := config.unread(content):
        notes.append(f"keys of {CONFIG} that are none of GPT-2's, and not read: {first_of(unread)}")
    head = tensors.pop(HEAD, None)
    check(tensors, shapes, names, sorted(tensors.keys() - shapes) if strict else (), folder)
    if head is not None and not torch.equal(head, tensors["wte.weight"]):
        message = f"{folder}: {HEAD} is not transformer.wte.weight, to which {CONFIG} says it is tied"
        raise CheckpointError(message, hint="only a GPT-2 whose output is tied is read")
    ours = {name: _turned(name, tensors.pop(theirs)) for name, theirs in _pairs(section.layers)}
    notes.append("GPT-2 has no score of a word by itself, and predicts no first word: task.word_bias=false fits it")
    return Foreign(content, section, ours, sorted(tensors), notes)


def write_gpt2(
    section: Transformer,
    tensors: Mapping[str, Tensor],
    folder: Path,
    *,
    pad: int,
    never: list[int],
    expand_shared: bool = False,
    texts: Files | None = None,
    dtype: torch.dtype = torch.float32,
) -> list[str]:
    """Write a folder that `transformers` opens as a :data:`ARCHITECTURE`; return notes for people.

    Args:
        pad: the id of padding.
        never: ids that have no probability here; there, generation suppresses them.
        expand_shared: repeat tensors that several layers or projections share.

    Raises:
        UsageError: it is not expressible as GPT-2, and all options in the way are named; the folder cannot be written.
    """
    faults = obstacles(section, expand_shared=expand_shared)
    faults += ["task.word_bias: true"] if "output.bias" in tensors else []
    faults += ["task.output: linear"] if "output.weight" in tensors else []
    if faults:
        hint = "choose --format safetensors, or train with model.norm=pre task.word_bias=false"
        raise UsageError(f"not expressible as GPT-2: {'; '.join(faults)}", hint=hint)
    section, ours = section.resolved(), dict(tensors)
    notes = fill_layers(section, ours)
    theirs = {f"{PREFIX}{name}": _turned(key, ours[key]) for key, name in _pairs(section.layers)}
    config = {
        "model_type": "gpt2",
        "architectures": [ARCHITECTURE],
        "vocab_size": len(ours["unary.weight"]),
        "n_positions": section.positions.table_rows,
        "n_embd": section.width,
        "n_layer": section.layers,
        "n_head": section.heads,
        "n_inner": section.inner,
        "activation_function": ACTIVATION_NAMES[section.activation],
        "resid_pdrop": section.dropout,
        "embd_pdrop": section.embedding_dropout,
        "attn_pdrop": section.attention_dropout,
        "layer_norm_epsilon": section.norm_eps,
        "initializer_range": section.std,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": pad,
        "dtype": str(dtype).removeprefix("torch."),
    }
    generation = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": pad, "suppress_tokens": never}
    files = {GENERATION: json.dumps(generation, indent=2) + "\n", **(texts or {})}
    write_folder(folder, config, theirs, dtype, files)
    return [
        *notes,
        "the first word of a text is left out: GPT-2 predicts words behind others",
        "padding and <mask> have scores there: generation suppresses them, and a softmax over all words counts them",
    ]
