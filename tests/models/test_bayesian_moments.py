"""The rules for means and variances: beside full covariances where they are exact, else beside plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import full_covariances as full
import pytest
import torch
from random_states import HEADS, NEAR, D, N, assert_shared_has_the_variances, distances, normal, positive, state
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models.bayesian import moments
from probtrans_cli.models.bayesian.moments import State

pytestmark = pytest.mark.usefixtures("double")
STATES = pytest.mark.parametrize("shared", [True, False], ids=["kronecker", "diagonal"])


def whole(given: State) -> Tensor:
    """The covariances that a state stands for, ``[D, N, D, N]``: δ_ij √(v_ai v_bi) R_ab."""
    sums = given.variance.sum(1)
    r = given.shared / (sums[:, None] * sums).sqrt()
    deviation = given.variance.sqrt()
    return torch.einsum("ik,ai,bi,ab->iakb", torch.eye(D), deviation, deviation, r)


def variances(cov: Tensor) -> Tensor:
    return torch.einsum("iaia->ai", cov)


# --- exact rules ------------------------------------------------------------------------------------------------------


def test_a_linear_layer_has_exact_mean_and_variance() -> None:
    given, weight, of_weight, bias = state(), normal(5, D, seed=7), positive(5, seed=8), normal(5, seed=9)
    mean, cov = full.linear(weight, of_weight, given.mean.T, whole(given))
    found = moments.linear(given, weight, of_weight, bias)
    torch.testing.assert_close(found.mean, mean.T + bias, **NEAR)
    torch.testing.assert_close(found.variance, variances(cov), **NEAR)
    assert_shared_has_the_variances(found)


def test_what_a_linear_layer_s_weights_add_to_t_is_exact() -> None:
    """Where all words share out their variances over the features alike, T is that of the full covariances."""
    given, of_weight = state(), positive(5, seed=8)
    variance = given.variance[:1].expand(N, D).clone()
    root = normal(N, N, seed=3)
    cov = root @ root.T
    r = cov / (cov.diag()[:, None] * cov.diag()).sqrt()
    given = State(given.mean, variance, r * variance[0].sum())
    found = moments.linear(given, torch.zeros(5, D), of_weight)
    wanted = full.weight_part(of_weight, given.mean.T, whole(given))
    torch.testing.assert_close(found.shared, torch.einsum("uaub->ab", wanted), **NEAR)


def test_a_linear_layer_with_a_variance_of_every_weight() -> None:
    given, weight, of_weight = state(), normal(5, D, seed=7), positive(5, D, seed=8)
    found = moments.linear(given, weight, of_weight)
    for a in range(N):
        for r in range(5):
            m, v = given.mean[a], given.variance[a]
            wanted = (v * weight[r].square() + (m.square() + v) * of_weight[r]).sum()
            assert float(found.variance[a, r]) == pytest.approx(float(wanted), abs=1e-9)
    assert_shared_has_the_variances(found)
    alike = moments.linear(given, weight, of_weight[:, :1].expand(5, D))
    by_rows = moments.linear(given, weight, of_weight[:, 0])
    torch.testing.assert_close(alike.variance, by_rows.variance, **NEAR)
    torch.testing.assert_close(alike.shared, by_rows.shared, **NEAR)


@pytest.mark.parametrize("name", ["relu", "gelu"])
def test_activations_have_mean_and_variance_of_full_covariances(name: str) -> None:
    given = state()
    mean, cov = getattr(full, name)(given.mean.T, whole(given))
    found = getattr(moments, name)(given)
    torch.testing.assert_close(found.mean, mean.T, **NEAR)
    torch.testing.assert_close(found.variance, variances(cov), **NEAR)


@pytest.mark.parametrize("name", ["relu", "gelu"])
def test_t_of_an_activation_in_loops(name: str) -> None:
    """By two terms of the series: Σ_i of the covariances that one has of full covariances with two terms."""
    given = state()
    found = getattr(moments, name)(given)
    for a in range(N):
        for b in range(N):
            if a == b:
                wanted = float(found.variance[a].sum())
            else:
                r = float(given.shared[a, b] / (given.shared[a, a] * given.shared[b, b]).sqrt())
                wanted = 0.0
                for i in range(D):
                    (y_a, z_a), (y_b, z_b) = (_terms(name, given, word, i) for word in (a, b))
                    wanted += r * y_a * y_b + r * r / 2 * z_a * z_b
            assert float(found.shared[a, b]) == pytest.approx(wanted, abs=1e-9)


def _terms(name: str, given: State, a: int, i: int) -> tuple[float, float]:
    """E f' s and E f'' s², by the trapezoidal rule: the first two coefficients of the series in R."""
    m, s = float(given.mean[a, i]), float(given.variance[a, i].sqrt())
    if name == "relu":
        t = m / s
        return s * 0.5 * math.erfc(-t / math.sqrt(2)), s * math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    x = torch.linspace(-12, 12, 20_001)
    weight = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    values = functional.gelu(m + s * x)
    return float((weight * x * values).sum()), float((weight * (x.square() - 1) * values).sum())


