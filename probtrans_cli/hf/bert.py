"""BERT as Hugging Face's `transformers` stores it, and as a :class:`TransformerEncoder` with its outputs.

ours                     BERT's (i: the layer)
unary                    bert.embeddings.word_embeddings
encoder.positions        bert.embeddings.position_embeddings
encoder.segments         bert.embeddings.token_type_embeddings
encoder.embedding_norm   bert.embeddings.LayerNorm
encoder.layers.i
  projections            bert.encoder.layer.i.attention.self.query, key, value, stacked in this order
  output                 bert.encoder.layer.i.attention.output.dense
  attention_norm         bert.encoder.layer.i.attention.output.LayerNorm
  widen, narrow          bert.encoder.layer.i.intermediate.dense, bert.encoder.layer.i.output.dense
  norm                   bert.encoder.layer.i.output.LayerNorm
encoder.pooler           bert.pooler.dense
words.dense, norm        cls.predictions.transform.dense, LayerNorm          BertWordOutput
words.bias, decoder      cls.predictions.bias, decoder.weight
pair                     cls.seq_relationship                                SentenceOutput
classifier               classifier                                          of tokens, or of the sentence
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from probtrans_cli.hf.tensors import Foreign, Shapes, by_plain_names, check, module, pairs_of_modules, read_tensors
from probtrans_cli.recipe.hf import CONFIG, SMALLEST_EPS, BertConfig, read_config, read_shape
from probtrans_cli.text import first_of

PREFIX = "bert."
_OTHER_HEADS = {"qa_outputs.weight", "qa_outputs.bias"}  # BertForQuestionAnswering; no task of ours has it
_QUERY_KEY_VALUE = ("query", "key", "value")
_IN_LAYER = {
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "widen": "intermediate.dense",
    "narrow": "output.dense",
    "norm": "output.LayerNorm",
}
_MODULES = {
    "encoder.embedding_norm": "embeddings.LayerNorm",
    "encoder.pooler": "pooler.dense",
    "words.dense": "cls.predictions.transform.dense",
    "words.norm": "cls.predictions.transform.LayerNorm",
    "pair": "cls.seq_relationship",
    "classifier": "classifier",
}


class Bert(Foreign):
    """A BERT: names as above."""

    def part(self, name: Literal["encoder", "words", "pair", "classifier"]) -> dict[str, Tensor]:
        prefix = f"{name}."
        return {key.removeprefix(prefix): value for key, value in self.tensors.items() if key.startswith(prefix)}


def read_bert(folder: Path, *, strict: bool = True) -> Bert:
    """Read a folder as `transformers` writes it, or wrote it long ago; the tensors become float32.

    Args:
        folder: with config.json and weights. It may be without pooler and heads.
        strict: refuse tensors of unknown names; False = they are ``unexpected``, like a head for another task.

    Raises:
        CheckpointError: a file is missing or damaged; the model is no BERT; tensors of the encoder are missing, some
            have other shapes than config.json says, are not finite, or not known: one message with all of them.
    """
    content = read_config(folder)
    config = read_shape(content, folder / CONFIG, BertConfig)
    required, parts = _shapes_of(config)
    tensors, names, notes = by_plain_names(
        read_tensors(folder), folder, required, strict=strict, model="BERT", prefix=PREFIX
    )
    if config.layer_norm_eps == 0.0:
        notes.append(f"warning: layer_norm_eps is 0, read as {SMALLEST_EPS}")
    if unread := config.unread(content):
        notes.append(f"keys of {CONFIG} that are none of BERT's, and not read: {first_of(unread)}")
    classifier = tensors.get("classifier.weight")
    classes = len(classifier) if classifier is not None and classifier.ndim else 1
    parts["classifier"] = module("classifier", classes, config.hidden_size)
    there = {name: part for name, part in parts.items() if part.keys() & tensors.keys()}
    untied = _untie(tensors, config, notes)
    shapes = required | {key: shape for part in there.values() for key, shape in part.items()}
    if untied and "words" in there:
        shapes["cls.predictions.decoder.weight"] = (config.vocab_size, config.hidden_size)
    unknown = sorted(tensors.keys() - shapes - _OTHER_HEADS) if strict else ()
    check(tensors, shapes, names, unknown, folder)
    read = {name: tensors.pop(name) for name in shapes}
    section = config.section(pooler="pooler" in there)
    ours = {name: read[theirs] for name, theirs in _pairs(section.layers) if theirs in read}
    ours |= {name: torch.cat([read[it] for it in theirs]) for name, theirs in _stacked(section.layers)}
    return Bert(content, section, ours, sorted(tensors), notes)


def _shapes_of(config: BertConfig) -> tuple[Shapes, dict[str, Shapes]]:
    """Return BERT's names, without prefix, and shapes: of the encoder, and of each part that may be missing."""
    d, width, v = config.hidden_size, config.intermediate_size, config.vocab_size
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (v, d),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, d),
        "embeddings.token_type_embeddings.weight": (config.type_vocab_size, d),
        **module("embeddings.LayerNorm", d),
    }
    for index in range(config.num_hidden_layers):
        layer = f"encoder.layer.{index}."
        for name in _QUERY_KEY_VALUE:
            shapes |= module(f"{layer}attention.self.{name}", d, d)
        shapes |= module(f"{layer}attention.output.dense", d, d) | module(f"{layer}attention.output.LayerNorm", d)
        shapes |= module(f"{layer}intermediate.dense", width, d) | module(f"{layer}output.dense", d, width)
        shapes |= module(f"{layer}output.LayerNorm", d)
    transform = "cls.predictions.transform"
    words = module(f"{transform}.dense", d, d) | module(f"{transform}.LayerNorm", d) | {"cls.predictions.bias": (v,)}
    return shapes, {
        "pooler": module("pooler.dense", d, d),
        "words": words,
        "pair": module("cls.seq_relationship", 2, d),
    }


