"""The attention of means and variances, beside plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from random_states import HEADS, NEAR, D, N, assert_shared_has_the_variances, distances, normal, positive, state
from torch import Tensor

from probtrans_cli.models.bayesian import moments
from probtrans_cli.models.bayesian.moments import State

pytestmark = pytest.mark.usefixtures("double")


def attention_in_loops(
    given: State, weight: Tensor, of_weight: Tensor, bias: Tensor, distances: moments.Distances | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and T (of `kronecker`) head by head and word by word."""
    r = len(weight) // 3 // HEADS
    m, v, t = given.mean, given.variance, given.shared
    alone = moments.linear(State(m, v), weight, of_weight, bias)
    vx = v @ weight.square().T
    means, spreads, total, own = [], [], torch.zeros(N, N), torch.zeros(N)
    for h in range(HEADS):
        at = [slice((part * HEADS + h) * r, (part * HEADS + h + 1) * r) for part in range(3)]
        q, k, u = (alone.mean[:, one] for one in at)
        vq, vk, vu = (alone.variance[:, one] for one in at)
        none = torch.zeros(N, N, r)
        given_vectors = (None,) * 3 if distances is None else (distances.query, distances.key, distances.value)
        of_query, of_key, of_value = (none if one is None else one.expand(HEADS, N, N, r)[h] for one in given_vectors)
        qs, ks, us = q[:, None] + of_query, k + of_key, u + of_value  # [a, c, r]
        logits = torch.zeros(N, N)
        for a in range(N):
            for c in range(N):
                logits[a, c] = (q[a] @ k[c] + q[a] @ of_key[a, c] + of_query[a, c] @ k[c]) / math.sqrt(r)
        p = logits.softmax(1)
        delta, chi = torch.zeros(N, N), torch.zeros(N)
        if t is None:
            for a in range(N):
                plain = [((qs[a, c] ** 2 + vq[a]) * vk[c] + vq[a] * ks[a, c] ** 2).sum() / r for c in range(N)]
                among = sum(float(p[a, c]) ** 2 * plain[c] for c in range(N))
                for c in range(N):
                    delta[a, c] = max(0.0, plain[c] * (1 - 2 * float(p[a, c])) + among)
        else:
            tk, tu = (carried(given, vx[:, one], of_weight[one]) for one in at[1:])
            share_q, share_k, share_u = (one.sum(0) / one.sum() for one in (vq, vk, vu))
            for a in range(N):
                of_logits = torch.zeros(N, N)
                for c in range(N):
                    for e in range(N):
                        by_keys = ((qs[a, c] * qs[a, e] + vq[a]) * share_k).sum() * tk[c, e]
                        of_logits[c, e] = (by_keys + vq[a].sum() * (share_q * ks[a, c] * ks[a, e]).sum()) / r
                centre = torch.eye(N) - p[a]  # row c: e_c - P_a
                centred = centre @ of_logits @ centre.T
                delta[a] = centred.diag().clamp_min(0)
                of_attention = p[a][:, None] * centred * p[a]
                for c in range(N):
                    for e in range(N):
                        chi[a] += of_attention[c, e] * (us[a, c] @ us[a, e] + tu[c, e])
        tilde = (logits + delta / 2 / (1 + delta / 4)).softmax(1)
        mean, spread = (tilde[:, :, None] * us).sum(1), torch.zeros(N, r)
        if t is not None:
            y = tilde @ tu @ tilde.T
            total += y
        for a in range(N):
            b = [float(p[a, c]) ** 2 * float(delta[a, c]) for c in range(N)]
            for c in range(N):
                spread[a] += b[c] * (us[a, c] - mean[a]).square()
            if t is None:
                for c in range(N):
                    spread[a] += (float(tilde[a, c]) ** 2 + b[c]) * vu[c]
            else:
                own[a] += chi[a]
                spread[a] = spread[a] * chi[a] / spread[a].sum() + share_u * y[a, a]
        means.append(mean)
        spreads.append(spread)
    if t is not None:
        queries = of_weight[: HEADS * r].sum()
        tq = queries * (m @ m.T + t) + t
        total += tq * (own[:, None] * own / (tq.diag()[:, None] * tq.diag())).sqrt()
    return torch.cat(means, 1), torch.cat(spreads, 1), total


