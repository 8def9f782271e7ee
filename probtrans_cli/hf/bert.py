"""BERT as Hugging Face's `transformers` stores it, and as a :class:`TransformerEncoder` with its outputs.

ours                     theirs (i: the layer)
unary                    bert.embeddings.word_embeddings
encoder.positions        bert.embeddings.position_embeddings
encoder.segments         bert.embeddings.token_type_embeddings
encoder.embedding_norm   bert.embeddings.LayerNorm
encoder.layers.i
  projections            bert.encoder.layer.i.attention.self.query, key, value, one on top of the other
  output                 bert.encoder.layer.i.attention.output.dense
  attention_norm         bert.encoder.layer.i.attention.output.LayerNorm
  widen, narrow          bert.encoder.layer.i.intermediate.dense, bert.encoder.layer.i.output.dense
  norm                   bert.encoder.layer.i.output.LayerNorm
encoder.pooler           bert.pooler.dense
words.dense, norm        cls.predictions.transform.dense, LayerNorm          BertWordOutput
words.bias, decoder      cls.predictions.bias, decoder.weight
pair                     cls.seq_relationship                                PairOutput
classifier               classifier                                          of tokens, or of the sentence
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from probtrans_cli.errors import CheckpointError
from probtrans_cli.hf.files import read_tensors
from probtrans_cli.hf.prefixes import USUAL, Names, without_prefix
from probtrans_cli.recipe.bert import CONFIG, SMALLEST_EPS, Config, read_config, read_shape, unread_keys
from probtrans_cli.recipe.model import Transformer
from probtrans_cli.text import first_of

Shapes = dict[str, tuple[int, ...]]
PREFIX = "bert."
_STRAY = {"embeddings.position_ids", "embeddings.token_type_ids"}  # 0, 1, 2, …: no weights
_OTHER_HEADS = {"qa_outputs.weight", "qa_outputs.bias"}  # BertForQuestionAnswering; no task of ours has it
_QUERY_KEY_VALUE = ("query", "key", "value")
_IN_LAYER = {
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "widen": "intermediate.dense",
    "narrow": "output.dense",
    "norm": "output.LayerNorm",
}
_HEADS = {
    "words.dense": "cls.predictions.transform.dense",
    "words.norm": "cls.predictions.transform.LayerNorm",
    "pair": "cls.seq_relationship",
    "classifier": "classifier",
}


def shapes_of(config: Config) -> Shapes:
    """Their names, without prefix, of what an encoder cannot be without, with the shapes."""
    d, inner = config.hidden_size, config.intermediate_size
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (config.vocab_size, d),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, d),
        "embeddings.token_type_embeddings.weight": (config.type_vocab_size, d),
        **_norm("embeddings.LayerNorm", d),
    }
    for index in range(config.num_hidden_layers):
        layer = f"encoder.layer.{index}."
        for name in _QUERY_KEY_VALUE:
            shapes |= _linear(f"{layer}attention.self.{name}", d, d)
        shapes |= _linear(f"{layer}attention.output.dense", d, d) | _norm(f"{layer}attention.output.LayerNorm", d)
        shapes |= _linear(f"{layer}intermediate.dense", d, inner) | _linear(f"{layer}output.dense", inner, d)
        shapes |= _norm(f"{layer}output.LayerNorm", d)
    return shapes


def shapes_of_parts(config: Config, classes: int) -> dict[str, Shapes]:
    """The same of each part that may be missing; ``classes``: of the classifier."""
    d, v = config.hidden_size, config.vocab_size
    transform = "cls.predictions.transform"
    words = _linear(f"{transform}.dense", d, d) | _norm(f"{transform}.LayerNorm", d)
    return {
        "pooler": _linear("pooler.dense", d, d),
        "words": words | {"cls.predictions.bias": (v,)},
        "pair": _linear("cls.seq_relationship", d, 2),
        "classifier": _linear("classifier", d, classes),
    }


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


@dataclass
class Bert:
    """A BERT: ``tensors`` by our names, see above; only whole parts. ``config`` is all that config.json says."""

    config: dict[str, Any]
    section: Transformer
    tensors: dict[str, Tensor]
    unexpected: list[str] = field(default_factory=list)
    """Names of tensors that are no part of a BERT of ours: a head for another task, or what nobody knows."""
    notes: list[str] = field(default_factory=list)
    """For people: what was read otherwise than it stands there."""

    def part(self, name: Literal["encoder", "words", "pair", "classifier"]) -> dict[str, Tensor]:
        """The state dict of a part; empty where there is none."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): value for key, value in self.tensors.items() if key.startswith(prefix)}

    @property
    def tied(self) -> bool:
        """Whether the word output reads the table of word vectors."""
        return "words.decoder" not in self.tensors

    def missing(self) -> list[str]:
        """The parts that a BERT may be without, and this one is."""
        there = {name.partition(".")[0] for name in self.tensors} | {"pooler" if self.section.pooler else ""}
        return [name for name in ("pooler", "words", "pair") if name not in there]


