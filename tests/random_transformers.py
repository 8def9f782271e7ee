"""Transformers with random Gaussian weights, and Monte Carlo draws of them, to compare propagated moments with."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from probtrans_cli.models import Encoded, build
from probtrans_cli.models.base import Words
from probtrans_cli.models.bayesian.moments import State, mean_over_words
from probtrans_cli.models.bayesian.propagation import Kind, moments_of_words
from probtrans_cli.models.bayesian.weights import Prior, drawn, make_uncertain, posterior_of
from probtrans_cli.models.transformer import TransformerEncoder

WIDTH, WORDS, HEADS, INNER = 32, 8, 4, 64
STILL = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}


def make_random(encoder: nn.Module, noise: float, generator: torch.Generator) -> None:
    """Matrices N(0, 1/fan_in), the first of the feed-forward layer N(0, 2/fan_in); every row with deviations of
    ``noise`` over the root of the fan-in, times e^{0.15 ξ}. Vectors of distances N(0, 1/size), certain."""
    for name, module in encoder.named_modules():
        if isinstance(module, nn.Linear):
            rows, columns = module.weight.shape
            scale = (2 if name.endswith("widen") else 1) / columns
            with torch.no_grad():
                module.weight.copy_(torch.randn(rows, columns, generator=generator) * scale**0.5)
                make_uncertain(module, "weight", Prior(0.0, 1 / columns), deviation=1.0)
                posterior = posterior_of(module)
                spread = 0.15 * torch.randn(rows, 1, generator=generator)
                posterior.log_sd.copy_(spread + math.log(max(noise, 1e-12) / columns**0.5))
    with torch.no_grad():
        for name, vectors in encoder.named_parameters():
            if ".tables." in name:
                vectors.copy_(torch.randn(vectors.shape, generator=generator) * vectors.shape[-1] ** -0.5)


def random_encoder(layers: int, noise: float, *, seed: int = 0, **options: Any) -> TransformerEncoder:
    """An encoder without positions; biases are 0."""
    section = {"kind": "transformer", "width": WIDTH, "inner": INNER, "heads": HEADS, "layers": layers, "bias": "all"}
    encoder = build({**section, **STILL, "positions": {"kind": "none"}, **options}).eval()
    assert isinstance(encoder, TransformerEncoder)
    make_random(encoder, noise, torch.Generator().manual_seed(seed))
    return encoder


def random_sentences(number: int, *, seed: int = 0) -> Tensor:
    """``[b, n, d]``, standard normal."""
    return torch.randn(number, WORDS, WIDTH, generator=torch.Generator().manual_seed(seed))


class Truth(NamedTuple):
    """Mean and variance of the states ``[b, n, d]``, and the variance of their means over words ``[b, d]``."""

    mean: Tensor
    variance: Tensor
    of_pooled: Tensor


@torch.no_grad()
def by_draws(encoder: TransformerEncoder, words: Tensor, draws: int) -> Truth:
    torch.manual_seed(0)
    mask = torch.ones(words.shape[:2], dtype=torch.bool)
    sums, squares = torch.zeros_like(words).double(), torch.zeros_like(words).double()
    pooled, of_pooled = sums[:, 0].clone(), sums[:, 0].clone()
    for _ in range(draws):
        with drawn(encoder):
            states = encoder(Words(words, mask)).states.double()
        sums, squares = sums + states, squares + states.square()
        mean = states.mean(1)
        pooled, of_pooled = pooled + mean, of_pooled + mean.square()
    mean = sums / draws
    return Truth(mean, squares / draws - mean.square(), of_pooled / draws - (pooled / draws).square())


class Agreement(NamedTuple):
    """Relative error of the mean; ratios of summed variances to the true ones, of states and of means over words."""

    mean: float
    summed: float
    pooled: float


@torch.no_grad()
def agreement(encoder: TransformerEncoder, words: Tensor, truth: Truth, kind: Kind) -> Agreement:
    """How near one pass comes to the draws."""
    mask = torch.ones(words.shape[:2], dtype=torch.bool)
    state = one_pass(encoder, words, mask, kind).states
    pooled = mean_over_words(State(state.mean, state.variance, state.shared), mask / mask.sum(1, keepdim=True)).variance
    error = (state.mean - truth.mean).norm() / truth.mean.norm()
    ratios = state.variance.sum() / truth.variance.sum(), pooled.sum() / truth.of_pooled.sum()
    return Agreement(float(error), *map(float, ratios))


def one_pass(encoder: TransformerEncoder, words: Tensor, mask: Tensor, kind: Kind, **more: Any) -> Encoded:
    ids = torch.zeros(words.shape[:2], dtype=torch.int64)
    found: Encoded = encoder(Words(moments_of_words(words, kind, nn.Identity(), ids), mask), **more)
    return found
