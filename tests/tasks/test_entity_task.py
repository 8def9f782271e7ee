"""Named entities as a task: scores against sets of spans, losses against loops, and valid tags."""

from __future__ import annotations

from itertools import chain
from typing import Any, Literal

import numpy as np
import pytest
import torch
from small_entities import DEV, TRAIN
from small_tasks import batch_of, encode, evaluation, linear, loss_of, random_network
from tags import entity_scores, problems, spans
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.entities import read_spans
from probtrans_cli.data.readers.columns import read_tagged
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import PAD
from probtrans_cli.models.base import Outputs
from probtrans_cli.recipe.data import Columns, SubwordVocabulary, WordVocabulary
from probtrans_cli.recipe.task import EntityRecognition
from probtrans_cli.tasks.tagging import NamedEntities
from probtrans_cli.trained.evaluation import evaluate

Scheme = Literal["iob2", "bioes"]


class Corpus:
    """Dev has entities of a type that train lacks, and (in bioes) tags of known types that train lacks."""

    def __init__(self, scheme: Scheme, *, subwords: bool = False, **options: Any) -> None:
        read = [list(read_tagged(text.splitlines(), "x", Columns(entities=scheme))) for text in (TRAIN, DEV)]
        self.gold = [sentence.tags["tag"] for sentence in read[1]]
        words = SubwordVocabulary(kind="sentencepiece", size=40, algorithm="bpe") if subwords else WordVocabulary()
        self.vocabulary = build_vocabulary(words, (sentence.words for sentence in read[0]))
        self.names = sorted({tag for sentence in read[0] for tag in sentence.tags["tag"]})
        labels = {"tag": self.names}
        self.train, self.dev = (Split.encode(split, self.vocabulary, labels) for split in read)
        self.task = NamedEntities(EntityRecognition(kind="ner", **options), self.vocabulary, labels)
        section = {"labels": 6, "channels": 2, "iterations": 2, "dropout": 0.0}
        self.network = random_network(1, self.vocabulary.size, section, linear(len(self.names)), 0.8)

    @torch.no_grad()
    def log_probabilities(self, split: Split, index: int) -> Tensor:
        """Of every word, at its first piece."""
        ids = torch.from_numpy(split.row("ids", index).astype(np.int64))[None]
        first = split.row("first", index).astype(np.int64) if split.has("first") else np.arange(ids.shape[1])
        return functional.log_softmax(
            self.network.output(encode(self.network, ids, ids != PAD).states[0, first]).float(), -1
        )


@pytest.mark.parametrize("subwords", [False, True], ids=["words", "pieces"])
@pytest.mark.parametrize("scheme", ["iob2", "bioes"])
def test_scores_are_those_of_a_plain_loop(scheme: Scheme, subwords: bool) -> None:
    corpus = Corpus(scheme, subwords=subwords, valid=False)
    right, losses, words = 0, [], 0
    for index, tags in enumerate(corpus.gold):
        log_p, ids = corpus.log_probabilities(corpus.dev, index), corpus.dev.row("tag", index)
        for i in range(len(tags)):
            words += 1
            right += int(corpus.names[int(log_p[i].argmax())] == tags[i])
            losses += [-float(log_p[i, int(ids[i])])] if ids[i] >= 0 else []
    assert len(losses) < words
    for size in (10, 500):
        scores = evaluate(corpus.task, corpus.network, corpus.dev, evaluation(size), final=True)
        assert scores["accuracy"] == pytest.approx(right / words)
        assert scores["loss"] == pytest.approx(np.mean(losses), rel=1e-5)


def scores_of(corpus: Corpus, tags: list[list[str]]) -> dict[str, Any]:
    """The scores of a network that predicts these tags of dev."""
    ids = torch.tensor([corpus.names.index(tag) for of_sentence in tags for tag in of_sentence])
    outputs = Outputs(scores={"words": functional.one_hot(ids, len(corpus.names)).float()})
    batch = batch_of(corpus.task, corpus.dev, range(len(corpus.dev)))
    return corpus.task.scores(corpus.task.measure(outputs, batch), final=True)


@pytest.mark.parametrize("scheme", ["iob2", "bioes"])
def test_entities_of_unseen_types_are_missed(scheme: Scheme) -> None:
    """All known tags are right, and O stands for the others: each entity of the unseen type counts once."""
    corpus = Corpus(scheme)
    tags = [[tag if tag in corpus.names else "O" for tag in tags] for tags in corpus.gold]
    every = [(i, *span) for i, tags in enumerate(corpus.gold) for span in spans(tags, scheme)]
    assert sum("PRIZE" in span for span in every) == 2
    assert len(every) == 7
    lost = {span for span in every if any(tags[span[0]][i] == "O" for i in range(span[1], span[2]))}
    assert len(lost) == {"iob2": 3, "bioes": 4}[scheme]  # train has no place of two words, and no ship of one
    scores = scores_of(corpus, tags)
    hit = len(every) - len(lost)
    spurious = int(scheme == "iob2")  # the first word of the place of two
    assert scores["precision"] == pytest.approx(hit / (hit + spurious))
    assert scores["recall"] == pytest.approx(hit / len(every))
    assert scores["f1_PRIZE"] == 0.0
    assert scores["f1_PER"] == 1.0


