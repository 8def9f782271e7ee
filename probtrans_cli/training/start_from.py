"""Weights for a fresh model from another one: of a BERT folder of Hugging Face's, or of a checkpoint of ours.

Taken are the encoder, the vectors of all words that both vocabularies have, and an output layer where it fits, row by
row (:mod:`probtrans_cli.training.output_rows`). All else stays as it was drawn, and every part is told of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from probtrans_cli import console
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.data.vocabularies.wordpiece import WordPieces, read_wordpieces
from probtrans_cli.data.vocabularies.wordpiece_files import PIECES_FILE, TOKENIZER_FILE
from probtrans_cli.errors import CheckpointError
from probtrans_cli.folders.places import find_folder
from probtrans_cli.hf import read_bert
from probtrans_cli.models.bayesian.weights import POSTERIOR, PRIOR, file_name
from probtrans_cli.models.outputs import BertWordOutput, PretrainingOutput
from probtrans_cli.recipe.bert import CONFIG, computed, read_config, written
from probtrans_cli.recipe.model import ModelSection
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.tasks.base import OutputRows
from probtrans_cli.text import first_of
from probtrans_cli.trained.model import Model
from probtrans_cli.training.output_rows import (
    BY_ROW,
    OUTPUT,
    PAIRS,
    WORDS,
    of_bert,
    of_model,
    rows_of,
    take,
    with_sizes,
)


@dataclass
class Source:
    """What weights are taken from; ``tensors`` by the names of a network, its output layers as ``layers`` has them."""

    section: ModelSection
    tensors: dict[str, Tensor]
    vocabulary: Vocabulary | None
    layers: dict[str, OutputRows]
    config: dict[str, Any] | None = None
    left: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Report:
    """What became of every tensor: of the model (``loaded``, ``missing``) and of the source (``left``)."""

    loaded: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@torch.no_grad()
def start_from(model: Model, name: str) -> Report:
    """Load what ``name`` has into a fresh model, and tell on stderr what was loaded, what is missing and what was left.

    Raises:
        CheckpointError: there is no such folder, it is damaged, has unknown tensors while `model.init_strict`, or its
            encoder has other options.
    """
    section = model.recipe.model
    source = _source(name, strict=section.refuses_unknown_tensors)
    part = section.part_for(source.section)
    if part is not None:
        _as_part(source, part)
    _require_same_encoder(name, section if part is None else section.encoders[part], source.section, part)
    rows = _rows(name, model.vocabulary, source)
    ours, layers = _named(model), of_model(model)
    of_outputs, notes = rows_of(layers, with_sizes(source.layers, ours, source.tensors), rows)
    found = Report(left=list(source.left), notes=[*source.notes, *notes])
    chosen = {f"{part}.{tensor}" for part, layer in layers.items() for tensor in layer.chosen}
    unlearned = {key for key, _ in model.network.named_buffers()}  # a run sets them itself where the source has none
    afresh: list[str] = []
    for key, parameter in ours.items():
        if key.startswith(PRIOR) or key in chosen:
            continue  # it is around what is loaded here, or what the recipe says
        values = source.tensors.get(key)
        weight = key.removeprefix(POSTERIOR)
        part = weight.partition(".")[0]
        known = part in ("unary", "encoder", *of_outputs) or _alike(model, source, key)
        if values is None or not known or (weight != key and values.shape[1:] != parameter.shape[1:]):
            if key not in unlearned:
                (found.missing if weight == key else afresh).append(weight)
            continue
        if weight == "unary.weight" or weight in BY_ROW:
            take(parameter, values, rows if part == "unary" else of_outputs[part])
        else:
            parameter.copy_(values)
        found.loaded.append(key)
    taken = {*found.loaded, "order"}  # what the order of words tells, is read off this run's training file
    if afresh:
        found.notes.append(f"standard deviations that start afresh: {first_of(afresh)}")
    found.left += [key for key in source.tensors if key not in taken]
    fixed = {file_name(key) for key, parameter in model.network.named_parameters() if not parameter.requires_grad}
    if new := [model.vocabulary.decode(id) for id in (rows < 0).nonzero()[:, 0].tolist()]:
        told = f"{len(new):,} of {len(rows):,} entries of the vocabulary are new"
        told = f"warning: {told}, and stay as they were drawn" if "unary.weight" in fixed else told
        found.notes.append(f"{told}: {first_of(new)}")
    if "words.decoder" in found.left:
        found.notes.append("its decoder is a table of its own: task.tie_decoder=false loads it")
    if drawn := [key for key in found.missing if key in fixed and _is_read(model, key)]:
        who = "a probe" if model.recipe.train.probe else "train.freeze"
        found.notes.append(f"warning: {who} leaves these as they were drawn, and reads them: {first_of(drawn)}")
    if _decays_to_zero(model.recipe):
        found.notes.append(
            "warning: with `optim.kind: adam` the decay is an L2 penalty, which Adam scales up where gradients are "
            "small: it undoes what the weights have learned; set optim.kind=adamw or optim.weight_decay=0"
        )
    model.origin = source.config
    _tell(name, found)
    return found


def _is_read(model: Model, key: str) -> bool:
    """Whether the network reads a tensor; nothing reads a pooler where something else represents a sentence."""
    return model.network.sentence == "cls" or not key.startswith("encoder.pooler.")


def _decays_to_zero(recipe: Recipe) -> bool:
    """Whether what is loaded decays as a part of the gradient."""
    return recipe.optim.kind == "adam" and recipe.optim.weight_decay > 0.0 and not recipe.train.probe


def _tell(name: str, found: Report) -> None:
    console.log(f"started from {name}: {len(found.loaded)} tensors loaded")
    for title, keys in (("not there, drawn at random", found.missing), ("left there", found.left)):
        if keys:
            console.log(f"  {title}: {first_of(keys)}")
    for note in found.notes:
        warning = note.removeprefix("warning: ")
        console.log(f"  {note}" if warning == note else f"warning: {name}: {warning}")


# --- the source -------------------------------------------------------------------------------------------------------


def _source(name: str, *, strict: bool) -> Source:
    folder = find_folder(name)
    # The oldest folders have no model_type; a checkpoint of ours has neither.
    if (folder / CONFIG).exists() and not {"model_type", "hidden_size"}.isdisjoint(read_config(folder)):
        return _bert(folder, strict)
    other = Model.load(str(folder), threads=torch.get_num_threads())
    return Source(other.recipe.model, _named(other), other.vocabulary, of_model(other), other.origin)


def _bert(folder: Path, strict: bool) -> Source:
    bert = read_bert(folder, strict=strict)
    known = any((folder / file).exists() for file in (PIECES_FILE, TOKENIZER_FILE))
    vocabulary = read_wordpieces(folder, rows=len(bert.tensors["unary.weight"])) if known else None
    tensors = {_renamed(key, {"classifier.": f"{OUTPUT}."}): value for key, value in bert.tensors.items()}
    left, notes = list(bert.unexpected), list(bert.notes)
    return Source(bert.section, tensors, vocabulary, of_bert(bert), bert.config, left, notes)


def _named(model: Model) -> dict[str, Tensor]:
    """A model's own tensors; those of a word output of BERT's form as ``words``, of an output of pairs as ``pair``."""
    network = model.network
    state: Mapping[str, Tensor] = network.state_dict()
    words = f"{WORDS if isinstance(network.words, BertWordOutput) else OUTPUT}."
    parts = {f"{OUTPUT}.": words}
    if isinstance(network.output, PretrainingOutput):
        parts = {f"{OUTPUT}.words.": words, f"{OUTPUT}.pair.": f"{PAIRS}."}
    return {_renamed(key, parts): value for key, value in state.items()}


def _as_part(source: Source, part: str) -> None:
    """Let the source's encoder be one of several of a model's; its output layer reads others' representations."""
    source.tensors = {_renamed(key, {"encoder.": f"encoder.{part}."}): value for key, value in source.tensors.items()}
    source.layers = {}


