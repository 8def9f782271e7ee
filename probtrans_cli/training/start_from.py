"""Weights for a fresh model from another one: of a BERT or GPT-2 of Hugging Face's, or of a checkpoint of ours.

The encoder is loaded, the vectors of all words that both vocabularies have, and an output layer where it fits. All else
stays as it was drawn, and every part is reported.

Two output layers fit where they give the same from the same, and have the same sizes beside their rows: tags of words,
labels of texts by what the pooler makes of the first word, scores of words by the words' own vectors, labels of a grid.
Then rows are matched by name, whatever their order: those of words by spelling, those of labels by the labels' names.
`transformers` calls labels that nobody named LABEL_0, LABEL_1, ...; these are matched by number, where there are as
many of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from probtrans_cli import console
from probtrans_cli.data.corpus.encode import NAMES
from probtrans_cli.data.corpus.encode import PAIR as PAIRS
from probtrans_cli.data.vocabularies import load_vocabulary
from probtrans_cli.data.vocabularies.base import WORDS_FILE, Vocabulary
from probtrans_cli.data.vocabularies.wordpiece import WordPieces, read_wordpieces
from probtrans_cli.data.vocabularies.wordpiece_files import PIECES_FILE, TOKENIZER_FILE
from probtrans_cli.errors import CheckpointError
from probtrans_cli.folders import find_folder
from probtrans_cli.hf import Bert, read_bert, read_gpt2
from probtrans_cli.models.bayesian.weights import POSTERIOR, PRIOR, file_name, uncertain
from probtrans_cli.models.outputs import BertWordOutput, SeveralOutputs
from probtrans_cli.recipe.hf import AGAIN, CONFIG, computed, read_config, written
from probtrans_cli.recipe.model import ModelSection
from probtrans_cli.tasks.base import OUTPUT, OutputRows
from probtrans_cli.tasks.classification import POOLED
from probtrans_cli.tasks.mlm import BERT_WORDS as WORDS
from probtrans_cli.text import first_of
from probtrans_cli.trained.model import Model

# The first part of the name of an output layer's tensors is OUTPUT, WORDS, PAIRS or another part of a task.
BY_ROW = {
    *("weight", "bias", "decoder"),  # of words
    *("labels.weight", "labels.bias"),  # of COGS
    *("label.weight", "label.bias", "table.weight"),  # of a grid
}
"""The rest of the names of tensors that have a row for every label or word; other tensors of an output layer are the
same for all."""


@dataclass
class Source:
    """A model to take weights from; ``tensors`` by the names of a network, its output layers as ``layers`` has them."""

    section: ModelSection
    tensors: dict[str, Tensor]
    vocabulary: Vocabulary | None
    layers: Mapping[str, OutputRows]
    config: dict[str, Any] | None = None
    left: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@torch.no_grad()
def start_from(model: Model, name: str) -> None:
    """Load what ``name`` has into a fresh model, and report on stderr what was loaded, what is missing, what was left.

    Raises:
        CheckpointError: there is no such folder, it is damaged, has unknown tensors while `model.init_strict`, or its
            encoder has other options.
    """
    section = model.recipe.model
    source = _source(name, strict=section.facts.refuses_unknown_tensors)
    # the weights of a single encoder are for the lower one of a stack
    part = next(iter(section.facts.encoders), None) if source.section.kind != section.kind else None
    if part is not None:  # the source is one encoder of several, and its output layer reads other representations
        below = {"encoder.": f"encoder.{part}."}
        source.tensors = {_renamed(key, below): value for key, value in source.tensors.items()}
        source.layers = {}
    _require_same_encoder(name, section if part is None else section.facts.encoders[part], source.section, part)
    rows = _vocabulary_rows(name, model.vocabulary, source)
    parts = _parts(model)
    ours = {_renamed(key, parts): value for key, value in model.network.state_dict().items()}
    layers = model.task.output_rows
    rows_of_outputs = _rows_of_outputs(layers, ours, source, rows)
    chosen = {f"{layer_name}.{tensor}" for layer_name, layer in layers.items() for tensor in layer.chosen}
    # A run sets these itself where the source has none.
    unlearned = {_renamed(key, parts) for key, _ in model.network.named_buffers()}
    features = model.vocabulary.features, None if source.vocabulary is None else source.vocabulary.features
    # Features, where there are any, are hashed to the same rows.
    same_features = (features[0] and features[0].section) == (features[1] and features[1].section)
    loaded, missing, afresh = list[str](), list[str](), list[str]()
    for key, parameter in ours.items():
        if key.startswith(PRIOR) or key in chosen:
            continue  # it is around what is loaded here, or what the recipe says
        values = source.tensors.get(key)
        weight = key.removeprefix(POSTERIOR)
        layer_name = weight.partition(".")[0]
        fits = layer_name in ("unary", "encoder", *rows_of_outputs)
        fits |= key in ("start", "features.weight", "features.factor") and same_features
        # There is a deviation for each row in one model, of a vector a single one, and for each weight in another.
        other_family = (weight != key and values is not None) and (
            values.shape[1:] != parameter.shape[1:] or (values.shape == (1,)) != (parameter.shape == (1,))
        )
        if values is None or not fits or other_family:
            if key not in unlearned:
                (missing if weight == key else afresh).append(weight)
            continue
        by_row = layer_name in rows_of_outputs and weight.partition(".")[2] in BY_ROW
        if by_row or weight == "unary.weight":
            source_rows = rows_of_outputs[layer_name] if by_row else rows
            there, device = source_rows >= 0, parameter.device
            parameter[there.to(device)] = values.to(device)[source_rows[there].to(device)]
        else:
            parameter.copy_(values)
        loaded.append(key)
    for tensor in uncertain(model.network):
        if tensor.posterior.prior_mean is not None:  # of a prior around the weights of the start, which are these now
            tensor.posterior.prior_mean.copy_(tensor.mean)
    # The order of words is read off this run's training file.
    read = {*loaded, "order"}
    left = [*source.left, *(key for key in source.tensors if key not in read)]
    model.origin = source.config
    console.log(f"started from {name}: {len(loaded)} tensors loaded")
    for title, keys in (("not there, drawn at random", missing), ("left there", left)):
        if keys:
            console.log(f"  {title}: {first_of(keys)}")
    new = [model.vocabulary.decode(id) for id in (rows < 0).nonzero()[:, 0].tolist()]
    for note in [*source.notes, *_notes(model, afresh, missing, left, new)]:
        warning = note.removeprefix("warning: ")
        console.log(f"  {note}" if warning == note else f"warning: {name}: {warning}")


def _notes(model: Model, afresh: list[str], missing: list[str], left: list[str], new: list[str]) -> list[str]:
    """Return what to say of deviations that start ``afresh``, of tensors and of ``new`` words."""
    notes = [f"standard deviations that start afresh: {first_of(afresh)}"] if afresh else []
    fixed = {file_name(key) for key, parameter in model.network.named_parameters() if not parameter.requires_grad}
    if new:
        note = f"{len(new):,} of {model.vocabulary.size:,} entries of the vocabulary are new"
        note = f"warning: {note}, and stay as they were drawn" if "unary.weight" in fixed else note
        notes.append(f"{note}: {first_of(new)}")
    if "words.decoder" in left:
        notes.append("its decoder is a table of its own: task.tie_decoder=false loads it")
    # Nothing reads a pooler where something else represents a sentence.
    pooler = () if model.network.sentence == "cls" else ("encoder.pooler.",)
    if drawn := [key for key in missing if key in fixed and not key.startswith(pooler)]:
        who = "a probe" if model.recipe.train.probe else "train.freeze"
        notes.append(f"warning: {who} leaves these as they were drawn, and reads them: {first_of(drawn)}")
    optim = model.recipe.optim
    if optim.kind == "adam" and optim.weight_decay > 0.0 and not model.recipe.train.probe:
        notes.append(
            "warning: with `optim.kind: adam` the decay is an L2 penalty, which Adam scales up where gradients are "
            "small: it undoes what the weights have learned; set optim.kind=adamw or optim.weight_decay=0"
        )
    return notes


# --- the source -------------------------------------------------------------------------------------------------------


def _source(name: str, *, strict: bool) -> Source:
    folder = find_folder(name)
    # The oldest folders have no model_type; a checkpoint of ours has neither.
    content = read_config(folder) if (folder / CONFIG).exists() else {}
    if content.get("model_type") == "gpt2":
        gpt2 = read_gpt2(folder, strict=strict)
        words = _words_of_gpt2(folder, rows=len(gpt2.tensors["unary.weight"]))
        return Source(gpt2.section, gpt2.tensors, words, {}, None, gpt2.unexpected, gpt2.notes)
    if not {"model_type", "hidden_size"}.isdisjoint(content):
        bert = read_bert(folder, strict=strict)
        has_words = any((folder / file).exists() for file in (PIECES_FILE, TOKENIZER_FILE))
        vocabulary = read_wordpieces(folder, rows=len(bert.tensors["unary.weight"])) if has_words else None
        tensors = {_renamed(key, {"classifier.": f"{OUTPUT}."}): value for key, value in bert.tensors.items()}
        left, notes = list(bert.unexpected), list(bert.notes)
        return Source(bert.section, tensors, vocabulary, of_bert(bert), bert.config, left, notes)
    model = Model.load(str(folder), threads=torch.get_num_threads())
    parts = _parts(model)
    tensors = {_renamed(key, parts): value for key, value in model.network.state_dict().items()}
    return Source(model.recipe.model, tensors, model.vocabulary, model.task.output_rows, model.origin)


def _words_of_gpt2(folder: Path, rows: int) -> Vocabulary | None:
    """Return the vocabulary that an export of ours has; None where there is none at all."""
    if (folder / WORDS_FILE).exists():
        vocabulary = load_vocabulary(folder)
        if vocabulary.size != rows:
            fault = f"{folder}: {WORDS_FILE} has {vocabulary.size:,} entries, and the model {rows:,}"
            raise CheckpointError(fault, hint=AGAIN)
        return vocabulary
    if there := [
        name for name in (PIECES_FILE, TOKENIZER_FILE, "vocab.json", "merges.txt") if (folder / name).exists()
    ]:
        fault = f"{folder}: there is no {WORDS_FILE}, and of a GPT-2 {first_of(there)} is not read"
        pieces = "GPT-2's own pieces, byte-level BPE, are no data.vocabulary.kind"
        hint = f"put {WORDS_FILE} of the folder that `export --format hf` wrote beside the weights; {pieces}"
        raise CheckpointError(fault, hint=hint)
    return None


def _parts(model: Model) -> Mapping[str, str]:
    """Return what the beginnings of tensors' names are called here."""
    network = model.network
    words = f"{WORDS if isinstance(network.words, BertWordOutput) else OUTPUT}."
    parts = {f"{OUTPUT}.": words}
    if isinstance(network.output, SeveralOutputs):
        parts = {f"{OUTPUT}.{name}.": f"{name}." for name, _ in network.output.named_children()}
        parts[f"{OUTPUT}.words."] = words
    return parts


