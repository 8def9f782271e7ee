"""Section 3.1 of Wu & Tu (2023): with symmetric ternary scores an iteration is attention, where head distributions are
symmetric too; and the feed-forward layer's counterpart (Eq. 62)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import DECOMPOSITIONS, encoder, global_scores, infer, name, sentences

from probtrans_cli.models.base import Words

SYMMETRIC = [one for one in DECOMPOSITIONS if one["kind"] != "rotary"]


def symmetric(decomposition: dict[str, Any], **options: Any) -> Any:
    """A model as section 3.1 assumes it: no distance, no root, symmetric scores."""
    return encoder(decomposition=decomposition, distance=None, symmetric=True, **options)


def factors(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """``U`` and ``V`` ``[h, d, r]`` with ``T = U Vᵀ`` (Eq. 21), whatever the decomposition."""
    scores, ternary = model.ternary_scores()[0], model.ternary
    kind = model.section.decomposition.kind
    if kind == "none":
        return scores, torch.eye(scores.shape[-1], dtype=scores.dtype).expand_as(scores)
    U = ternary.U.mT if kind == "shared" else ternary.U[0].mT.expand(len(scores), -1, -1)
    weight = {"uv": "D", "uvw": "W", "shared": "D"}[kind]
    return U, U * getattr(ternary, weight)[0][:, None]


def attention(model: Any, labels: torch.Tensor) -> torch.Tensor:
    """Eq. 24-29: ``2 Σ_c channel_c U_cᵀ`` for label distributions ``[n, d]``; nobody attends to itself."""
    U, V = factors(model)
    queries, keys = labels @ U, labels @ V
    itself = torch.eye(len(labels), dtype=torch.bool)
    scores = (queries @ keys.mT / model.inference.heads.weight).masked_fill(itself, -torch.inf)
    channels = scores.softmax(-1) @ keys
    return 2 * (channels @ U.mT).sum(0)


def message(model: Any, unary: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """``G`` of the last iteration: what the word representations have beyond ``S``."""
    return (model(Words(unary, mask)).states - unary)[0]


@torch.no_grad()
@pytest.mark.parametrize("distance", [None, 1])
@pytest.mark.parametrize("decomposition", SYMMETRIC, ids=name)
def test_symmetric_scores_are_symmetric(decomposition: dict[str, Any], distance: int | None) -> None:
    T = encoder(decomposition=decomposition, distance=distance, symmetric=True).ternary_scores()
    torch.testing.assert_close(T, T.mT, rtol=0, atol=1e-14)
    other = encoder(decomposition=decomposition, distance=distance).ternary_scores()
    assert float((other - other.mT).abs().max()) > 0.1
    if distance is None:  # Eq. 21
        U, V = factors(symmetric(decomposition))
        torch.testing.assert_close(U @ V.mT, T[0], rtol=0, atol=1e-13)


@torch.no_grad()
@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("decomposition", SYMMETRIC, ids=name)
def test_the_message_is_attention_in_both_directions(decomposition: dict[str, Any], iterations: int) -> None:
    """Eq. 16 with ``T = Tᵀ = U Vᵀ``: ``G = Σ_c (Q_h,c + Q_h,cᵀ) Q_z V_c U_cᵀ``, asynchronous, any length."""
    model = symmetric(decomposition, iterations=iterations)
    unary, mask = sentences([5])
    states = infer(model, unary, mask)
    labels, heads = states[-2].labels[0], states[-1].heads[0]
    U, V = factors(model)
    channels = heads @ (labels @ V) + heads.mT @ (labels @ V)
    torch.testing.assert_close(message(model, unary, mask), (channels @ U.mT).sum(0), rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("weight", [None, 1.0])
@pytest.mark.parametrize("decomposition", SYMMETRIC, ids=name)
def test_two_words_are_attention(decomposition: dict[str, Any], weight: float | None) -> None:
    """Eq. 28-29 hold exactly wherever ``Q_h,c`` is symmetric. Of two words each has the other as head."""
    model = symmetric(decomposition, iterations=3, message_weight={"heads": weight})
    unary, mask = sentences([2])
    labels = infer(model, unary, mask)[-2].labels[0]
    torch.testing.assert_close(message(model, unary, mask), attention(model, labels), rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("decomposition", SYMMETRIC, ids=name)
def test_uniform_heads_are_attention(decomposition: dict[str, Any]) -> None:
    """The first synchronous iteration looks at uniform heads, which are symmetric: Eq. 20 for any length."""
    model = symmetric(decomposition, iterations=1, schedule="synchronous")
    unary, mask = sentences([5])
    U, V = factors(model)
    labels = unary[0].softmax(-1)
    uniform = (1.0 - torch.eye(5, dtype=torch.float64)) / 4
    expected = 2 * (uniform @ (labels @ V) @ U.mT).sum(0)
    torch.testing.assert_close(message(model, unary, mask), expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_of_three_words_attention_is_an_approximation() -> None:
    """The paper's step from Eq. 16 to 20 fails for three words and more: ``F_c`` is symmetric, its row softmax is not.

    The paper says that ``Q_h,c`` is symmetric "based on Formula 15 and 19". But every row of ``softmax(F_c / λ_H)`` has
    a normaliser of its own: j may be the only likely head of i, and i one of many for j. Here (5 words, 5 labels, 2
    channels, `uv`, λ_H = 1/d, one asynchronous iteration, 20 models) a head probability differs by up to 0.46 from its
    mirror image, and the attention form of Eq. 28-29 by up to 0.67 from ``G``, whose own largest entry is 1.9. The
    encoder computes Eq. 16, whatever ``T`` is.
    """
    heads_apart, message_apart = 0.0, 0.0
    for seed in range(20):
        model = symmetric({"kind": "uv", "rank": 3}, iterations=1, seed=seed)
        unary, mask = sentences([5], seed=seed)
        heads = infer(model, unary, mask)[-1].heads[0]
        G = message(model, unary, mask)
        heads_apart = max(heads_apart, float((heads - heads.mT).abs().max()))
        message_apart = max(message_apart, float((G - attention(model, unary[0].softmax(-1))).abs().max()))
    assert heads_apart > 0.3
    assert message_apart > 0.3


@torch.no_grad()
def test_global_features_are_a_feed_forward_layer() -> None:
    """Eq. 62: ``GFU(x) = softmax(x Bᵀ) B`` is the message of single-split features (with λ_H = 1)."""
    options: dict[str, Any] = {"globals": {"kind": "single-split", "features": 7}, "message_weight": {"heads": 1.0}}
    decomposition = {"kind": "uv", "rank": 3}
    for length in (1, 2):
        model = symmetric(decomposition, iterations=3, **options)
        unary, mask = sentences([length])
        labels, B = infer(model, unary, mask)[-2].labels[0], global_scores(model)
        expected = (labels @ B.mT).softmax(-1) @ B
        if length > 1:  # Eq. 60: attention and feed-forward, side by side
            expected = expected + attention(model, labels)
        torch.testing.assert_close(message(model, unary, mask), expected, rtol=0, atol=1e-12)
