"""Output layers for arcs with relations: scores of every head with every relation.

    S_i(c,j) = M_i(c,j)                                   the labelled head variable itself, channel c the relation
    S_i(c,j) = s(i,j) + ln P(c | i,j)                     biaffine (Dozat and Manning 2017)
    s(i,j) = [x_i; 1]ᵀ W [y_j; 1]       P(c | i,j) ∝ exp([x'_i; 1]ᵀ U_c [y'_j; 1])

    P_i(c,j) ∝ exp S_i(c,j)                               of a word by itself
    P(tree) ∝ exp Σ_i S_i(c_i,h_i)                        of a sentence; an arc weighs Σ_c exp S_i(c,j)

Relation 0 is that of the arc from the root, and of no other arc. Impossible pairs have a very low score.

symbol   code      shape              meaning
S        scores    [b, w, h, w + 1]   scores of relation c and head j; the last column is the root
x y      child …   [b, w, a]          vectors of a word as a dependent and as a head, by a layer each
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.models.arithmetic import Linear
from probtrans_cli.models.base import Encoder
from probtrans_cli.models.outputs import OutputLayer, View
from probtrans_cli.models.probabilistic.matrix_tree import log_partition, tree_marginals

FAR_BELOW = 300.0
"""How far below the score of a known arc the others of its word count: no tree with them counts, to the last digit."""


class ArcOutput(OutputLayer, nn.Module):
    """Scores ``arcs`` of heads with relations, ``[b, w, h * (w + 1)]``; very low ones where there can be no arc.

    ``projective``: whether trees are to have no crossing arcs: where those of the training have none, or dev says so.
    """

    decision = decided = "projective"
    projective: Tensor

    def __init__(self, relations: int) -> None:
        super().__init__()
        self.relations = relations
        self.register_buffer("projective", torch.tensor(False))


class HeadOutput(ArcOutput):
    """Those of the labelled head variables after the last iteration; in training, where asked for, as ``arcs T`` also
    those after each earlier iteration T."""

    def __init__(self, encoder: Encoder, *, every_iteration: bool) -> None:
        field: Any = encoder.top  # a probabilistic transformer whose heads have labels
        super().__init__(field.section.channels)
        last = field.section.iterations
        self.own_label = field.section.root.own_label
        field.score_heads(range(1, last + 1) if every_iteration else range(last, last + 1))

    def read(self, view: View) -> Mapping[str, Tensor]:
        assert view.encoded is not None, "it reads sentences once"
        assert view.wants.words is not None, "the task asks for words"
        allowed = allowed_arcs(view.wants.words, self.relations)
        *earlier, last = view.encoded.arc_scores if self.training else view.encoded.arc_scores[-1:]
        scores = {}
        for name, of_heads in ({"arcs": last} | {f"arcs {t}": of for t, of in enumerate(earlier, start=1)}).items():
            values, w, n = of_heads.transpose(1, 2), allowed.shape[1], of_heads.shape[2]  # [b, n, h, m]
            if values.shape[-1] != w + 1:  # there are longer texts, or global features
                values = torch.cat([values[:, :w, :, :w], values[:, :w, :, n : n + 1]], dim=-1)
            # What the field does not allow is very low already.
            values = values if self.own_label else values.masked_fill(~allowed, torch.finfo(values.dtype).min)
            scores[name] = values.flatten(2)
        return scores


class BiaffineOutput(ArcOutput):
    """Bilinear scores of the representations of two words; the root has a representation of its own."""

    def __init__(self, width: int, relations: int, *, arc_size: int, relation_size: int, dropout: float) -> None:
        super().__init__(relations)
        self.dropout = dropout
        self.root = nn.Parameter(torch.randn(width) * width**-0.5)
        self.child, self.head = Linear(width, arc_size), Linear(width, arc_size)
        self.child_relation, self.head_relation = Linear(width, relation_size), Linear(width, relation_size)
        self.W = nn.Parameter(torch.zeros(arc_size + 1, arc_size + 1))
        self.U = nn.Parameter(torch.zeros(relations, relation_size + 1, relation_size + 1))
        for layer in (self.child, self.head, self.child_relation, self.head_relation):
            nn.init.orthogonal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def read(self, view: View) -> Mapping[str, Tensor]:
        states = view.states
        assert isinstance(states, Tensor), "it has no moments"
        assert view.wants.words is not None, "the task asks for words"
        allowed = allowed_arcs(view.wants.words, self.relations)
        words = view.in_sentences(states)
        root = self.root.to(words.dtype).expand(words.shape[0], 1, -1)
        heads = torch.cat([words, root], dim=1)
        x, y = self._vectors(self.child, words), self._vectors(self.head, heads)
        arcs = x @ self.W.to(x.dtype) @ y.mT
        x, y = self._vectors(self.child_relation, words), self._vectors(self.head_relation, heads)
        relations = torch.einsum("bia,cae->bice", x, self.U.to(x.dtype)) @ y[:, None].mT
        exact = torch.promote_types(relations.dtype, torch.float32)
        relations = relations.to(exact).masked_fill(~allowed, torch.finfo(exact).min)
        scores = arcs.to(exact)[:, :, None] + relations.log_softmax(2)
        return {"arcs": scores.masked_fill(~allowed, torch.finfo(exact).min).flatten(2)}

    def _vectors(self, layer: Linear, states: Tensor) -> Tensor:
        vectors = functional.dropout(functional.leaky_relu(layer(states), 0.1), self.dropout, self.training)
        return functional.pad(vectors, (0, 1), value=1.0)


def allowed_arcs(words: Bool[Tensor, "b w"], relations: int) -> Bool[Tensor, "b w h m"]:
    """Return which head may have which relation: another word any but relation 0, the root relation 0."""
    w = words.shape[1]
    itself = torch.eye(w, dtype=torch.bool, device=words.device)
    of_words = words[:, :, None] & words[:, None, :] & ~itself
    first = torch.arange(relations, device=words.device) == 0
    from_words = of_words[:, :, None] & ~first[:, None]
    from_root = (words[:, :, None] & first)[..., None]
    return torch.cat([from_words, from_root], dim=-1)


def arc_loss(
    scores: Float[Tensor, "b w h m"],
    words: Bool[Tensor, "b w"],
    heads: Int[Tensor, "b w"],
    relations: Int[Tensor, "b w"],
    *,
    tree: bool,
) -> Float[Tensor, ""]:
    """Return minus the log-probability of gold arcs, summed over words, or of trees over sentences.

    Args:
        scores: of relation c and head j of every word, see the module.
        words: where there is a word.
        heads: column of the gold head, the last one is the root; -1 where it is not known.
        relations: of these arcs.
        tree: of trees: where heads are missing, the probability of all trees that agree with what is known.
    """
    w = words.shape[1]
    known = words & (heads >= 0)
    place = relations.clamp(min=0) * (w + 1) + heads.clamp(min=0)
    gold = scores.flatten(2).gather(-1, place[..., None])[..., 0]
    if not tree:
        return (scores.flatten(2).logsumexp(-1) - gold)[known].sum()
    arcs = scores.logsumexp(2)
    log_z = log_partition(arcs, words)
    whole = (known | ~words).all(1)
    agreeing = torch.where(known, gold, 0.0).sum(1)
    if not bool(whole.all()):
        column = torch.arange(w + 1, device=words.device)
        of_gold = column == heads[..., None]
        constrained = torch.where(of_gold, gold[..., None], (gold - FAR_BELOW)[..., None])
        constrained = torch.where(known[..., None], constrained, arcs)
        agreeing = torch.where(whole, agreeing, log_partition(constrained, words))
    return (log_z - agreeing).sum()


def head_probabilities(
    scores: Float[Tensor, "b w h m"], words: Bool[Tensor, "b w"], *, tree: bool
) -> Float[Tensor, "b w m"]:
    """Return the probability of every head of every word; zero on padding."""
    arcs = scores.logsumexp(2)
    return tree_marginals(arcs, words) if tree else arcs.softmax(-1) * words[..., None]