def _renamed(key: str, parts: Mapping[str, str]) -> str:
    return next((new + key.removeprefix(old) for old, new in parts.items() if key.startswith(old)), key)


def of_bert(bert: Bert) -> dict[str, OutputRows]:
    """Return a BERT's output layers by the first part of their tensors' names; its classifier is called an output."""
    layers = {WORDS: OutputRows("words in BERT's form")} if bert.part("words") else {}
    if bert.part("pair"):
        layers[PAIRS] = OutputRows(f"pairs of texts by {POOLED}", NAMES["nsp"])
    if classifier := bert.part("classifier"):
        layers[OUTPUT] = _classifier(bert, len(classifier["weight"]))
    return layers


def _classifier(bert: Bert, size: int) -> OutputRows:
    architectures = bert.config.get("architectures")
    kinds = {
        "BertForTokenClassification": "tags of words",
        "BertForSequenceClassification": f"labels of texts by {POOLED}",
    }
    if isinstance(architectures, list) and architectures:
        gives = kinds.get(str(architectures[0]), f"what a {architectures[0]} is for")
    else:  # of the two, only that of texts has a pooler
        gives = list(kinds.values())[bert.section.pooler]
    unnamed = tuple(f"LABEL_{id}" for id in range(size))
    listed = bert.config.get("id2label")
    if listed is None:
        return OutputRows(gives, unnamed, named=False)
    by_id = listed if isinstance(listed, dict) else {}
    names = tuple(name for id in range(size) if isinstance(name := by_id.get(str(id)), str))
    fault = None
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        fault = f"its id2label names {first_of(twice)} twice"
    elif len(names) < size:
        fault = f"its id2label names {len(names):,} of {size:,} labels"
    elif len(by_id) > size:
        fault = f"its id2label names {len(by_id):,} labels, but there are {size:,}"
    if fault is not None:
        return OutputRows(gives, fault=fault)
    return OutputRows(gives, names, named=names != unnamed)


