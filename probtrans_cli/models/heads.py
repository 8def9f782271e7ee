"""From words to scores: unary scores in front of an encoder, an output layer behind it."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from probtrans_cli.models.base import Encoded
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder


class Network(nn.Module):
    """Unary scores ``S [v, d]`` (Eq. 1; Xavier-uniform, the padding row zero), encoder, and a linear output layer."""

    def __init__(self, vocabulary: int, encoder: ProbabilisticEncoder, outputs: int) -> None:
        super().__init__()
        self.unary = nn.Embedding(vocabulary, encoder.width, padding_idx=0)
        nn.init.xavier_uniform_(self.unary.weight)
        with torch.no_grad():
            self.unary.weight[0].zero_()
        self.encoder = encoder
        self.output = nn.Linear(encoder.width, outputs)

    def encode(self, ids: Int[Tensor, "b n"], mask: Bool[Tensor, "b n"], arcs: bool = False) -> Encoded:
        """Representations of the words ``ids``; ``mask`` is True at real words."""
        encoded: Encoded = self.encoder(self.unary(ids), mask, arcs=arcs)
        return encoded

    def forward(
        self, ids: Int[Tensor, "b n"], mask: Bool[Tensor, "b n"], at: Bool[Tensor, "b n"]
    ) -> Float[Tensor, "m o"]:
        """Output scores at the positions ``at`` only, in row-major order: the other rows are never computed."""
        scores: Tensor = self.output(self.encode(ids, mask).states[at])
        return scores

    def parameter_counts(self) -> dict[str, int]:
        """Number of parameters of the three parts."""
        return {name: sum(p.numel() for p in part.parameters()) for name, part in self.named_children()}
