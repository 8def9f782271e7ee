"""Encoders by name. ``build`` makes one from the ``model`` section of a recipe, or from a plain dict of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from probtrans_cli.models.base import Encoded, Encoder, Inputs, Outputs, Wants
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.models.stacked import StackedEncoder
from probtrans_cli.models.transformer import TransformerEncoder
from probtrans_cli.recipe.base import InconsistentError, Table
from probtrans_cli.recipe.model import MODELS, ModelSection, ProbabilisticTransformer, Stacked, Transformer
from probtrans_cli.recipe.training import Forms

__all__ = ["ENCODERS", "Encoded", "Encoder", "EncoderKind", "Inputs", "Outputs", "Wants", "build", "register"]


class EncoderKind(NamedTuple):
    """A row of the encoders: its section of the recipe, and what makes an encoder of one, given `runtime.messages`."""

    section: type[ModelSection]
    make: Callable[[Any, Forms], Encoder]


MESSAGES: tuple[Forms, ...] = ("fast", "fused", "plain", "banded", "linear")
ENCODERS: Table[EncoderKind] = Table("encoder")  # the kinds of encoders, by the kind of `model`


def register(row: EncoderKind) -> EncoderKind:
    """Add a kind of encoder, to what `model` may hold and to the table."""
    needed = ("kind", "init_from", "channels", "iterations")
    if missing := [name for name in needed if name not in row.section.model_fields and not hasattr(row.section, name)]:
        raise TypeError(f"{row.section.__name__} has no {', '.join(missing)}: every section of a model has {needed}")
    ENCODERS.enter(MODELS.name_of(row.section), row)
    return row


register(EncoderKind(ProbabilisticTransformer, ProbabilisticEncoder))
register(EncoderKind(Transformer, TransformerEncoder))
register(EncoderKind(Stacked, lambda part, how: StackedEncoder(part, build(part.lower, how), build(part.upper, how))))


def build(section: ModelSection | Mapping[str, Any], messages: Forms = "fast") -> Any:
    """Make the encoder that a recipe's ``model`` section describes; ``.double()`` for float64.

    ``messages``: the recipe's ``runtime.messages``, or a form of the fast ones by its name. Raises ``KeyError`` for an
    unknown ``kind``, pydantic's ``ValidationError`` for wrong values of a plain dict, ``InconsistentError`` for values
    that do not go together, and ``ValueError`` for messages that there are not.
    """
    if messages not in MESSAGES:
        raise ValueError(f"messages are {', '.join(MESSAGES)}, not {messages!r}")
    if isinstance(section, Mapping):
        section = ENCODERS[section.get("kind", "probabilistic")].section.model_validate(dict(section))
    if faults := [*section.inconsistencies()]:
        raise InconsistentError(faults)
    return ENCODERS[section.kind].make(section, messages)
