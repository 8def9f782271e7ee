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


def twin(made_task: Made) -> Any:
    """Another network of the same shape."""
    other = Made(*made_task.made_of)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in other.network.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return other.network


def predictor(made_task: Made, way: str) -> Predictor:
    plain = Plain(made_task.network, doubt=True)
    if way == "tempered":
        return replace(plain, temperature=1.7)
    return Ensemble([plain, Plain(twin(made_task))], doubt=True) if way == "ensemble" else plain


def shown(made_task: Made, indices: Any, number: int = 0) -> Batch:
    return made_task.task.evaluation(made_task.batch(indices), number)


@torch.no_grad()
def answers(made_task: Made, way: Predictor, batch: Batch) -> Outputs:
    return way(batch, made_task.task.wants(batch))


@EVERY
def test_a_plain_pass_is_the_network_s_to_the_bit(kind: str, number: int) -> None:
    made_task = made(kind, number)
    batch = shown(made_task, np.arange(len(made_task.split)))
    outputs, own = answers(made_task, Plain(made_task.network), batch), made_task.asked(batch)
    assert not outputs.doubt
    assert outputs.scores.keys() == own.scores.keys()
    assert all(torch.equal(outputs.scores[name], own.scores[name]) for name in own.scores)
    with_doubt = answers(made_task, Plain(made_task.network, doubt=True), batch)
    assert all(torch.equal(with_doubt.scores[name], own.scores[name]) for name in own.scores)


@EVERY
def test_doubt_is_of_the_sentence_alone(kind: str, number: int) -> None:
    """Additive over batches, in order, whatever stands beside a sentence; every score has its doubt."""
    made_task = made(kind, number)
    way = predictor(made_task, WAYS[(ROWS.index((kind, number)) + number) % 3])
    indices = np.random.default_rng(0).permutation(len(made_task.split))[:7]
    batch = shown(made_task, indices)
    together = answers(made_task, way, batch)
    assert together.doubt.keys() == together.scores.keys()
    questions = made_task.task.questions(batch)
    if questions is None:
        assert type(made_task.task).questions is Task.questions or made_task.task.answers.trees
        return
    whole = together.doubt[questions.scores]
    assert len(questions.gold) == len(questions.rows) == len(whole.entropy)
    for place, index in enumerate(indices):
        alone = shown(made_task, [index])
        doubt = answers(made_task, way, alone).doubt[questions.scores]
        mine = whole[questions.rows == place]
        for name in ("probabilities", "entropy", "expected_entropy", "mutual_information"):
            torch.testing.assert_close(getattr(doubt, name), getattr(mine, name), atol=2e-5, rtol=2e-4)
        assert torch.equal(made_task.task.questions(alone).gold, questions.gold[questions.rows == place])


@ONE_OF_EACH
def test_questions_without_gold_have_no_known_answer(kind: str, number: int) -> None:
    made_task = made(kind, number)
    if not made_task.task.section.learned or kind in ("cogs", "parsing"):
        return
    batch = made_task.task.evaluation(made_task.batch([0, 3], {}), 0)
    questions = made_task.task.questions(batch)
    assert (questions.gold == -1).all()
    known = made_task.task.questions(made_task.task.evaluation(made_task.batch([0, 3]), 0))
    assert known.gold.shape == questions.gold.shape
    assert (known.gold >= 0).all()


def test_a_temperature_divides_the_scores() -> None:
    made_task = made("tagging", 0)
    batch = shown(made_task, [0, 1, 2])
    outputs, own = answers(made_task, predictor(made_task, "tempered"), batch), made_task.asked(batch).scores["words"]
    torch.testing.assert_close(outputs.scores["words"].softmax(-1), (own / 1.7).softmax(-1))
    torch.testing.assert_close(outputs.doubt["words"].probabilities, (own / 1.7).softmax(-1))
    assert (outputs.doubt["words"].mutual_information == 0).all()