@pytest.mark.parametrize("function", [moments.relu, moments.gelu, lambda one: moments.by_points(one, torch.tanh, "")])
def test_many_numbers_are_as_few(function: Callable[[State], State]) -> None:
    """Without gradients they are computed in blocks, here more than one and a part of another."""
    mean, variance, words = normal(3, 7, 1000), positive(3, 7, 1000, seed=1), torch.eye(7).expand(3, 7, 7)
    many = function(State(mean, variance, words * variance.sum(-1, keepdim=True)))
    for a in range(3):
        few = function(State(mean[a], variance[a], words[a] * variance[a].sum(-1, keepdim=True)))
        for one, other in ((many.mean, few.mean), (many.variance, few.variance), (many.shared, few.shared)):
            torch.testing.assert_close(one[a], other, **NEAR)
    learned = function(State(mean.requires_grad_(), variance))
    torch.testing.assert_close(many.mean, learned.mean.detach(), **NEAR)


@pytest.mark.parametrize("function", [torch.tanh, lambda x: functional.gelu(x, approximate="tanh")])
def test_any_function_by_its_integral(function: Callable[[Tensor], Tensor]) -> None:
    given = state()
    given = State(given.mean, given.variance / 10, None if given.shared is None else given.shared / 10)
    found = moments.by_points(given, function, "any")
    x = torch.linspace(-12, 12, 20_001)[:, None, None]
    weight = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    values = function(given.mean + given.variance.sqrt() * x)
    mean = (weight * values).sum(0)
    torch.testing.assert_close(found.mean, mean, rtol=0, atol=1e-5)
    torch.testing.assert_close(found.variance, (weight * (values - mean).square()).sum(0), rtol=0, atol=1e-4)
    assert_shared_has_the_variances(found)


def test_layer_norm_in_loops() -> None:
    given = state()
    gain, of_gain, shift, of_shift = normal(D, seed=5), positive(D, seed=6), normal(D, seed=7), positive(D, seed=8)
    found = moments.layer_norm(given, gain, shift, eps=1e-5, of_gain=of_gain, of_shift=of_shift)
    units, of_units = torch.zeros(N, D), torch.zeros(N, D)
    for a in range(N):
        m, v = given.mean[a], given.variance[a]
        centred = m - m.mean()
        s = 1 / float((centred**2).mean() + (1 - 1 / D) * v.mean() + 1e-5)
        u = centred * math.sqrt(s)
        for i in range(D):
            slopes = [float(i == j) - 1 / D - float(u[i] * u[j]) / D for j in range(D)]
            units[a, i], of_units[a, i] = u[i], s * sum(one**2 * float(v[j]) for j, one in enumerate(slopes))
            assert float(found.mean[a, i]) == pytest.approx(float(gain[i] * u[i] + shift[i]), abs=1e-9)
            wanted = of_units[a, i] * (gain[i] ** 2 + of_gain[i]) + of_gain[i] * u[i] ** 2 + of_shift[i]
            assert float(found.variance[a, i]) == pytest.approx(float(wanted), abs=1e-9)
    for a in range(N):
        for b in range(N):
            new = [float((of_units[one] * (gain.square() + of_gain)).sum()) for one in (a, b)]
            old = [float(given.variance[one].sum()) for one in (a, b)]
            wanted = float(given.shared[a, b]) * math.sqrt(new[0] * new[1] / (old[0] * old[1]))
            wanted += float((units[a] * of_gain * units[b]).sum() + of_shift.sum())
            assert float(found.shared[a, b]) == pytest.approx(wanted, abs=1e-9)


