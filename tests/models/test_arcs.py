"""Losses, probabilities and trees of labelled arcs, against the enumeration of all labelled trees."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
import torch
from oracle import single_root_trees
from small_models import encoder

from probtrans_cli.models.arcs import BiaffineOutput, HeadOutput, allowed_arcs, arc_loss, head_probabilities
from probtrans_cli.models.base import Encoded, Inputs, Wants, Words
from probtrans_cli.models.outputs import View
from probtrans_cli.trees.decode import decode

Labelled = tuple[tuple[int, ...], tuple[int, ...]]


def scores_of(lengths: list[int], relations: int, seed: int, scale: float = 2.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random scores of arcs and where there are words; what is no arc has a very low score."""
    generator = torch.Generator().manual_seed(seed)
    w = max(lengths)
    words = torch.arange(w) < torch.tensor(lengths)[:, None]
    scores = scale * torch.randn(len(lengths), w, relations, w + 1, dtype=torch.float64, generator=generator)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~allowed_arcs(words, relations), lowest), words


def labelled_trees(n: int, relations: int) -> list[Labelled]:
    """Heads (n = the root) and relations: relation 0 is the root's."""
    found = []
    for heads in single_root_trees(n):
        choices = [[0] if head == n else range(1, relations) for head in heads]
        found += [(heads, chosen) for chosen in itertools.product(*choices)]
    return found


def weight(scores: torch.Tensor, heads: tuple[int, ...], relations: tuple[int, ...], n: int) -> float:
    column = [scores.shape[-1] - 1 if head == n else head for head in heads]
    return sum(float(scores[i, c, j]) for i, (c, j) in enumerate(zip(relations, column, strict=True)))


