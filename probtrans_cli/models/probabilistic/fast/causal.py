"""Messages of the ternary scores of a causal field by products, in place of derivatives: the values of ``causal.py``.

Near heads, of which a bucket has one for each word, are shifts; all far ones are one product. Sides of a prefix are
computed once for all iterations that read it. Other factors are derived as they are there.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import vjp
from torch.nn import functional

from probtrans_cli.models.probabilistic.causal import Slots
from probtrans_cli.models.probabilistic.crf import Ternary
from probtrans_cli.models.probabilistic.inference import State


class FastSlots(Slots):
    """See :class:`Slots`."""

    _heads: tuple[Tensor, int, Tensor] | None = None  # a prefix, the iteration whose potentials read it, head sides

    def messages(self, Q: State, *variables: str) -> dict[str, Tensor]:
        index = min(self.iteration, len(self.factors) - 1)
        factors = self.factors[index]
        assert Q.prefix is not None, "the field is causal"
        ternary = next(factor for factor in factors if isinstance(factor, Ternary))
        if self._heads is None or self._heads[0] is not Q.prefix or self._heads[1] != index:
            self._heads = Q.prefix, index, ternary.sides(Q.prefix)[1]
        v = self._heads[2]
        messages = super().messages(Q, *variables)
        if "heads" in variables:
            words = head_scores(ternary.sides(Q.labels)[0], v)
            messages["heads"] = torch.cat([words, messages["heads"][..., words.shape[3] :]], dim=-1)
        if "labels" in variables:
            to_labels = vjp(lambda labels: ternary.sides(labels)[0], Q.labels)[1]
            messages["labels"] = messages["labels"] + to_labels(child_messages(Q.word_heads, v))[0]
        return messages

    def expected_score(self, Q: State) -> Float[Tensor, " b"]:
        factors = self.factors[min(self.iteration, len(self.factors) - 1)]
        scores = [factor.score(Q, self.sentences) for factor in factors if not isinstance(factor, Ternary)]
        return torch.stack([(Q.labels * self.unary).sum((1, 2)), *scores]).sum(0)


def head_scores(u: Float[Tensor, "b n k c r"], v: Float[Tensor, "b n k c r"]) -> Float[Tensor, "b c n n"]:
    """Return ``F_tc(j) = u_t[k,c] · v_j[k,c]``, of heads that are not earlier without meaning."""
    n, near = u.shape[1], u.shape[2] - 1
    F = torch.einsum("bicr,bjcr->bcij", u[:, :, near], v[:, :, near])
    for k in range(min(near, n - 1)):
        scores = (u[:, k + 1 :, k] * v[:, : n - k - 1, k]).sum(-1)
        F = F.diagonal_scatter(scores.transpose(1, 2), -(k + 1), 2, 3)
    return F


def child_messages(heads: Float[Tensor, "b c n n"], v: Float[Tensor, "b n k c r"]) -> Float[Tensor, "b n k c r"]:
    """Return ``Σ_j Q_tc(j) v_j[k,c]`` over the heads in each bucket."""
    near = v.shape[2] - 1
    far = torch.einsum("bcij,bjcr->bicr", heads.tril(-near - 1), v[:, :, near])
    parts = []
    for k in range(near):
        chances = heads.diagonal(-(k + 1), 2, 3).transpose(1, 2)[..., None]
        nearest = v[:, : chances.shape[1], k] * chances
        parts.append(functional.pad(nearest, (0, 0, 0, 0, heads.shape[2] - chances.shape[1], 0)))
    return torch.stack([*parts, far], dim=2)
