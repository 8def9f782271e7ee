"""The reference block of the moments' tests and bench: its weights and their variances, and draws of its output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import full_covariances as full
import torch
from torch import Tensor

FEATURES, WORDS, HEADS, KEY, VALUE, INNER = 8, 4, 2, 4, 4, 16


class Block(NamedTuple):
    """Means of the weights, and variances by the same names: of matrices one a row."""

    parameters: dict[str, Tensor]
    variances: dict[str, Tensor]


def reference_input() -> Tensor:
    """X, ``[FEATURES, WORDS]``."""
    return torch.randn(FEATURES, WORDS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def matrices_of(
    normal: Callable[..., Tensor], features: int, heads: int, key: int, value: int, inner: int
) -> dict[str, Tensor]:
    """A block's matrices, drawn in a fixed order: N(0, 1/fan_in), and N(0, 2/fan_in) before the ReLU."""
    found = {}
    for head in range(heads):
        for name, rows in (("Q", key), ("K", key), ("V", value)):
            found[f"{name}{head}"] = normal(rows, features) / features**0.5
    found["O"] = normal(features, value * heads) / (value * heads) ** 0.5
    found["F1"] = normal(inner, features) * (2 / features) ** 0.5
    found["F2"] = normal(features, inner) / inner**0.5
    return found


def reference_block(number: int, noise: float) -> Block:
    """Block ``number`` of a stack; ``noise``: the weights' standard deviation times the root of their fan-in."""
    generator = torch.Generator().manual_seed(10 + number)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    parameters = matrices_of(normal, FEATURES, HEADS, KEY, VALUE, INNER)
    matrices = list(parameters)
    parameters |= {gain: 1 + 0.1 * normal(FEATURES) for gain in ("g1", "g2")}
    parameters |= {shift: 0.1 * normal(FEATURES) for shift in ("b1", "b2")}
    variances = {
        name: noise**2 / parameters[name].shape[1] * torch.exp(0.3 * normal(len(parameters[name]))) for name in matrices
    }
    constant = torch.full((FEATURES,), (0.3 * noise) ** 2, dtype=torch.float64)
    return Block(parameters, variances | dict.fromkeys(("g1", "g2", "b1", "b2"), constant))


def propagated(
    blocks: list[Block], mean: Tensor, cov: Tensor, rules: full.Rules = "corrected"
) -> tuple[Tensor, Tensor]:
    for parameters, variances in blocks:
        mean, cov = full.block(parameters, variances, mean, cov, HEADS, rules=rules)
    return mean, cov


class Sampled(NamedTuple):
    """Moments of draws, and how far those of one half are from them: the floor of what can be told."""

    mean: Tensor
    cov: Tensor
    mean_floor: float
    cov_floor: float

    def errors(self, mean: Tensor, cov: Tensor) -> tuple[float, float]:
        number = mean.numel()
        return _relative(mean.flatten(), self.mean), _relative(cov.reshape(number, number), self.cov)


def sampled(blocks: list[Block], x: Tensor, spread: float, draws: int) -> Sampled:
    """Monte Carlo: weights and input are drawn, the plain block is computed. ``spread``: s.d. of the input."""
    generator, chunk = torch.Generator().manual_seed(99), 5000  # draws at a time
    total, squares, half = torch.zeros(x.numel()).double(), torch.zeros(x.numel(), x.numel()).double(), None
    for done in range(chunk, draws + 1, chunk):
        y = x + spread * torch.randn(chunk, *x.shape, generator=generator, dtype=torch.float64)
        for block in blocks:
            y = _forward(_drawn(block, chunk, generator), y)
        flat = y.flatten(1)
        total, squares = total + flat.sum(0), squares + flat.T @ flat
        mean = total / done
        cov = squares / done - torch.outer(mean, mean)
        if done == draws // 2:
            half = (mean, cov)
    assert half is not None
    return Sampled(mean, cov, _relative(half[0], mean), _relative(half[1], cov))


def _relative(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


def _drawn(block: Block, draws: int, generator: torch.Generator) -> dict[str, Tensor]:
    found = {}
    for name, mean in block.parameters.items():
        deviation = block.variances[name].sqrt()
        noise = torch.randn(draws, *mean.shape, generator=generator, dtype=torch.float64)
        found[name] = mean + noise * (deviation[:, None] if mean.ndim == 2 else deviation)
    return found


def _forward(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """The block for many draws at once, written apart from the code that is tested."""
    heads = []
    for head in range(HEADS):
        q, k, v = (torch.einsum("nri,nij->nrj", weights[f"{name}{head}"], x) for name in "QKV")
        attention = (torch.einsum("nra,nrb->nab", q, k) / KEY**0.5).softmax(-1)
        heads.append(torch.einsum("nrb,nab->nra", v, attention))
    z = _norm(weights["O"] @ torch.cat(heads, 1) + x, weights["g1"], weights["b1"])
    return _norm(weights["F2"] @ torch.relu(weights["F1"] @ z) + z, weights["g2"], weights["b2"])


def _norm(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    deviation, mean = torch.std_mean(x, dim=1, correction=0, keepdim=True)
    return gain[:, :, None] * (x - mean) / deviation + shift[:, :, None]
