"""What every kind of task keeps to: a row of ``tasks.TASKS`` is a row of these tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import CPU, evaluation
from support import COGS, sentences

from probtrans_cli import models, tasks
from probtrans_cli.data.codecs.entities import TAG_END
from probtrans_cli.data.corpus.documents import labels_of
from probtrans_cli.data.corpus.encode import encode_corpus
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers.cogs import CASES, read_semantic
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.readers.documents import read_documents
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.enclosed import enclosing
from probtrans_cli.models.base import Outputs
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.data import CharacterVocabulary, Data, Documents, WordVocabulary
from probtrans_cli.tasks.base import Counts, Prediction, Task, by_sentence
from probtrans_cli.tasks.batch import Batch, collate
from probtrans_cli.trained.evaluation import evaluate

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
    ],
    "tagging": [({"column": "upos"}, PROBABILISTIC), ({"column": "upos", "loss": "sentences"}, TRANSFORMER)],
    "ner": [({}, PROBABILISTIC), ({"loss": "sentences"}, TRANSFORMER)],
    "classification": [
        ({}, ROOTED), ({}, PROBABILISTIC), ({"representation": "mean"}, TRANSFORMER),
        ({}, {**TRANSFORMER, "pooler": True}),
    ],
    "cogs": [({}, PROBABILISTIC), ({"parent": "attention"}, TRANSFORMER), ({"parent": "absolute"}, PROBABILISTIC)],
    "pretrain": [
        ({"mlm": KEPT, "pair_weight": 0.5}, BERT),
        ({"mlm": {**KEPT, "whole_word": True}, "output": "tied"}, ROOTED),
    ],
}  # fmt: skip
"""Options of the task, and a model: a new kind needs a line here, and a corpus in ``read``."""
ROWS = [(kind, number) for kind in tasks.TASKS for number in range(len(CASES_OF.get(kind, [None])))]
EVERY = pytest.mark.parametrize(("kind", "number"), ROWS, ids=str)
CHARACTERS = {"tagging", "ner", "mlm", "cogs", "classification"}


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
    found = list(read_conllu(iter(sentences("train", 11).splitlines()), "x"))[::-1]
    one = Sentence(["goats"], tags={name: [values[0]] for name, values in found[0].tags.items()})
    found = [*found[:4], one, *found[4:]]
    if kind == "classification":
        return [replace(given, labels={"label": "xyz"[i % 3]}) for i, given in enumerate(found)]
    if kind == "ner":
        names = ("B-a", "I-a", "O", "B-b", "O")
        tags = [[names[i % 5] for i in range(len(given.words))] for given in found]
        return [
            replace(given, tags={"tag": of_words}, form=TAG_END.join(of_words))
            for given, of_words in zip(found, tags, strict=True)
        ]
    return found


class Made:
    """A corpus, a task, and its network in eval mode; every parameter is N(0, 1/4)."""

    def __init__(self, kind: str, number: int, *, characters: bool = False) -> None:
        options: Any
        options, model = CASES_OF[kind][number]
        given = read(kind)
        section = CharacterVocabulary(kind="char") if characters else WordVocabulary(min_count=1)
        self.vocabulary: Any = build_vocabulary(section, [one.words for one in given])
        self.labels: dict[str, list[str]] = {}
        self.split: Split
        if kind == "pretrain":
            documents = Documents(max_length=24)
            self.vocabulary, self.labels = enclosing(self.vocabulary), dict(labels_of(documents))
            data = Data(train="x", format="documents", documents=documents)
            self.split = Split(encode_corpus(data, given, self.vocabulary, self.labels, training=True))
        else:
            for name in given[0].tags:
                self.labels[name] = sorted({tag for one in given for tag in one.tags[name]})
            if kind == "cogs":
                self.labels["case"] = list(CASES)
            if kind == "classification":
                self.labels["label"] = ["x", "y", "z"]
            self.split = Split.encode(given, self.vocabulary, self.labels)
        row = tasks.TASKS[kind]
        self.task: Task = tasks.build(
            row.section.model_validate({"kind": kind, **options}), self.vocabulary, self.labels
        )
        torch.manual_seed(0)
        encoder = models.build(model)
        self.network = Network(
            self.vocabulary.size, encoder, self.task.output, sentence=self.task.representation(encoder.section),
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
            found: Outputs = self.network(batch, self.task.wants(batch))
        return found

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


def near(found: Any, expected: Any) -> bool:
    """Equal up to rounding, through lists and mappings."""
    if isinstance(expected, Mapping):
        return found.keys() == expected.keys() and all(near(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(near, found, expected))
    if isinstance(expected, float):
        return bool(found == pytest.approx(expected, rel=1e-4, abs=1e-5))
    return bool(found == expected)


def test_every_kind_has_a_row() -> None:
    assert tasks.TASKS.keys() == CASES_OF.keys()


@EVERY
def test_terms_are_additive(kind: str, number: int) -> None:
    """Sums and counts of the parts add up to those of the whole, and weights are the same."""
    given = made(kind, number)
    cut = parts_of(given.split)
    whole, *parts = (given.task.training(given.batch(indices)) for indices in (np.concatenate(cut), *cut))
    of_whole, *of_parts = (given.task.terms(given.asked(batch), batch) for batch in (whole, *parts))
    assert of_whole
    for name, term in of_whole.items():
        sums, counts = ([float(getattr(one[name], field)) for one in of_parts] for field in ("sum", "count"))
        assert float(term.sum) == pytest.approx(sum(sums), rel=1e-5)
        assert float(term.count) == sum(counts) > 0
        assert {one[name].weight for one in of_parts} == {term.weight}
        assert np.isfinite(float(term.sum))
    assert all(one.keys() == of_whole.keys() for one in of_parts)


@EVERY
def test_counts_are_those_of_the_terms(kind: str, number: int) -> None:
    """In the same order, and known without the network."""
    given = made(kind, number)
    for indices in parts_of(given.split):
        batch = given.task.training(given.batch(indices))
        counts, terms = given.task.counts(batch), given.task.terms(given.asked(batch), batch)
        assert list(counts) == list(terms)
        assert {name: int(value) for name, value in counts.items()} == {
            name: int(term.count) for name, term in terms.items()
        }


@EVERY
def test_terms_have_gradients(kind: str, number: int) -> None:
    given = Made(kind, number)
    batch = given.task.training(given.batch(np.arange(len(given.split))))
    terms = given.task.terms(given.network(batch, given.task.wants(batch)), batch)
    for term in terms.values():
        assert not term.count.requires_grad
        gradients = torch.autograd.grad(
            term.sum, list(given.network.parameters()), retain_graph=True, materialize_grads=True
        )
        assert all(bool(one.isfinite().all()) for one in gradients)
        assert any(bool(one.any()) for one in gradients)


@EVERY
@pytest.mark.parametrize("final", [False, True])
def test_measured_counts_are_additive(kind: str, number: int, final: bool) -> None:
    given = made(kind, number)
    task, cut = given.task, parts_of(given.split)
    whole, added = Counts(), Counts()
    for draw in range(task.passes(final=final)):
        for counts, batches in ((whole, [np.concatenate(cut)]), (added, cut)):
            for indices in batches:
                batch = task.evaluation(given.batch(indices), draw)
                counts.add(task.measure(given.asked(batch), batch))
    assert whole.keys() == added.keys()
    assert near({key: float(value) for key, value in added.items()}, {key: float(whole[key]) for key in whole})
    scores = task.scores(whole, final=final)
    assert near(task.scores(added, final=final), scores)
    assert {task.metric, "loss"} <= scores.keys()
    assert np.isfinite(scores["loss"])


@EVERY
def test_scores_do_not_depend_on_the_batches(kind: str, number: int) -> None:
    given = made(kind, number)
    sizes = {"one": 1, "three": 3, "all": len(given.split)}
    found = {}
    for name, size in sizes.items():
        starts = range(0, len(given.split), size)
        how = evaluation()._replace(
            batches=lambda split, starts=starts, size=size: [np.arange(i, min(i + size, len(split))) for i in starts]
        )
        found[name] = evaluate(given.task, given.network, given.split, how, final=True)
    assert near(found["one"], found["all"])
    assert near(found["three"], found["all"])


@EVERY
def test_a_prediction_is_of_its_sentence_alone(kind: str, number: int) -> None:
    """One a sentence, in the order of the batch, whatever stands beside it."""
    given = made(kind, number)
    indices = np.arange(len(given.split))
    together = given.predictions(indices)
    assert len(together) == len(indices)
    alone = [given.predictions([index])[0] for index in indices]
    assert near(alone, together)
    order = np.random.default_rng(1).permutation(indices)
    assert near(given.predictions(order), [together[index] for index in order])


@EVERY
def test_predictions_do_not_read_gold_columns(kind: str, number: int) -> None:
    given = made(kind, number)
    indices = np.arange(len(given.split))
    assert given.predictions(indices, {}) == given.predictions(indices)


def probabilities_in(value: Any, name: str = "") -> list[float]:
    """All numbers below a key that speaks of probability."""
    if isinstance(value, Mapping):
        return [number for key, one in value.items() for number in probabilities_in(one, key)]
    if isinstance(value, list | tuple):
        return [number for one in value for number in probabilities_in(one, name)]
    return [value] if "probabilit" in name else []


@EVERY
def test_probabilities_are_such(kind: str, number: int) -> None:
    given = made(kind, number)
    batch = given.task.evaluation(given.batch(np.arange(len(given.split))), 0)
    found = probabilities_in(given.task.predict(given.asked(batch), batch))
    assert bool(found) == (kind != "cogs")
    assert all(0.0 <= one <= 1.0 for one in found)


@EVERY
def test_an_evaluation_s_batch_is_a_function_of_corpus_and_pass(kind: str, number: int) -> None:
    """Not of the generator, of batch mates, or of what was evaluated before."""
    given = made(kind, number)
    few = np.array([3, 1, 5])
    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        seen.append(given.task.evaluation(given.batch(few), 0))
        given.task.evaluation(given.batch(few[:1]), 1)
    assert torch.equal(seen[0].ids, seen[1].ids)
    alone = given.task.evaluation(given.batch(few[1:2]), 0)
    n = alone.ids.shape[1]
    assert torch.equal(seen[0].ids[1, :n], alone.ids[0])


@pytest.mark.parametrize("kind", sorted(CHARACTERS))
def test_words_of_several_tokens(kind: str) -> None:
    """Terms, scores and predictions add up where words are characters, too."""
    given = Made(kind, 0, characters=True)
    assert given.split.has("first")
    cut = parts_of(given.split)
    whole, *parts = (given.task.training(given.batch(indices)) for indices in (np.concatenate(cut), *cut))
    of_whole, *of_parts = (given.task.terms(given.asked(batch), batch)["loss"] for batch in (whole, *parts))
    assert float(of_whole.sum) == pytest.approx(sum(float(one.sum) for one in of_parts), rel=1e-5)
    assert int(of_whole.count) == sum(int(one.count) for one in of_parts)
    indices = np.arange(len(given.split))
    together = given.predictions(indices)
    assert near([given.predictions([index])[0] for index in indices], together)
    if "tags" in together[0]:
        assert [len(one["tags"]) for one in together] == given.split.words.tolist()


def test_a_value_of_each_word_goes_to_its_sentence() -> None:
    given = made("tagging", 0)
    batch = given.batch([2, 0, 4])
    words = batch.split.words[batch.indices].tolist()
    values = [(b, i) for b, number in enumerate(words) for i in range(number)]
    found = [list(one) for one in by_sentence(values, batch)]
    assert found == [[(b, i) for i in range(number)] for b, number in enumerate(words)]