def _renamed(key: str, parts: Mapping[str, str]) -> str:
    return next((new + key.removeprefix(old) for old, new in parts.items() if key.startswith(old)), key)


# --- what fits --------------------------------------------------------------------------------------------------------


def _require_same_encoder(name: str, ours: ModelSection, theirs: ModelSection, part: str | None) -> None:
    """``part``: the key of the section, where it is that of one encoder of several."""
    key_of = "model" if part is None else f"model.{part}"
    one, other = (computed(section) for section in (ours, theirs))
    if faults := [key for key in one.keys() | other.keys() if one.get(key) != other.get(key)]:
        different = sorted(faults, key=[*other, *one].index)
        lines = [f"{key_of}.{key}: {written(one.get(key))}, there {written(other.get(key))}" for key in different]
        options = " ".join(f"{key_of}.{key}={_override(other[key])}" for key in different if key in other)
        raise CheckpointError(f"{name}: another encoder:\n" + "\n".join(lines), hint=f"set {options}")


def _override(value: Any) -> str:
    """A value as it is written after KEY= in a shell."""
    text = json.dumps(value, ensure_ascii=False)
    return f"'{text}'" if isinstance(value, dict) else text.strip('"')


def _rows(name: str, ours: Vocabulary, source: Source) -> Tensor:
    """For every id of ours the same entry's id there, or -1."""
    theirs, size = source.vocabulary, len(source.tensors["unary.weight"])
    if theirs is None:
        if ours.size != size:
            words = f"{name}: there is no vocabulary, and its {size:,} entries are not the {ours.size:,} of this model"
            raise CheckpointError(words, hint=f"put its {PIECES_FILE} beside the weights")
        source.notes.append("there is no vocabulary beside it: taken to be this model's, which is as long")
        return torch.arange(size)
    names = [theirs.decode(id) for id in range(size)]
    own = [ours.decode(id) for id in range(ours.size)]
    if names == own:
        return torch.arange(size)
    if isinstance(theirs, WordPieces) and len(theirs.pieces) < size:
        words = f"{len(theirs.pieces):,} pieces, but the model's vocab_size is {size:,}"
        source.notes.append(f"warning: {words}: the ids above belong to no piece")
    ids = {entry: id for id, entry in enumerate(names) if entry}
    rows = torch.tensor([ids.get(entry, -1) for entry in own])
    for role in ("PAD", "UNKNOWN", "MASK"):
        rows[getattr(ours, role)] = getattr(theirs, role)
    return rows


def _alike(model: Model, source: Source, key: str) -> bool:
    """Whether a tensor beside the words' vectors is that of the same thing: features, where there are any, are hashed
    to the same rows."""
    if key not in ("start", "features.weight"):
        return False
    ours, theirs = model.vocabulary.features, None if source.vocabulary is None else source.vocabulary.features
    return (ours and ours.section) == (theirs and theirs.section)
