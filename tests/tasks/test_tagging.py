"""Tagging and word dropout against plain loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import CPU, Treebank, batch_of, encode, evaluation, linear, loss_of, word_scores

from probtrans_cli import models
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import PAD, UNKNOWN
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.data import (
    CharacterVocabulary,
    SubwordVocabulary,
    VocabularySection,
    WordPieceVocabulary,
)
from probtrans_cli.recipe.task import Tagging
from probtrans_cli.tasks.base import without_some_words
from probtrans_cli.tasks.batch import collate
from probtrans_cli.tasks.tagging import WordTagging
from probtrans_cli.trained.evaluation import evaluate


@pytest.fixture(scope="module")
def corpus() -> Treebank:
    return Treebank()


def network_of(corpus: Treebank) -> Network:
    torch.manual_seed(5)
    section = {"labels": 6, "channels": 2, "iterations": 2, "dropout": 0.0, "decomposition": {"kind": "none"}}
    network = Network(corpus.vocabulary.size, models.build(section), linear(len(corpus.labels["upos"]))).eval()
    with torch.no_grad():
        network.output.weight.mul_(4.0)
    return network


def tagging(corpus: Treebank, **options: Any) -> WordTagging:
    return WordTagging(Tagging(kind="tagging", **options), corpus.vocabulary, corpus.labels)


def log_probabilities(network: Network, ids: np.ndarray) -> torch.Tensor:
    words = torch.from_numpy(ids.astype(np.int64))[None]
    return word_scores(network, words, words != PAD, torch.ones_like(words, dtype=torch.bool)).log_softmax(-1)


def test_accuracy_is_that_of_a_plain_loop(corpus: Treebank) -> None:
    network = network_of(corpus)
    right, count, never = [0, 0], [0, 0], 0
    losses = []
    for index in range(len(corpus.dev)):
        with torch.no_grad():
            found_there = log_probabilities(network, corpus.dev.row("ids", index))
        guesses = found_there.argmax(-1)
        gold, frequency = corpus.dev.row("upos", index), corpus.dev.row("frequency", index)
        for word in range(len(gold)):
            unknown = int(frequency[word] == 0)
            right[unknown] += int(guesses[word] == gold[word])  # -1, a label that train does not have, is never guessed
            count[unknown] += 1
            never += int(gold[word] == -1)
            losses += [-float(found_there[word, gold[word]])] if gold[word] >= 0 else []
    assert never == 1
    assert min(count) > 0
    scores = evaluate(tagging(corpus), network, corpus.dev, evaluation(), final=True)
    assert scores["accuracy"] == pytest.approx(sum(right) / sum(count))
    assert scores["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert scores["accuracy_known"] == pytest.approx(right[0] / count[0])
    assert scores["accuracy_unknown"] == pytest.approx(right[1] / count[1])
    assert scores["unknown_rate"] == pytest.approx(count[1] / sum(count))


@pytest.mark.parametrize("kind", ["words", "sentences"])
def test_the_loss_is_that_of_a_plain_loop(kind: str, corpus: Treebank) -> None:
    network = network_of(corpus)
    per_sentence = []
    for index in range(len(corpus.dev)):
        gold = corpus.dev.row("upos", index)
        scores = log_probabilities(network, corpus.dev.row("ids", index)).detach()
        per_sentence.append([-float(scores[i, gold[i]]) for i in range(len(gold)) if gold[i] >= 0])
    words = list(itertools.chain(*per_sentence))
    wanted = np.mean(words) if kind == "words" else np.mean([np.mean(losses) for losses in per_sentence])
    total, count = loss_of(tagging(corpus, loss=kind), network, corpus.dev, np.arange(len(corpus.dev)))
    assert float((total / count).detach()) == pytest.approx(float(wanted), rel=1e-5)


def test_word_dropout_drops_a_word_of_frequency_f_at_rate_alpha_over_alpha_plus_f(corpus: Treebank) -> None:
    alpha, rounds = 3.0, 300
    task = tagging(corpus, word_dropout=alpha)
    batch = batch_of(task, corpus.train, range(len(corpus.train)))
    torch.manual_seed(0)
    shown = [task.training(batch).ids for _ in range(rounds)]
    assert all(bool(((ids == batch.ids) | (ids == UNKNOWN)).all()) for ids in shown)
    dropped = sum((ids != batch.ids).double() for ids in shown)
    for f in (3, 4, 10, int(batch.frequency.max())):
        at = (batch.frequency == f) & (batch.ids != PAD)
        if at.any():
            trials = rounds * int(at.sum())
            p = alpha / (alpha + f)
            assert float(dropped[at].sum()) / trials == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / trials))


@pytest.mark.parametrize(
    "section",
    [
        SubwordVocabulary(kind="sentencepiece", size=60),
        WordPieceVocabulary(kind="wordpiece", size=100),
        CharacterVocabulary(kind="char"),
    ],
    ids=lambda section: section.kind,
)
def test_word_dropout_of_subwords_drops_whole_words(corpus: Treebank, section: VocabularySection) -> None:
    if section.kind == "wordpiece":
        pytest.importorskip("tokenizers")
    vocabulary = build_vocabulary(section, (sentence.words for sentence in corpus.sentences))
    split = Split.encode(corpus.sentences, vocabulary, corpus.labels)
    indices = np.arange(len(split))
    ids = torch.from_numpy(split.padded("ids", indices, PAD))
    torch.manual_seed(0)
    batch = collate(split, indices, padding=vocabulary.PAD, device=CPU)
    shown = without_some_words(batch, 2.0, vocabulary).ids
    torch.manual_seed(0)
    frequency = split.padded("frequency", indices, 0)
    words = torch.rand(frequency.shape) * (2.0 + torch.from_numpy(frequency)) < 2.0
    seen = set()
    for index in indices:
        behind = int(split.lengths[index]) - vocabulary.begins  # what ends a sentence is no word's
        first = [*split.row("first", index).tolist(), behind]
        assert shown[index, : first[0]].tolist() == ids[index, : first[0]].tolist()
        for word, (start, end) in enumerate(itertools.pairwise(first)):
            pieces = torch.full_like(ids[index, start:end], UNKNOWN) if words[index, word] else ids[index, start:end]
            assert shown[index, start:end].tolist() == pieces.tolist()
            seen.add(bool(words[index, word]))
        assert shown[index, behind:].tolist() == ids[index, behind:].tolist()
    assert seen == {True, False}


def test_a_batch_without_any_label_has_no_loss(corpus: Treebank) -> None:
    """Nor has a corpus all of whose tags are unknown to train."""
    sentences = [Sentence(["goat"], tags={"upos": ["Q"]}), Sentence(["the", "dog"], tags={"upos": ["Q", "Q"]})]
    split, network = Split.encode(sentences, corpus.vocabulary, corpus.labels), network_of(corpus)
    for kind in ("words", "sentences"):
        total, count = loss_of(tagging(corpus, loss=kind), network, split, np.arange(2))
        assert float(total.detach()) == 0.0
        assert int(count) == 0
    scores = evaluate(tagging(corpus), network, split, evaluation(), final=True)
    assert (scores["accuracy"], scores["loss"]) == (0.0, None)


def test_an_id_that_is_not_in_the_vocabulary_is_named(corpus: Treebank) -> None:
    network, size = network_of(corpus), corpus.vocabulary.size
    for id in (size, -1):
        ids = torch.tensor([[3, id]])
        with pytest.raises(ValueError, match=f"the id {id} is not in the vocabulary of {size} entries"):
            encode(network, ids, torch.ones_like(ids, dtype=torch.bool))


@pytest.mark.parametrize(
    ("probability", "doubt", "misc", "comments"),
    [
        (False, {}, {}, {}),
        (True, {}, {"TagProb": ["0.7500", "0.5000"]}, {"predicted": "upos"}),
        (
            False,
            {"tag_entropy": [0.25, 0.5]},
            {"TagProb": ["0.7500", "0.5000"], "TagEntropy": ["0.2500", "0.5000"]},
            {"predicted": "upos", "uncertainty": "0.3750"},
        ),
    ],
)
def test_how_sure_tags_are_is_written_beside_them(
    corpus: Treebank, probability: bool, doubt: dict[str, Any], misc: dict[str, Any], comments: dict[str, str]
) -> None:
    prediction = {"tags": ["NOUN", "VERB"], "tag_probability": [0.75, 0.5], **doubt}
    places = tagging(corpus).places(prediction, probability=probability)
    assert places.columns == {"upos": ["NOUN", "VERB"]}
    assert (places.misc, places.comments) == (misc, comments)