# --- what fits --------------------------------------------------------------------------------------------------------


def _require_same_encoder(name: str, ours: ModelSection, theirs: ModelSection, part: str | None) -> None:
    key_of = "model" if part is None else f"model.{part}"
    here, there = (computed(section) for section in (ours, theirs))
    if faults := [key for key in here.keys() | there.keys() if here.get(key) != there.get(key)]:
        different = sorted(faults, key=[*there, *here].index)
        lines = [f"{key_of}.{key}: {written(here.get(key))}, there {written(there.get(key))}" for key in different]
        options = []
        for key in different:
            if key in there:
                text = json.dumps(there[key], ensure_ascii=False)
                text = f"'{text}'" if isinstance(there[key], dict) else text.strip('"')  # as a shell takes it
                options.append(f"{key_of}.{key}={text}")
        raise CheckpointError(f"{name}: another encoder:\n" + "\n".join(lines), hint=f"set {' '.join(options)}")


def _vocabulary_rows(name: str, ours: Vocabulary, source: Source) -> Tensor:
    theirs, size = source.vocabulary, len(source.tensors["unary.weight"])
    if theirs is None:
        if ours.size != size:
            words = f"{name}: there is no vocabulary, and its {size:,} entries are not the {ours.size:,} of this model"
            raise CheckpointError(words, hint=f"put its {PIECES_FILE}, or {WORDS_FILE} of an export, beside them")
        source.notes.append("there is no vocabulary beside it: taken to be this model's, which is as long")
        return torch.arange(size)
    their_entries = [theirs.decode(id) for id in range(size)]
    our_entries = [ours.decode(id) for id in range(ours.size)]
    if their_entries == our_entries:
        return torch.arange(size)
    if isinstance(theirs, WordPieces) and len(theirs.pieces) < size:
        words = f"{len(theirs.pieces):,} pieces, but the model's vocab_size is {size:,}"
        source.notes.append(f"warning: {words}: the ids above belong to no piece")
    ids = {entry: id for id, entry in enumerate(their_entries) if entry}
    rows = torch.tensor([ids.get(entry, -1) for entry in our_entries])
    for role in ("PAD", "UNKNOWN", "MASK"):
        rows[getattr(ours, role)] = getattr(theirs, role)
    return rows


