"""What the rows of an output layer stand for, so that one can start with another model's.

Two layers fit where they give the same from the same: tags of words, labels of texts by what the pooler makes of the
first word, scores of words by the words' own vectors. Then rows are found by name, whatever their order: those of
words by the words' spelling, those of labels by the labels' names. `transformers` calls labels that nobody named
LABEL_0, LABEL_1, ...; such are taken by their number, where there are as many of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from probtrans_cli.data.corpus.documents import PAIR
from probtrans_cli.data.corpus.pairs import NAMES
from probtrans_cli.hf import Bert
from probtrans_cli.models.network import BertWordOutput, PretrainingOutput
from probtrans_cli.tasks.classification import SentenceClassification
from probtrans_cli.tasks.semantic import SemanticLabels
from probtrans_cli.tasks.tagging import WordTagging
from probtrans_cli.text import first_of
from probtrans_cli.trained.model import Model

OUTPUT, WORDS, PAIRS = "output", "words", "pair"  # first part of a tensor's name; words: in BERT's form
BY_ROW = {
    *(f"{OUTPUT}.{name}" for name in ("weight", "bias", "labels.weight", "labels.bias")),
    *(f"{WORDS}.{name}" for name in ("bias", "decoder")),
    *(f"{PAIRS}.{name}" for name in ("weight", "bias")),
}
"""Tensors that have a row for every label or word; the others of an output layer are the same for all."""
_TAGS = "tags of words"
_POOLED = "the pooled first word"


@dataclass(frozen=True)
class Layer:
    """What an output layer gives, in words that are the same where two layers fit, and its rows' names."""

    gives: str
    names: tuple[str, ...] | None = None
    """None: the rows are the entries of the vocabulary."""
    named: bool = True
    """False: nobody has named them, and they are called LABEL_0, LABEL_1, ..."""
    fault: str | None = None
    """Why its rows cannot be told apart."""


def of_model(model: Model) -> dict[str, Layer]:
    """The output layers of a model of ours, by the first part of their tensors' names."""
    task, output = model.task, model.network.output
    if isinstance(task, WordTagging):
        return {OUTPUT: Layer(_TAGS, tuple(task.names))}
    if isinstance(task, SentenceClassification):
        return {OUTPUT: Layer(f"labels of texts by {_reading(model)}", tuple(task.names))}
    if isinstance(task, SemanticLabels):
        names = tuple(f"{column} {name or 'none'}" for column, names in task.names.items() for name in names)
        return {OUTPUT: Layer("labels of COGS", names)}
    layers = {OUTPUT: Layer(f"words by {'their vectors' if model.network.tied else 'a linear layer'}")}
    if isinstance(model.network.words, BertWordOutput):
        layers = {WORDS: Layer("words in BERT's form")}
    if isinstance(output, PretrainingOutput) and output.pair is not None:
        layers[PAIRS] = Layer(f"pairs of texts by {_reading(model)}", tuple(model.labels[PAIR]))
    return layers


def of_bert(bert: Bert) -> dict[str, Layer]:
    """The same of a BERT, whose classifier is called an output."""
    layers = {WORDS: Layer("words in BERT's form")} if bert.part("words") else {}
    if bert.part("pair"):
        layers[PAIRS] = Layer(f"pairs of texts by {_POOLED}", NAMES["nsp"])
    if classifier := bert.part("classifier"):
        layers[OUTPUT] = _classifier(bert, len(classifier["weight"]))
    return layers


def _reading(model: Model) -> str:
    """What stands for a text."""
    network: Any = model.network
    pooled = network.sentence == "cls" and getattr(network.encoder, "pooler", None) is not None
    words = {"root": "the root", "cls": "the first word", "mean": "the mean of the words"}
    return _POOLED if pooled else words[network.sentence or "cls"]


def _classifier(bert: Bert, size: int) -> Layer:
    given = bert.config.get("architectures")
    kinds = {
        "BertForTokenClassification": _TAGS,
        "BertForSequenceClassification": f"labels of texts by {_POOLED}",
    }
    if isinstance(given, list) and given:
        gives = kinds.get(str(given[0]), f"what a {given[0]} is for")
    else:  # nobody says: that of texts alone has a pooler
        gives = list(kinds.values())[bert.section.pooler]
    unnamed = tuple(f"LABEL_{id}" for id in range(size))
    listed = bert.config.get("id2label")
    if listed is None:
        return Layer(gives, unnamed, named=False)
    given = listed if isinstance(listed, dict) else {}
    names = tuple(name for id in range(size) if isinstance(name := given.get(str(id)), str))
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        return Layer(gives, fault=f"its id2label names {first_of(twice)} twice")
    if len(names) < size:
        return Layer(gives, fault=f"its id2label names {len(names):,} of {size:,} labels")
    if len(given) > size:
        return Layer(gives, fault=f"its id2label names {len(given):,} labels, but there are {size:,}")
    return Layer(gives, names, named=names != unnamed)


# --- what fits --------------------------------------------------------------------------------------------------------


def rows_of(
    ours: Mapping[str, Layer], theirs: Mapping[str, Layer], words: Tensor
) -> tuple[dict[str, Tensor], list[str]]:
    """For each output layer of ours that fits one of theirs, every row's number there or -1; and what to tell of it.

    Args:
        ours: layers of the model that begins.
        theirs: layers that it may begin with.
        words: for every entry of our vocabulary its number there, or -1.
    """
    found: dict[str, Tensor] = {}
    notes: list[str] = []
    for part in [part for part in ours if part in theirs]:
        one, other = ours[part], theirs[part]
        if one.gives != other.gives:
            notes.append(f"its output layer is for {other.gives}, not for {one.gives}: left there")
        elif other.fault is not None:
            notes.append(f"warning: {other.fault}: its output layer is left there")
        elif one.names is None:
            found[part] = words
        elif other.names is not None:
            rows = _by_name(one.names, other, notes)
            if bool((rows >= 0).any()):
                found[part] = rows
    return found, notes


def _by_name(ours: tuple[str, ...], theirs: Layer, notes: list[str]) -> Tensor:
    """For every label of ours the same one's row there, or -1."""
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


@torch.no_grad()
def take(parameter: nn.Parameter | Tensor, values: Tensor, rows: Tensor) -> None:
    """Put the rows of ``values`` where ``rows`` says that they belong; a row of -1 stays as it is."""
    there = rows >= 0
    parameter[there.to(parameter.device)] = values.to(parameter.device)[rows[there].to(parameter.device)]