# --- reading ----------------------------------------------------------------------------------------------------------


def read_bert(folder: Path, *, strict: bool = True) -> Bert:
    """Read a folder as `transformers` writes it, or wrote it long ago; float32 tensors, whatever they are there.

    Args:
        folder: with config.json and weights. It may be without pooler and heads.
        strict: refuse tensors of unknown names; False = they are ``unexpected``, like a head for another task.

    Raises:
        CheckpointError: a file is missing or damaged; the model is no BERT; tensors of the encoder are missing, some
            have other shapes than config.json says, are not finite, or not known: one message with all of them.
    """
    given = read_config(folder)
    config = read_shape(given, folder / CONFIG)
    required = shapes_of(config)
    found, names, notes = _by_plain_names(read_tensors(folder), folder, required, strict=strict)
    if config.layer_norm_eps == 0.0:
        notes.append(f"warning: layer_norm_eps is 0, read as {SMALLEST_EPS}")
    if unread := unread_keys(given):
        notes.append(f"keys of {CONFIG} that are none of BERT's, and not read: {first_of(unread)}")
    classifier = found.get("classifier.weight")
    classes = len(classifier) if classifier is not None and classifier.ndim else 1
    parts = shapes_of_parts(config, classes)
    there = {name: part for name, part in parts.items() if part.keys() & found.keys()}
    decoder = _untied(found, config, notes)
    shapes = required | {key: shape for part in there.values() for key, shape in part.items()}
    if decoder is not None and "words" in there:
        shapes["cls.predictions.decoder.weight"] = (config.vocab_size, config.hidden_size)
    faults, unknown = _faults(found, shapes), sorted(found.keys() - shapes - _OTHER_HEADS)
    if faults or (unknown and strict):
        there_is = {f"{name}: missing": f" (there is {place})" for name, place in names.elsewhere.items()}
        lines = "\n".join([*(f + there_is.get(f, "") for f in faults), *(f"{name}: not known" for name in unknown)])
        hint = "copy it again" if faults else "model.init_strict=false leaves them there"
        told = f" ({names.unusual})" if names.unusual else ""
        raise CheckpointError(f"{folder}: the weights are not those of its {CONFIG}{told}:\n{lines}", hint=hint)
    kept = {name: found.pop(name) for name in shapes}
    section = config.section(pooler="pooler" in there)
    return Bert(given, section, _to_ours(kept, config.num_hidden_layers), sorted(found), notes)


def _by_plain_names(
    tensors: Mapping[str, Tensor], folder: Path, required: Shapes, *, strict: bool
) -> tuple[dict[str, Tensor], Names, list[str]]:
    """Tensors in float32 by their names today, without prefix; what these names are; what else there is to say."""
    names = without_prefix(tensors, required)
    if names.others and (strict or names.prefix not in USUAL):
        prefixes = " and ".join(repr(prefix) for prefix in (names.prefix, *names.others))
        hint = "write the one that is meant to a folder of its own"
        raise CheckpointError(f"{folder}: has more than one encoder, under {prefixes}", hint=hint)
    if required.keys().isdisjoint(names.plain.values()):
        begins = f"the names there begin with {names.beginnings}" if tensors else "there are none"
        words = f"{folder}: no tensor has a name of BERT's: {begins}; missing: {first_of(list(required))}"
        raise CheckpointError(words, hint=f"only BERT's names, as in {PREFIX}{next(iter(required))}, are known")
    notes = [f"{names.unusual}: left out"] if names.unusual else []
    found: dict[str, Tensor] = {}
    kinds: set[torch.dtype] = set()
    for name, tensor in tensors.items():
        plain = names.plain[name]
        if plain in _STRAY:
            continue
        if plain in found:
            raise CheckpointError(f"{folder}: has {plain} twice, once as {name}", hint="it mixes two models")
        kinds.add(tensor.dtype)
        found[plain] = tensor.float() if tensor.is_floating_point() else tensor
    others = sorted(str(kind).removeprefix("torch.") for kind in kinds - {torch.float32} if kind.is_floating_point)
    return found, names, [*notes, *([f"warning: {', '.join(others)} weights, read as float32"] if others else [])]


