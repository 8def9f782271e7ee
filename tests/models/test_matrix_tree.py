"""Marginals of tree-shaped heads against the enumeration of all trees, at every scale."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch
from oracle import single_root_trees
from oracle import tree_marginals as enumerated
from support import ROOT

from probtrans_cli.models.probabilistic.matrix_tree import (
    RANGE,
    head_marginals,
    log_partition,
    sample_trees,
    tree_marginals,
)


def draw(*shape: int, scale: float = 1.0, seed: int = 0) -> torch.Tensor:
    """Scores [*shape, n + 1], where the shape ends in n."""
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, shape[-1] + 1, dtype=torch.float64, generator=generator)


def all_words(scores: torch.Tensor) -> torch.Tensor:
    return torch.ones(scores.shape[:-1], dtype=torch.bool)


def reference(scores: torch.Tensor) -> tuple[float, torch.Tensor]:
    log_z, marginals = enumerated(scores.tolist())
    return log_z, torch.tensor(marginals, dtype=torch.float64)


def covariance(scores: torch.Tensor) -> torch.Tensor:
    """The derivative of the marginals [n, n+1, n, n+1]: the covariance of the arcs, by enumeration."""
    n = len(scores)
    trees = torch.tensor(single_root_trees(n))
    arcs = torch.nn.functional.one_hot(trees, n + 1).double().flatten(1)
    probabilities = (arcs @ scores.flatten()).softmax(0)
    mean = probabilities @ arcs
    return ((arcs - mean).T @ (probabilities[:, None] * (arcs - mean))).view(n, n + 1, n, n + 1)


def test_the_number_of_trees() -> None:
    assert [len(single_root_trees(n)) for n in range(1, 6)] == [n ** (n - 1) for n in range(1, 6)]
    for n in (1, 3, 8):
        assert log_partition(torch.zeros(n, n + 1), torch.ones(n, dtype=torch.bool)).item() == pytest.approx(
            (n - 1) * torch.tensor(float(n)).log().item(), abs=1e-6
        )


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_marginals_are_those_of_all_trees(n: int, scale: float) -> None:
    scores = draw(3, n, scale=scale, seed=n)
    marginals, log_z = tree_marginals(scores, all_words(scores)), log_partition(scores, all_words(scores))
    for b in range(3):
        expected_log_z, expected = reference(scores[b])
        torch.testing.assert_close(marginals[b], expected, rtol=0, atol=1e-12)
        assert log_z[b].item() == pytest.approx(expected_log_z, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize(("n", "labels"), [(1, 3), (2, 3), (3, 3), (4, 2)])
def test_labelled_marginals_are_those_of_all_labelled_trees(n: int, labels: int) -> None:
    """With the derivatives of the marginals, which are covariances of the labelled arcs, and of log Z."""
    scores = draw(labels, n, seed=n)[None].clone().requires_grad_()
    arcs, totals = [], []
    for tree in single_root_trees(n):
        for chosen in itertools.product(range(labels), repeat=n):
            one = torch.zeros(labels, n, n + 1, dtype=torch.float64)
            one[list(chosen), list(range(n)), list(tree)] = 1.0
            arcs.append(one.flatten())
            totals.append((one * scores.detach()[0]).sum())
    every, probability = torch.stack(arcs), torch.stack(totals).softmax(0)
    expected = probability @ every
    mask = torch.ones(1, n, dtype=torch.bool)
    marginals, log_z = head_marginals(scores, mask, labelled=True), log_partition(scores.logsumexp(1), mask)
    torch.testing.assert_close(marginals.flatten().detach(), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(log_z.detach()[0], torch.stack(totals).logsumexp(0), rtol=0, atol=1e-12)
    (by_log_z,) = torch.autograd.grad(log_z.sum(), scores, retain_graph=True)
    torch.testing.assert_close(by_log_z, marginals.detach(), rtol=0, atol=1e-12)
    direction = draw(labels, n, seed=9)
    (gradient,) = torch.autograd.grad((marginals * direction).sum(), scores)
    centred = every - expected
    covariance = centred.T @ (probability[:, None] * (centred @ direction.flatten())[:, None])
    torch.testing.assert_close(gradient.flatten(), covariance[:, 0], rtol=0, atol=1e-12)


def hard_cases() -> dict[str, torch.Tensor]:
    """Where a linear solver has no digit left."""
    noise = torch.rand(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    cycles = noise.clone()
    for i, j in ((0, 1), (1, 0), (2, 3), (3, 2)):
        cycles[i, j] += 500.0
    ring = noise.clone()
    for i in range(4):
        ring[i, (i + 1) % 4] += 400.0
        ring[i, 4] -= 800.0 + 200.0 * i
    nested = noise.clone()
    nested[0, 1] += 550.0
    nested[1, 0] += 550.0
    nested[2, 3] += 300.0
    nested[3, :2] += 300.0
    nested[:2, 2] += 100.0
    low_root = noise.clone()
    low_root[:, 4] -= 5000.0
    high_root = noise.clone()
    high_root[:, 4] += 5000.0
    return {"cycles": cycles, "ring": ring, "nested": nested, "low root": low_root, "high root": high_root}


@pytest.mark.parametrize("name", hard_cases())
def test_strong_cycles_lose_no_tree(name: str) -> None:
    scores = hard_cases()[name]
    for order in (torch.arange(4), torch.tensor([2, 0, 3, 1]), torch.tensor([3, 2, 1, 0])):
        permuted = scores[order][:, torch.cat([order, torch.tensor([4])])].requires_grad_()
        expected_log_z, expected = reference(permuted.detach())
        marginals = tree_marginals(permuted, all_words(permuted))
        # The oracle itself sums scores of thousands: 1e-12 of them is its rounding.
        torch.testing.assert_close(marginals.detach(), expected, rtol=0, atol=2e-11)
        assert log_partition(permuted, all_words(permuted)).item() == pytest.approx(expected_log_z, rel=1e-13)
        direction = draw(4, seed=3)
        (gradient,) = torch.autograd.grad((marginals * direction).sum(), permuted)
        derivative = torch.einsum("ijkl,kl->ij", covariance(permuted.detach()), direction)
        torch.testing.assert_close(gradient, derivative, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [1, 3])
def test_gradients(n: int) -> None:
    scores = draw(2, n, seed=4).requires_grad_()
    mask = all_words(scores)
    mask[1, 1:2] = False
    assert torch.autograd.gradcheck(lambda given: tree_marginals(given, mask), scores)
    assert torch.autograd.gradcheck(lambda given: log_partition(given, mask), scores)
    assert torch.autograd.gradgradcheck(lambda given: log_partition(given, mask), scores)
    (gradient,) = torch.autograd.grad(log_partition(scores, mask).sum(), scores)
    torch.testing.assert_close(gradient, tree_marginals(scores, mask))


@pytest.mark.parametrize("words", [[0, 1, 2], [1, 2, 4], [3], []])
def test_padding_anywhere_changes_nothing(words: list[int]) -> None:
    n = 5
    mask = torch.zeros(n, dtype=torch.bool)
    mask[words] = True
    scores = draw(n, scale=3.0)
    scores[~mask] = torch.nan
    scores[:, torch.cat([~mask, torch.tensor([False])])] = torch.inf
    scores.diagonal().fill_(1e6)
    scores.requires_grad_()
    marginals = tree_marginals(scores, mask)
    kept = [*words, n]
    small = scores.detach()[words][:, kept]
    expected_log_z, expected = reference(small) if words else (0.0, small)
    # The oracle takes no diagonal either.
    torch.testing.assert_close(marginals[words][:, kept], expected, rtol=0, atol=1e-12)
    assert marginals.sum().item() == pytest.approx(len(words))
    assert log_partition(scores, mask).item() == pytest.approx(expected_log_z)
    (gradient,) = torch.autograd.grad((marginals * draw(n, seed=2)).sum(), scores)
    assert gradient.isfinite().all()
    assert not gradient[~mask].any()


def test_batch_mates_change_nothing() -> None:
    scores = draw(3, 4, 4, seed=7)
    mask = torch.tensor([[True] * 4, [True] * 2 + [False] * 2, [True] * 3 + [False]])[:, None].expand(3, 4, 4)
    together = tree_marginals(scores, mask)
    for b in range(3):
        torch.testing.assert_close(together[b], tree_marginals(scores[b], mask[b]), rtol=1e-12, atol=1e-12)


def test_single_precision_is_computed_in_double() -> None:
    scores = draw(6, scale=20.0).float().requires_grad_()
    exactly = tree_marginals(scores.detach().double(), all_words(scores))
    marginals = tree_marginals(scores, all_words(scores))
    assert marginals.dtype == torch.float32
    torch.testing.assert_close(marginals, exactly.float(), rtol=0, atol=1e-7)
    marginals.square().sum().backward()
    assert scores.grad is not None
    assert scores.grad.dtype == torch.float32
    assert scores.grad.isfinite().all()
    half = tree_marginals(scores.detach().bfloat16(), all_words(scores))
    assert half.dtype == torch.bfloat16
    assert half.isfinite().all()


def test_beyond_the_range_scores_are_alike_and_infinite_roots_are_forbidden() -> None:
    scores = draw(4)
    far = scores.clone()
    far[0, 2] = -torch.inf
    near = scores.clone()
    near[0, 2] = far[0, [1, 3]].max() - RANGE
    torch.testing.assert_close(tree_marginals(far, all_words(far)), tree_marginals(near, all_words(near)))
    roots = scores.clone()
    roots[[0, 1, 3], 4] = -torch.inf
    marginals = tree_marginals(roots, all_words(roots))
    assert marginals[:, 4].tolist() == pytest.approx([0.0, 0.0, 1.0, 0.0])
    low = torch.where(roots == -torch.inf, -1000.0, roots)
    torch.testing.assert_close(marginals, reference(low)[1], rtol=0, atol=1e-12)


def test_long_sentences_stay_distributions() -> None:
    scores = draw(60, scale=50.0)
    marginals = tree_marginals(scores, all_words(scores))
    torch.testing.assert_close(marginals.sum(-1), torch.ones(60, dtype=torch.float64), rtol=0, atol=1e-10)
    assert marginals[:, 60].sum().item() == pytest.approx(1.0)


def test_it_exports_with_any_length() -> None:
    class Trees(torch.nn.Module):
        def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return tree_marginals(scores, mask)

    scores = draw(2, 3)
    batch, n = torch.export.Dim("batch"), torch.export.Dim("n", min=2)
    shapes = {"scores": {0: batch, 1: n, 2: n + 1}, "mask": {0: batch, 1: n}}
    program = torch.export.export(Trees(), (scores, all_words(scores)), dynamic_shapes=shapes)
    other = draw(4, 5)
    exported = program.module()(other, all_words(other))
    torch.testing.assert_close(exported, tree_marginals(other, all_words(other)))


COMPILED = """
import torch
from probtrans_cli.models.probabilistic.matrix_tree import tree_marginals

