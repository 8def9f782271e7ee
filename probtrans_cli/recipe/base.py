"""What all sections of a recipe are made of: bounded numbers, names, and the base class. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
# The upper bound keeps counts within what tensors can be indexed with.
PositiveInt = Annotated[int, Field(ge=1, lt=2**31)]
NonNegativeInt = Annotated[int, Field(ge=0, lt=2**31)]
# What a model is made of. Nobody needs as much; far above it a recipe, which may be a stranger's, would exhaust the
# machine before the first sentence.
Size = Annotated[int, Field(ge=1, le=100_000)]  # labels, ranks, widths
Count = Annotated[int, Field(ge=1, le=1_000)]  # channels, iterations, layers
PositiveFloat = Annotated[float, Field(gt=0.0)]
NonNegativeFloat = Annotated[float, Field(ge=0.0)]
MOST_THREADS = 1024  # more than machines have; far more cannot be started
MOST_NUMBERS = 2**30  # in one part of a model: 4 GB, four times as much in training
TOO_LARGE = f"this would be {{:,}} numbers, more than {MOST_NUMBERS:,}: make the model smaller"
PATH = r"^[^\x00]+$"  # no name of a file has a zero byte
File = Annotated[str, Field(min_length=1, pattern=PATH)]
Files = File | Annotated[list[File], Field(min_length=1)]


Inconsistency = tuple[tuple[str, ...], str]
"""A key's path, and why its value does not go together with others."""


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, text is never taken for a number, nothing changes afterwards."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class KindSection(Section):
    """Base of the sections among which ``kind:`` chooses."""

    if TYPE_CHECKING:  # a field of each kind, with one value

        @property
        def kind(self) -> str:
            """The name of the kind."""


class FormatOptions(Section):
    """What stands where in the files of a format."""

    added_later: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Keys that are younger than the format of prepared folders, with their defaults, which a folder's description
    leaves out."""


class InconsistentError(ValueError):
    """Values that are right by themselves but do not go together; ``faults`` pairs each key's path with the reason."""

    def __init__(self, faults: list[Inconsistency]) -> None:
        super().__init__("; ".join(f"{'.'.join(path)}: {reason}" for path, reason in faults))
        self.faults = faults
