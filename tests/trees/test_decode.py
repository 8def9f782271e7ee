"""Decoders against all trees there are (n <= 6) and against plain textbook implementations written here (n <= 40)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from oracle import single_root_trees

from probtrans_cli.errors import NotFiniteError, UsageError
from probtrans_cli.trees import decode as decoders
from probtrans_cli.trees.decode import Method, arc_scores, decode, levelled

TREE_METHODS: tuple[Method, ...] = ("mst", "eisner")
METHODS: tuple[Method, ...] = ("argmax", *TREE_METHODS)


def projective(heads: np.ndarray) -> bool:
    """No word strictly inside an arc hangs outside it (root arcs count: nothing may span the root's child)."""
    arcs = [(min(i + 1, h), max(i + 1, h)) for i, h in enumerate(heads)]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


@cache
def all_trees(n: int, method: Method) -> np.ndarray:
    """Every single-root tree over n words as heads, ``[trees, n]``; the projective ones for eisner."""
    trees = (np.array(single_root_trees(n)) + 1) % (n + 1)  # there words count from 0, and the root is n
    assert len(trees) == n ** (n - 1)
    return trees if method == "mst" else np.array([heads for heads in trees if projective(heads)])


def rooted(scores: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Scores with the root's column, as :func:`decode` takes them."""
    return np.concatenate([scores, root[:, :, None]], axis=2)


def tree_scores(scores: np.ndarray, root: np.ndarray, trees: np.ndarray) -> np.ndarray:
    """Score of each tree under each matrix, ``[b, trees]``."""
    table = np.concatenate([root[:, :, None], scores], axis=2)
    return np.stack([table[:, np.arange(trees.shape[1]), tree].sum(axis=1) for tree in trees], axis=1)


def score(scores: np.ndarray, root: np.ndarray, heads: np.ndarray) -> np.ndarray:
    table = np.concatenate([root[:, :, None], scores], axis=2)
    return np.take_along_axis(table, heads[:, :, None], axis=2).sum(axis=(1, 2))


def assert_single_root_trees(heads: np.ndarray) -> None:
    assert ((heads == 0).sum(axis=1) == 1).all()
    parents = np.concatenate([np.zeros((len(heads), 1), dtype=np.int64), heads], axis=1)
    for _ in range(heads.shape[1]):
        parents = np.take_along_axis(parents, parents, axis=1)
    assert not parents.any()


@pytest.mark.parametrize("method", TREE_METHODS)
@pytest.mark.parametrize(("n", "matrices"), [(1, 2_000), (2, 14_000), (3, 30_000), (4, 30_000), (5, 24_000), (6, 200)])
def test_best_of_all_trees(method: Method, n: int, matrices: int) -> None:
    """100,000 random matrices in all: a third without a root score, a third with small integers (ties)."""
    random = np.random.default_rng(n)
    scores = random.normal(size=(matrices, n, n)) * random.choice([0.1, 1.0, 30.0], size=(matrices, 1, 1))
    root = random.normal(size=(matrices, n))
    third = matrices // 3
    scores[:third] = random.integers(-2, 1, size=(third, n, n))
    root[:third] = random.integers(-2, 1, size=(third, n))
    root[third : 2 * third] = 0.0
    mask = np.ones((matrices, n), dtype=bool)
    heads = decode(rooted(scores, root), mask, method)
    heads[third : 2 * third] = decode(scores[third : 2 * third], mask[third : 2 * third], method)
    assert_single_root_trees(heads)
    for part in range(0, matrices, 4000):
        rows = slice(part, part + 4000)
        best = tree_scores(scores[rows], root[rows], all_trees(n, method)).max(axis=1)
        np.testing.assert_allclose(score(scores[rows], root[rows], heads[rows]), best, rtol=0, atol=1e-9)
    if method == "eisner":
        assert all(projective(h) for h in heads[:2000])


@pytest.mark.parametrize("method", TREE_METHODS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_infinite_scores(method: Method, n: int) -> None:
    """Fewest forbidden arcs, then most wanted ones, then the best finite sum; +-inf in up to 60 % of the cells."""
    random = np.random.default_rng(100 + n)
    scores, root = random.normal(size=(1500, n, n)), random.normal(size=(1500, n))
    for array in (scores, root):
        draw = random.random(array.shape) / random.choice([0.3, 0.6, 1.0], size=(1500,) + (1,) * (array.ndim - 1))
        array[draw < 0.5] = -np.inf
        array[draw > 0.95] = np.inf
    heads = decode(rooted(scores, root), np.ones((1500, n), dtype=bool), method)
    assert_single_root_trees(heads)
    trees = all_trees(n, method)

    def level(function: object) -> tuple[np.ndarray, np.ndarray]:
        parts = (function(scores), function(root))  # type: ignore[operator]
        return tree_scores(*parts, trees), score(*parts, heads)

    forbidden, own_forbidden = level(lambda x: np.isneginf(x).astype(float))
    wanted, own_wanted = level(lambda x: np.isposinf(x).astype(float))
    finite, own_finite = level(lambda x: np.where(np.isfinite(x), x, 0.0))
    np.testing.assert_array_equal(own_forbidden, forbidden.min(axis=1))
    wanted[forbidden > own_forbidden[:, None]] = -1
    np.testing.assert_array_equal(own_wanted, wanted.max(axis=1))
    finite[wanted < own_wanted[:, None]] = -np.inf
    np.testing.assert_allclose(own_finite, finite.max(axis=1), atol=1e-7)


# --- independent implementations for longer sentences ---


def plain_edmonds(weight: dict[int, dict[int, float]]) -> dict[int, int]:
    """Textbook recursion: heads of every node but 0, given ``weight[dependent][head]``."""
    heads = {i: max(row, key=lambda j: row[j]) for i, row in weight.items()}
    for start in heads:
        path, node = [], start
        while node in heads and node not in path:
            path.append(node)
            node = heads[node]
        if node in path:
            circle = path[path.index(node) :]
            break
    else:
        return heads
    new = max(max(row) for row in weight.values()) + 1 + max(weight)
    contracted: dict[int, dict[int, float]] = {new: {}}
    enters: dict[int, int] = {}
    leaves: dict[int, int] = {}
    for i, row in weight.items():
        if i in circle:
            for j, value in row.items():
                gain = value - row[heads[i]]
                if j not in circle and gain > contracted[new].get(j, -np.inf):
                    contracted[new][j], enters[j] = gain, i
        else:
            contracted[i] = {j: value for j, value in row.items() if j not in circle}
            leaves[i] = max((j for j in row if j in circle), key=lambda j: row[j])
            contracted[i][new] = row[leaves[i]]
    solved = plain_edmonds(contracted)
    result = {i: heads[i] for i in circle}
    for i, j in solved.items():
        if i == new:
            result[enters[j]] = j
        else:
            result[i] = leaves[i] if j == new else j
    return result


def plain_spanning_score(scores: np.ndarray, root: np.ndarray) -> float:
    """Every word tried as the only child of the root."""
    n = len(scores)
    best = -np.inf
    for top in range(n):
        weight = {i + 1: {j + 1: float(scores[i, j]) for j in range(n) if j != i} for i in range(n) if i != top}
        heads = plain_edmonds(weight) if weight else {}
        best = max(best, root[top] + sum(scores[i - 1, j - 1] for i, j in heads.items()))
    return float(best)


def plain_projective_score(scores: np.ndarray, root: np.ndarray) -> float:
    """CKY over spans that know their head word (not Eisner's halves): O(n^5)."""
    n = len(scores)
    best = np.full((n, n, n), -np.inf)  # start, end, head
    for s in range(n):
        best[s, s, s] = 0.0
    for span in range(1, n):
        for s in range(n - span):
            t = s + span
            for q in range(s, t):
                left, right = best[s, q], best[q + 1, t]
                takes_right = left + (right[:, None] + scores).max(axis=0)  # head in the left part
                takes_left = right + (left[:, None] + scores).max(axis=0)
                best[s, t] = np.maximum(best[s, t], np.maximum(takes_right, takes_left))
    return float((best[0, n - 1] + root).max())


@pytest.mark.parametrize("method", TREE_METHODS)
def test_long_sentences(method: Method) -> None:
    random = np.random.default_rng(7)
    sizes = random.integers(7, 25, size=50).tolist() + ([30, 40] if method == "mst" else [30])
    n, batch = max(sizes), len(sizes)
    scores = random.normal(size=(batch, n, n)) * random.choice([0.3, 5.0], size=(batch, 1, 1))
    scores[::4] = random.integers(0, 3, size=scores[::4].shape)
    root = random.normal(size=(batch, n))
    mask = np.arange(n) < np.array(sizes)[:, None]
    heads = decode(rooted(scores, root), mask, method)
    for row, size in enumerate(sizes):
        inner = scores[row, :size, :size].copy()
        own = heads[row : row + 1, :size]
        assert_single_root_trees(own)
        assert (heads[row, size:] == -1).all()
        plain = plain_spanning_score if method == "mst" else plain_projective_score
        expected = plain(inner, root[row, :size])
        assert score(inner[None], root[row : row + 1, :size], own)[0] == pytest.approx(expected, abs=1e-9)
        if method == "eisner":
            assert projective(own[0])


# --- the rest of the contract ---


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("with_root", [False, True])
def test_padding_and_batch_mates_change_nothing(method: Method, with_root: bool) -> None:
    """Padding cells hold NaN and +-inf; every sentence alone gives the same heads; scores are not written to."""
    random = np.random.default_rng(3)
    sizes = np.array([5, 1, 0, 9, 2, 9])
    mask = np.arange(9) < sizes[:, None]
    clean, root = random.normal(size=(6, 9, 9)), random.normal(size=(6, 9))
    scores = np.where(mask[:, :, None] & mask[:, None, :], clean, random.choice([np.nan, np.inf, -np.inf]))
    scores[:, np.arange(9), np.arange(9)] = np.nan
    before = scores.copy()
    heads = decode(rooted(scores, np.where(mask, root, np.nan)) if with_root else scores, mask, method)
    np.testing.assert_array_equal(scores, before)
    assert heads.dtype == np.int64
    assert (heads[~mask] == -1).all()
    for row, n in enumerate(sizes):
        one = clean[row : row + 1, :n, :n]
        one = rooted(one, root[row : row + 1, :n]) if with_root else one
        alone = decode(one, np.ones((1, n), dtype=bool), method)
        np.testing.assert_array_equal(heads[row, :n], alone[0])
    assert heads[1, 0] == 0


@pytest.mark.parametrize("method", TREE_METHODS)
@pytest.mark.parametrize("cells", [1, 300, 3000])
def test_portions_of_any_size_give_the_same_heads(method: Method, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so does the batch in another order, without its end, and with more padding; ties and infinities included."""
    random = np.random.default_rng(6)
    scores = random.normal(size=(150, 12, 13)) * 2
    scores[:75] = np.rint(scores[:75])
    scores[::2][random.random(scores[::2].shape) < 0.1] = -np.inf
    scores[::3][random.random(scores[::3].shape) < 0.1] = np.inf
    lengths = random.integers(0, 13, size=150)
    mask = np.arange(12) < lengths[:, None]
    whole = decode(scores, mask, method)
    monkeypatch.setattr(decoders, "CELLS_OF_A_PORTION", cells)
    np.testing.assert_array_equal(decode(scores, mask, method), whole)
    order = random.permutation(150)
    np.testing.assert_array_equal(decode(scores[order], mask[order], method), whole[order])
    np.testing.assert_array_equal(decode(scores[:70], mask[:70], method), whole[:70])
    wider = np.full((150, 17, 18), np.nan)
    wider[:, :12, :12], wider[:, :12, 17] = scores[:, :, :12], scores[:, :, 12]
    padded = np.pad(mask, ((0, 0), (0, 5)))
    np.testing.assert_array_equal(decode(wider, padded, method)[:, :12], whole)


@pytest.mark.parametrize("method", TREE_METHODS)
@pytest.mark.parametrize("size", [1.0, 80.0, 900.0, 1e5, 1e9])
def test_whole_numbers_give_the_same_heads(method: Method, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores in steps of LEVEL, however large, are added without an error as whole numbers and as fractions."""
    random = np.random.default_rng(8)
    scores = levelled(random.uniform(-size, 0, size=(300, 14, 15)))
    scores[:100] = np.maximum(np.rint(scores[:100] / size * 2) * size, -size)  # ties
    scores[::7][random.random(scores[::7].shape) < 0.3] = -np.inf
    mask = np.arange(14) < random.integers(1, 15, size=300)[:, None]
    kinds = []
    portion = decoders._portion

    def watched(*arguments: object) -> tuple[np.ndarray, int | float]:
        kinds.append(portion(*arguments))  # type: ignore[arg-type]
        return kinds[-1]

    monkeypatch.setattr(decoders, "_portion", watched)
    monkeypatch.setattr(decoders, "CELLS_OF_A_PORTION", 500)
    whole = decode(scores, mask, method)
    assert ("i" in {table.dtype.kind for table, _ in kinds}) == (size < 1e4)
    kinds.clear()
    monkeypatch.setattr(decoders, "LARGEST", 0)
    np.testing.assert_array_equal(decode(scores, mask, method), whole)
    assert {table.dtype.kind for table, _ in kinds} == {"f"}


def test_auto_is_eisner_up_to_a_length_and_mst_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "LONG", 6)
    lengths = np.array([7, 6, 12, 3, 6, 9, 0])
    mask = np.arange(12) < lengths[:, None]
    scores = np.random.default_rng(0).normal(size=(7, 12, 13))
    by_mst, by_eisner = (decode(scores, mask, method) for method in TREE_METHODS)
    assert (by_mst != by_eisner).any(axis=1)[lengths > 6].all()
    np.testing.assert_array_equal(decode(scores, mask, "auto"), np.where((lengths > 6)[:, None], by_mst, by_eisner))
    assert [decoders.method_for(n, "auto") for n in (6, 7)] == ["eisner", "mst"]


@pytest.mark.parametrize("cells", [1, 100, 1000])
def test_portions_have_every_sentence_once_the_longest_first(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "CELLS_OF_A_PORTION", cells)
    lengths = np.array([3, 0, 9, 1, 3, 0, 4, 9])
    portions = list(decoders.portions(lengths))
    assert [n for _, n in portions] == sorted((n for _, n in portions), reverse=True)
    rows = np.concatenate([rows for rows, _ in portions])
    assert rows.tolist() == [2, 7, 6, 0, 4, 3]
    for rows, n in portions:
        assert lengths[rows].max() == n
        assert len(rows) == 1 or len(rows) * n**2 <= cells


def test_argmax() -> None:
    scores = np.array([[[9.0, 1, 2], [3, 9, 3], [-np.inf, -np.inf, 9]]])
    mask = np.ones((1, 3), dtype=bool)
    assert decode(scores, mask, "argmax").tolist() == [
        [3, 1, 0]
    ]  # circles stay; no self-loop; without a head at the root
    ties = np.array([[[9.0, 1, 1], [2, 9, 2], [3, 3, 9]]])
    assert decode(ties, mask, "argmax").tolist() == [[2, 1, 1]]  # to the left
    good, bad = rooted(scores, np.array([[2.0, 2, -np.inf]])), rooted(scores, np.array([[-9.0, -9, -9]]))
    assert decode(good, mask, "argmax").tolist() == [[0, 1, 0]]  # ties: root first
    assert decode(bad, mask, "argmax").tolist() == [[3, 1, 0]]


@pytest.mark.parametrize("method", TREE_METHODS)
@pytest.mark.parametrize("value", [0.0, -np.inf, np.inf, -708.4])
def test_equal_scores_give_the_same_legal_tree_each_time(method: Method, value: float) -> None:
    for n in (1, 2, 7, 30):
        arrays = np.full((3, n, n + 1), value), np.ones((3, n), dtype=bool), method
        heads = decode(*arrays)
        assert_single_root_trees(heads)
        assert (heads == heads[0]).all()
        np.testing.assert_array_equal(heads, decode(*arrays))


def test_of_equal_scores_the_leftmost_wins() -> None:
    """Every other word chooses the first one, which is the root's child; a span's first dependent is the next word."""
    scores, mask = np.zeros((1, 5, 6)), np.ones((1, 5), dtype=bool)
    assert decode(scores, mask, "mst").tolist() == [[0, 1, 1, 1, 1]]
    assert decode(scores, mask, "eisner").tolist() == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("method", METHODS)
def test_rounding_of_marginals_changes_no_tree(method: Method) -> None:
    """Words that are all alike have equal marginals but for the seventh digit, which depends on the batch."""
    random = np.random.default_rng(4)
    marginals = random.dirichlet(np.ones(4), size=(200, 8))[:, :, random.integers(0, 4, size=8)]
    noise = 1.0 + 1e-7 * random.normal(size=(2, *marginals.shape))
    one, other = (np.log(marginals * factor) for factor in noise)
    mask = np.ones((200, 8), dtype=bool)
    assert (decode(one, mask, method) != decode(other, mask, method)).any(axis=1).sum() > 100
    assert (decode(levelled(one), mask, method) != decode(levelled(other), mask, method)).any(axis=1).sum() < 5


@pytest.mark.parametrize("method", METHODS)
def test_nan_is_refused(method: Method) -> None:
    scores = np.zeros((2, 3, 3))
    scores[1, 0, 2] = np.nan
    with pytest.raises(NotFiniteError, match="sentence 2"):
        decode(scores, np.ones((2, 3), dtype=bool), method)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_to_decode(method: Method) -> None:
    assert decode(np.zeros((0, 4, 4)), np.zeros((0, 4), dtype=bool), method).shape == (0, 4)
    assert decode(np.zeros((2, 0, 0)), np.zeros((2, 0), dtype=bool), method).shape == (2, 0)
    assert (decode(np.zeros((1, 3, 3)), np.zeros((1, 3), dtype=bool), method) == -1).all()


def test_arc_scores() -> None:
    random = np.random.default_rng(0)
    arcs = random.dirichlet(np.ones(6), size=(2, 3, 4, 5)).astype(np.float32)  # 5 words, the root in column 5
    arcs[0, 2, :, 0, 1] = 0.0
    last = arc_scores(arcs, "mean", -1)
    assert last.shape == (2, 5, 6)
    assert last.dtype == np.float64
    assert np.isfinite(last).all()
    np.testing.assert_allclose(last[1], np.log(arcs[1, 2].astype(float)).mean(axis=0))
    np.testing.assert_array_equal(last, arc_scores(arcs, "mean", 3))
    np.testing.assert_allclose(arc_scores(arcs, 2, 1), np.log(arcs[:, 0, 2].astype(float)))
    for channel, iteration in ((4, 1), (-1, 1), (0, 0), (0, 4), (0, -2)):
        with pytest.raises(UsageError, match="the model has"):
            arc_scores(arcs, channel, iteration)
