"""The probabilistic transformer as an encoder: unary scores in, contextual label scores and head marginals out."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from probtrans_cli.models.base import Encoded
from probtrans_cli.models.probabilistic.meanfield import Inference, mean_field
from probtrans_cli.models.probabilistic.messages import Buckets, bucket_count
from probtrans_cli.models.probabilistic.potentials import ternary
from probtrans_cli.recipe_model import ProbabilisticTransformer


class ProbabilisticEncoder(nn.Module):
    """Mean-field inference with learned ternary scores (Wu & Tu 2023); ``section`` holds its options."""

    def __init__(self, section: ProbabilisticTransformer) -> None:
        super().__init__()
        self.section = section
        self.ternary = ternary(section.decomposition, bucket_count(section.distance), section.channels, section.labels)
        self.inference = Inference(
            iterations=section.iterations,
            asynchronous=section.schedule == "asynchronous",
            label_weight=section.message_weight.labels,
            head_weight=section.message_weight.heads or 1.0 / section.labels,
        )
        self.dropout = nn.Dropout(section.dropout)

    @property
    def width(self) -> int:
        """d: the size of a word's unary scores and of its representation."""
        return self.section.labels

    def forward(self, unary: Float[Tensor, "b n d"], mask: Bool[Tensor, "b n"], arcs: bool = False) -> Encoded:
        """Representations of padded sentences; ``mask`` is True at real words. ``arcs``: also every ``Q_H^(t)``."""
        buckets = Buckets.of(mask.shape[1], self.section.distance, mask.device)
        states, heads = mean_field(unary, mask, self.ternary, buckets, self.inference, self.dropout)
        return Encoded(states, arcs=torch.stack(heads, dim=1) if arcs else None)

    def ternary_scores(self) -> Float[Tensor, "k c a e"]:
        """``T [K, h, d, d]``, whatever its parameterisation."""
        return self.ternary.dense()

    def penalty(self, squared: bool) -> Float[Tensor, ""]:
        """Frobenius norm of the whole of ``T``, or its square."""
        norm = self.ternary.squared_norm()
        return norm if squared else norm.sqrt()
