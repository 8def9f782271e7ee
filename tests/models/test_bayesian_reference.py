"""Moments with full covariances: every rule beside plain loops, and whole blocks beside autograd and Monte Carlo."""

from __future__ import annotations

import math
from itertools import product as every

import full_covariances as full
import numpy as np
import pytest
import torch
from random_states import normal
from reference_block import HEADS, Block, propagated, reference_block, reference_input, sampled
from torch import Tensor

pytestmark = pytest.mark.usefixtures("double")


def random_cov(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    size = math.prod(shape)
    root = normal(size, size, seed=seed) / math.sqrt(size)
    return scale**2 * (root @ root.T).reshape(*shape, *shape)


def vec(cov: Tensor) -> np.ndarray:
    rows, columns = cov.shape[:2]
    return cov.permute(1, 0, 3, 2).reshape(rows * columns, rows * columns).numpy()


# --- products ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", ["corrected", "seed"])
@pytest.mark.parametrize(("p", "n", "q"), [(4, 3, 5), (3, 1, 2)])
def test_proposition_two_element_by_element(p: int, n: int, q: int, rules: full.Rules) -> None:
    """From vec'd matrices, with the derivation's indices, i and j to nq."""
    mean_a, mean_b = normal(p, n, seed=1), normal(p, q, seed=2)
    cov_a, cov_b = random_cov(p, n, seed=3), random_cov(p, q, seed=4)
    mean, cov = full.product(mean_a, cov_a, mean_b, cov_b, rules=rules)
    found, of_a, of_b = vec(cov), vec(cov_a), vec(cov_b)
    for i, j in every(range(1, n * q + 1), repeat=2):
        k1, m1, k2, m2 = (i - 1) % n, (i - 1) // n, (j - 1) % n, (j - 1) // n
        a, b = of_a[k1 * p : (k1 + 1) * p, k2 * p : (k2 + 1) * p], of_b[m1 * p : (m1 + 1) * p, m2 * p : (m2 + 1) * p]
        trace = np.trace(a.T @ b) if rules == "corrected" else np.trace(a @ b)
        ma, mb = mean_a.numpy(), mean_b.numpy()
        wanted = trace + ma[:, k1] @ b @ ma[:, k2] + mb[:, m1] @ a @ mb[:, m2]
        assert found[i - 1, j - 1] == pytest.approx(wanted, abs=1e-9)
    torch.testing.assert_close(mean, mean_a.T @ mean_b)


def test_the_trace_needs_its_transpose() -> None:
    """A and B without means and Cov(A_uk, A_vl) = δ_uk δ_vl: the literal formula gives no covariance."""
    cov = torch.zeros(2, 2, 2, 2)
    for u, v in every(range(2), repeat=2):
        cov[u, u, v, v] = 1.0
    zero = torch.zeros(2, 2)
    _, right = full.product(zero, cov, zero, cov)
    _, literal = full.product(zero, cov, zero, cov, rules="seed")
    assert np.linalg.eigvalsh(vec(right)).min() >= -1e-12
    assert np.linalg.eigvalsh(vec(literal)).min() == pytest.approx(-1.0)


def test_a_product_is_that_of_draws() -> None:
    mean_a, mean_b = normal(3, 2, seed=1), normal(3, 2, seed=2)
    cov_a, cov_b = random_cov(3, 2, seed=3), random_cov(3, 2, seed=4)
    mean, cov = full.product(mean_a, cov_a, mean_b, cov_b)
    random = np.random.default_rng(0)
    a, b = (
        random.multivariate_normal(m.numpy().ravel(), c.reshape(6, 6).numpy(), 400_000).reshape(-1, 3, 2)
        for m, c in ((mean_a, cov_a), (mean_b, cov_b))
    )
    drawn = np.einsum("npk,npm->nkm", a, b).reshape(-1, 4)
    assert np.abs(drawn.mean(0) - mean.numpy().ravel()).max() < 0.02
    error = np.cov(drawn.T) - cov.reshape(4, 4).numpy()
    assert np.linalg.norm(error) < 0.02 * np.linalg.norm(cov.numpy())


def test_a_linear_layer_is_a_product_with_independent_rows() -> None:
    weights, row_variance, x = normal(3, 4, seed=1), normal(3, seed=2).square(), normal(4, 2, seed=3)
    cov = random_cov(4, 2, seed=4)
    of_weights = torch.zeros(4, 3, 4, 3)  # of Wᵀ
    for i, u in every(range(4), range(3)):
        of_weights[i, u, i, u] = row_variance[u]
    mean, covariance = full.linear(weights, row_variance, x, cov)
    for rules in ("corrected", "seed"):
        wanted_mean, wanted = full.product(weights.T, of_weights, x, cov, rules=rules)
        assert torch.allclose(mean, wanted_mean, rtol=0, atol=1e-12)
        assert torch.allclose(covariance, wanted, rtol=0, atol=1e-12)


def test_stacked_heads_are_the_blocks_of_the_derivation() -> None:
    """4.4, with mod H and h = (i - 1) mod H + 1: block (i, j) is that of head h at its words, or 0."""
    size, heads, words = 4, 2, 3
    parts = [(normal(size, words, seed=h), random_cov(size, words, seed=10 + h)) for h in range(heads)]
    _, cov = full._stacked(parts)
    found, of_heads = vec(cov), [vec(one) for _, one in parts]
    for i, j in every(range(1, heads * words + 1), repeat=2):
        got = found[(i - 1) * size : i * size, (j - 1) * size : j * size]
        k, m = (i - 1) // heads, (j - 1) // heads
        wanted = np.zeros((size, size))
        if (i - 1) % heads == (j - 1) % heads:
            wanted = of_heads[(i - 1) % heads][k * size : (k + 1) * size, m * size : (m + 1) * size]
        assert np.array_equal(got, wanted)


# --- functions --------------------------------------------------------------------------------------------------------


def test_softmax_by_proposition_three() -> None:
    mean, cov = normal(2, 3, seed=1), random_cov(2, 3, seed=2)
    expected, found = full.softmax_rows(mean, cov, rules="seed")
    p = mean.softmax(-1)
    torch.testing.assert_close(expected, p)
    for a, i, b, k in every(range(2), range(3), range(2), range(3)):
        wanted = 0.0
        for j, m in every(range(3), repeat=2):
            left, right = p[a, i] * (int(i == j) - p[a, j]), p[b, k] * (int(k == m) - p[b, m])
            wanted += float(left * right * cov[a, j, b, m])
        assert float(found[a, i, b, k]) == pytest.approx(wanted, abs=1e-12)


def test_the_corrected_softmax_in_loops() -> None:
    mean, cov = normal(2, 3, seed=1), random_cov(2, 3, seed=2)
    expected, found = full.softmax_rows(mean, cov)
    q = torch.zeros(2, 3)
    for a in range(2):
        p = mean[a].softmax(0)
        grown = []
        for k in range(3):
            against = torch.eye(3)[k] - p
            d = float(against @ cov[a, :, a] @ against)
            grown.append(float(p[k]) * math.exp(d / 2 / (1 + d / 4)))
        q[a] = torch.tensor(grown) / sum(grown)
    slopes = [q[a].diag() - torch.outer(q[a], q[a]) for a in range(2)]
    assert torch.allclose(expected, q, atol=1e-12)
    for a, b in every(range(2), repeat=2):
        assert torch.allclose(found[a, :, b], slopes[a] @ cov[a, :, b] @ slopes[b], atol=1e-12)


def integrated(function: str, m: float, s: float) -> tuple[float, float]:
    x = np.linspace(m - 12 * s, m + 12 * s, 400_001)
    weight = np.exp(-(((x - m) / s) ** 2) / 2) / (s * math.sqrt(2 * math.pi)) * (x[1] - x[0])
    given = torch.from_numpy(x)
    values = (given.relu() if function == "relu" else given * torch.special.ndtr(given)).numpy()
    mean = float((values * weight).sum())
    return mean, float(((values - mean) ** 2 * weight).sum())


@pytest.mark.parametrize(
    ("name", "m", "s", "within"),
    [
        *(("relu", m, s, 1e-8) for m, s in ((0.0, 1.0), (0.7, 0.5), (-1.5, 0.8), (3.0, 0.2), (-0.1, 2.0))),
        *(("gelu", *case) for case in ((0.3, 0.1, 1e-5), (-0.5, 0.3, 2e-3), (0.4, 1.0, 0.03))),
    ],
)
def test_activations_have_their_mean_and_nearly_their_variance(name: str, m: float, s: float, within: float) -> None:
    """That of ReLU is exact."""
    mean, cov = getattr(full, name)(torch.tensor([[m]]), torch.full((1, 1, 1, 1), s * s))
    wanted_mean, wanted = integrated(name, m, s)
    assert float(mean) == pytest.approx(wanted_mean, abs=1e-8)
    assert float(cov) == pytest.approx(wanted, rel=within)


@pytest.mark.parametrize("function", [full.relu, full.gelu])
def test_covariances_of_activations_are_those_of_draws(function: object) -> None:
    mean, cov = 0.5 * normal(2, 2, seed=1), random_cov(2, 2, seed=5, scale=0.8)
    expected, computed = function(mean, cov)
    random = np.random.default_rng(1)
    drawn = torch.from_numpy(random.multivariate_normal(mean.flatten().numpy(), cov.reshape(4, 4).numpy(), 500_000))
    drawn = drawn.relu() if function is full.relu else drawn * torch.special.ndtr(drawn)
    assert torch.allclose(drawn.mean(0), expected.flatten(), atol=5e-3)
    assert float((drawn.T.cov() - computed.reshape(4, 4)).norm()) < 0.03 * float(computed.norm())


def test_certain_numbers_stay_certain() -> None:
    mean = torch.tensor([[1.5, -2.0], [0.0, 3.0]])
    for function, wanted in ((full.relu, mean.relu()), (full.gelu, torch.nn.functional.gelu(mean))):
        expected, cov = function(mean, torch.zeros(2, 2, 2, 2))
        assert torch.allclose(expected, wanted, atol=1e-15)
        assert not cov.any()


@pytest.mark.parametrize("rules", ["seed", "seed_deviation"])
def test_layer_norm_by_proposition_four(rules: full.Rules) -> None:
    mean, cov = normal(4, 2, seed=1), random_cov(4, 2, seed=2, scale=0.3)
    gain, shift = 1 + 0.1 * normal(4, seed=3), normal(4, seed=4)
    of_gain, of_shift = 0.01 * normal(4, seed=5).square(), 0.02 * normal(4, seed=6).square()
    expected, found = full.layer_norm(mean, cov, gain, of_gain, shift, of_shift, rules=rules)
    mu, divisor = mean.mean(0), mean.var(0, correction=0)
    divisor = divisor if rules == "seed" else divisor.sqrt()
    for i, j in every(range(4), range(2)):
        wanted = gain[i] * (mean[i, j] - mu[j]) / divisor[j] + shift[i]
        assert float(expected[i, j]) == pytest.approx(float(wanted), abs=1e-12)
        for k, m in every(range(4), range(2)):
            with_gain = of_gain[i] * (i == k)
            a = (mean[i, j] - mu[j]) * (mean[k, m] - mu[m])
            both = cov[i, j, k, m]
            wanted = (with_gain * (both + a) + both * gain[i] * gain[k]) / (divisor[j] * divisor[m])
            wanted = wanted + of_shift[i] * (i == k)
            assert float(found[i, j, k, m]) == pytest.approx(float(wanted), abs=1e-12)


def test_the_corrected_layer_norm_is_that_of_draws() -> None:
    mean, cov = normal(8, 1, seed=1), random_cov(8, 1, seed=2, scale=0.3)
    one, none = torch.ones(8), torch.zeros(8)
    expected, found = full.layer_norm(mean, cov, one, none, none, none, eps=1e-5)
    random = np.random.default_rng(2)
    drawn = torch.from_numpy(random.multivariate_normal(mean[:, 0].numpy(), cov[:, 0, :, 0].numpy(), 400_000))
    normed = torch.nn.functional.layer_norm(drawn, (8,), eps=1e-5)
    assert float((normed.mean(0) - expected[:, 0]).norm()) < 0.005 * float(expected.norm())
    assert float((normed.T.cov() - found[:, 0, :, 0]).norm()) < 0.08 * float(found.norm())


# --- blocks -----------------------------------------------------------------------------------------------------------


def certain(block: Block) -> Block:
    return Block(block.parameters, {name: torch.zeros_like(value) for name, value in block.variances.items()})


def no_spread(x: Tensor) -> Tensor:
    return x.new_zeros(*x.shape, *x.shape)


@pytest.mark.parametrize("rules", ["corrected", "seed", "seed_deviation"])
def test_certain_weights_give_the_plain_block(rules: full.Rules) -> None:
    x, block = reference_input(), reference_block(0, 0.1)
    divisor: full.Divisor = "variance" if rules == "seed" else "deviation"
    mean, cov = propagated([certain(block)], x, no_spread(x), rules)
    assert torch.allclose(mean, full.forward(block.parameters, x, HEADS, divisor=divisor), atol=1e-12)
    assert not cov.any()


def first_order(mean: Tensor, cov: Tensor, *, rules: full.Rules = "corrected") -> tuple[Tensor, Tensor]:
    del rules
    open_ = (mean > 0).to(mean.dtype)
    return mean.relu(), open_[:, :, None, None] * open_ * cov


def delta_method(blocks: list[Block], x: Tensor, cov: Tensor) -> Tensor:
    """Σ J_W diag(σ²) J_Wᵀ + J_X Σ^X J_Xᵀ by autograd."""

    def output(every_weight: list[dict[str, Tensor]], given: Tensor) -> Tensor:
        for weights in every_weight:
            given = full.forward(weights, given, HEADS)
        return given

    weights = [block.parameters for block in blocks]
    of_weights, of_x = torch.func.jacrev(output, argnums=(0, 1))(weights, x)
    total = torch.einsum("uaik,ikjl,vbjl->uavb", of_x, cov, of_x)
    for block, slopes in zip(blocks, of_weights, strict=True):
        for name, slope in slopes.items():
            variance = block.variances[name]
            variance = variance[:, None].expand_as(block.parameters[name]) if slope.ndim == 4 else variance
            flat = slope.flatten(2)
            total = total + torch.einsum("uax,x,vbx->uavb", flat, variance.flatten(), flat)
    return total


@pytest.mark.parametrize(("count", "spread"), [(1, 0.0), (2, 0.0), (1, 1.0)])
def test_little_noise_is_the_delta_method(count: int, spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the difference grows with the square of the noise."""
    monkeypatch.setattr(full, "relu", first_order)
    monkeypatch.setattr(full, "_normal", lambda t: (t > 0).to(t.dtype))  # its derivative
    x, errors = reference_input(), []
    for noise in (1e-3, 1e-2):
        blocks = [reference_block(number, noise) for number in range(count)]
        cov = ((spread * noise) ** 2 * torch.eye(x.numel())).reshape(*x.shape, *x.shape)
        wanted = delta_method(blocks, x, cov)
        errors.append(float((propagated(blocks, x, cov)[1] - wanted).norm() / wanted.norm()))
    assert errors[0] <= 1e-5
    assert 70 <= errors[1] / errors[0] <= 130


# Errors of mean and covariance: seed, seed_deviation, corrected.
TABLE = {
    (1, 0.1, 0.0): ((0.383, 1.82), (0.011, 1.69), (0.0005, 0.017)),
    (1, 0.6, 0.0): ((0.578, 4.58), (0.378, 4.95), (0.080, 0.195)),
    (2, 0.3, 0.0): ((0.313, 2.54), (0.160, 3.77), (0.016, 0.128)),
    (2, 0.1, 0.1): (None, None, (0.002, 0.044)),
}


CASES = [pytest.param(case, marks=pytest.mark.slow if case[0] == 2 else ()) for case in TABLE]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_blocks_beside_monte_carlo(case: tuple[int, float, float]) -> None:
    """Covariances are positive definite."""
    count, noise, spread = case
    x, blocks = reference_input(), [reference_block(number, noise) for number in range(count)]
    found = sampled(blocks, x, spread, 20_000)
    cov = (spread**2 * torch.eye(x.numel())).reshape(*x.shape, *x.shape)
    rules: tuple[full.Rules, ...] = ("seed", "seed_deviation", "corrected")
    for one, wanted in zip(rules, TABLE[case], strict=True):
        if wanted is None:
            continue
        moments = propagated(blocks, x, cov, one)
        mean, of_cov = found.errors(*moments)
        if one == "corrected":
            flat = moments[1].reshape(x.numel(), x.numel())
            assert torch.allclose(flat, flat.T, atol=1e-12)
            values = torch.linalg.eigvalsh((flat + flat.T) / 2)
            assert float(values.min()) >= -1e-10 * float(values.max())
            assert mean <= 2 * wanted[0] + found.mean_floor
            assert of_cov <= 1.3 * wanted[1] + found.cov_floor
        else:
            assert mean == pytest.approx(wanted[0], rel=0.05, abs=found.mean_floor)
            assert of_cov == pytest.approx(wanted[1], rel=0.05, abs=found.cov_floor)


# --- the objective ----------------------------------------------------------------------------------------------------


def test_forms_of_the_likelihood() -> None:
    y, mean, cov, noise = normal(2, 3, seed=1), normal(2, 3, seed=2), random_cov(2, 3, seed=3), torch.tensor(0.2)
    flat = cov.reshape(6, 6)

    def gaussian(total: Tensor) -> float:
        return float(torch.distributions.MultivariateNormal(mean.flatten(), total).log_prob(y.flatten()))

    assert float(full.log_likelihood(y, mean, cov, noise, form="seed")) == pytest.approx(gaussian(flat), abs=1e-9)
    predictive = float(full.log_likelihood(y, mean, cov, noise, form="predictive"))
    assert predictive == pytest.approx(gaussian(flat + 0.2 * torch.eye(6)), abs=1e-9)
    expected = float(full.log_likelihood(y, mean, cov, noise))
    drawn = torch.distributions.MultivariateNormal(mean.flatten(), flat).sample((400_000,))
    of_draws = torch.distributions.Normal(drawn, math.sqrt(0.2)).log_prob(y.flatten()).sum(1)
    assert expected == pytest.approx(float(of_draws.mean()), abs=5 * float(of_draws.std()) / math.sqrt(400_000))
    assert predictive >= expected


@pytest.mark.parametrize("rule", ["product", "linear", "softmax_rows", "relu", "gelu", "layer_norm"])
def test_a_negative_variance_is_refused(rule: str) -> None:
    """As the scalable rules do it; what rounding leaves of a variance of 0 is none."""
    mean, cov, ones = normal(4, 3), random_cov(4, 3), torch.ones(4)

    def compute(cov: Tensor) -> object:
        return {
            "product": lambda: full.product(mean, cov, mean, random_cov(4, 3, seed=1)),
            "linear": lambda: full.linear(normal(4, 4), ones, mean, cov),
            "softmax_rows": lambda: full.softmax_rows(mean, cov),
            "relu": lambda: full.relu(mean, cov),
            "gelu": lambda: full.gelu(mean, cov),
            "layer_norm": lambda: full.layer_norm(mean, cov, ones, ones, ones, ones),
        }[rule]()

    rounded = cov.clone()
    rounded[1, 2, 1, 2] = -1e-14
    compute(rounded)
    cov[1, 2, 1, 2] = -0.1
    with pytest.raises(ValueError, match=f"{rule}: a variance is negative"):
        compute(cov)
