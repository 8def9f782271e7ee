"""The tasks against plain loops: masks, losses and scores."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import CPU, encode, evaluation, linear, loss_of, word_scores
from support import sentences

from probtrans_cli import models
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import MASK, PAD, UNKNOWN
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.errors import DataError
from probtrans_cli.models.base import Inputs, Outputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.data import (
    CharacterVocabulary,
    SubwordVocabulary,
    VocabularySection,
    WordPieceVocabulary,
    WordVocabulary,
)
from probtrans_cli.recipe.task import MaskedLanguageModel, Tagging
from probtrans_cli.tasks.base import without_some_words
from probtrans_cli.tasks.batch import collate
from probtrans_cli.tasks.masking import EVALUATION_SEED
from probtrans_cli.tasks.mlm import MaskedLanguageModelling
from probtrans_cli.tasks.tagging import WordTagging
from probtrans_cli.trained.evaluation import evaluate


class Corpus:
    """Train and dev of the toy treebank; rare words are unknown, and dev has a tag that train does not have."""

    def __init__(self) -> None:
        train = list(read_conllu(iter(sentences("train", 60).splitlines()), "train"))
        dev = list(read_conllu(iter(sentences("dev", 20).splitlines()), "dev"))
        dev[0].tags["upos"][1] = "X"
        self.vocabulary = build_vocabulary(WordVocabulary(min_count=3), (one.words for one in train))
        assert isinstance(self.vocabulary, Words)
        self.labels = {
            "upos": sorted({tag for one in train for tag in one.tags["upos"]}),
            "xpos": sorted({tag for one in train for tag in one.tags["xpos"]}),
        }
        self.train = Split.encode(train, self.vocabulary, self.labels)
        self.dev = Split.encode(dev, self.vocabulary, self.labels)

    def network(self, outputs: int) -> Network:
        torch.manual_seed(5)
        section = {"labels": 6, "channels": 2, "iterations": 2, "dropout": 0.0, "decomposition": {"kind": "none"}}
        network = Network(self.vocabulary.size, models.build(section), linear(outputs)).eval()
        with torch.no_grad():
            network.output.weight.mul_(4.0)
        return network


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus()


class Spy(torch.nn.Module):
    """In place of a network: keeps what it is asked."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def forward(self, inputs: Inputs, wants: Wants) -> Outputs:
        at = wants.tokens if wants.words is None else inputs.tokens_of(wants.words)
        assert at is not None
        self.seen.append((inputs.ids.clone(), at.clone()))
        return Outputs(scores={"words": torch.zeros(int(at.sum()), self.outputs, requires_grad=True)})


# --- masked language modelling ----------------------------------------------------------------------------------------


def mlm(corpus: Corpus, **options: Any) -> MaskedLanguageModelling:
    return MaskedLanguageModelling(MaskedLanguageModel(kind="mlm", **options), corpus.vocabulary, corpus.labels)