def _rows_of_outputs(
    layers: Mapping[str, OutputRows], tensors: Mapping[str, Tensor], source: Source, words: Tensor
) -> dict[str, Tensor]:
    """Match our output layers and their tensors with the source's; note there what does not fit.

    Returns:
        For each layer that fits, every row's number there or -1; of words, ``words``.
    """
    faults = {name: layer.fault for name, layer in source.layers.items()}
    for key in (key for key in tensors if key in source.tensors):
        (name, _, rest), here, there = key.partition("."), tensors[key].shape, source.tensors[key].shape
        by_row = rest in BY_ROW  # rows may differ in number
        if name in faults and faults[name] is None and here[by_row:] != there[by_row:]:
            faults[name] = f"{key} is {list(there)} there, and {list(here)} here"
    rows_by_layer: dict[str, Tensor] = {}
    for name in [name for name in layers if name in source.layers]:
        ours, theirs = layers[name], source.layers[name]
        if ours.gives != theirs.gives:
            source.notes.append(f"its output layer is for {theirs.gives}, not for {ours.gives}: left there")
        elif faults[name] is not None:
            source.notes.append(f"warning: {faults[name]}: its output layer is left there")
        elif ours.names is None:
            rows_by_layer[name] = words
        elif theirs.names is not None:
            rows = _by_name(ours.names, theirs, source.notes)
            if bool((rows >= 0).any()):
                rows_by_layer[name] = rows
    return rows_by_layer


def _by_name(ours: tuple[str, ...], theirs: OutputRows, notes: list[str]) -> Tensor:
    assert theirs.names is not None, "rows of labels"
    names = theirs.names
    if not theirs.named and not set(ours) & set(names):
        if len(ours) != len(names):
            notes.append(f"its {len(names):,} labels have no names, and here are {len(ours):,}: left there")
            return torch.full((len(ours),), -1)
        # Labels that are numbers name the rows; others can only be taken as they come.
        numbers = tuple(str(id) for id in range(len(names)))
        names = numbers if set(numbers) == set(ours) else ours
        pairs = [f"{old} = {new}" for old, new in zip(theirs.names, names, strict=True)]
        notes.append(f"warning: its labels have no names, and are taken by their number: {first_of(pairs)}")
    ids = {name: id for id, name in enumerate(names)}
    rows = torch.tensor([ids.get(name, -1) for name in ours], dtype=torch.int64)
    if new := [name for name in ours if name not in ids]:
        notes.append(f"{len(new):,} of {len(ours):,} labels are not there, drawn at random: {first_of(new)}")
    if left := [name for name in names if name not in set(ours)]:
        notes.append(f"{len(left):,} of its {len(names):,} labels are left there: {first_of(left)}")
    return rows
