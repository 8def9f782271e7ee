"""The ways to predict: alone, at a temperature, with dropout, and as an ensemble; for every kind of task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from made_tasks import EVERY, ONE_OF_EACH, ROWS, Made, made

from probtrans_cli.models.base import Outputs, Wants
from probtrans_cli.tasks.base import Task
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.trained.machine import mixed_seed
from probtrans_cli.trained.predictor import Dropout, Ensemble, Plain, Predictor

WAYS = ("plain", "tempered", "ensemble")


def twin(given: Made) -> Any:
    """Another network of the same shape."""
    other = Made(*given.made_of)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in other.network.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return other.network


def predictor(given: Made, way: str) -> Predictor:
    plain = Plain(given.network, doubt=True)
    if way == "tempered":
        return replace(plain, temperature=1.7)
    return Ensemble([plain, Plain(twin(given))], doubt=True) if way == "ensemble" else plain


def shown(given: Made, indices: Any, number: int = 0) -> Batch:
    return given.task.evaluation(given.batch(indices), number)


@torch.no_grad()
def answers(given: Made, way: Predictor, batch: Batch) -> Outputs:
    return way(batch, given.task.wants(batch))


@EVERY
def test_a_plain_pass_is_the_network_s_to_the_bit(kind: str, number: int) -> None:
    given = made(kind, number)
    batch = shown(given, np.arange(len(given.split)))
    found, own = answers(given, Plain(given.network), batch), given.asked(batch)
    assert not found.doubt
    assert found.scores.keys() == own.scores.keys()
    assert all(torch.equal(found.scores[name], own.scores[name]) for name in own.scores)
    with_doubt = answers(given, Plain(given.network, doubt=True), batch)
    assert all(torch.equal(with_doubt.scores[name], own.scores[name]) for name in own.scores)


@EVERY
def test_doubt_is_of_the_sentence_alone(kind: str, number: int) -> None:
    """Additive over batches, in order, whatever stands beside a sentence; every score has its doubt."""
    given = made(kind, number)
    asked = predictor(given, WAYS[(ROWS.index((kind, number)) + number) % 3])
    indices = np.random.default_rng(0).permutation(len(given.split))[:7]
    batch = shown(given, indices)
    together = answers(given, asked, batch)
    assert together.doubt.keys() == together.scores.keys()
    questions = given.task.questions(batch)
    if questions is None:
        assert type(given.task).questions is Task.questions or given.task.answers.trees
        return
    whole = together.doubt[questions.scores]
    assert len(questions.gold) == len(questions.rows) == len(whole.entropy)
    for place, index in enumerate(indices):
        alone = shown(given, [index])
        found = answers(given, asked, alone).doubt[questions.scores]
        mine = whole[questions.rows == place]
        for name in ("probabilities", "entropy", "expected_entropy", "mutual_information"):
            torch.testing.assert_close(getattr(found, name), getattr(mine, name), atol=2e-5, rtol=2e-4)
        assert torch.equal(given.task.questions(alone).gold, questions.gold[questions.rows == place])


@ONE_OF_EACH
def test_questions_without_gold_have_no_known_answer(kind: str, number: int) -> None:
    given = made(kind, number)
    if not given.task.section.learned or kind in ("cogs", "parsing"):
        return
    batch = given.task.evaluation(given.batch([0, 3], {}), 0)
    questions = given.task.questions(batch)
    assert (questions.gold == -1).all()
    known = given.task.questions(given.task.evaluation(given.batch([0, 3]), 0))
    assert known.gold.shape == questions.gold.shape
    assert (known.gold >= 0).all()


def test_a_temperature_divides_the_scores() -> None:
    given = made("tagging", 0)
    batch = shown(given, [0, 1, 2])
    found, own = answers(given, predictor(given, "tempered"), batch), given.asked(batch).scores["words"]
    torch.testing.assert_close(found.scores["words"].softmax(-1), (own / 1.7).softmax(-1))
    torch.testing.assert_close(found.doubt["words"].probabilities, (own / 1.7).softmax(-1))
    assert (found.doubt["words"].mutual_information == 0).all()


def test_an_ensemble_averages_probabilities() -> None:
    given = made("classification", 0)
    batch = shown(given, np.arange(len(given.split)))
    other = twin(given)
    with torch.no_grad():
        members = [net(batch, given.task.wants(batch)).scores["sentence"].softmax(-1) for net in (given.network, other)]
    mean = sum(members) / 2
    found = answers(given, Ensemble([Plain(given.network), Plain(other)], doubt=True), batch)
    torch.testing.assert_close(found.scores["sentence"].exp(), mean)
    doubt = found.doubt["sentence"]
    whole = -(mean * mean.log()).sum(-1)
    expected = sum(-(one * one.log()).sum(-1) for one in members) / 2
    torch.testing.assert_close(doubt.entropy, whole)
    torch.testing.assert_close(doubt.expected_entropy, expected)
    torch.testing.assert_close(doubt.mutual_information, whole - expected, atol=1e-6, rtol=1e-4)
    assert (doubt.mutual_information > 0).any()


@pytest.mark.parametrize(("kind", "number"), [("tagging", 0), ("tagging", 1), ("classification", 2), ("pretrain", 0)])
def test_dropout_is_a_mean_over_seeded_passes(kind: str, number: int) -> None:
    """Of the probabilistic transformer and of the other one; results repeat, and nothing of the process changes."""
    given = Made(kind, number, dropout=0.3)
    batch = shown(given, np.arange(6))
    way = Dropout(Plain(given.network), 5, doubt=True)
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    found, again = answers(given, way, batch), answers(given, way, batch)
    assert torch.equal(before, torch.random.get_rng_state())
    assert not any(part.training for part in given.network.modules())
    for name, scores in found.scores.items():
        assert torch.equal(scores, again.scores[name])
        total = torch.zeros_like(scores)
        for draw in range(5):
            given.network.train()
            torch.manual_seed(mixed_seed(0, draw))
            total += given.asked(batch).scores[name].softmax(-1)
        given.network.eval()
        torch.testing.assert_close(scores.exp(), total / 5, atol=1e-5, rtol=1e-4)
        assert not torch.allclose(scores.softmax(-1), given.asked(batch).scores[name].softmax(-1), atol=1e-3)
        assert (found.doubt[name].mutual_information > 1e-4).any()


def test_weights_that_are_drawn_in_training_stay_at_their_means() -> None:
    """Dropout alone is active."""
    from torch import nn
    from torch.nn.utils import parametrize

    class Noisy(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight + torch.randn_like(weight) if self.training else weight

    given = Made("tagging", 0)
    parametrize.register_parametrization(given.network.output, "weight", Noisy())
    batch = shown(given, [0, 1])
    found = answers(given, Dropout(Plain(given.network), 3, doubt=True), batch)
    torch.testing.assert_close(found.scores["words"], given.asked(batch).scores["words"].log_softmax(-1))
    assert float(found.doubt["words"].mutual_information.max()) < 1e-6


@pytest.mark.parametrize("way", ["dropout", "ensemble"])
def test_states_and_arcs_are_those_of_a_plain_pass(way: str) -> None:
    given = Made("tagging", 0, dropout=0.3)
    plain = Plain(given.network)
    asked = Dropout(plain, 3) if way == "dropout" else Ensemble([plain, Plain(twin(given))])
    batch = shown(given, [1, 2])
    wants = Wants(words=batch.words, states=True, arcs=(1, 2))
    with torch.no_grad():
        found, own = asked(batch, wants), given.network(batch, wants)
        alone = asked(batch, Wants(states=True, arcs=(2,)))
    torch.testing.assert_close(found.states, own.states)
    torch.testing.assert_close(found.arcs, own.arcs)
    assert not found.doubt
    assert not alone.scores
    torch.testing.assert_close(alone.arcs[:, 0], own.arcs[:, 1])
