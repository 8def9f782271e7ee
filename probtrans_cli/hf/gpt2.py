"""A causal transformer of ours as the GPT-2 of Hugging Face's `transformers` (Radford et al. 2019).

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
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from probtrans_cli.errors import UsageError
from probtrans_cli.hf.write import Files, fill_biases, obstacles, repeat_shared, write_folder
from probtrans_cli.recipe.bert import CONFIG
from probtrans_cli.recipe.model import Transformer

GENERATION = "generation_config.json"
ARCHITECTURE = "GPT2LMHeadModel"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new"}
LINEAR = {"projections": "attn.c_attn", "output": "attn.c_proj", "widen": "mlp.c_fc", "narrow": "mlp.c_proj"}
NORMS = {"attention_norm": "ln_1", "norm": "ln_2"}


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
        section: of a causal transformer.
        tensors: its weights by their names in the network.
        folder: must not exist, or be empty.
        pad: the id of padding.
        never: ids that have no probability here; there, generation suppresses them.
        expand_shared: repeat tensors that several layers or projections share.
        texts: further files by name, a vocabulary's.
        dtype: of the weights.

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
    notes = list(fill_biases(section, ours))
    theirs = {
        "transformer.wte.weight": ours["unary.weight"],
        "transformer.wpe.weight": ours["encoder.positions"],
        "transformer.ln_f.weight": ours["encoder.final_norm.weight"],
        "transformer.ln_f.bias": ours["encoder.final_norm.bias"],
    }
    for index in range(section.layers):
        repeat_shared(section, ours, index)
        for name, other in (LINEAR | NORMS).items():
            for kind in ("weight", "bias"):
                tensor = ours[f"encoder.layers.{index}.{name}.{kind}"]
                theirs[f"transformer.h.{index}.{other}.{kind}"] = tensor.T if tensor.dim() == 2 else tensor
    config = {
        "model_type": "gpt2",
        "architectures": [ARCHITECTURE],
        "vocab_size": len(ours["unary.weight"]),
        "n_positions": section.positions.table_rows,
        "n_embd": section.width,
        "n_layer": section.layers,
        "n_head": section.heads,
        "n_inner": section.inner,
        "activation_function": ACTIVATIONS[section.activation],
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
    files = {CONFIG: json.dumps(config, indent=2) + "\n", GENERATION: json.dumps(generation, indent=2) + "\n"}
    weights = {name: value.detach().to("cpu", dtype, copy=True) for name, value in theirs.items()}
    write_folder(folder, {**files, **(texts or {})}, weights)
    return [
        *notes,
        "the first word of a text is left out: GPT-2 predicts words behind others",
        "padding and <mask> have scores there: generation suppresses them, and a softmax over all words counts them",
    ]
