"""Every kind of task made small: a tiny corpus, options, and a network with weights that mean nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import CPU
from support import COGS, sentences

from probtrans_cli import models, tasks
from probtrans_cli.data.corpus.encode import NAMES, PAIR, encode_corpus
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.entities import TAG_END
from probtrans_cli.data.readers.cogs import CASES, read_semantic
from probtrans_cli.data.readers.conllu import read_conllu, read_treebank
from probtrans_cli.data.readers.lines import read_documents
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import enclosing
from probtrans_cli.models.base import Outputs
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.data import CharacterVocabulary, Data, Documents, WordVocabulary
from probtrans_cli.tasks.base import Prediction, Task
from probtrans_cli.tasks.batch import Batch, collate

PROBABILISTIC = {"labels": 6, "channels": 2, "iterations": 2, "dropout": 0.0}
ROOTED = {**PROBABILISTIC, "root": {"labels": 4}}
TRANSFORMER = {"kind": "transformer", "width": 8, "inner": 12, "heads": 2, "layers": 2, "dropout": 0.0,
               "embedding_dropout": 0.0}  # fmt: skip
BERT = {**TRANSFORMER, "preset": "bert", "std": 0.5}
KEPT = {"dynamic": False, "rate": 0.4}
CASES_OF: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "mlm": [
        ({"mlm": KEPT, "eval_masks": 3}, PROBABILISTIC),
        ({"mlm": {**KEPT, "count": "exact"}, "output": "tied"}, PROBABILISTIC),
        ({"mlm": {**KEPT, "loss_positions": "all", "mask": 0.8, "random": 0.1, "keep": 0.1}}, TRANSFORMER),
        ({"mlm": KEPT, "output": "tied", "word_weight": 0.25}, {**PROBABILISTIC, "latent": "spherical"}),
    ],
    "lm": [
        ({}, {**PROBABILISTIC, "causal": True, "chain": True}),
        ({"score_first": False}, {**TRANSFORMER, "causal": True}),
        ({"readout": "exact"}, {**PROBABILISTIC, "causal": True, "message_weight": {"heads": 1.0}}),
    ],
    "tagging": [({"column": "upos"}, PROBABILISTIC), ({"column": "upos", "loss": "sentences"}, TRANSFORMER)],
    "ner": [({}, PROBABILISTIC), ({"loss": "sentences"}, TRANSFORMER)],
    "classification": [
        ({}, ROOTED), ({}, PROBABILISTIC), ({"representation": "mean"}, TRANSFORMER),
        ({}, {**TRANSFORMER, "pooler": True}),
    ],
    "parsing": [
        ({"output": "heads", "tags": ["upos", "xpos"], "every_iteration": True},
         {**ROOTED, "root": {"labels": 4, "own_label": True}, "head_labels": True, "channels": 16}),
        ({"heads": "tree", "relations": "full", "weights": {"tags": 0.5}, "tags": ["upos"]}, TRANSFORMER),
    ],
    "cogs": [({}, PROBABILISTIC), ({"parent": "attention"}, TRANSFORMER), ({"parent": "absolute"}, PROBABILISTIC)],
    "pretrain": [
        ({"mlm": KEPT, "pair_weight": 0.5}, BERT),
        ({"mlm": {**KEPT, "whole_word": True}, "output": "tied"}, ROOTED),
    ],
    "openie": [
        ({"rows": 3}, PROBABILISTIC),
        ({"rows": 2, "label_feedback": "both", "none_weight": 0.7, "iterative_steps": 1}, TRANSFORMER),
    ],
    "coordination": [({}, PROBABILISTIC), ({"label_feedback": "hidden"}, TRANSFORMER)],
}  # fmt: skip
"""Options of the task, and a model: a new kind needs a line here, and a corpus in ``read``."""
ROWS = [(kind, number) for kind in tasks.TASKS for number in range(len(CASES_OF.get(kind, [None])))]
EVERY = pytest.mark.parametrize(("kind", "number"), ROWS, ids=str)
ONE_OF_EACH = pytest.mark.parametrize(("kind", "number"), [row for row in ROWS if row[1] == 0], ids=str)


def document() -> str:
    """Texts of a few sentences each, and words of their own."""
    texts = [
        "\n".join(f"{subject}{i} {subject}{(i * 7) % 5} {subject} ." for i in range(2 + number % 4))
        for number, subject in enumerate("abcdab")
    ]
    return "\n\n".join(texts) + "\n"


def read(kind: str) -> list[Sentence]:
    """A tiny corpus, with sentences of one word."""
    if kind == "cogs":
        return list(read_semantic(["\t".join(row) for row in COGS] * 3, "x"))
    if kind == "pretrain":
        return list(read_documents(document().splitlines(), "x", Documents(max_length=24)))
    if kind == "parsing":
        goats = "1\tgoats\t_\tNOUN\tNNS\t_\t0\troot\t_\t_\n\n"
        return list(read_treebank(iter((goats + sentences("train", 10)).splitlines()), "x"))[::-1]
    corpus = list(read_conllu(iter(sentences("train", 11).splitlines()), "x"))[::-1]
    goats = Sentence(["goats"], tags={name: [values[0]] for name, values in corpus[0].tags.items()})
    corpus = [*corpus[:4], goats, *corpus[4:]]
    if kind in ("openie", "coordination"):
        return [with_rows(sentence, kind == "openie") for sentence in corpus]
    if kind == "classification":
        return [replace(sentence, labels={"label": "xyz"[i % 3]}) for i, sentence in enumerate(corpus)]
    if kind == "ner":
        names = ("B-a", "I-a", "O", "B-b", "O")
        tags = [[names[i % 5] for i in range(len(sentence.words))] for sentence in corpus]
        return [
            replace(sentence, tags={"tag": of_words}, form=TAG_END.join(of_words))
            for sentence, of_words in zip(corpus, tags, strict=True)
        ]
    return corpus


def with_rows(sentence: Sentence, tuples: bool) -> Sentence:
    """A sentence with two rows of labels, and, of tuples, two extra words and the tuples as text."""
    n, extra = len(sentence.words), 2 * tuples
    first = [(1, 2, 3)[min(i, 2)] for i in range(n)] + [0] * extra
    second = [(3, 1)[i % 2] for i in range(n)] + [2] * extra
    if not tuples:
        return replace(sentence, grid=[[0] * n, [(0, 2, 1, 3)[i % 4] for i in range(n)]])
    form = json.dumps([[" ".join(sentence.words[1:2]), sentence.words[0], " ".join(sentence.words[2:])]])
    words = [*sentence.words, "[unused1]", "[unused2]"]
    return Sentence(words, grid=[first, second], form=form, extra=extra)


class Made:
    """A corpus, a task, and its network in eval mode; every parameter is N(0, 1/4)."""

    def __init__(self, kind: str, number: int, *, characters: bool = False, dropout: float = 0.0) -> None:
        options: Any
        options, model = CASES_OF[kind][number]
        model = {**model, "dropout": dropout}
        self.made_of = kind, number
        corpus = read(kind)
        section = CharacterVocabulary(kind="char") if characters else WordVocabulary(min_count=1)
        self.vocabulary: Any = build_vocabulary(section, [sentence.words for sentence in corpus], corpus[0].extra)
        self.labels: dict[str, list[str]] = {}
        self.split: Split
        if kind == "pretrain":
            documents = Documents(max_length=24)
            self.vocabulary, self.labels = enclosing(self.vocabulary), {PAIR: NAMES[documents.pairs]}
            data = Data(train="x", format="documents", documents=documents)
            self.split = Split(encode_corpus(data, corpus, self.vocabulary, self.labels, training=True))
        else:
            for name in corpus[0].tags:
                self.labels[name] = sorted({tag for sentence in corpus for tag in sentence.tags[name]})
            if kind == "cogs":
                self.labels["case"] = list(CASES)
            if kind == "openie":
                self.labels["extra_words"] = ["is", "of"]
            if kind == "classification":
                self.labels["label"] = ["x", "y", "z"]
            self.split = Split.encode(corpus, self.vocabulary, self.labels)
        row = tasks.TASKS[kind]
        self.task: Task = tasks.build(
            row.section.model_validate({"kind": kind, **options}), self.vocabulary, self.labels
        )
        torch.manual_seed(0)
        encoder = models.build(model)
        self.network = Network(
            self.vocabulary.size, encoder, self.task.output,
            begins=self.vocabulary.begins, padding=self.vocabulary.PAD, hidden=self.vocabulary.MASK,
        ).eval()  # fmt: skip
        with torch.no_grad():
            for parameter in self.network.parameters():
                torch.nn.init.normal_(parameter, std=0.5)

    def batch(self, indices: Any, columns: Mapping[str, int] | None = None) -> Batch:
        wanted = self.task.columns if columns is None else columns
        return collate(self.split, np.asarray(indices), wanted, padding=self.vocabulary.PAD, device=CPU)

    def asked(self, batch: Batch) -> Outputs:
        with torch.no_grad():
            outputs: Outputs = self.network(batch, self.task.wants(batch))
        return outputs

    def predictions(self, indices: Any, columns: Mapping[str, int] | None = None) -> list[Prediction]:
        batch = self.batch(indices, columns)
        return self.task.predict(self.asked(batch), batch)


@cache
def made(kind: str, number: int, characters: bool = False) -> Made:
    return Made(kind, number, characters=characters)


def parts_of(split: Split) -> list[np.ndarray]:
    """Ways to cut: uneven ones, not in order."""
    order = np.random.default_rng(0).permutation(len(split))
    return [order[:1], order[1:4], order[4:]]


def near(actual: Any, expected: Any) -> bool:
    """Equal up to rounding, through lists and mappings."""
    if isinstance(expected, Mapping):
        return actual.keys() == expected.keys() and all(near(actual[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(actual) == len(expected) and all(map(near, actual, expected))
    if isinstance(expected, float):
        return bool(actual == pytest.approx(expected, rel=1e-4, abs=1e-5))
    return bool(actual == expected)
