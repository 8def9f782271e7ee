"""Losses over drawn words beside those over the whole vocabulary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from made_tasks import Made, made

from probtrans_cli.tasks.mlm import MaskedLanguageModelling, Sampler, chances

KINDS = [("lm", 0), ("lm", 1), ("lm", 2), ("mlm", 0), ("mlm", 1), ("pretrain", 0)]


def sampler_of(one: Made, number: int) -> Sampler:
    """Let a task's training draw so many words."""
    task: Any = getattr(one.task, "tasks", {"words": one.task})["words"]
    task.sampler = Sampler(number, one.vocabulary)
    return task.sampler  # type: ignore[no-any-return]


def gradient(one: Made, batch: Any) -> torch.Tensor:
    terms = one.task.terms(one.network(batch, one.task.wants(batch)), batch)
    loss = sum((term.weight * term.sum for term in terms.values()), torch.zeros(()))
    parts = torch.autograd.grad(loss, list(one.network.parameters()), allow_unused=True)
    return torch.cat([part.flatten() for part in parts if part is not None])


def test_chances_are_in_proportion_to_frequencies_up_to_certainty() -> None:
    frequency = torch.tensor([1.0, 50.0, 2.0, 1000.0, 4.0, 3.0]).double()
    chance = chances(frequency, 3.0)
    assert float(chance.sum()) == pytest.approx(3.0)
    assert chance.tolist() == pytest.approx([0.1, 1.0, 0.2, 1.0, 0.4, 0.3])
    assert chances(frequency, 6.0).tolist() == chances(frequency, 9.0).tolist() == [1.0] * 6


@pytest.mark.parametrize(("kind", "number"), KINDS)
def test_a_loss_over_all_words_is_the_full_one(kind: str, number: int) -> None:
    one = Made(kind, number)
    torch.manual_seed(1)
    full = one.task.training(one.batch([0, 1, 2]))
    sampler_of(one, one.vocabulary.size)
    torch.manual_seed(1)
    drawn = one.task.training(one.batch([0, 1, 2]))
    assert drawn.candidates is not None
    assert drawn.candidates.tolist() == [*range(one.vocabulary.size)]
    assert torch.allclose(gradient(one, drawn), gradient(one, full), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "number"), KINDS)
def test_a_gradient_is_on_average_the_full_one(kind: str, number: int) -> None:
    one = Made(kind, number)
    torch.manual_seed(1)
    full = one.task.training(one.batch([0]))
    task: Any = getattr(one.task, "tasks", {"words": one.task})["words"]
    gold = full.gold["ids"][full.scored] if isinstance(task, MaskedLanguageModelling) else full.ids[full.scored]
    sampler = sampler_of(one, one.vocabulary.size // 2)
    expected = gradient(one, full)
    mean, uncorrected = torch.zeros_like(expected), torch.zeros_like(expected)
    draws = 300
    for _ in range(draws):
        batch = sampler.sampled(full, gold)
        assert batch.candidates is not None
        assert batch.log_chance is not None
        assert torch.isin(gold, batch.candidates).all()
        mean += gradient(one, batch) / draws
        uncorrected += gradient(one, replace(batch, log_chance=torch.zeros_like(batch.log_chance))) / draws
    wrong, right = (float((some - expected).norm() / expected.norm()) for some in (uncorrected, mean))
    assert right < min(0.1, wrong / 2)


def test_scores_of_an_evaluation_are_over_the_whole_vocabulary() -> None:
    one = made("lm", 0)
    assert sampler_of(one, 3).number == 3
    assert one.task.evaluation(one.batch([0]), 0).candidates is None