def test_layer_norm_of_little_noise_is_the_delta_method() -> None:
    given = state(shared=False)
    gain, shift = normal(D, seed=5), normal(D, seed=7)
    little = State(given.mean, given.variance * 1e-8)
    found = moments.layer_norm(little, gain, shift, eps=0.0)
    for a in range(N):
        slope: Any = torch.func.jacrev(lambda x: functional.layer_norm(x, (D,), gain, shift, 0.0))(given.mean[a])
        wanted = (slope.square() * little.variance[a]).sum(1)
        torch.testing.assert_close(found.variance[a], wanted, rtol=1e-6, atol=0)


# --- sentences --------------------------------------------------------------------------------------------------------


@STATES
def test_the_mean_over_words_in_loops(shared: bool) -> None:
    given, weights = state(shared=shared), positive(N, seed=5)
    found = moments.mean_over_words(given, weights)
    torch.testing.assert_close(found.mean, sum(weights[a] * given.mean[a] for a in range(N)), **NEAR)
    of_features = [sum(float(weights[a] * given.variance[a, i]) for a in range(N)) for i in range(D)]
    for i in range(D):
        if given.shared is None:
            wanted = sum(float(weights[a] ** 2 * given.variance[a, i]) for a in range(N))
        else:
            total = sum(float(weights[a] * weights[b] * given.shared[a, b]) for a in range(N) for b in range(N))
            wanted = total * of_features[i] / sum(of_features)
        assert float(found.variance[i]) == pytest.approx(wanted, abs=1e-9)


# --- all rules --------------------------------------------------------------------------------------------------------

WEIGHT, BIAS = 0.3 * normal(12, D, seed=7).double(), normal(12, seed=9).double()
OF_ROWS, OF_WEIGHTS = 0.1 * positive(12, seed=8).double(), 0.1 * positive(12, D, seed=8).double()
GAIN, SHIFT = normal(D, seed=5).double(), normal(D, seed=6).double()
RULES: dict[str, Callable[[State], State]] = {
    "linear": lambda given: moments.linear(given, WEIGHT, OF_ROWS, BIAS),
    "linear with a variance a weight": lambda given: moments.linear(given, WEIGHT, OF_WEIGHTS, BIAS),
    "add": lambda given: given + (given + SHIFT),
    "attention": lambda given: moments.attention(given, WEIGHT, OF_ROWS, BIAS, HEADS)[0],
    "attention by distance": lambda given: moments.attention(
        given, WEIGHT, OF_ROWS, BIAS, HEADS, distances=distances("query", "key", "value")
    )[0],
    "attention with a variance a weight": lambda given: moments.attention(given, WEIGHT, OF_WEIGHTS, None, HEADS)[0],
    "layer_norm": lambda given: moments.layer_norm(given, GAIN, SHIFT, eps=1e-5, of_gain=GAIN**2, of_shift=SHIFT**2),
    "relu": moments.relu,
    "gelu": moments.gelu,
    "tanh": lambda given: moments.by_points(given, torch.tanh, "tanh"),
    "mean_over_words": lambda given: moments.mean_over_words(given, torch.full((N,), 1 / N).double()),
}


def parts_of(values: State) -> tuple[Tensor, ...]:
    return tuple(part for part in (values.mean, values.variance, values.shared) if part is not None)


@STATES
@pytest.mark.parametrize("rule", RULES)
def test_gradients(rule: str, shared: bool) -> None:
    parts = [part.clone().requires_grad_() for part in parts_of(state(shared=shared))]
    assert torch.autograd.gradcheck(lambda *given: parts_of(RULES[rule](State(*given))), parts, fast_mode=True)


@STATES
@pytest.mark.parametrize("name", ["linear", "attention"])
def test_gradients_of_weights(name: str, shared: bool) -> None:
    given = state(shared=shared)

    def outputs(weight: Tensor, of_weight: Tensor) -> tuple[Tensor, ...]:
        if name == "linear":
            found = moments.linear(given, weight, of_weight, BIAS)
        else:
            found, _ = moments.attention(given, weight, of_weight, BIAS, HEADS)
        return parts_of(found)

    inputs = [WEIGHT.clone().requires_grad_(), OF_ROWS.clone().requires_grad_()]
    assert torch.autograd.gradcheck(outputs, inputs, fast_mode=True)


