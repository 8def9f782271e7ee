"""What an encoder tells of itself while it learns."""

from __future__ import annotations

import pytest
import torch

from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder, message_norm
from probtrans_cli.recipe.model import ProbabilisticTransformer


def test_how_loud_messages_are() -> None:
    """`message_norm`, by loops; it does not hear of padding, nor of what all labels of a word share."""
    torch.manual_seed(0)
    unary, messages, mask = torch.randn(2, 4, 5), torch.randn(2, 4, 5), torch.ones(2, 4, dtype=torch.bool)
    mask[1, 2:] = False
    own = heard = 0.0
    for b, i in mask.nonzero().tolist():
        for a in range(5):
            own += float(unary[b, i, a] - unary[b, i].mean()) ** 2
            heard += float(messages[b, i, a] - messages[b, i].mean()) ** 2
    scores = torch.where(mask[:, :, None], unary + messages + torch.randn(2, 4, 1), 1e9)
    assert float(message_norm(unary, scores, mask)) == pytest.approx((heard / own) ** 0.5, rel=1e-5)


@torch.no_grad()
def test_messages_are_compared_before_they_are_divided() -> None:
    """By λ_Z; of points on a sphere with all that their numbers share."""
    torch.manual_seed(0)
    options = {"labels": 6, "channels": 2, "iterations": 1, "dropout": 0.0, "message_weight": {"labels": 0.5}}
    section = ProbabilisticTransformer.model_validate({**options, "latent": "spherical"})
    encoder = ProbabilisticEncoder(section)
    unary, mask = torch.randn(1, 4, 6), torch.ones(1, 4, dtype=torch.bool)
    states = encoder(unary, mask)
    found = encoder.figures(unary, mask, states)
    messages = 0.5 * states.states - unary
    assert float(found["message_norm"]) == pytest.approx(float(messages.norm() / unary.norm()), rel=1e-5)
    torch.nn.init.zeros_(encoder.ternary.U)
    quiet = encoder.figures(unary, mask, encoder(unary, mask))
    assert float(quiet["message_norm"]) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("output", ["scores", "probabilities"])
@torch.no_grad()
def test_an_encoder_tells_how_loud_its_messages_are(output: str) -> None:
    """It is the same whether the states are label scores or probabilities; without ternary scores it is 0."""
    torch.manual_seed(0)
    section = ProbabilisticTransformer(labels=6, channels=2, iterations=2, dropout=0.0, output=output)
    encoder = ProbabilisticEncoder(section)
    unary, mask = torch.randn(1, 4, 6), torch.ones(1, 4, dtype=torch.bool)
    last = encoder.infer(unary, mask)[-1].labels.log() - unary
    last = last - last.mean(-1, keepdim=True)
    own = unary - unary.mean(-1, keepdim=True)
    found = encoder.figures(unary, mask, encoder(unary, mask))
    assert float(found["message_norm"]) == pytest.approx(float(last.norm() / own.norm()), rel=1e-4)
    torch.nn.init.zeros_(encoder.ternary.U)
    quiet = encoder.figures(unary, mask, encoder(unary, mask))
    assert float(quiet["message_norm"]) == pytest.approx(0.0, abs=1e-5)
