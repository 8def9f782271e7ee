"""Encoders by name. ``build`` makes one from the ``model`` section of a recipe, or from a plain dict of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, overload

from probtrans_cli.models.base import Encoded, Encoder
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.models.transformer import TransformerEncoder
from probtrans_cli.recipe.base import InconsistentError
from probtrans_cli.recipe.model import ProbabilisticTransformer, Transformer

__all__ = ["ENCODERS", "Encoded", "Encoder", "build"]

Messages = Literal["auto", "plain", "banded", "linear"]

ENCODERS: dict[str, type[ProbabilisticTransformer | Transformer]] = {
    "probabilistic": ProbabilisticTransformer,
    "transformer": Transformer,
}


@overload
def build(section: ProbabilisticTransformer, messages: Messages = "auto") -> ProbabilisticEncoder: ...
@overload
def build(section: Transformer, messages: Messages = "auto") -> TransformerEncoder: ...
@overload
def build(section: Mapping[str, Any], messages: Messages = "auto") -> Any: ...


def build(section: ProbabilisticTransformer | Transformer | Mapping[str, Any], messages: Messages = "auto") -> Any:
    """The encoder that a recipe's ``model`` section describes; ``.double()`` for float64.

    ``messages``: the recipe's ``runtime.messages``, for the probabilistic transformer alone. Raises ``KeyError`` for an
    unknown ``kind``, pydantic's ``ValidationError`` for wrong values of a plain dict, ``InconsistentError`` for values
    that do not go together, and ``ValueError`` for messages that there are not.
    """
    if messages not in get_args(Messages):
        raise ValueError(f"messages are {', '.join(get_args(Messages))}, not {messages!r}")
    if isinstance(section, Mapping):
        section = ENCODERS[section.get("kind", "probabilistic")].model_validate(dict(section))
    if faults := section.inconsistencies():
        raise InconsistentError(faults)
    if isinstance(section, Transformer):
        return TransformerEncoder(section)
    return ProbabilisticEncoder(section, messages)