def _untied(found: dict[str, Tensor], config: Config, notes: list[str]) -> Tensor | None:
    """The decoder of the word output where it is not the table of word vectors; a copy of that is forgotten."""
    bias = found.pop("cls.predictions.decoder.bias", None)
    if bias is not None:
        # This is the one that transformers computes with; where all is tied, both are the same.
        other = found.get("cls.predictions.bias", bias)
        if config.tie_word_embeddings and not torch.equal(other, bias):
            notes.append("cls.predictions.decoder.bias is read, and not cls.predictions.bias, which differs from it")
        found["cls.predictions.bias"] = bias
    decoder, words = (found.get(f"{name}.weight") for name in ("cls.predictions.decoder", "embeddings.word_embeddings"))
    if decoder is None:
        if not config.tie_word_embeddings and "cls.predictions.bias" in found:
            notes.append("tie_word_embeddings is false, but there is no decoder: it is read tied")
        return None
    if config.tie_word_embeddings and words is not None and torch.equal(decoder, words):
        del found["cls.predictions.decoder.weight"]
        return None
    notes.append("the decoder is not tied to the word vectors")
    return decoder


def _faults(found: Mapping[str, Tensor], shapes: Shapes) -> list[str]:
    faults = []
    for name, shape in shapes.items():
        tensor = found.get(name)
        if tensor is None:
            faults.append(f"{name}: missing")
        elif tuple(tensor.shape) != shape:
            faults.append(f"{name}: has shape {list(tensor.shape)}, wanted {list(shape)}")
        elif not tensor.is_floating_point():
            faults.append(f"{name}: holds {str(tensor.dtype).removeprefix('torch.')}, wanted numbers with a fraction")
        elif not bool(tensor.isfinite().all()):
            faults.append(f"{name}: holds numbers that are not finite")
    return faults


# --- names ------------------------------------------------------------------------------------------------------------


def _pairs(layers: int) -> Iterator[tuple[str, str]]:
    """Our name and theirs of everything that is the same tensor, some of which a model may not have."""
    yield "unary.weight", "embeddings.word_embeddings.weight"
    yield "encoder.positions", "embeddings.position_embeddings.weight"
    yield "encoder.segments.weight", "embeddings.token_type_embeddings.weight"
    yield "words.bias", "cls.predictions.bias"
    yield "words.decoder", "cls.predictions.decoder.weight"
    modules = {"encoder.embedding_norm": "embeddings.LayerNorm", "encoder.pooler": "pooler.dense", **_HEADS}
    for index in range(layers):
        layer = {f"encoder.layers.{index}.{ours}": f"encoder.layer.{index}.{it}" for ours, it in _IN_LAYER.items()}
        modules |= layer
    for ours, theirs in modules.items():
        for last in ("weight", "bias"):
            yield f"{ours}.{last}", f"{theirs}.{last}"


def _fused(layers: int) -> Iterator[tuple[str, list[str]]]:
    """Our name and their three of the projections."""
    for index in range(layers):
        for last in ("weight", "bias"):
            theirs = [f"encoder.layer.{index}.attention.self.{name}.{last}" for name in _QUERY_KEY_VALUE]
            yield f"encoder.layers.{index}.projections.{last}", theirs


def _to_ours(tensors: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    ours = {name: tensors[other] for name, other in _pairs(layers) if other in tensors}
    return ours | {name: torch.cat([tensors[other] for other in others]) for name, others in _fused(layers)}


def to_theirs(tensors: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """The same tensors by their names, without prefix."""
    theirs = {other: tensors[name] for name, other in _pairs(layers) if name in tensors}
    for name, others in _fused(layers):
        theirs |= dict(zip(others, tensors[name].chunk(3), strict=True))
    return theirs