@pytest.mark.parametrize("seed", range(12))
def test_the_loss_of_trees_is_that_of_their_enumeration(seed: int) -> None:
    """Where heads are missing, of all trees that agree; with gradients, by differences of probabilities."""
    draw = random.Random(seed)
    lengths, relations = [draw.randint(1, 4) for _ in range(3)], draw.choice([2, 3])
    scores, words = scores_of(lengths, relations, seed)
    scores.requires_grad_()
    w = words.shape[1]
    heads, labels = torch.full(words.shape, -1), torch.zeros(words.shape, dtype=torch.int64)
    expected, expected_arcs = 0.0, torch.zeros_like(scores)
    for b, n in enumerate(lengths):
        trees = labelled_trees(n, relations)
        gold = draw.choice(trees)
        known = [draw.random() < 0.6 if seed % 3 else True for _ in range(n)]
        for i in range(n):
            labels[b, i] = gold[1][i]
            heads[b, i] = (w if gold[0][i] == n else gold[0][i]) if known[i] else -1
        weights = [math.exp(weight(scores[b].detach(), *tree, n)) for tree in trees]
        agreeing = [
            value * all((h[i], c[i]) == (gold[0][i], gold[1][i]) for i in range(n) if known[i])
            for value, (h, c) in zip(weights, trees, strict=True)
        ]
        expected -= math.log(sum(agreeing) / sum(weights))
        for value, agrees, (h, c) in zip(weights, agreeing, trees, strict=True):
            for i in range(n):
                column = w if h[i] == n else h[i]
                expected_arcs[b, i, c[i], column] += value / sum(weights) - agrees / sum(agreeing)
    loss = arc_loss(scores, words, heads, labels, tree=True)
    assert float(loss.detach()) == pytest.approx(expected, abs=1e-10)
    (gradient,) = torch.autograd.grad(loss, scores)
    torch.testing.assert_close(gradient, expected_arcs.detach(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_forests_of_which_heads_are_missing(n: int) -> None:
    """500 of them, a quarter of each length, by the sum over all labelled trees that agree with what is known: with all
    heads, with none, of one word, and where the last word is the root."""
    count, relations = 125, 3
    scores, words = scores_of([n] * count, relations, seed=n)
    trees = torch.tensor(
        [[c * (n + 1) + h for h, c in zip(*tree, strict=True)] for tree in labelled_trees(n, relations)]
    )
    generator = torch.Generator().manual_seed(n)
    gold = trees[torch.randint(len(trees), (count,), generator=generator)]
    known = torch.rand(count, n, generator=generator) < torch.linspace(0, 1, count)[:, None]
    known[0], known[-1] = False, True
    assert (gold[:, -1] == n).any(), "the last word is a root"
    weights = scores.flatten(2)[:, torch.arange(n), trees].sum(-1).exp()
    agreeing = ((gold[:, None] == trees) | ~known[:, None]).all(-1)
    expected = -((weights * agreeing).sum(1) / weights.sum(1)).log()
    heads, labels = torch.where(known, gold % (n + 1), -1), gold // (n + 1)
    for index in range(count):
        found = arc_loss(scores[[index]], words[[index]], heads[[index]], labels[[index]], tree=True)
        assert float(found) == pytest.approx(float(expected[index]), abs=1e-10)
    together = arc_loss(scores, words, heads, labels, tree=True)
    assert float(together) == pytest.approx(float(expected.sum()), abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_the_loss_of_free_heads_is_that_of_loops(seed: int) -> None:
    draw = random.Random(seed)
    lengths, relations = [draw.randint(1, 5) for _ in range(3)], 3
    scores, words = scores_of(lengths, relations, seed)
    w = words.shape[1]
    heads, labels, expected = torch.full(words.shape, -1), torch.zeros(words.shape, dtype=torch.int64), 0.0
    for b, n in enumerate(lengths):
        for i in range(n):
            arcs = [(0, w), *((c, j) for c in range(1, relations) for j in range(n) if j != i)]
            c, j = draw.choice(arcs)
            labels[b, i] = c
            if draw.random() < 0.7:
                heads[b, i] = j
                total = sum(math.exp(float(scores[b, i, c2, j2])) for c2, j2 in arcs)
                expected -= float(scores[b, i, c, j]) - math.log(total)
    assert float(arc_loss(scores, words, heads, labels, tree=False)) == pytest.approx(expected, abs=1e-10)
    nothing = torch.full_like(heads, -1)
    assert float(arc_loss(scores, words, nothing, labels, tree=False)) == 0.0
    assert float(arc_loss(scores, words, nothing, labels, tree=True)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("method", ["mst", "eisner"])
def test_probabilities_and_the_best_tree_are_those_of_the_enumeration(n: int, method: Any) -> None:
    scores, words = scores_of([n], 3, seed=n)
    trees = labelled_trees(n, 3)
    weights = [math.exp(weight(scores[0], *tree, n)) for tree in trees]
    chances = torch.zeros(n, n + 1, dtype=torch.float64)
    by_heads: dict[tuple[int, ...], float] = {}
    for value, (heads, _) in zip(weights, trees, strict=True):
        by_heads[heads] = by_heads.get(heads, 0.0) + value
        for i, head in enumerate(heads):
            chances[i, head] += value / sum(weights)
    torch.testing.assert_close(head_probabilities(scores, words, tree=True)[0], chances, rtol=0, atol=1e-10)

    def nested(heads: tuple[int, ...]) -> bool:
        top = heads.index(n)
        arcs = [tuple(sorted((i, head))) for i, head in enumerate(heads) if head != n]
        over_root = any(left < top < right for left, right in arcs)
        return not over_root and not any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))

    allowed = [heads for heads in by_heads if method == "mst" or nested(heads)]
    best = max(allowed, key=lambda heads: by_heads[heads])
    found = decode(scores.logsumexp(2).numpy(), words.numpy(), method)[0]
    assert [n if head == 0 else head - 1 for head in found.tolist()] == list(best)


def test_biaffine_scores_are_those_of_loops() -> None:
    torch.manual_seed(0)
    layer = BiaffineOutput(5, 3, arc_size=4, relation_size=2, dropout=0.3).double().eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    layer.requires_grad_(False)
    words = torch.tensor([[True, True, True], [True, False, False]])
    states = torch.randn(2, 3, 5, dtype=torch.float64)
    inputs = Inputs(ids=torch.zeros(2, 3, dtype=torch.int64), mask=words)
    view = View(inputs, Wants(words=words), lambda: states, Encoded(states), words)
    found = layer.read(view)["arcs"].view(2, 3, 3, 4)

    def vector(linear: torch.nn.Linear, state: torch.Tensor) -> torch.Tensor:
        inner = linear.weight @ state + linear.bias
        return torch.cat([torch.where(inner > 0, inner, 0.1 * inner), torch.ones(1, dtype=torch.float64)])

    for b, n in ((0, 3), (1, 1)):
        for i in range(n):
            for j in [*(j for j in range(n) if j != i), 3]:
                head = layer.root if j == 3 else states[b, j]
                arc = vector(layer.child, states[b, i]) @ layer.W @ vector(layer.head, head)
                x, y = vector(layer.child_relation, states[b, i]), vector(layer.head_relation, head)
                labels = [0] if j == 3 else [1, 2]
                of_labels = torch.stack([x @ layer.U[c] @ y for c in labels]).log_softmax(0)
                for c, value in zip(labels, of_labels, strict=True):
                    assert float(found[b, i, c, j]) == pytest.approx(float(arc + value), abs=1e-12)


@pytest.mark.parametrize("messages", ["plain", "fast"])
@pytest.mark.parametrize("options", [{}, {"heads": "tree"}], ids=["independent", "tree"])
def test_scores_of_heads_are_what_the_heads_are_made_of(messages: str, options: dict[str, Any]) -> None:
    """Their softmax, or the marginals of their trees, are the heads, after every iteration."""
    section = {"channels": 3, "root": {"labels": 2, "own_label": True}, "iterations": 3, "head_labels": True, **options}
    model = encoder(**section, messages=messages)
    layer = HeadOutput(model, every_iteration=True)
    model.requires_grad_(False)
    words = torch.arange(4) < torch.tensor([[4], [2], [1]])
    unary = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    encoded = model(Words(unary, words), arcs=True)
    inputs = Inputs(ids=torch.zeros(3, 4, dtype=torch.int64), mask=words)
    scores = layer.read(View(inputs, Wants(words=words), lambda: unary, encoded, words))
    assert scores.keys() == {"arcs", "arcs 1", "arcs 2"}
    for t, name in enumerate(("arcs 1", "arcs 2", "arcs")):
        heads = head_probabilities(scores[name].view(3, 4, 3, 5), words, tree="heads" in options)
        torch.testing.assert_close(heads, encoded.arcs[:, t].sum(1), rtol=0, atol=1e-12)