def carried(given: State, vx: Tensor, of_rows: Tensor) -> Tensor:
    """T of a head's keys or values."""
    assert given.shared is not None
    new, old = vx.sum(1), given.variance.sum(1)
    scaled = given.shared * (new[:, None] * new / (old[:, None] * old)).sqrt()
    return scaled + of_rows.sum() * (given.mean @ given.mean.T + given.shared)


TERMS = ("key", "key value", "query key", "query key value")


@pytest.mark.parametrize("shared", [True, False], ids=["kronecker", "diagonal"])
@pytest.mark.parametrize("terms", ["", *TERMS, *(f"{one}, word by word" for one in TERMS)])
def test_attention_in_loops(shared: bool, terms: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terms, *word_by_word = terms.split(", ")
    if word_by_word:
        monkeypatch.setattr("probtrans_cli.models.bayesian.attention._AT_ONCE", 1)
    given = state(shared=shared)
    weight, of_weight, bias = 0.3 * normal(12, D, seed=7), 0.1 * positive(12, seed=8), normal(12, seed=9)
    vectors = distances(*terms.split()) if terms else None
    found, expected = moments.attention(given, weight, of_weight, bias, HEADS, distances=vectors)
    mean, variance, total = attention_in_loops(given, weight, of_weight, bias, vectors)
    torch.testing.assert_close(found.mean, mean, **NEAR)
    torch.testing.assert_close(found.variance, variance, **NEAR)
    torch.testing.assert_close(expected.sum(-1), torch.ones(HEADS, N), **NEAR)
    if shared:
        torch.testing.assert_close(found.shared, total, **NEAR)
        assert_shared_has_the_variances(found)
        alone, _ = moments.attention(given, weight, of_weight, bias, HEADS, distances=vectors, keeps_shared=False)
        assert alone.shared is None
        torch.testing.assert_close(alone.variance, variance, **NEAR)


@pytest.mark.parametrize("shared", [True, False], ids=["kronecker", "diagonal"])
def test_distances_of_no_length_change_nothing(shared: bool) -> None:
    """The two ways to compute it are one."""
    given = state(shared=shared)
    weight, of_weight, bias = 0.3 * normal(12, D, seed=7), 0.1 * positive(12, seed=8), normal(12, seed=9)
    mask = torch.arange(N) < N - 1
    nothing = moments.Distances(None, torch.zeros(N, N, 2), None)
    wanted, attention = moments.attention(given, weight, of_weight, bias, HEADS, mask=mask)
    found, same = moments.attention(given, weight, of_weight, bias, HEADS, mask=mask, distances=nothing)
    torch.testing.assert_close(same, attention, **NEAR)
    torch.testing.assert_close(found.mean, wanted.mean, **NEAR)
    torch.testing.assert_close(found.variance, wanted.variance, **NEAR)
    torch.testing.assert_close(found.shared, wanted.shared, **NEAR)


@pytest.mark.parametrize("shared", [True, False], ids=["kronecker", "diagonal"])
def test_attention_to_padding_is_none(shared: bool) -> None:
    given = state(shared=shared)
    weight, of_weight = normal(12, D, seed=7), 0.1 * positive(12, seed=8)
    words = 3
    mask = torch.arange(N) < words
    cut = State(
        given.mean[:words], given.variance[:words], None if given.shared is None else given.shared[:words, :words]
    )
    wanted, _ = moments.attention(cut, weight, of_weight, None, HEADS)
    found, attention = moments.attention(given, weight, of_weight, None, HEADS, mask=mask)
    torch.testing.assert_close(found.mean[:words], wanted.mean, **NEAR)
    torch.testing.assert_close(found.variance[:words], wanted.variance, rtol=1e-9, atol=1e-9)
    assert not attention[..., words:].any()
    if shared:
        assert found.shared is not None
        torch.testing.assert_close(found.shared[:words, :words], wanted.shared, rtol=1e-9, atol=1e-9)
