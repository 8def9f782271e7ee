"""An encoder from outside that tells no heads: every word stays alone. Its section has no docstring."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from probtrans_cli import models
from probtrans_cli.models.base import Encoded, Encoder, Iterations, Words
from probtrans_cli.recipe.base import File
from probtrans_cli.recipe.model import ModelSection
from probtrans_cli.recipe.model.base import Facts


class Alone(ModelSection):
    kind: Literal["alone"]
    channels: Literal[1] = 1
    iterations: Literal[1] = 1
    init_from: File | None = None

    @property
    def facts(self) -> Facts:
        return Facts(width=8, has_arcs=False)


class AloneEncoder(Encoder):
    """``x'_i = W x_i``."""

    def __init__(self, section: Alone) -> None:
        super().__init__(section)
        self.mix = nn.Linear(8, 8)

    def forward(self, words: Words, arcs: Iterations = False, at: Tensor | None = None) -> Encoded:
        del arcs, at
        return Encoded(self.mix(words.vectors) * words.mask[:, :, None])


models.register(models.EncoderKind(Alone, lambda section, _: AloneEncoder(section)))