@pytest.mark.parametrize("scheme", ["iob2", "bioes"])
def test_nothing_found(scheme: Scheme) -> None:
    corpus = Corpus(scheme)
    scores = scores_of(corpus, [["O"] * len(tags) for tags in corpus.gold])
    assert (scores["f1"], scores["precision"], scores["recall"]) == (0.0, 0.0, 0.0)
    assert scores["accuracy"] == pytest.approx(3 / 16)


@pytest.mark.parametrize("kind", ["words", "sentences"])
def test_the_loss_is_that_of_a_plain_loop(kind: str) -> None:
    corpus = Corpus("bioes", loss=kind)
    losses = []
    for index in range(len(corpus.dev)):
        log_p, gold = corpus.log_probabilities(corpus.dev, index), corpus.dev.row("tag", index)
        losses.append([-float(log_p[i, gold[i]]) for i in range(len(gold)) if gold[i] >= 0])
    words = list(chain(*losses))
    means = [np.mean(of_sentence) for of_sentence in losses if of_sentence]
    wanted = np.mean(words if kind == "words" else means)
    total, number = loss_of(corpus.task, corpus.network, corpus.dev, np.arange(len(corpus.dev)))
    assert float((total / number).detach()) == pytest.approx(float(wanted), rel=1e-5)


def test_scores_by_type_are_of_the_final_evaluation() -> None:
    corpus = Corpus("iob2")
    quick, final = (
        evaluate(corpus.task, corpus.network, corpus.dev, evaluation(), final=final) for final in (False, True)
    )
    assert quick.keys() == {"f1", "f1_strict", "precision", "recall", "accuracy", "loss"}
    assert quick.items() <= final.items()
    assert {name for name in final if name.startswith("f1_")} >= {"f1_PER", "f1_LOC", "f1_SHIP", "f1_PRIZE"}


@pytest.mark.parametrize("subwords", [False, True], ids=["words", "pieces"])
@pytest.mark.parametrize("scheme", ["iob2", "bioes"])
def test_predicted_tags_are_valid_and_scored(scheme: Scheme, subwords: bool) -> None:
    """What `predict` says is what is scored; without `valid` it is each word's best tag, which is often not valid."""
    for valid in (True, False):
        corpus = Corpus(scheme, subwords=subwords, valid=valid)
        batch = batch_of(corpus.task, corpus.dev, range(len(corpus.dev)))
        with torch.no_grad():
            predictions = corpus.task.predict(corpus.network(batch, corpus.task.wants(batch)), batch)
        tags = [list(prediction["tags"]) for prediction in predictions]
        assert all(problems(of_sentence, scheme) is None for of_sentence in tags) == valid
        for index, prediction in enumerate(predictions):
            chances = corpus.log_probabilities(corpus.dev, index).exp()
            ids = torch.tensor([corpus.names.index(tag) for tag in prediction["tags"]])
            of_tags = chances[torch.arange(len(ids)), ids].tolist()
            assert prediction["tag_probability"] == pytest.approx(of_tags, rel=1e-5)
            assert torch.equal(ids, chances.argmax(-1)) or valid
            entities = [(*entity["words"], entity["type"]) for entity in prediction["entities"]]
            assert entities == read_spans(prediction["tags"])
        scores = evaluate(corpus.task, corpus.network, corpus.dev, evaluation(12), final=True)
        expected = entity_scores(corpus.gold, tags)
        assert {name: scores[name] for name in expected} == pytest.approx(expected)
        assert scores["f1_strict"] == pytest.approx(entity_scores(corpus.gold, tags, scheme)["f1"])
        assert {type_: row["f1"] for type_, row in scores["types"].items()} == {
            name.removeprefix("f1_"): value for name, value in expected.items() if name.startswith("f1_")
        }
        low, high = scores["f1_interval"]
        assert low <= scores["f1"] <= high
        right = [a == b for row, gold in zip(tags, corpus.gold, strict=True) for a, b in zip(row, gold, strict=True)]
        assert scores["accuracy"] == pytest.approx(np.mean(right))
        assert scores["f1_strict"] == scores["f1"] or not valid


def test_valid_tags_change_no_loss() -> None:
    losses = []
    for valid in (True, False):
        corpus = Corpus("bioes", valid=valid)
        of_batch = loss_of(corpus.task, corpus.network, corpus.train, np.arange(len(corpus.train)))
        scores = evaluate(corpus.task, corpus.network, corpus.dev, evaluation(), final=False)
        losses.append((of_batch.total.item(), scores["loss"]))
    assert losses[0] == losses[1]