def _untie(tensors: dict[str, Tensor], config: BertConfig, notes: list[str]) -> bool:
    """Forget a decoder of the word output that is a copy of the table of word vectors; return whether it stays."""
    bias = tensors.pop("cls.predictions.decoder.bias", None)
    if bias is not None:
        # transformers computes with this bias; where all is tied, both are the same.
        unread = tensors.get("cls.predictions.bias", bias)
        if config.tie_word_embeddings and not torch.equal(unread, bias):
            notes.append("cls.predictions.decoder.bias is read, and not cls.predictions.bias, which differs from it")
        tensors["cls.predictions.bias"] = bias
    decoder, words = tensors.get("cls.predictions.decoder.weight"), tensors.get("embeddings.word_embeddings.weight")
    if decoder is None:
        if not config.tie_word_embeddings and "cls.predictions.bias" in tensors:
            notes.append("tie_word_embeddings is false, but there is no decoder: it is read tied")
        return False
    if config.tie_word_embeddings and words is not None and torch.equal(decoder, words):
        del tensors["cls.predictions.decoder.weight"]
        return False
    notes.append("the decoder is not tied to the word vectors")
    return True


# --- names ------------------------------------------------------------------------------------------------------------


def _pairs(layers: int) -> Iterator[tuple[str, str]]:
    """Yield our name and BERT's of everything that is the same tensor; a model may lack some of them."""
    yield "unary.weight", "embeddings.word_embeddings.weight"
    yield "encoder.positions", "embeddings.position_embeddings.weight"
    yield "encoder.segments.weight", "embeddings.token_type_embeddings.weight"
    yield "words.bias", "cls.predictions.bias"
    yield "words.decoder", "cls.predictions.decoder.weight"
    yield from pairs_of_modules(_MODULES, _IN_LAYER, [f"encoder.layer.{index}" for index in range(layers)])


def _stacked(layers: int) -> Iterator[tuple[str, list[str]]]:
    """Yield our name of the projections, and BERT's three names."""
    for index in range(layers):
        for end in ("weight", "bias"):
            theirs = [f"encoder.layer.{index}.attention.self.{name}.{end}" for name in _QUERY_KEY_VALUE]
            yield f"encoder.layers.{index}.projections.{end}", theirs


def to_theirs(tensors: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Return the same tensors by BERT's names, without prefix."""
    theirs = {name: tensors[ours] for ours, name in _pairs(layers) if ours in tensors}
    for ours, names in _stacked(layers):
        theirs |= dict(zip(names, tensors[ours].chunk(3), strict=True))
    return theirs
