"""Encoders by name. ``build`` makes one from the ``model`` section of a recipe, or from a plain dict of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from probtrans_cli.models.base import Encoded
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.recipe_base import InconsistentError
from probtrans_cli.recipe_model import ProbabilisticTransformer, inconsistencies

__all__ = ["ENCODERS", "Encoded", "build"]

Messages = Literal["auto", "plain", "banded", "linear"]

ENCODERS = {"probabilistic": (ProbabilisticTransformer, ProbabilisticEncoder)}


def build(
    section: ProbabilisticTransformer | Mapping[str, Any],
    messages: Messages = "auto",
) -> ProbabilisticEncoder:
    """The encoder that a recipe's ``model`` section describes; ``.double()`` for float64.

    ``messages``: the recipe's ``runtime.messages``. Raises ``KeyError`` for an unknown ``kind``, pydantic's
    ``ValidationError`` for wrong values of a plain dict, ``InconsistentError`` for values that do not go together, and
    ``ValueError`` for messages that there are not.
    """
    if messages not in get_args(Messages):
        raise ValueError(f"messages are {', '.join(get_args(Messages))}, not {messages!r}")
    if isinstance(section, Mapping):
        schema, _ = ENCODERS[section.get("kind", "probabilistic")]
        section = schema.model_validate(dict(section))
    faults = inconsistencies(section)
    if faults:
        raise InconsistentError(faults)
    return ENCODERS[section.kind][1](section, messages)
