"""Weights for a fresh model from another one: of a BERT folder of Hugging Face's, or of a checkpoint of ours.

Taken are the encoder, the vectors of all words that both vocabularies have, and a word output of BERT's form where both
have one. All else stays as it was drawn, and every part is told of.
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
from probtrans_cli.data.readers import expand_home
from probtrans_cli.data.vocabulary import Vocabulary
from probtrans_cli.data.wordpiece import PIECES_FILE, TOKENIZER_FILE, read_wordpieces
from probtrans_cli.errors import CheckpointError
from probtrans_cli.hf import read_bert
from probtrans_cli.hf.files import CONFIG, read_config
from probtrans_cli.model import Model
from probtrans_cli.models.heads import BertWordOutput, PretrainingOutput
from probtrans_cli.recipe_model import Model as Section

# What may differ: it changes neither the tensors nor what they compute.
_FREE = {
    "init_from",
    "preset",
    "dropout",
    "attention_dropout",
    "embedding_dropout",
    "initialization",
    "std",
    "word_std",
    "pooler",
}
_BY_WORD = ("unary.weight", "words.bias", "words.decoder")
_SHOWN = 5  # names of a list in the report


@dataclass
class Source:
    """What weights are taken from; ``tensors`` by the names of a network, its output as ``words`` or ``output``."""

    section: Section
    tensors: dict[str, Tensor]
    vocabulary: Vocabulary | None
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
        CheckpointError: there is no such folder, it is damaged, or its encoder has other options.
    """
    source = _source(name)
    _require_same_encoder(name, model.recipe.model, source.section)
    target = _named(model)
    rows = _rows(name, model.vocabulary, source)
    found = Report(left=list(source.left), notes=list(source.notes))
    for key, parameter in target.items():
        values = source.tensors.get(key)
        if values is None:
            found.missing.append(key)
        elif key in _BY_WORD:
            there = (rows >= 0).to(parameter.device)
            parameter[there] = values.to(parameter.device)[rows[rows >= 0].to(parameter.device)]
            found.loaded.append(key)
        elif key.startswith(("encoder.", "words.", "pair.")) or (
            key in ("start", "features.weight") and _alike(model, source)
        ):
            parameter.copy_(values)
            found.loaded.append(key)
        else:
            found.missing.append(key)
    taken = set(found.loaded)
    found.left += [key for key in source.tensors if key not in taken]
    if new := [model.vocabulary.decode(id) for id in (rows < 0).nonzero()[:, 0].tolist()]:
        found.notes.append(f"{len(new):,} of {len(rows):,} entries of the vocabulary are new: {_shown(new)}")
    if "words.decoder" in found.left:
        found.notes.append("its decoder is a table of its own: task.tie_decoder=false loads it")
    model.origin = source.config
    _tell(name, found)
    return found


def _tell(name: str, found: Report) -> None:
    console.log(f"started from {name}: {len(found.loaded)} tensors loaded")
    for title, keys in (("not there, drawn at random", found.missing), ("left there", found.left)):
        if keys:
            console.log(f"  {title}: {_shown(keys)}")
    for note in found.notes:
        console.log(f"  {note}")


def _shown(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


# --- the source -------------------------------------------------------------------------------------------------------


def _source(name: str) -> Source:
    folder = expand_home(name)
    if (folder / CONFIG).exists() and "model_type" in read_config(folder):
        return _bert(folder)
    other = Model.load(str(folder), threads=torch.get_num_threads())
    return Source(other.recipe.model, _named(other), other.vocabulary, other.origin)


def _bert(folder: Path) -> Source:
    bert = read_bert(folder)
    known = any((folder / file).exists() for file in (PIECES_FILE, TOKENIZER_FILE))
    vocabulary = read_wordpieces(folder, rows=len(bert.tensors["unary.weight"])) if known else None
    return Source(bert.section, bert.tensors, vocabulary, bert.config, list(bert.unexpected), list(bert.notes))


def _named(model: Model) -> dict[str, Tensor]:
    """A model's own tensors; those of a word output of BERT's form as ``words``, of an output of pairs as ``pair``."""
    network = model.network
    state: Mapping[str, Tensor] = network.state_dict()
    parts = {"output.": "words."}
    if isinstance(network.output, PretrainingOutput):
        parts = {"output.words.": "words.", "output.pair.": "pair."}
    if not isinstance(network.words, BertWordOutput):
        parts = {old: new for old, new in parts.items() if new != "words."}
    return {_renamed(key, parts): value for key, value in state.items()}


def _renamed(key: str, parts: Mapping[str, str]) -> str:
    return next((new + key.removeprefix(old) for old, new in parts.items() if key.startswith(old)), key)


# --- what fits --------------------------------------------------------------------------------------------------------


def _require_same_encoder(name: str, ours: Section, theirs: Section) -> None:
    one, other = (section.resolved().model_dump(mode="json", exclude=_FREE) for section in (ours, theirs))
    if faults := [key for key in one.keys() | other.keys() if one.get(key) != other.get(key)]:
        different = sorted(faults, key=[*other, *one].index)
        lines = [f"model.{key}: {_value(one.get(key))}, there {_value(other.get(key))}" for key in different]
        options = " ".join(f"model.{key}={_override(other[key])}" for key in different if key in other)
        raise CheckpointError(f"{name}: another encoder:\n" + "\n".join(lines), hint=f"set {options}")


def _value(value: Any) -> str:
    return "nothing" if value is None else _override(value).strip("'")


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
    ids = {entry: id for id, entry in enumerate(names) if entry}
    rows = torch.tensor([ids.get(entry, -1) for entry in own])
    for role in ("PAD", "UNKNOWN", "MASK"):
        rows[getattr(ours, role)] = getattr(theirs, role)
    return rows


def _alike(model: Model, source: Source) -> bool:
    """Whether features of words, where there are any, are hashed to the same rows."""
    ours, theirs = model.vocabulary.features, None if source.vocabulary is None else source.vocabulary.features
    return (ours and ours.section) == (theirs and theirs.section)
