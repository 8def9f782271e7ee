"""The probabilistic transformer with `uv` scores in the way of the paper's code, as a measure of what that costs.

The equations of ``models/probabilistic/crf.py``, but with what the paper's code spends on them: sides are computed
for the scores and once more for either direction of the messages (six products with parameters an iteration where four
suffice), gradients of parameters are added up product by product, and every position of the padded batch is a word
until its heads are chosen.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.models import Encoded, build
from probtrans_cli.models.base import Words
from probtrans_cli.models.probabilistic.crf import bucket_of
from probtrans_cli.models.probabilistic.potentials import UV


class Reference(nn.Module):
    """An encoder of a recipe's ``model`` section that asks for no more than the paper's MLM model has."""

    def __init__(self, section: dict[str, object]) -> None:
        super().__init__()
        encoder = build(section)
        assert isinstance(encoder.ternary, UV), "the decomposition is `uv`"
        self.ternary, self.section = encoder.ternary, encoder.section

    def forward(self, words: Words, at: Tensor | None = None) -> Encoded:
        """All states, whatever is wanted."""
        del at
        unary, mask = words.unary, words.mask
        section, U, V = self.section, self.ternary.U, self.ternary.V
        n = mask.shape[1]
        word, k = torch.arange(n, device=mask.device), torch.arange(len(U), device=mask.device)
        bucket = bucket_of(word[:, None] - word, section.distance) == k[:, None, None]
        bucket = bucket.to(unary.dtype)[None, :, None]
        itself = torch.eye(n, dtype=torch.bool, device=mask.device)
        allowed = (mask[:, :, None] & mask[:, None, :] & ~itself)[:, None]
        states, labels = unary, unary.softmax(-1)
        for _ in range(section.iterations):
            u, v = self._side(labels, U), self._side(labels, V)
            scores = (u @ v.mT * bucket).sum(1) * section.labels
            heads = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1) * allowed
            heads = functional.dropout(heads, section.dropout, self.training)
            by_bucket = heads[:, None] * bucket
            to_child = torch.einsum("bkcir,kcra->bia", by_bucket @ self._side(labels, V), U)
            to_head = torch.einsum("bkcjr,kcra->bja", by_bucket.mT @ self._side(labels, U), V)
            states = functional.dropout(unary + to_child + to_head, section.dropout, self.training)
            labels = states.softmax(-1)
        return Encoded(states * mask[:, :, None])

    @staticmethod
    def _side(labels: Tensor, factor: Tensor) -> Tensor:
        return torch.einsum("bia,kcra->bkcir", labels, factor)