def test_an_ensemble_averages_probabilities() -> None:
    made_task = made("classification", 0)
    batch = shown(made_task, np.arange(len(made_task.split)))
    other = twin(made_task)
    with torch.no_grad():
        members = [
            net(batch, made_task.task.wants(batch)).scores["sentence"].softmax(-1) for net in (made_task.network, other)
        ]
    mean = sum(members) / 2
    outputs = answers(made_task, Ensemble([Plain(made_task.network), Plain(other)], doubt=True), batch)
    torch.testing.assert_close(outputs.scores["sentence"].exp(), mean)
    doubt = outputs.doubt["sentence"]
    whole = -(mean * mean.log()).sum(-1)
    expected = sum(-(one * one.log()).sum(-1) for one in members) / 2
    torch.testing.assert_close(doubt.entropy, whole)
    torch.testing.assert_close(doubt.expected_entropy, expected)
    torch.testing.assert_close(doubt.mutual_information, whole - expected, atol=1e-6, rtol=1e-4)
    assert (doubt.mutual_information > 0).any()


@pytest.mark.parametrize(("kind", "number"), [("tagging", 0), ("tagging", 1), ("classification", 2), ("pretrain", 0)])
def test_dropout_is_a_mean_over_seeded_passes(kind: str, number: int) -> None:
    """Of the probabilistic transformer and of the other one; results repeat, and nothing of the process changes."""
    made_task = Made(kind, number, dropout=0.3)
    batch = shown(made_task, np.arange(6))
    way = Dropout(made_task.network, 5, doubt=True)
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    outputs, again = answers(made_task, way, batch), answers(made_task, way, batch)
    assert torch.equal(before, torch.random.get_rng_state())
    assert not any(part.training for part in made_task.network.modules())
    for name, scores in outputs.scores.items():
        assert torch.equal(scores, again.scores[name])
        total = torch.zeros_like(scores)
        for draw in range(5):
            made_task.network.train()
            torch.manual_seed(mixed_seed(0, draw))
            total += made_task.asked(batch).scores[name].softmax(-1)
        made_task.network.eval()
        torch.testing.assert_close(scores.exp(), total / 5, atol=1e-5, rtol=1e-4)
        assert not torch.allclose(scores.softmax(-1), made_task.asked(batch).scores[name].softmax(-1), atol=1e-3)
        assert (outputs.doubt[name].mutual_information > 1e-4).any()


def test_weights_that_are_drawn_in_training_stay_at_their_means() -> None:
    """Dropout alone is active."""
    from torch import nn
    from torch.nn.utils import parametrize

    class Noisy(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight + torch.randn_like(weight) if self.training else weight

    made_task = Made("tagging", 0)
    parametrize.register_parametrization(made_task.network.output, "weight", Noisy())
    batch = shown(made_task, [0, 1])
    outputs = answers(made_task, Dropout(made_task.network, 3, doubt=True), batch)
    torch.testing.assert_close(outputs.scores["words"], made_task.asked(batch).scores["words"].log_softmax(-1))
    assert float(outputs.doubt["words"].mutual_information.max()) < 1e-6


@pytest.mark.parametrize("way", ["dropout", "ensemble"])
def test_states_and_arcs_are_those_of_a_plain_pass(way: str) -> None:
    made_task = Made("tagging", 0, dropout=0.3)
    plain = Plain(made_task.network)
    averaged = Dropout(made_task.network, 3) if way == "dropout" else Ensemble([plain, Plain(twin(made_task))])
    batch = shown(made_task, [1, 2])
    wants = Wants(words=batch.words, states=True, arcs=(1, 2))
    with torch.no_grad():
        outputs, own = averaged(batch, wants), made_task.network(batch, wants)
        alone = averaged(batch, Wants(states=True, arcs=(2,)))
    torch.testing.assert_close(outputs.states, own.states)
    torch.testing.assert_close(outputs.arcs, own.arcs)
    assert not outputs.doubt
    assert not alone.scores
    torch.testing.assert_close(alone.arcs[:, 0], own.arcs[:, 1])