compiled = torch.compile(tree_marginals, backend="aot_eager", fullgraph=True, dynamic=True)
for batch, n in ((2, 4), (3, 5)):
    scores = torch.randn(batch, n, n + 1, dtype=torch.float64, requires_grad=True)
    mask, direction = torch.ones(batch, n, dtype=torch.bool), torch.randn_like(scores)
    found, expected = (
        torch.autograd.grad((f(scores, mask) * direction).sum(), scores)[0] for f in (compiled, tree_marginals)
    )
    torch.testing.assert_close(found, expected)
"""


@pytest.mark.exhaustive
def test_it_compiles_in_one_graph() -> None:
    """In a process of its own: the checks of shapes that this one puts into every function cannot be traced."""
    result = subprocess.run([sys.executable, "-c", COMPILED], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


def test_no_words_at_all_and_a_missing_root_column() -> None:
    assert tree_marginals(torch.zeros(2, 0, 1), torch.zeros(2, 0, dtype=torch.bool)).shape == (2, 0, 1)
    assert log_partition(torch.zeros(2, 0, 1), torch.zeros(2, 0, dtype=torch.bool)).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="3 words have 4 columns"):
        tree_marginals(torch.zeros(3, 3), torch.ones(3, dtype=torch.bool))


@pytest.mark.parametrize("scale", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_draws_have_the_frequencies_of_all_trees(n: int, scale: float) -> None:
    """Pearson's statistic of 40,000 draws, with cells of few expected ones put together, within 4 deviations."""
    scores, draws = draw(n, scale=scale, seed=n), 40_000
    trees = torch.tensor(single_root_trees(n)).view(-1, n)
    expected = draws * scores[torch.arange(n), trees].sum(1).softmax(0).numpy()
    heads = sample_trees(scores, draws, np.random.default_rng(0))
    place = {tuple(tree): number for number, tree in enumerate(((trees + 1) % (n + 1)).tolist())}
    counts = np.bincount([place[tuple(tree)] for tree in heads.tolist()], minlength=len(place))
    rare = expected < 5.0
    counts, expected = (np.append(x[~rare], x[rare].sum()) for x in (counts, expected))
    counts, expected = counts[expected > 0.5], expected[expected > 0.5]
    statistic, freedom = ((counts - expected) ** 2 / expected).sum(), max(len(counts) - 1, 0)
    assert statistic <= freedom + 4.0 * (2.0 * freedom) ** 0.5 + 1e-9


@pytest.mark.parametrize("scale", [1.0, 8.0, 60.0])
def test_draws_of_a_long_sentence_have_its_marginals(scale: float) -> None:
    """And words that choose each other by e^60 take no longer."""
    n, draws = 12, 20_000
    scores = draw(n, scale=scale, seed=1)
    scores[0, 1] = scores[1, 0] = 2.0 * scale
    heads = sample_trees(scores, draws, np.random.default_rng(2))
    frequency = np.stack([(heads == (head + 1) % (n + 1)).mean(0) for head in range(n + 1)], axis=1)
    expected = tree_marginals(scores, all_words(scores)).numpy()
    assert (abs(frequency - expected) <= 4.5 * (expected * (1.0 - expected) / draws) ** 0.5 + 1e-9).all()
    np.testing.assert_array_equal(heads, sample_trees(scores, draws, np.random.default_rng(2)))
