"""What is predicted from uncertain scores: the formula and the entropies beside draws, loops and each other."""

from __future__ import annotations

import math

import pytest
import torch

from probtrans_cli.models.bayesian import readout


def gaussian_scores(rows: int, classes: int, deviation: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Means of a sharpness as trained models have, and variances around ``deviation``²."""
    generator = torch.Generator().manual_seed(seed)
    mean = 2 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    variance = deviation**2 * torch.empty(rows, classes, dtype=torch.float64).uniform_(0.5, 1.5, generator=generator)
    return mean, variance


def drawn(mean: torch.Tensor, variance: torch.Tensor, samples: int = 20_000) -> torch.Tensor:
    """Probabilities of independent draws of the scores, ``[s, m, k]``."""
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(samples, *mean.shape, generator=generator, dtype=mean.dtype)
    return (mean + noise * variance.sqrt()).softmax(-1)


def formula(mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    """The closed form that the docstring of `predictive` compares itself with."""
    p = mean.softmax(-1)
    e = variance * (1 - 2 * p) + (p.square() * variance).sum(-1, keepdim=True)
    return (mean + 0.5 * e / (1 + 0.1 * e)).softmax(-1)


@pytest.mark.parametrize(("deviation", "bound", "of_formula"), [(1.0, 0.006, 0.013), (2.0, 0.02, 0.075)])
@pytest.mark.parametrize("classes", [2, 5, pytest.param(17, marks=pytest.mark.slow)])
def test_probabilities_beside_many_draws(classes: int, deviation: float, bound: float, of_formula: float) -> None:
    """Total variation to the truth, within what the docstring states of both ways."""
    mean, variance = gaussian_scores(60, classes, deviation)
    truth = drawn(mean, variance).mean(0)

    def distance(found: torch.Tensor) -> float:
        return float((found - truth).abs().sum(-1).mean() / 2)

    assert distance(readout.predictive(mean, variance).probabilities) <= bound
    assert distance(formula(mean, variance)) >= of_formula


def test_entropies_are_those_of_draws() -> None:
    mean, variance = gaussian_scores(30, 6, 1.0)
    found = readout.predictive(mean, variance, samples=4096, seed=3)
    chances = drawn(mean, variance)
    whole = -(chances.mean(0) * chances.mean(0).log()).sum(-1)
    expected = -(chances * chances.log()).sum(-1).mean(0)
    torch.testing.assert_close(found.entropy, whole, atol=0.03, rtol=0)
    torch.testing.assert_close(found.expected_entropy, expected, atol=0.03, rtol=0)
    torch.testing.assert_close(found.mutual_information, whole - expected, atol=0.03, rtol=0)


def test_certain_scores_have_the_softmax_and_no_mutual_information() -> None:
    mean, _ = gaussian_scores(8, 4, 1.0)
    found = readout.predictive(mean, torch.zeros_like(mean))
    torch.testing.assert_close(readout.predictive_probabilities(mean, torch.zeros_like(mean)), found.probabilities)
    torch.testing.assert_close(found.probabilities, mean.softmax(-1))
    torch.testing.assert_close(found.entropy, readout.entropy(mean.softmax(-1)))
    assert float(found.mutual_information.abs().max()) < 1e-12
    assert float(found.logit_variance.abs().max()) == 0


def test_the_expected_loss_is_that_of_draws() -> None:
    """To second order: better than the loss at the mean by far; its scores have a class more, which nobody answers."""
    mean, variance = gaussian_scores(40, 5, 0.5)
    gold = torch.arange(40) % 5
    truth = -drawn(mean, variance).log().mean(0)[torch.arange(40), gold]
    found = torch.nn.functional.cross_entropy(readout.with_expected_loss(mean, variance), gold, reduction="none")
    at_mean = torch.nn.functional.cross_entropy(mean, gold, reduction="none")
    assert float((found - truth).abs().mean()) < 0.15 * float((at_mean - truth).abs().mean())
    p = mean.softmax(-1)
    wanted = at_mean + 0.5 * ((p * variance).sum(-1) - (p.square() * variance).sum(-1))
    torch.testing.assert_close(found, wanted)
    certain = torch.nn.functional.cross_entropy(readout.with_expected_loss(mean, 0 * variance), gold, reduction="none")
    torch.testing.assert_close(certain, at_mean)


def test_gradients_of_the_expected_loss() -> None:
    mean, variance = (one.requires_grad_() for one in gaussian_scores(3, 4, 1.0))
    assert torch.autograd.gradcheck(lambda m, v: readout.with_expected_loss(m, v).logsumexp(-1), (mean, variance))


def test_what_else_is_in_a_batch_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone or among others, with all draws at once or a few at a time."""
    mean, variance = gaussian_scores(9, 5, 1.0)
    together = readout.predictive(mean, variance)
    alone = readout.predictive(mean[4:5], variance[4:5])
    torch.testing.assert_close(together[slice(4, 5)].mutual_information, alone.mutual_information)
    monkeypatch.setattr(readout, "_AT_ONCE", 100)
    torch.testing.assert_close(readout.predictive(mean, variance).entropy, together.entropy)


def test_mixture_against_loops() -> None:
    generator = torch.Generator().manual_seed(2)
    members = [2 * torch.randn(7, 3, generator=generator, dtype=torch.float64) for _ in range(5)]
    found = readout.mixture(iter(members))
    for row in range(7):
        chances = [member[row].softmax(-1).tolist() for member in members]
        mean = [sum(one[k] for one in chances) / 5 for k in range(3)]
        whole = -sum(p * math.log(p) for p in mean)
        expected = -sum(p * math.log(p) for one in chances for p in one) / 5
        assert found.probabilities[row].tolist() == pytest.approx(mean)
        assert float(found.entropy[row]) == pytest.approx(whole)
        assert float(found.mutual_information[row]) == pytest.approx(whole - expected)
        centred = [(member[row] - member[row].mean()).tolist() for member in members]
        variances = [sum((c[k] - sum(d[k] for d in centred) / 5) ** 2 for c in centred) / 5 for k in range(3)]
        assert float(found.logit_variance[row]) == pytest.approx(
            sum(p * v for p, v in zip(mean, variances, strict=True))
        )


def test_members_that_differ_by_a_constant_agree() -> None:
    scores = torch.tensor([[0.0, 1.0, -torch.inf]])
    found = readout.mixture([scores, scores + 3])
    assert float(found.logit_variance) < 1e-12
    assert float(found.mutual_information) < 1e-7
    assert torch.isfinite(found.entropy).all()


def test_refusals() -> None:
    mean, variance = gaussian_scores(2, 2, 1.0)
    with pytest.raises(ValueError, match="variance of a score is negative"):
        readout.predictive(mean, -variance)
    with pytest.raises(ValueError, match="at least one draw"):
        readout.predictive(mean, variance, samples=0)
    with pytest.raises(ValueError, match="no members"):
        readout.mixture([])
