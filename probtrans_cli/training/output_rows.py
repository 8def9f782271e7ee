"""What the rows of an output layer stand for, so that one can start with another model's.

Two layers fit where they give the same from the same, and have the same sizes beside their rows: tags of words, labels
of texts by what the pooler makes of the first word, scores of words by the words' own vectors, labels of a grid. Then
rows are found by name, whatever their order: those of
words by the words' spelling, those of labels by the labels' names. `transformers` calls labels that nobody named
LABEL_0, LABEL_1, ...; such are taken by their number, where there are as many of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from probtrans_cli.data.corpus.documents import PAIR
from probtrans_cli.data.corpus.pairs import NAMES
from probtrans_cli.hf import Bert
from probtrans_cli.tasks import base, mlm
from probtrans_cli.tasks.base import OutputRows
from probtrans_cli.tasks.classification import POOLED
from probtrans_cli.text import first_of
from probtrans_cli.trained.model import Model

OUTPUT, WORDS, PAIRS = base.OUTPUT, mlm.BERT_WORDS, PAIR  # first part of a tensor's name
BY_ROW = {
    *(f"{OUTPUT}.{name}" for name in ("weight", "bias", "labels.weight", "labels.bias")),  # of words, of COGS
    *(f"{OUTPUT}.{name}" for name in ("label.weight", "label.bias", "table.weight")),  # of a grid
    *(f"{WORDS}.{name}" for name in ("bias", "decoder")),
    *(f"{PAIRS}.{name}" for name in ("weight", "bias")),
}
"""Tensors that have a row for every label or word; the others of an output layer are the same for all."""
_TAGS = "tags of words"


def of_model(model: Model) -> dict[str, OutputRows]:
    """The output layers of a model of ours, by the first part of their tensors' names."""
    return model.task.output_rows(model.network)


def of_bert(bert: Bert) -> dict[str, OutputRows]:
    """The same of a BERT, whose classifier is called an output."""
    layers = {WORDS: OutputRows("words in BERT's form")} if bert.part("words") else {}
    if bert.part("pair"):
        layers[PAIRS] = OutputRows(f"pairs of texts by {POOLED}", NAMES["nsp"])
    if classifier := bert.part("classifier"):
        layers[OUTPUT] = _classifier(bert, len(classifier["weight"]))
    return layers


def _classifier(bert: Bert, size: int) -> OutputRows:
    given = bert.config.get("architectures")
    kinds = {
        "BertForTokenClassification": _TAGS,
        "BertForSequenceClassification": f"labels of texts by {POOLED}",
    }
    if isinstance(given, list) and given:
        gives = kinds.get(str(given[0]), f"what a {given[0]} is for")
    else:  # nobody says: that of texts alone has a pooler
        gives = list(kinds.values())[bert.section.pooler]
    unnamed = tuple(f"LABEL_{id}" for id in range(size))
    listed = bert.config.get("id2label")
    if listed is None:
        return OutputRows(gives, unnamed, named=False)
    given = listed if isinstance(listed, dict) else {}
    names = tuple(name for id in range(size) if isinstance(name := given.get(str(id)), str))
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        return OutputRows(gives, fault=f"its id2label names {first_of(twice)} twice")
    if len(names) < size:
        return OutputRows(gives, fault=f"its id2label names {len(names):,} of {size:,} labels")
    if len(given) > size:
        return OutputRows(gives, fault=f"its id2label names {len(given):,} labels, but there are {size:,}")
    return OutputRows(gives, names, named=names != unnamed)


# --- what fits --------------------------------------------------------------------------------------------------------


def rows_of(
    ours: Mapping[str, OutputRows], theirs: Mapping[str, OutputRows], words: Tensor
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


def with_sizes(
    layers: Mapping[str, OutputRows], ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]
) -> dict[str, OutputRows]:
    """Layers that a model may begin with, those at fault that have other sizes beside the number of rows.

    Args:
        layers: by the first part of the names of their tensors.
        ours: the tensors of the model that begins, by name.
        theirs: those that it may begin with.
    """
    found = dict(layers)
    for key in (key for key in ours if key in theirs):
        part, one, other = key.partition(".")[0], ours[key].shape, theirs[key].shape
        if part in found and found[part].fault is None and one[key in BY_ROW :] != other[key in BY_ROW :]:
            found[part] = replace(found[part], fault=f"{key} is {list(other)} there, and {list(one)} here")
    return found


def _by_name(ours: tuple[str, ...], theirs: OutputRows, notes: list[str]) -> Tensor:
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
