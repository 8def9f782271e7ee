"""The ``model`` section of a recipe: one file a kind. Imports no torch."""

from __future__ import annotations

from probtrans_cli.recipe.model.base import MODELS, ModelSection
from probtrans_cli.recipe.model.probabilistic import ProbabilisticTransformer
from probtrans_cli.recipe.model.stacked import Stacked
from probtrans_cli.recipe.model.transformer import Transformer

__all__ = ["MODELS", "ModelSection", "ProbabilisticTransformer", "Stacked", "Transformer"]
