"""Mean-field inference in the conditional random field (Wu & Tu 2023, section 2.2 and 2.3).

    Q_i^(0)    ∝ exp(S[w_i])                      Q_ic^(0) uniform over the candidates                     (7, 8)
    Q_ic^(t)   ∝ exp(F_ic / λ_H)                  head distributions                                       (6, 12)
    M_i^(t)    = (S[w_i] + G_i) / λ_Z             label scores                                             (11)
    Q_i^(t)    ∝ exp(M_i^(t))                     label distributions                                      (5)

Asynchronous (2.3.2): ``F`` from ``Q_Z^(t-1)``, then ``G`` from ``Q_Z^(t-1)`` and the *new* heads. Synchronous: both
from the values at ``t-1``. The word representation is ``M^(T)``, without the softmax. Dropout, where the paper's code
has it: on the head distributions (the same dropped ones in both directions of ``G``) and on the label scores.

symbol   variable     shape            meaning
S        unary        [b, n, d]        unary scores
Q_Z      labels       [b, n, d]        label distributions
Q_H      heads        [b, h, n, n]     head distributions: dependent i, head j
F        –            [b, h, n, n]     messages to the heads
G        –            [b, n, d]        messages to the labels
λ_Z λ_H  weight       –                message weights (2.3.3)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from probtrans_cli.models.probabilistic.messages import Buckets, TernaryMessages
from probtrans_cli.models.probabilistic.potentials import Ternary


@dataclass(frozen=True)
class Inference:
    """The options of the mean-field loop: ``T`` iterations, schedule, message weights ``λ_Z`` and ``λ_H``."""

    iterations: int
    asynchronous: bool
    label_weight: float
    head_weight: float


def candidates(mask: Bool[Tensor, "b n"]) -> Bool[Tensor, "b 1 n n"]:
    """Which word may be whose head: every real word but itself, ``[b, 1, i, j]``."""
    pairs = mask[:, :, None] & mask[:, None, :]
    itself = torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
    return (pairs & ~itself)[:, None]


def over(scores: Float[Tensor, "b c n m"], allowed: Bool[Tensor, "b 1 n m"]) -> Float[Tensor, "b c n m"]:
    """Softmax over the allowed entries of each row; a row with none is all zero, never NaN."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~allowed, lowest).softmax(-1) * allowed


def mean_field(
    unary: Float[Tensor, "b n d"],
    mask: Bool[Tensor, "b n"],
    ternary: Ternary,
    buckets: Buckets,
    inference: Inference,
    dropout: nn.Module,
) -> tuple[Float[Tensor, "b n d"], list[Float[Tensor, "b c n n"]]]:
    """Label scores ``M^(T)`` (zero on padding) and the head distributions ``Q_H^(t)`` of every iteration."""
    allowed = candidates(mask)
    forms = ternary.forms(buckets.sizes)
    scores = unary
    heads: list[Tensor] = []
    for _ in range(inference.iterations):
        labels = scores.softmax(-1)
        messages = TernaryMessages(forms, labels, buckets)
        to_heads = messages.to_heads()
        before = heads[-1] if heads else over(torch.zeros_like(to_heads), allowed)
        heads.append(over(to_heads / inference.head_weight, allowed))
        to_labels = messages.to_labels(dropout(heads[-1] if inference.asynchronous else before))
        scores = dropout((unary + to_labels) / inference.label_weight)
    return scores * mask[:, :, None], heads
