"""The energy that mean field descends (Wu & Tu 2023, appendix A.4), with the entropies that regularise it (A.2).

    E(Q)   = - Σ_i Σ_a Q_i(a) S[w_i,a] - Σ_c Σ_i Σ_j≠i Q_ic(j) F_ic(j) - Σ_c Σ_i Q_ic(root) F_ic(root) - Σ Q B
    E_λ(Q) = E(Q) - λ_Z (Σ_i H(Q_i) + H(Q_root)) - λ_H Σ_ic H(Q_ic) - λ_G Σ H(Q_G) + Σ f² / 2

Updating one variable at a time to ``softmax(-∂E/λ)``, a spherical one to its mean (``latent.py``), minimises ``E_λ``
exactly in that variable, so that sequential updates never raise it; the parallel updates of the model may. So does
``max(0, -∂E)`` of the degree ``f`` of a rectified feature, which stands in ``E`` as a ``Q`` does. With all weights 1,
``-E_λ`` is a lower bound of the log partition function, in which the points of a sphere weigh 1 together; not so with
rectified features, which are numbers and no distributions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probtrans_cli.models.probabilistic.inference import Inference
from probtrans_cli.models.probabilistic.latent import Latent
from probtrans_cli.models.probabilistic.layout import Layout
from probtrans_cli.models.probabilistic.meanfield import State
from probtrans_cli.models.probabilistic.messages import PlainMessages

if TYPE_CHECKING:
    from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder


def expected_score(
    encoder: ProbabilisticEncoder,
    unary: Float[Tensor, "b n d"],
    mask: Bool[Tensor, "b n"],
    state: State,
    bias: tuple[Float[Tensor, "b c n n"], Float[Tensor, "b c n"]] | None = None,
) -> Float[Tensor, " b"]:
    """``-E(Q)``: the expected score of every sentence's assignments; ``bias``: what is added to ``F``."""
    n = mask.shape[1]
    layout = Layout.of(mask)
    messages = PlainMessages(encoder.ternary, layout, encoder.section.distance)
    between = messages.to_heads(messages.sides(layout.rows(state.labels))).masked_fill(~messages.candidates, 0.0)
    score = torch.einsum("bia,bia->b", state.labels, unary.masked_fill(~mask[:, :, None], 0.0))
    score = score + torch.einsum("bcij,bcij->b", state.heads[..., :n], between)
    others = state.heads[..., n:]
    if bias is not None:
        score = score + (state.heads[..., :n] * bias[0]).sum((1, 2, 3))
        if encoder.root is not None:
            score = score + (others[..., 0] * bias[1]).sum((1, 2))
    root, features = encoder.root_scores(), encoder.global_scores()
    if root is not None:
        at_root, others = others[..., 0], others[..., 1:]
        score = score + torch.einsum("bci,bia,be,cae->b", at_root, state.labels, state.root, root)
    if features is not None and state.features is None:
        score = score + torch.einsum("bcik,bia,cka->b", others, state.labels, features)
    elif features is not None:
        features = features if features.dim() == 3 else features[None]
        score = score + torch.einsum("bick,bia,cka->b", state.features, state.labels, features)
    return score


def entropy(state: State, latent: Latent, inference: Inference) -> Float[Tensor, " b"]:
    """Weighted sum of the entropies of all variables of every sentence."""
    labels = latent.entropy(state.labels).sum(1)
    if state.root is not None:
        labels = labels + latent.entropy(state.root)
    total = inference.labels.weight * labels + inference.heads.weight * _entropy(state.heads)
    if state.features is not None:
        entropies = inference.of_features.entropy(state.features)
        total = total + inference.features.weight * entropies.flatten(1).sum(1)
    return total


def _entropy(distribution: Float[Tensor, "b ..."]) -> Float[Tensor, " b"]:
    terms: Tensor = torch.special.entr(distribution)
    return terms.flatten(1).sum(1)
