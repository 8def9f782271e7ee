"""Losses over drawn words beside those over the whole vocabulary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from made_tasks import Made
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models.base import Outputs
from probtrans_cli.tasks.mlm import PredictedWords, chances, cross_entropy, frequencies


def test_chances_are_in_proportion_to_frequencies_up_to_certainty() -> None:
    frequency = torch.tensor([1.0, 50.0, 2.0, 1000.0, 4.0, 3.0]).double()
    chance = chances(frequency, 3.0)
    assert float(chance.sum()) == pytest.approx(3.0)
    assert chance.tolist() == pytest.approx([0.1, 1.0, 0.2, 1.0, 0.4, 0.3])
    assert chances(frequency, 6.0).tolist() == chances(frequency, 9.0).tolist() == [1.0] * 6


@pytest.mark.parametrize(("kind", "number"), [("lm", 0), ("lm", 1), ("lm", 2), ("mlm", 0), ("mlm", 1), ("pretrain", 0)])
def test_a_loss_over_all_words_is_the_full_one(kind: str, number: int) -> None:
    gradients = []
    for sampled in (None, 10_000):
        made = Made(kind, number)
        task: Any = getattr(made.task, "tasks", {"words": made.task})["words"]
        task.sampled = sampled
        torch.manual_seed(1)
        batch = made.task.training(made.batch([0, 1, 2]))
        assert (batch.candidates is None) == (sampled is None)
        terms = made.task.terms(made.network(batch, made.task.wants(batch)), batch).values()
        sum((term.weight * term.sum for term in terms), torch.zeros(())).backward()
        gradients.append([parameter.grad for parameter in made.network.parameters() if parameter.grad is not None])
        assert made.task.evaluation(made.batch([0]), 0).candidates is None
    for full, drawn in zip(*gradients, strict=True):
        torch.testing.assert_close(drawn, full, rtol=1e-4, atol=1e-5)


def test_sums_are_on_average_those_over_the_vocabulary_and_gradients_nearly() -> None:
    made = Made("lm", 0)
    batch, words = made.batch([0]), made.vocabulary.size
    gold = batch.ids[0]
    frequency = torch.from_numpy(frequencies(made.split, made.vocabulary))
    scores = (frequency.log() + 0.5 * torch.randn(len(gold), words)).float().requires_grad_()
    task, draws = made.task, 2000
    assert isinstance(task, PredictedWords)
    task.sampled = words // 2

    def gradient(batch: Any) -> Tensor:
        seen = scores if batch.candidates is None else scores[:, batch.candidates]
        (result,) = torch.autograd.grad(cross_entropy(Outputs(scores={"words": seen}), batch, gold), scores)
        return result

    sums, mean, uncorrected = [], torch.zeros_like(scores), torch.zeros_like(scores)
    for _ in range(draws):
        drawn = task.with_candidates(batch, gold)
        assert drawn.candidates is not None
        assert drawn.log_chance is not None
        assert torch.isin(gold, drawn.candidates).all()
        sums.append((scores[:, drawn.candidates] - drawn.log_chance).exp().sum(1).detach())
        mean += gradient(drawn) / draws
        uncorrected += gradient(replace(drawn, log_chance=torch.zeros_like(drawn.log_chance))) / draws
    sample, expected = torch.stack(sums), scores.detach().exp().sum(1)
    error = sample.std(0) / draws**0.5
    assert ((sample.mean(0) - expected).abs() < 5 * error + 1e-4 * expected).all()
    full = scores.detach().softmax(-1) - functional.one_hot(gold, words)
    wrong, right = (float((some - full).norm() / full.norm()) for some in (uncorrected, mean))
    assert right < 0.03 < wrong


def test_scores_of_words_are_divided_by_their_weight() -> None:
    made = Made("mlm", 3)
    network: Any = made.network
    batch = made.task.evaluation(made.batch([0, 1]), 0)

    def products() -> Tensor:
        scores = network(batch, made.task.wants(batch)).scores["words"]
        return (scores - network.words.bias)[scores.isfinite()]

    weighted = products()
    network.words.scale *= 0.25  # as with a weight of 1
    torch.testing.assert_close(weighted, 4.0 * products())
