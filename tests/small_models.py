"""Small encoders in float64 and random sentences for them, as several test files want them."""

from __future__ import annotations

from typing import Any

import torch

from probtrans_cli.models import Encoded, build
from probtrans_cli.models.base import Words
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.models.probabilistic.inference import State
from probtrans_cli.models.probabilistic.potentials import Potentials

FAST = ("banded", "linear")
DECOMPOSITIONS: list[dict[str, Any]] = [
    {"kind": "none"},
    {"kind": "uv", "rank": 3},
    {"kind": "uvw", "rank": 4},
    {"kind": "shared", "rank": 3},
    {"kind": "rotary", "rank": 4},
]
GLOBALS: list[dict[str, Any]] = [
    {"kind": "all-dep", "features": 3},
    {"kind": "all-dep", "features": 3, "parameterization": "neural"},
    {"kind": "dep-split", "features": 3},
    {"kind": "single-split", "features": 3},
    {"kind": "rectified", "features": 3},
]
FIELDS: dict[str, dict[str, Any]] = {
    "paper": {},
    "root": {"root": {"labels": 3}, "damping": {"labels": 0.2, "heads": 0.3}},
    "own": {"share_potentials": False, "root": {"labels": 3}, "globals": GLOBALS[2]},
    "tree": {"heads": "tree", "root": {"labels": 3}},
    "head bias": {"head_bias": {}},
}


def encoder(*, messages: Any = "fast", seed: int = 0, **options: Any) -> ProbabilisticEncoder:
    """A float64 encoder in eval mode, without dropout unless ``options`` ask for it; every parameter is N(0, 1/4)."""
    torch.manual_seed(seed)
    section = {"labels": 5, "channels": 2, "iterations": 2, "dropout": 0.0, **options}
    model = build(section, messages).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def sentences(lengths: list[int], labels: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Unary scores and mask of random sentences; the scores on padding are no zeros."""
    generator = torch.Generator().manual_seed(seed)
    n = max(lengths)
    unary = 2.0 * torch.randn(len(lengths), n, labels, dtype=torch.float64, generator=generator)
    return unary, torch.arange(n) < torch.tensor(lengths)[:, None]


def infer(model: ProbabilisticEncoder, unary: torch.Tensor, mask: torch.Tensor) -> list[State]:
    """All distributions, at the start and after every iteration."""
    iterations = model.inference.iterations
    return model.mean_field(Words(unary, mask), all_pairs=True).advance(iterations, history=range(iterations + 1))


def potentials_of(model: ProbabilisticEncoder, iteration: int) -> Potentials:
    """The factors of an iteration, counted from 1."""
    return model.potentials[0 if model.section.share_potentials else iteration - 1]


def root_scores(model: ProbabilisticEncoder, iteration: int = 1) -> torch.Tensor | None:
    """``T' [h, d, d_root]``, None without a root."""
    root = potentials_of(model, iteration).root
    return None if root is None else root.dense()


def global_scores(model: ProbabilisticEncoder, iteration: int = 1) -> torch.Tensor | None:
    """``B [h, m, d]``, or ``[m, d]`` where all channels share it; None without global features."""
    features = potentials_of(model, iteration).features
    if features is None:
        return None
    return features.dense() if features.by_channel else features.dense()[0]


def with_distances(decompositions: list[dict[str, Any]], distances: list[int | None]) -> list[dict[str, Any]]:
    """All pairs of the two as options; `rotary` has no distance."""
    return [
        {"decomposition": one, "distance": distance}
        for one in decompositions
        for distance in ([None] if one["kind"] == "rotary" else distances)
    ]


def name(options: Any) -> str:
    if isinstance(options, dict):
        return "-".join(name(value) for value in options.values() if value is not None and value != {}) or "default"
    return str(options)


def gradients(model: ProbabilisticEncoder, unary: torch.Tensor, encoded: Encoded, **how: Any) -> list[torch.Tensor]:
    wanted = [unary, *model.parameters()]
    found = torch.autograd.grad(loss(encoded), wanted, materialize_grads=True, **how)
    return list(found)


def loss(encoded: Encoded, seed: int = 1) -> torch.Tensor:
    """A random linear function of everything that is differentiable."""
    generator = torch.Generator().manual_seed(seed)
    total = encoded.states.new_zeros(())
    for part in (encoded.states, encoded.sentence, encoded.arcs):
        if part is not None:
            weights = torch.randn(part.shape, generator=generator, dtype=torch.float64)
            total = total + (part * weights.to(part)).sum()
    return total


def assert_near(found: Any, expected: Any, tolerance: float) -> None:
    """Two lists of tensors, each up to ``tolerance`` of its largest entry."""
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        assert left.shape == right.shape
        assert left.isfinite().all()
        if right.numel():
            scale, difference = 1.0 + float(right.detach().abs().max()), float((left - right).detach().abs().max())
            assert difference / scale < tolerance, f"{difference} of {scale}"


def values(encoded: Encoded) -> list[torch.Tensor]:
    return [part for part in (encoded.states, encoded.sentence, encoded.arcs) if part is not None]


def values_and_gradients(
    model: ProbabilisticEncoder, unary: torch.Tensor, mask: torch.Tensor, *, arcs: bool = False, **words: Any
) -> list[torch.Tensor]:
    """``values``, and the gradients of ``loss`` by the unary scores and all weights."""
    encoded = model(Words(unary, mask, **words), arcs=arcs)
    return [*values(encoded), *gradients(model, unary, encoded)]
