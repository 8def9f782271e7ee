"""Messages of a causal field by products, in place of derivatives: the values of ``causal.py``.

Near heads, of which a bucket has one for each word, are shifts; all far ones are one product. Sides of a prefix are
computed once for all iterations that read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models.probabilistic.causal import Chain, RootColumn, Slots
from probtrans_cli.models.probabilistic.crf import Factor, Globals
from probtrans_cli.models.probabilistic.inference import Inference, Sentences, State
from probtrans_cli.models.probabilistic.potentials import Ternary, bucket_count
from probtrans_cli.models.probabilistic.projections import Projection, Sides


class Arcs:
    """Arcs to the words of a prefix, by the ternary scores of one iteration."""

    def __init__(self, prefix: Float[Tensor, "b n d"], ternary: Ternary) -> None:
        self.prefix, self.ternary = prefix, ternary
        self.projection: Projection = ternary.projection([bucket_count(ternary.distance, causal=True)])
        self.position = torch.arange(prefix.shape[1], device=prefix.device).repeat(prefix.shape[0])
        sides = self.sides(prefix)
        self.v = torch.unflatten(sides.head.expand(sides.u.shape), 0, prefix.shape[:2])

    def sides(self, labels: Float[Tensor, "b n d"]) -> Sides:
        """Return the sides of words in the places of the prefix."""
        (sides,) = self.projection.sides(labels.flatten(0, 1), self.position)
        return sides

    def to_heads(self, labels: Float[Tensor, "b n d"]) -> Float[Tensor, "b c n n"]:
        """Return ``F_tc(j) = u_t[k,c] · v_j[k,c]``, of heads that are not earlier without meaning."""
        u, v = torch.unflatten(self.sides(labels).u, 0, self.prefix.shape[:2]), self.v
        n, near = u.shape[1], u.shape[2] - 1
        F = torch.einsum("bicr,bjcr->bcij", u[:, :, near], v[:, :, near])
        for k in range(min(near, n - 1)):
            scores = (u[:, k + 1 :, k] * v[:, : n - k - 1, k]).sum(-1)
            F = F.diagonal_scatter(scores.transpose(1, 2), -(k + 1), 2, 3)
        return F

    def to_labels(self, labels: Float[Tensor, "b n d"], heads: Float[Tensor, "b c n n"]) -> Float[Tensor, "b n d"]:
        """Return ``Σ_c Σ_j Q_tc(j) B[c,j,a]``."""
        sides, v = self.sides(labels), self.v
        near = v.shape[2] - 1
        far = torch.einsum("bcij,bjcr->bicr", heads.tril(-near - 1), v[:, :, near])
        to_child = []  # of each bucket Σ_j Q_tc(j) v_j[k,c]
        for k in range(near):
            chances = heads.diagonal(-(k + 1), 2, 3).transpose(1, 2)[..., None]
            nearest = v[:, : chances.shape[1], k] * chances
            to_child.append(functional.pad(nearest, (0, 0, 0, 0, heads.shape[2] - chances.shape[1], 0)))
        messages = sides.back(torch.stack([*to_child, far], dim=2).flatten(0, 1))
        return torch.unflatten(self.projection.from_child([messages], self.position), 0, self.prefix.shape[:2])


class FastSlots(Slots):
    """See :class:`Slots`."""

    _arcs: Arcs | None = None
    _form: ClassVar[type[Arcs]] = Arcs
    _behind: ClassVar[bool] = False  # whether the slot stands behind the prefix

    def messages(self, Q: State, *variables: str) -> dict[str, Tensor]:
        assert Q.prefix is not None, "the field is causal"
        factors = self.factors[min(self.iteration, len(self.factors) - 1)]
        (ternary,) = (factor for factor in factors if isinstance(factor, Ternary))
        if self._arcs is None or self._arcs.prefix is not Q.prefix or self._arcs.ternary is not ternary:
            self._arcs = self._form(Q.prefix, ternary)
        if "labels" in variables:
            parts = []
            for factor in reversed(factors):
                if isinstance(factor, RootColumn):
                    parts.append(torch.einsum("bci,ca->bia", Q.root_heads, factor.dense()))
                elif isinstance(factor, Globals):
                    parts.append(torch.einsum("bick,cka->bia", factor.chosen(Q), factor.dense()))
                elif isinstance(factor, Chain):
                    parts.append(factor.message(Q.prefix, behind=self._behind))
            message = sum([*parts[1:], self.unary], parts[0]) + self._arcs.to_labels(Q.labels, Q.word_heads)
            return {"labels": message}
        candidates = [self._arcs.to_heads(Q.labels)]
        messages = {}
        for factor in factors:
            if isinstance(factor, RootColumn):
                candidates.append(torch.einsum("bia,ca->bci", Q.labels, factor.dense())[..., None])
            elif isinstance(factor, Globals):
                scores = torch.einsum("bia,cka->bick", Q.labels, factor.dense())
                if Q.features is None:
                    candidates.append(scores.transpose(1, 2))
                else:
                    messages["features"] = scores
        return {"heads": torch.cat(candidates, dim=-1), **messages}


class NextArcs(Arcs):
    """Arcs from the slot behind a prefix alone: each word of the prefix stands in one bucket."""

    def __init__(self, prefix: Float[Tensor, "b t d"], ternary: Ternary) -> None:
        super().__init__(prefix, ternary)
        b, t, buckets = self.v.shape[:3]
        places = torch.arange(t, device=prefix.device)
        self.bucket = (t - 1 - places).clamp(max=buckets - 1)
        self.near = self.v[:, places, self.bucket]
        self.position = torch.full((b,), t, device=prefix.device)  # from here on, sides are those of the slot

    def to_heads(self, labels: Float[Tensor, "b 1 d"]) -> Float[Tensor, "b c 1 t"]:
        return torch.einsum("bjcr,bjcr->bcj", self.sides(labels).u[:, self.bucket], self.near)[:, :, None]

    def to_labels(self, labels: Float[Tensor, "b 1 d"], heads: Float[Tensor, "b c 1 t"]) -> Float[Tensor, "b 1 d"]:
        sides = self.sides(labels)
        parts = torch.einsum("bcj,bjcr->bjcr", heads[:, :, 0], self.near)
        messages = torch.zeros_like(sides.u, dtype=parts.dtype).index_add(1, self.bucket, parts)
        return self.projection.from_child([sides.back(messages)], self.position)[:, None]


class NextSlot(FastSlots):
    """Mean field of the slot behind a prefix; ``prefixes [b, t, d]``: q of its words, as each iteration reads them."""

    _form = NextArcs
    _behind = True

    def __init__(
        self,
        unary: Float[Tensor, "b 1 d"],
        prefixes: Sequence[Float[Tensor, "b t d"]],
        factors: Sequence[Sequence[Factor]],
        inference: Inference,
    ) -> None:
        sentences = Sentences(unary, torch.ones_like(unary[..., 0], dtype=torch.bool))
        super().__init__(sentences, factors, inference, prefixes=prefixes)
        b, t, _ = prefixes[0].shape
        words = unary.new_zeros(b, inference.channels, 1, t)
        self.M = self.M._replace(heads=torch.cat([words, self.M.heads[..., 1:]], dim=-1))
        self.allowed = torch.ones_like(self.M.heads[:, :1], dtype=torch.bool)
        self.Q = self.Q._replace(heads=self._mean("heads", self.M.heads))
