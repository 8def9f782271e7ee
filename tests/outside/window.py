"""An encoder from outside: every word takes from its neighbours, with a learned weight for each distance.

p_ij ∝ exp s[i - j],  0 < |i - j| ≤ reach          x'_i = x_i + W Σ_j p_ij x_j
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from probtrans_cli import models
from probtrans_cli.models.base import Encoded, Encoder, Iterations, Words, chosen_iterations
from probtrans_cli.recipe.base import File, PositiveInt
from probtrans_cli.recipe.model import ModelSection
from probtrans_cli.recipe.model.base import Facts


class Window(ModelSection):
    """Every word takes from its neighbours."""

    kind: Literal["window"]
    width: PositiveInt = 16
    """Size of a word's vector."""
    reach: PositiveInt = 2
    """How far a neighbour may be."""
    channels: Literal[1] = 1
    """There is one channel of arcs."""
    iterations: Literal[1] = 1
    """And one iteration."""
    init_from: File | None = None
    """What the weights start with; null = drawn at random."""

    @property
    def facts(self) -> Facts:
        return Facts(width=self.width)


class WindowEncoder(Encoder):
    """See the module."""

    def __init__(self, section: Window) -> None:
        super().__init__(section)
        self.distance = nn.Parameter(torch.zeros(2 * section.reach + 1))
        self.mix = nn.Linear(section.width, section.width)

    def forward(self, words: Words, arcs: Iterations = False, at: Tensor | None = None) -> Encoded:
        unary, mask, reach = words.vectors, words.mask, self.section.reach
        word = torch.arange(mask.shape[1], device=mask.device)
        x = word[:, None] - word
        scores = self.distance[x.clamp(-reach, reach) + reach]
        near = (x != 0) & (x.abs() <= reach) & mask[:, None, :] & mask[:, :, None]
        p = scores.masked_fill(~near, torch.finfo(scores.dtype).min).softmax(-1) * near
        states = (unary + self.mix(p.to(unary.dtype) @ unary)) * mask[:, :, None]
        return Encoded(states, arcs=p[:, None, None] if chosen_iterations(arcs, 1) else None)


models.register(models.EncoderKind(Window, lambda section, _: WindowEncoder(section)))
