"""An encoder from outside that tells no heads: every word stays alone. Its section has no docstring."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from probtrans_cli import models
from probtrans_cli.models.base import Encoded, Encoder, Iterations
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
        return Facts(has_arcs=False)


class AloneEncoder(Encoder):
    """``x'_i = W x_i``."""

    width = 8

    def __init__(self, section: Alone) -> None:
        super().__init__()
        self.section = section
        self.mix = nn.Linear(self.width, self.width)

    def forward(self, unary: Tensor, mask: Tensor, arcs: Iterations = False, at: Tensor | None = None) -> Encoded:
        del arcs, at
        return Encoded(self.mix(unary) * mask[:, :, None])


models.register(models.EncoderKind(Alone, lambda section, _: AloneEncoder(section)))
