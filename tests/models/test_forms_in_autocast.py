"""The fast forms in an autocast, where products are rounded; second derivatives, which no gradient by hand has."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import DECOMPOSITIONS, FAST, encoder, gradients, name, sentences, with_distances

from probtrans_cli.models.probabilistic.fast import forms as choice

OPTIONS: list[dict[str, Any]] = [
    {},
    {"root": {"labels": 4, "decomposition": {"kind": "uvw", "rank": 2}}, "schedule": "synchronous"},
    {"latent": "spherical", "root": {"labels": 4}, "message_weight": {"labels": 0.5}},
]
LENGTHS = [18, 1, 5, 2]  # longer than a block of the linear form and than the band

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.usefixtures("small_pieces", "rows")
@pytest.mark.parametrize("options", OPTIONS, ids=name)
@pytest.mark.parametrize("scores", with_distances(DECOMPOSITIONS, [None, 2]), ids=name)
def test_by_hand_an_autocast_rounds_no_more_than_by_autograd(
    scores: dict[str, Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Distances to float32 of the states and all gradients, taken together."""
    model = encoder(**scores, **options).float()
    unary, mask = sentences(LENGTHS)
    unary = unary.float().requires_grad_()

    def everything() -> torch.Tensor:
        found = model(unary, mask)
        parts = [found.states.detach(), *gradients(model, unary, found)]  # from within the autocast
        return torch.cat([(part.float() / part.float().norm().clamp_min(1e-6)).flatten() for part in parts])

    exact = everything()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert choice.choose("fast", unary, mask, model.inference).form.name == "fused"
        hand = everything()
        monkeypatch.setattr(choice, "mixed", lambda _: False)
        autograd = everything()
    assert 0.0 < float((hand - exact).norm()) <= 3.0 * float((autograd - exact).norm()) + 1e-3


@pytest.mark.usefixtures("small_pieces", "rows")
@pytest.mark.parametrize("scores", with_distances(DECOMPOSITIONS, [None, 0, 2]), ids=name)
def test_what_is_computed_again_in_an_autocast_is_the_same(scores: dict[str, Any]) -> None:
    """With dropout and several blocks, bit by bit; the backward pass is outside of the autocast, as in training."""
    model = encoder(**scores, dropout=0.3).float().train()
    unary, mask = sentences(LENGTHS)
    unary = unary.float().requires_grad_()
    found = []
    for messages in FAST:
        model.messages = messages  # type: ignore[assignment]
        torch.manual_seed(0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            encoded = model(unary, mask)
        found.append([encoded.states, *gradients(model, unary, encoded)])
    for one, other in zip(*found, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


@pytest.mark.parametrize("messages", FAST)
@pytest.mark.parametrize("autocast", [False, True])
def test_second_derivatives_are_refused(messages: str, autocast: bool) -> None:
    model = encoder(messages=messages).float()
    unary, mask = sentences([4, 2])
    unary = unary.float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        states = model(unary, mask).states
    with pytest.raises(RuntimeError, match="have no derivatives"):
        torch.autograd.grad(states.square().sum(), unary, create_graph=True)
