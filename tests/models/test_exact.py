"""Exact inference by enumeration of the labels, against an enumeration of every variable; and mean field beside it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import exact as module
import numpy as np
import pytest
import torch
from exact import Exact, exact, gap, pair_scores, table

from probtrans_cli.models import build

KINDS = [None, "all-dep", "dep-split", "single-split"]


def scores(n: int, *, d: int = 2, h: int = 2, d_root: int | None = 3, kind: str | None = None, m: int = 2) -> list[Any]:
    """Random arguments of :func:`exact`."""
    generator = torch.Generator().manual_seed(n + 10 * h + 100 * KINDS.index(kind))

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    root = None if d_root is None else normal(h, d, d_root)
    features = None if kind is None else normal(*([] if kind == "single-split" else [h]), m, d)
    return [normal(n, d), normal(n, n, h, d, d), root, features, kind]


def naive(S: Any, T: Any, root: Any, B: Any, kind: str | None, *, labelled: bool, own_label: bool) -> Exact:
    """Sums over all assignments of labels, heads and second heads, one after the other."""
    (n, d), h = S.shape, T.shape[2]
    d_root = 1 if root is None else root.shape[-1]
    m = 0 if B is None else B.shape[-2]
    first_feature = n + (root is not None)
    columns = first_feature + (m if kind == "all-dep" else 0)
    candidates: Any = [[j for j in range(columns) if j != i] for i in range(n)]
    head_variables = [(c, i) for c in range(h) for i in range(n) if candidates[i]]
    if labelled:  # one variable a word, of pairs
        pairs = [(c, j) for c in range(h) for j in range(columns) if not own_label or (c == 0) == (j == n)]
        candidates = [[(c, j) for c, j in pairs if j != i] for i in range(n)]
        head_variables = [(0, i) for i in range(n) if candidates[i]]
    groups = {"dep-split": h, "single-split": 1}.get(kind or "", 0)
    second_variables = [(i, g) for i in range(n) for g in range(groups)]
    # Numbers instead of tensors: this is slow enough.
    S_, T_, root_, B_ = (None if given is None else given.tolist() for given in (S, T, root, B))
    total = 0.0
    labels, heads = np.zeros((n, d)), np.zeros((h, n, columns))
    under_root, second = np.zeros(d_root), np.zeros((n, groups, m))
    for z in itertools.product(range(d), repeat=n):
        for z_root in range(d_root):
            for choice in itertools.product(*(candidates[i] for _, i in head_variables)):
                for pick in itertools.product(range(m), repeat=len(second_variables)):
                    score = sum(S_[i][z[i]] for i in range(n))
                    arcs = [
                        (j[0], i, j[1]) if labelled else (c, i, j)
                        for (c, i), j in zip(head_variables, choice, strict=True)
                    ]
                    for c, i, j in arcs:
                        if j < n:
                            score += T_[i][j][c][z[i]][z[j]]
                        elif root is not None and j == n:
                            score += root_[c][z[i]][z_root]
                        else:
                            score += B_[c][j - first_feature][z[i]]
                    for (i, g), k in zip(second_variables, pick, strict=True):
                        score += B_[g][k][z[i]] if kind == "dep-split" else B_[k][z[i]]
                    weight = math.exp(score)
                    total += weight
                    for i in range(n):
                        labels[i, z[i]] += weight
                    under_root[z_root] += weight
                    for c, i, j in arcs:
                        heads[c, i, j] += weight
                    for (i, g), k in zip(second_variables, pick, strict=True):
                        second[i, g, k] += weight
    return Exact(
        torch.tensor(math.log(total), dtype=torch.float64),
        torch.from_numpy(labels / total),
        torch.from_numpy(heads / total),
        None if root is None else torch.from_numpy(under_root / total),
        torch.from_numpy(second / total) if groups else None,
    )


@pytest.mark.parametrize(("n", "h"), [(1, 2), (2, 1), (2, 2), (3, 1)])
def test_enumeration_of_labels_is_enumeration_of_everything(n: int, h: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Pieces of an odd size, so that the sums over pieces are seen too.
    monkeypatch.setattr(module, "ROWS", 5)
    for d_root, kind, labelled in itertools.product([None, 2], KINDS, [False, True]):
        arguments = scores(n, h=h, d_root=d_root, kind=kind)
        options = {"labelled": labelled, "own_label": labelled and d_root is not None and h > 1}
        enumerated, expected = exact(*arguments, **options), naive(*arguments, **options)
        for name in ("log_partition", "labels", "heads", "root", "features"):
            left, right = getattr(enumerated, name), getattr(expected, name)
            assert (left is None) == (right is None), (name, options)
            if left is not None:
                torch.testing.assert_close(left, right, rtol=0, atol=1e-12)


def test_marginals_are_the_gradient_of_the_log_partition() -> None:
    unary, pairs, root, _, _ = scores(3, d=3)
    unary.requires_grad_()
    pairs.requires_grad_()
    found = exact(unary, pairs, root)
    to_labels, to_pairs = torch.autograd.grad(found.log_partition, (unary, pairs))
    torch.testing.assert_close(to_labels, found.labels)
    torch.testing.assert_close(to_pairs.sum((-2, -1)).permute(2, 0, 1), found.heads[..., :3])


def test_too_many_assignments_and_nameless_features_are_refused() -> None:
    unary, pairs, root, _, _ = scores(22)
    with pytest.raises(ValueError, match=r"22 words of 2 labels .* 12582912 assignments; .* shorter"):
        exact(unary, pairs, root)
    arguments = scores(2, kind="dep-split")
    with pytest.raises(ValueError, match="kind"):
        exact(*arguments[:4])
    with pytest.raises(ValueError, match="of the kind rectified are not enumerated"):
        exact(*arguments[:4], kind="rectified")  # type: ignore[arg-type]
    made = build({"labels": 2, "globals": {"kind": "rectified", "features": 2}})
    with pytest.raises(ValueError, match="of the kind rectified are not enumerated"):
        gap(made, torch.zeros(2, 2))


def test_scores_of_pairs_follow_the_distance() -> None:
    encoder = build({"labels": 3, "channels": 2, "distance": 1, "decomposition": {"kind": "none"}}).double()
    T = encoder.ternary_scores()
    pairs = pair_scores(encoder, 4)
    for i, j, bucket in ((0, 3, 0), (0, 1, 1), (1, 0, 2), (3, 1, 3)):
        torch.testing.assert_close(pairs[i, j], T[bucket])


@pytest.mark.parametrize(
    ("root", "globals_"),
    [(None, None), ({"labels": 3}, None), ({"labels": 3}, "all-dep"), (None, "dep-split"), (None, "single-split")],
)
def test_mean_field_is_a_bound_and_near_for_weak_scores(root: Any, globals_: str | None) -> None:
    options: dict[str, Any] = {"root": root, "labels": 3}
    if globals_:
        options["globals"] = {"kind": globals_, "features": 2}
    rows = table((0.0, 0.1, 2.0), words=3, draws=2, **options)
    none, weak, strong = (found for _, found in rows)
    assert max(none.labels, none.heads, abs(none.log_partition)) < 1e-12
    assert 0 < weak.labels < 0.01
    assert 0 < weak.heads < 0.01
    assert 0 < weak.log_partition < 0.2
    assert strong.log_partition > weak.log_partition


def test_the_gap_is_what_it_says() -> None:
    """One word and a root with one label: head and root are constants, and mean field is exact."""
    section = {"labels": 4, "root": {"labels": 1}, "message_weight": {"labels": 1.0, "heads": 1.0}, "dropout": 0.0}
    encoder = build({**section, "channels": 2, "iterations": 3}).double().eval()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter)
    found = gap(encoder, torch.randn(1, 4, dtype=torch.float64))
    assert max(found.labels, found.heads, abs(found.log_partition)) < 1e-12


def test_the_command_prints_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "table", lambda **options: [(1.0, module.Gap(0.25, 0.125, 2.0))])
    module.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[1].split() == ["plain", "1.0", "0.2500", "0.1250", "2.0000"]