def masks(corpus: Corpus, seed: int, **options: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(original ids, ids given to the network, hidden) of one training batch of all sentences."""
    task, spy = mlm(corpus, **options), Spy(corpus.vocabulary.size)
    indices = np.arange(len(corpus.train))
    torch.manual_seed(seed)
    loss_of(task, spy, corpus.train, indices)
    return torch.from_numpy(corpus.train.padded("ids", indices, PAD)), *spy.seen[0]


def test_unknown_words_and_padding_are_never_hidden(corpus: Corpus) -> None:
    ids, given, hidden = masks(corpus, 1, mlm={"rate": 0.99})
    assert (ids == UNKNOWN).any()
    assert (ids == PAD).any()
    assert not (hidden & ((ids == UNKNOWN) | (ids == PAD))).any()
    assert torch.equal(given == MASK, hidden)
    assert torch.equal(given[~hidden], ids[~hidden])


def test_what_begins_and_ends_a_sentence_is_never_hidden(corpus: Corpus) -> None:
    pytest.importorskip("tokenizers")
    train = list(read_conllu(iter(sentences("train", 60).splitlines()), "train"))
    vocabulary = build_vocabulary(WordPieceVocabulary(kind="wordpiece", size=100), (one.words for one in train[:5]))
    split, indices, spy = Split.encode(train, vocabulary, {}), np.arange(60), Spy(vocabulary.size)
    task = MaskedLanguageModelling(MaskedLanguageModel(kind="mlm", mlm={"rate": 0.99}), vocabulary, {})
    loss_of(task, spy, split, indices)
    ids, (given, hidden) = torch.from_numpy(split.padded("ids", indices, vocabulary.PAD)), spy.seen[0]
    fixed = torch.isin(ids, torch.tensor(vocabulary.specials))
    assert {int(id) for id in ids[fixed]} == set(vocabulary.specials) - {vocabulary.MASK}
    assert not (hidden & fixed).any()
    assert hidden.sum() > 0.9 * (~fixed).sum()
    assert torch.equal(given == vocabulary.MASK, hidden)


def test_a_batch_without_a_hidden_word_has_a_loss_of_0(corpus: Corpus) -> None:
    network = corpus.network(corpus.vocabulary.size)
    loss = loss_of(mlm(corpus, mlm={"rate": 1e-9}), network, corpus.train, np.arange(3))
    assert (float(loss.total.detach()), int(loss.number)) == (0.0, 0)
    loss.total.backward()
    assert all(one.grad is None or one.grad.isfinite().all() for one in network.parameters())


def test_an_id_that_is_not_in_the_vocabulary_is_named(corpus: Corpus) -> None:
    network, size = corpus.network(2), corpus.vocabulary.size
    for id in (size, -1):
        ids = torch.tensor([[3, id]])
        with pytest.raises(ValueError, match=f"the id {id} is not in the vocabulary of {size} entries"):
            encode(network, ids, torch.ones_like(ids, dtype=torch.bool))


def test_the_mask_rate(corpus: Corpus) -> None:
    total = hidden_words = 0
    for seed in range(20):
        ids, _, hidden = masks(corpus, seed, mlm={"rate": 0.3})
        total += int((ids > UNKNOWN).sum())
        hidden_words += int(hidden.sum())
    assert hidden_words / total == pytest.approx(0.3, abs=4 * math.sqrt(0.3 * 0.7 / total))


def test_masks_are_fresh_for_every_seed_and_equal_for_equal_seeds(corpus: Corpus) -> None:
    first, again, other = (masks(corpus, seed)[2] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_evaluation_masks_do_not_depend_on_batches_or_the_training_seed(corpus: Corpus) -> None:
    def hidden(words: int, seed: int) -> list[list[int]]:
        torch.manual_seed(seed)
        spy, how = Spy(corpus.vocabulary.size), evaluation(words)
        evaluate(mlm(corpus, eval_masks=2), spy, corpus.dev, how, final=True)  # type: ignore[arg-type]
        order = [int(index) for _ in range(2) for indices in how.batches(corpus.dev) for index in indices]
        rows = [row for _, at in spy.seen for row in at]
        found = zip(order, rows, strict=True)
        return sorted([index, *torch.nonzero(row).flatten().tolist()] for index, row in found)

    assert hidden(40, 1) == hidden(1000, 2)


def test_perplexity_is_that_of_a_plain_loop(corpus: Corpus) -> None:
    task, network = mlm(corpus, eval_masks=4), corpus.network(corpus.vocabulary.size)
    losses, sums = [], []
    for draw in range(4):
        uniform = np.random.default_rng(EVALUATION_SEED + draw).random(int(corpus.dev.lengths.sum()), dtype=np.float32)
        total, count, start = 0.0, 0, 0
        for index in range(len(corpus.dev)):
            ids = corpus.dev.row("ids", index).astype(np.int64)
            hide = [bool(uniform[start + i] < 0.3 and ids[i] != UNKNOWN) for i in range(len(ids))]
            start += len(ids)
            given = torch.tensor([[MASK if hide[i] else int(ids[i]) for i in range(len(ids))]])
            with torch.no_grad():
                scores = word_scores(
                    network, given, given != PAD, torch.ones_like(given, dtype=torch.bool)
                ).log_softmax(-1)
            for i in range(len(ids)):
                if hide[i]:
                    total -= float(scores[i, ids[i]])
                    count += 1
        losses.append(total / count)
        sums.append((total, count))
    found = evaluate(task, network, corpus.dev, evaluation(), final=True)
    pooled = sum(total for total, _ in sums) / sum(count for _, count in sums)
    assert found["loss"] == pytest.approx(pooled, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(pooled), rel=1e-5)
    spread = np.std(np.exp(losses), ddof=1) / math.sqrt(4)
    assert found["perplexity_se"] == pytest.approx(spread, rel=1e-3)
    assert found["masks"] == 4
    quick = evaluate(task, network, corpus.dev, evaluation(), final=False)
    assert quick.keys() == {"perplexity", "loss"}
    assert quick["loss"] == pytest.approx(losses[0], rel=1e-5)


def test_a_corpus_in_which_nothing_can_be_hidden_is_refused(corpus: Corpus) -> None:
    """Not a perplexity of 1."""
    sentences = [Sentence(["zzz", "qqq"]), Sentence(["xxx"])]
    unknown = Split.encode(sentences, corpus.vocabulary, corpus.labels)
    with pytest.raises(DataError, match="no word to hide"):
        evaluate(mlm(corpus), corpus.network(corpus.vocabulary.size), unknown, evaluation(), final=True)


# --- tagging ----------------------------------------------------------------------------------------------------------


def tagging(corpus: Corpus, **options: Any) -> WordTagging:
    return WordTagging(Tagging(kind="tagging", **options), corpus.vocabulary, corpus.labels)


def log_probabilities(network: Network, ids: np.ndarray) -> torch.Tensor:
    given = torch.from_numpy(ids.astype(np.int64))[None]
    return word_scores(network, given, given != PAD, torch.ones_like(given, dtype=torch.bool)).log_softmax(-1)


def test_accuracy_is_that_of_a_plain_loop(corpus: Corpus) -> None:
    network = corpus.network(len(corpus.labels["upos"]))
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
    found = evaluate(tagging(corpus), network, corpus.dev, evaluation(), final=True)
    assert found["accuracy"] == pytest.approx(sum(right) / sum(count))
    assert found["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert found["accuracy_known"] == pytest.approx(right[0] / count[0])
    assert found["accuracy_unknown"] == pytest.approx(right[1] / count[1])
    assert found["unknown_rate"] == pytest.approx(count[1] / sum(count))


def test_labels_that_train_lacks_have_no_loss(corpus: Corpus) -> None:
    sentences = [Sentence(["the", "dog"], tags={"upos": ["QQ", "QQ"]})]
    strange = Split.encode(sentences, corpus.vocabulary, corpus.labels)
    found = evaluate(tagging(corpus), corpus.network(len(corpus.labels["upos"])), strange, evaluation(), final=True)
    assert (found["accuracy"], found["loss"]) == (0.0, None)


@pytest.mark.parametrize("kind", ["words", "sentences"])
def test_the_loss_is_that_of_a_plain_loop(kind: str, corpus: Corpus) -> None:
    network = corpus.network(len(corpus.labels["upos"]))
    per_sentence = []
    for index in range(len(corpus.dev)):
        gold = corpus.dev.row("upos", index)
        scores = log_probabilities(network, corpus.dev.row("ids", index)).detach()
        per_sentence.append([-float(scores[i, gold[i]]) for i in range(len(gold)) if gold[i] >= 0])
    words = [one for losses in per_sentence for one in losses]
    wanted = np.mean(words) if kind == "words" else np.mean([np.mean(losses) for losses in per_sentence])
    total, count = loss_of(tagging(corpus, loss=kind), network, corpus.dev, np.arange(len(corpus.dev)))
    assert float((total / count).detach()) == pytest.approx(float(wanted), rel=1e-5)


def test_word_dropout_drops_a_word_of_frequency_f_at_rate_alpha_over_alpha_plus_f(corpus: Corpus) -> None:
    alpha, rounds = 3.0, 300
    indices = np.arange(len(corpus.train))
    ids = torch.from_numpy(corpus.train.padded("ids", indices, PAD))
    frequency = torch.from_numpy(corpus.train.padded("frequency", indices, 0))
    task, spy = tagging(corpus, word_dropout=alpha), Spy(len(corpus.labels["upos"]))
    torch.manual_seed(0)
    for _ in range(rounds):
        loss_of(task, spy, corpus.train, indices)
    dropped = sum((given != ids).double() for given, _ in spy.seen)
    assert all(bool(((given == ids) | (given == UNKNOWN)).all()) for given, _ in spy.seen)
    for f in (3, 4, 10, int(frequency.max())):
        at = (frequency == f) & (ids != PAD)
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
def test_word_dropout_of_subwords_drops_whole_words(corpus: Corpus, section: VocabularySection) -> None:
    if section.kind == "wordpiece":
        pytest.importorskip("tokenizers")
    train = list(read_conllu(iter(sentences("train", 60).splitlines()), "train"))
    vocabulary = build_vocabulary(section, (one.words for one in train))
    split = Split.encode(train, vocabulary, corpus.labels)
    indices = np.arange(len(split))
    ids = torch.from_numpy(split.padded("ids", indices, PAD))
    torch.manual_seed(0)
    batch = collate(split, indices, padding=vocabulary.PAD, device=CPU)
    given = without_some_words(batch, 2.0, vocabulary).ids
    torch.manual_seed(0)
    frequency = split.padded("frequency", indices, 0)
    words = torch.rand(frequency.shape) * (2.0 + torch.from_numpy(frequency)) < 2.0
    seen = set()
    for index in indices:
        behind = int(split.lengths[index]) - vocabulary.begins  # what ends a sentence is no word's
        first = [*split.row("first", index).tolist(), behind]
        assert given[index, : first[0]].tolist() == ids[index, : first[0]].tolist()
        for word, (start, end) in enumerate(itertools.pairwise(first)):
            pieces = torch.full_like(ids[index, start:end], UNKNOWN) if words[index, word] else ids[index, start:end]
            assert given[index, start:end].tolist() == pieces.tolist()
            seen.add(bool(words[index, word]))
        assert given[index, behind:].tolist() == ids[index, behind:].tolist()
    assert seen == {True, False}


def test_a_batch_without_any_label_has_no_loss(corpus: Corpus) -> None:
    lines = "1\tgoat\t_\tQ\tQ\t_\t0\troot\t_\t_\n\n".splitlines()
    split = Split.encode(list(read_conllu(iter(lines), "x")), corpus.vocabulary, corpus.labels)
    network = corpus.network(len(corpus.labels["upos"]))
    for kind in ("words", "sentences"):
        total, count = loss_of(tagging(corpus, loss=kind), network, split, np.arange(1))
        assert float(total.detach()) == 0.0
        assert int(count) == 0
    assert evaluate(tagging(corpus), network, split, evaluation(), final=True)["accuracy"] == 0.0
