"""Encoders by name. ``build`` makes one from the ``model`` section of a recipe, or from a plain dict of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from probtrans_cli.models.base import Encoded
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.recipe_base import InconsistentError
from probtrans_cli.recipe_model import ProbabilisticTransformer, inconsistencies

__all__ = ["ENCODERS", "Encoded", "build"]

ENCODERS = {"probabilistic": (ProbabilisticTransformer, ProbabilisticEncoder)}


def build(
    section: ProbabilisticTransformer | Mapping[str, Any],
    messages: Literal["auto", "plain", "banded", "linear"] = "auto",
) -> ProbabilisticEncoder:
    """The encoder that a recipe's ``model`` section describes; ``.double()`` for float64.

    ``messages``: the recipe's ``runtime.messages``. Raises ``KeyError`` for an unknown ``kind``, pydantic's
    ``ValidationError`` for wrong values of a plain dict, and ``InconsistentError`` for values that do not go together.
    """
    if isinstance(section, Mapping):
        schema, _ = ENCODERS[section.get("kind", "probabilistic")]
        section = schema.model_validate(dict(section))
    faults = inconsistencies(section)
    if faults:
        raise InconsistentError(faults)
    return ENCODERS[section.kind][1](section, messages)
