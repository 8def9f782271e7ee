"""The best trees against all trees there are, sorted."""

from __future__ import annotations

import numpy as np
import pytest
from test_decode import TREE_METHODS, all_trees, projective

from probtrans_cli.trees.best import best_trees
from probtrans_cli.trees.decode import Method, decode


def sums(scores: np.ndarray, trees: np.ndarray) -> np.ndarray:
    """The score of each tree; heads: 0 = root, which is the last column."""
    return np.array(scores[np.arange(len(scores)), trees - 1].sum(axis=1))


@pytest.mark.parametrize("method", TREE_METHODS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_they_are_those_of_the_sorted_enumeration(n: int, method: Method) -> None:
    """Gaussian scores of two scales, whole numbers (ties), and both with forbidden arcs; few trees and all of them."""
    every = all_trees(n, method)
    for seed in range(16):
        random = np.random.default_rng(seed)
        scores = random.normal(size=(n, n + 1)) * (1 + 9 * (seed % 3))
        if seed % 2:
            scores = random.integers(-2, 2, size=(n, n + 1)).astype(float)
        if seed % 8 > 4:
            scores[random.random(scores.shape) < 0.3] = -np.inf
        expected = np.sort(sums(scores, every))[::-1]
        expected = expected[expected > -np.inf]
        count = len(every) + 1 if seed < 4 and n < 5 else 7
        trees = best_trees(scores, count, method)
        first = decode(scores[None], np.ones((1, n), dtype=bool), method)[0]
        np.testing.assert_array_equal(trees[0], first)
        if not len(expected):  # no tree has but arcs that are allowed: the best of the others
            assert len(trees) == 1
            continue
        np.testing.assert_allclose(sums(scores, trees), expected[:count], rtol=0, atol=1e-9)
        assert len(np.unique(trees, axis=0)) == len(trees) == min(count, len(expected))
        assert {tuple(tree) for tree in trees} <= {tuple(tree) for tree in every}


@pytest.mark.parametrize("method", TREE_METHODS)
def test_long_sentences(method: Method) -> None:
    """Trees differ, their scores fall, and none that differs from the best by an arc is better than the last."""
    scores = np.random.default_rng(5).normal(size=(20, 21)) * 3
    trees = best_trees(scores, 12, method)
    values = sums(scores, trees)
    assert (np.diff(values) <= 1e-9).all()
    assert len(np.unique(trees, axis=0)) == 12
    mine = {tuple(tree) for tree in trees}
    for word in range(20):
        for head in range(1, 21):
            tree = trees[0].copy()
            tree[word] = head
            path = head
            while path and path != word + 1:
                path = tree[path - 1]
            if path or (tree == 0).sum() != 1 or (method == "eisner" and not projective(tree)):
                continue
            assert tuple(tree) in mine or sums(scores, tree[None])[0] <= values[-1] + 1e-9