@STATES
@pytest.mark.parametrize("rule", [name for name in RULES if name not in ("layer_norm",) and "linear" not in name])
def test_what_is_certain_stays_certain(rule: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With finite gradients."""
    monkeypatch.setitem(globals(), "OF_ROWS", None)
    monkeypatch.setitem(globals(), "OF_WEIGHTS", None)
    mean = normal(N, D).requires_grad_()
    given = moments.State(mean, torch.zeros_like(mean), mean.new_zeros(N, N) if shared else None)
    found = RULES[rule](given)
    assert float(found.variance.detach().abs().max()) < 1e-15
    if found.shared is not None:
        assert float(found.shared.detach().abs().max()) < 1e-15
    total = found.mean.sum() + found.variance.sum() + (0.0 if found.shared is None else found.shared.sum())
    (slope,) = torch.autograd.grad(total, mean)
    assert bool(slope.isfinite().all())


@pytest.mark.parametrize("rule", [name for name in RULES if name != "add"])
def test_a_negative_variance_is_refused(rule: str) -> None:
    given = state()
    variance = given.variance.clone()
    variance[1, 2] = -0.1
    with pytest.raises(ValueError, match=rule.split(maxsplit=1)[0]):
        RULES[rule](State(given.mean, variance, given.shared))


def test_negative_variances_of_weights_are_refused() -> None:
    given = state()
    for rule in (
        lambda: moments.linear(given, WEIGHT, -OF_ROWS),
        lambda: moments.layer_norm(given, GAIN, SHIFT, eps=0.0, of_gain=-(GAIN**2)),
        lambda: moments.attention(given, WEIGHT, -OF_ROWS, None, HEADS),
    ):
        with pytest.raises(ValueError, match="a variance is negative"):
            rule()


# --- bayesian attention -----------------------------------------------------------------------------------------------


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
    new, old = vx.sum(1), given.variance.sum(1)
    scaled = given.shared * (new[:, None] * new / (old[:, None] * old)).sqrt()
    return scaled + of_rows.sum() * (given.mean @ given.mean.T + given.shared)


TERMS = ("key", "key value", "query key", "query key value")


@STATES
@pytest.mark.parametrize("terms", ["", *TERMS, *(f"{one}, word by word" for one in TERMS)])
def test_attention_in_loops(shared: bool, terms: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terms, *word_by_word = terms.split(", ")
    if word_by_word:
        monkeypatch.setattr("probtrans_cli.models.bayesian.attention._AT_ONCE", 1)
    given = state(shared=shared)
    vectors = distances(*terms.split()) if terms else None
    found, expected = moments.attention(given, WEIGHT, OF_ROWS, BIAS, HEADS, distances=vectors)
    mean, variance, total = attention_in_loops(given, WEIGHT, OF_ROWS, BIAS, vectors)
    torch.testing.assert_close(found.mean, mean, **NEAR)
    torch.testing.assert_close(found.variance, variance, **NEAR)
    torch.testing.assert_close(expected.sum(-1), torch.ones(HEADS, N), **NEAR)
    if shared:
        torch.testing.assert_close(found.shared, total, **NEAR)
        assert_shared_has_the_variances(found)
        alone, _ = moments.attention(given, WEIGHT, OF_ROWS, BIAS, HEADS, distances=vectors, keeps_shared=False)
        assert alone.shared is None
        torch.testing.assert_close(alone.variance, variance, **NEAR)


@STATES
def test_distances_of_no_length_change_nothing(shared: bool) -> None:
    """The two ways to compute it are one."""
    given = state(shared=shared)
    mask = torch.arange(N) < N - 1
    nothing = moments.Distances(None, torch.zeros(N, N, 2), None)
    wanted, attention = moments.attention(given, WEIGHT, OF_ROWS, BIAS, HEADS, mask=mask)
    found, same = moments.attention(given, WEIGHT, OF_ROWS, BIAS, HEADS, mask=mask, distances=nothing)
    torch.testing.assert_close(same, attention, **NEAR)
    torch.testing.assert_close(found.mean, wanted.mean, **NEAR)
    torch.testing.assert_close(found.variance, wanted.variance, **NEAR)
    torch.testing.assert_close(found.shared, wanted.shared, **NEAR)


@STATES
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
        torch.testing.assert_close(found.shared[:words, :words], wanted.shared, rtol=1e-9, atol=1e-9)
